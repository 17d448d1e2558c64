"""A tap with a stream of each kind, for the rules of the Airbyte protocol.

The records follow from the settings alone, so that a test knows each of them. The settings also
select failures: a refused token, or a record at which the source fails.
"""

from __future__ import annotations

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.exceptions import FatalAPIError

TOKEN = "t-secret-1"
DAYS = 9


class ShopStream(Stream):
    """A stream that requires the valid token."""

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
    """A full-table stream."""

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
    """A sorted incremental stream; the setting `days` is its number of rows."""

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
    """An incremental stream with one bookmark per meter."""

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
    """The parent stream of visits."""

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
    """An incremental child stream of shops."""

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
    """The tap of these streams."""

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
