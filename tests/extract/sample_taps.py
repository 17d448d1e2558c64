"""A tap for Spark's workers to read as frames; which of its contexts fail, a test says.

Nothing here knows Spark, and all rows are a function of the settings. In the
folder of the setting ``visits`` each time that a context is read leaves a file, so that tests
count them, whatever process it was.
"""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.streams.rest import RESTStream
from tap_core.types import Context, Record

__all__ = ["KINDS", "KINDS_SCHEMA", "ODD", "REGIONS", "SampleTap"]

REGIONS = ("north", "south", "east", "west")
_HOURS = 24
_FORM = "%Y-%m-%dT%H:%M:%SZ"

KINDS: dict[str, Any] = {
    "id": 1,
    "whole": 9223372036854775807,
    "huge": 12345678901234567890123,
    "exact": Decimal("1234567890123456789.123456789"),
    "price": "19.90",
    "rate": 0.1,
    "yes": True,
    "text": 'a "b" \u00fc\n\u2028',
    "at": "2024-02-29T23:59:59.123456+05:30",
    "local": "1582-10-04 12:00:00",
    "day": "0001-01-01",
    "bytes": "AAEC/w==",
    "free": {"a": [1, 2.50, None], "b": {}},
    "either": 7,
    "inner": {"Name x": "n", "when": "2024-01-01T00:00:00Z", "deep": {"n": 5}},
    "list": [1, None, 3],
    "items": [{"sku": "a", "amount": 0.01}, None, {"sku": None}],
    "lists": [["a"], [], None],
}
"""A record with a value of every type that a schema can say."""

_PRICE = {"type": ["string", "null"], "format": "singer.decimal", "precision": 12, "scale": 2}
_BYTES = {"type": ["string", "null"], "contentEncoding": "base64"}

KINDS_SCHEMA = th.PropertiesList(
    th.Property("id", th.IntegerType),
    th.Property("whole", th.IntegerType),
    th.Property("huge", th.IntegerType(maximum=10**37)),
    th.Property("exact", th.NumberType(multiple_of=1e-9)),
    th.Property("price", th.CustomType(_PRICE)),
    th.Property("rate", th.NumberType),
    th.Property("yes", th.BooleanType),
    th.Property("text", th.StringType),
    th.Property("at", th.DateTimeType),
    th.Property("local", th.DateTimeType),
    th.Property("day", th.DateType),
    th.Property("bytes", th.CustomType(_BYTES)),
    th.Property("free", th.ObjectType()),
    th.Property("either", th.CustomType({"type": ["string", "integer", "null"]})),
    th.Property(
        "inner",
        th.ObjectType(
            th.Property("Name x", th.StringType),
            th.Property("when", th.DateTimeType),
            th.Property(
                "deep",
                th.ObjectType(th.Property("n", th.IntegerType), additional_properties=False),
            ),
            additional_properties=False,
        ),
    ),
    th.Property("list", th.ArrayType(th.IntegerType)),
    th.Property(
        "items",
        th.ArrayType(
            th.ObjectType(
                th.Property("sku", th.StringType),
                th.Property("amount", th.NumberType(multiple_of=0.01)),
                additional_properties=False,
            )
        ),
    ),
    th.Property("lists", th.ArrayType(th.ArrayType(th.StringType))),
).to_dict()
"""Its schema."""

ODD: dict[str, Any] = {"id": 3, "whole": "no number", "text": "kept"}
"""A record of which one value does not fit."""


class Sample(Stream):
    """A stream that leaves a file for each time that a context is read, and fails as told."""

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the rows of a context; half of them, where it is told to fail."""
        where = "-".join(str(value) for value in (context or {}).values()) or "all"
        visits = Path(self.config["visits"])
        (visits / f"{self.name}.{where}.{uuid.uuid4().hex}").touch()
        times = sum(1 for _ in visits.glob(f"{self.name}.{where}.*"))
        rows = list(self.rows(context))
        if self.config["fails"] == where and times <= self.config["times"]:
            yield from rows[: len(rows) // 2]
            self.fail()
        yield from rows

    def fail(self) -> None:
        """Fail as authors' code does, and tell too much."""
        print("on standard output", flush=True)
        if self.config["how"] == "exit":
            sys.exit(3)
        if self.config["how"] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError(f"no answer to https://x/?token={self.config['api_token']}")

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield the rows of a context."""
        raise NotImplementedError


def _schema(**keys: Any) -> dict[str, Any]:
    rows = {"id": {"type": "integer"}, "updated_at": {"type": "string", "format": "date-time"}}
    return {"type": "object", "properties": {**keys, **rows, "note": {"type": ["string", "null"]}}}


class Orders(Sample):
    """A context for each region; incremental."""

    name = "orders"
    primary_keys = ("region", "id")
    replication_key = "updated_at"
    schema = _schema(region={"type": "string"})

    @property
    def partitions(self) -> list[dict[str, Any]]:
        """The regions."""
        return [{"region": region} for region in REGIONS[: self.config["regions"]]]

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield the rows from the bookmark on, the newest first."""
        start = self.get_starting_timestamp(context)
        first = start.strftime(_FORM) if start else ""
        for number in reversed(range(self.config["rows"])):
            at = f"2024-01-{number // _HOURS + 1:02}T{number % _HOURS:02}:00:00Z"
            if at >= first:
                yield {"id": number, "updated_at": at, "note": f"order {number}"}


class Prices(Orders):
    """The same, read in full each time."""

    name = "prices"
    replication_key = None


class Journal(Sample):
    """Without contexts, and in order."""

    name = "journal"
    primary_keys = ("id",)
    replication_key = "id"
    is_sorted = True
    schema = _schema()

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield the rows from the bookmark on."""
        first = self.get_starting_replication_key_value(context) or 0
        yield from ({"id": number, "note": None} for number in range(first, self.config["rows"]))


class Kinds(Sample):
    """A value of every type, the same as texts where that is allowed, and a row without any."""

    name = "kinds"
    primary_keys = ("id",)
    schema = KINDS_SCHEMA

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield the rows."""
        yield dict(KINDS)
        yield {"id": 2}
        if self.config["odd"]:
            yield dict(ODD)


class Users(Sample):
    """The parent of notes: a context for each region, and a user for each row."""

    name = "users"
    primary_keys = ("user",)
    schema: ClassVar = {"type": "object", "properties": {"user": {"type": "string"}}}
    partitions = Orders.partitions

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield two users of a region; none, where there is no region."""
        yield from (
            {"user": f"{name}{number}"} for name in (context or {}).values() for number in range(2)
        )

    def get_child_context(self, record: Record, context: Context | None) -> Context:
        """A user's notes are a context."""
        return {"user": record["user"]}


class Notes(Sample):
    """The notes of a user."""

    name = "notes"
    parent_stream_type = Users
    primary_keys = ("user", "id")
    schema = _schema(user={"type": "string"})

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield the rows of a user."""
        yield from ({"id": number, "note": "n"} for number in range(self.config["rows"]))


class Readings(RESTStream, Sample):
    """Read in windows of a day."""

    name = "readings"
    url_base = ""
    primary_keys = ("id",)
    schema = _schema()
    incremental_sync = DatetimeBasedCursor(
        cursor_field="updated_at",
        datetime_format=_FORM,
        start_datetime="2024-01-01T00:00:00Z",
        end_datetime="2024-01-03T23:59:59Z",
        step="P1D",
        cursor_granularity="PT1S",
    )

    def request_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the rows of one window."""
        assert self.stream_interval is not None
        day = int(self.stream_interval.start_time[8:10])
        yield from (
            {"id": day * _HOURS + hour, "updated_at": f"2024-01-{day:02}T{hour:02}:00:00Z"}
            for hour in range(_HOURS)
        )


class SampleTap(Tap):
    """All of these streams."""

    name = "tap-sample"
    config_jsonschema = th.PropertiesList(
        th.Property("visits", th.StringType, required=True, description="A folder"),
        th.Property("api_token", th.StringType, default="", secret=True),
        th.Property("regions", th.IntegerType, default=4),
        th.Property("rows", th.IntegerType, default=30, description="For each context"),
        th.Property("odd", th.BooleanType, default=False, description="Whether one does not fit"),
        th.Property("fails", th.StringType, default="", description="The context that fails"),
        th.Property("times", th.IntegerType, default=1_000, description="How often it does"),
        th.Property("how", th.StringType, default="raise", description="raise, exit or kill"),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return all of them."""
        kinds = (Orders, Prices, Journal, Kinds, Users, Notes, Readings)
        return [kind(self) for kind in kinds]
