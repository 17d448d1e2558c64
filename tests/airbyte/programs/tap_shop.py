"""A tap with a stream of each kind, for the rules of Airbyte's protocol.

Written as an author writes a tap, for no protocol in particular. What a stream
holds follows from the settings alone, so that a test knows every record. The settings say what
goes wrong: a token that is refused, a record at which the source breaks down.
"""

from __future__ import annotations

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.exceptions import FatalAPIError

TOKEN = "t-secret-1"
DAYS = 9


class ShopStream(Stream):
    """A stream that only the right token may read."""

    def get_records(self, context):
        if self.config["token"] != TOKEN:
            raise FatalAPIError("401 the token was refused")
        since = self.get_starting_replication_key_value(context) or ""
        for number, row in enumerate(self.rows(context)):
            if self.name == self.config.get("breaks") and number == 3:
                raise RuntimeError(f"the source broke down; it was asked with {TOKEN}")
            if not self.replication_key or row[self.replication_key] >= since:
                yield row


class Colours(ShopStream):
    """Stateless: the same rows each time."""

    name = "colours"
    primary_keys = ("code",)
    schema = th.PropertiesList(
        th.Property("code", th.StringType, required=True),
        th.Property("name", th.StringType),
        th.Property("warm", th.BooleanType),
    ).to_dict()

    def rows(self, context):
        for code, name, warm in (("r", "red", True), ("g", "grün", False), ("b", "blue", None)):
            yield {"code": code, "name": name, "warm": warm}


class Orders(ShopStream):
    """Incremental, in order; the setting `days` says how many there are."""

    name = "orders"
    primary_keys = ("id",)
    replication_key = "updated_at"
    is_sorted = True
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("updated_at", th.DateTimeType, required=True),
        th.Property("total", th.NumberType),
        th.Property("due", th.DateType),
        th.Property("place", th.ObjectType(th.Property("city", th.StringType))),
        th.Property("tags", th.ArrayType(th.StringType)),
    ).to_dict()

    def rows(self, context):
        for day in range(1, self.config.get("days", DAYS) + 1):
            yield {
                "id": day,
                "updated_at": f"2024-01-{day:02}T00:00:00Z",
                "total": day * 1.5,
                "due": f"2024-02-{day:02}",
                "place": {"city": "Bern"},
                "tags": ["new"],
            }


class Readings(ShopStream):
    """Incremental, one bookmark for each meter."""

    name = "readings"
    primary_keys = ("meter", "day")
    replication_key = "day"
    partitions = [{"meter": meter} for meter in ("a", "b", "c")]
    schema = th.PropertiesList(
        th.Property("meter", th.StringType, required=True),
        th.Property("day", th.DateType, required=True),
        th.Property("value", th.NumberType),
    ).to_dict()

    def rows(self, context):
        for day in range(1, self.config.get("days", DAYS) + 1):
            yield {"meter": context["meter"], "day": f"2024-01-{day:02}", "value": day / 4}


class Shops(ShopStream):
    """The parent of the visits."""

    name = "shops"
    primary_keys = ("id",)
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("title", th.StringType),
    ).to_dict()

    def rows(self, context):
        yield from ({"id": number, "title": f"shop {number}"} for number in (1, 2))

    def get_child_context(self, record, context):
        return {"shop": record["id"]}


class Visits(ShopStream):
    """Incremental, of each shop."""

    name = "visits"
    primary_keys = ("shop", "day")
    replication_key = "day"
    parent_stream_type = Shops
    schema = th.PropertiesList(
        th.Property("shop", th.IntegerType, required=True),
        th.Property("day", th.DateType, required=True),
        th.Property("count", th.IntegerType),
    ).to_dict()

    def rows(self, context):
        for day in range(1, self.config.get("days", DAYS) + 1):
            yield {"shop": context["shop"], "day": f"2024-01-{day:02}", "count": day}


class TapShop(Tap):
    """A shop with a meter."""

    name = "tap-shop"
    config_jsonschema = th.PropertiesList(
        th.Property("token", th.StringType, required=True, secret=True),
        th.Property("days", th.IntegerType),
        th.Property("breaks", th.StringType, description="The stream that breaks down"),
    ).to_dict()

    def discover_streams(self):
        return [Colours(self), Orders(self), Readings(self), Shops(self), Visits(self)]


if __name__ == "__main__":
    TapShop.cli()
