"""A tap that Spark's workers read as DataFrames; its settings select contexts that fail.

The module does not use Spark, and all rows are a function of the settings. Each read of a context
leaves a file in the folder of the setting ``visits``, so that tests can count the reads of all
processes.
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
from tap_core.redaction import Secrets, register_secrets
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
"""A record with a value of every type that a schema can declare."""

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
"""The schema of ``KINDS``."""

ODD: dict[str, Any] = {"id": 3, "whole": "no number", "text": "kept"}
"""A record with one value that does not match the schema."""


class Sample(Stream):
    """A stream that leaves a file for each read of a context, and fails if the settings say so."""

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the rows of a context; only half of them if the context is to fail."""
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
        """Fail as authors' code may do, with a secret in the message."""
        print("on standard output", flush=True)
        if self.config["how"] == "exit":
            sys.exit(3)
        if self.config["how"] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        token = f"issued-{self.config['api_token'][::-1]}"
        register_secrets(self, Secrets.from_values([token]))
        raise ValueError(f"no answer to https://x/?token={self.config['api_token']} with {token}")

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield the rows of a context."""
        raise NotImplementedError


def _schema(**keys: Any) -> dict[str, Any]:
    rows = {"id": {"type": "integer"}, "updated_at": {"type": "string", "format": "date-time"}}
    return {"type": "object", "properties": {**keys, **rows, "note": {"type": ["string", "null"]}}}


class Orders(Sample):
    """An incremental stream with one context per region."""

    name = "orders"
    primary_keys = ("region", "id")
    replication_key = "updated_at"
    schema = _schema(region={"type": "string"})

    @property
    def partitions(self) -> list[dict[str, Any]]:
        """Return one context per region."""
        return [{"region": region} for region in REGIONS[: self.config["regions"]]]

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield the rows since the bookmark, newest first."""
        start = self.get_starting_timestamp(context)
        first = start.strftime(_FORM) if start else ""
        for number in reversed(range(self.config["rows"])):
            updated_at = f"2024-01-{number // _HOURS + 1:02}T{number % _HOURS:02}:00:00Z"
            if updated_at >= first:
                yield {"id": number, "updated_at": updated_at, "note": f"order {number}"}


class Prices(Orders):
    """The same rows as a full-table stream."""

    name = "prices"
    replication_key = None


class Journal(Sample):
    """A sorted stream without contexts."""

    name = "journal"
    primary_keys = ("id",)
    replication_key = "id"
    is_sorted = True
    schema = _schema()

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield the rows since the bookmark."""
        first = self.get_starting_replication_key_value(context) or 0
        yield from ({"id": number, "note": None} for number in range(first, self.config["rows"]))


class Kinds(Sample):
    """A row with a value of every type and a row with nulls, optionally an invalid row."""

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
    """The parent stream of notes: one context per region, one user per row."""

    name = "users"
    primary_keys = ("user",)
    schema: ClassVar = {"type": "object", "properties": {"user": {"type": "string"}}}
    partitions = Orders.partitions

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield two users of a region; none without a region."""
        yield from (
            {"user": f"{name}{number}"} for name in (context or {}).values() for number in range(2)
        )

    def get_child_context(self, record: Record, context: Context | None) -> Context:
        """Return the context of a user's notes."""
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
    """A stream that is read in windows of one day."""

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
    """The tap with all streams of this module."""

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
        """Return all streams."""
        kinds = (Orders, Prices, Journal, Kinds, Users, Notes, Readings)
        return [kind(self) for kind in kinds]
