"""A tap for Spark's workers whose contexts fail, wait or die as a test requests.

It does not use Spark. The rows of the source depend on the settings only (``day``: the current
day), so two runs with the same settings give the same rows. A test and the tap communicate through
a folder: ``<stream>.<key>.json`` describes the fault of one context, and each read of a context
leaves a file in ``visits``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from tap_core import RESTStream, Stream, Tap
from tap_core import typing as th
from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.types import Context, Record

__all__ = ["Faults", "FaultyTap", "LimitedTap", "make_timestamp"]

_HOURS = 24
_FORM = "%Y-%m-%dT%H:%M:%SZ"


def make_timestamp(day: int, number: int) -> str:
    """Return a timestamp of a day; the hour follows from the number."""
    return f"2024-01-{day:02}T{number % _HOURS:02}:00:00Z"


class Faults:
    """The folder of requested faults and recorded reads, for the test and the tap."""

    def __init__(self, folder: Path | str) -> None:
        """Use a folder, which the first fault creates."""
        self._folder = Path(folder)

    def set_fault(
        self, stream: str, key: object, kind: str, after: int = 0, times: int = 1 << 30
    ) -> None:
        """Let a context fail ``times`` times, each time after ``after`` of its rows."""
        self._folder.mkdir(exist_ok=True)
        document = json.dumps({"how": kind, "after": after, "times": times})
        self._place(stream, key).write_text(document)

    def clear(self) -> None:
        """Remove all faults."""
        for path in self._folder.glob("*.json"):
            path.unlink()

    def visits(self, stream: str, key: object = None) -> int:
        """Return the number of reads of a context of a stream, or of all its contexts."""
        name = f"{stream}.*" if key is None else f"{stream}.{key}.*"
        return sum(1 for _ in (self._folder / "visits").glob(name))

    def readers(self, stream: str) -> set[int]:
        """Return the process ids that read a context of a stream."""
        visit_files = (self._folder / "visits").glob(f"{stream}.*")
        return {int(path.read_text() or 0) for path in visit_files}

    def reading(self, stream: str, key: object, rows: Iterable[Record]) -> Iterator[Record]:
        """Yield rows until the requested fault occurs."""
        visits = self._folder / "visits"
        visits.mkdir(parents=True, exist_ok=True)
        before = self.visits(stream, key)
        (visits / f"{stream}.{key}.{uuid.uuid4().hex}").write_text(str(os.getpid()))
        fault = self._fault(stream, key)
        due = fault.get("after", 0) if before < fault.get("times", 0) else -1
        number = 0
        for number, row in enumerate(rows):
            if number == due:
                strike(fault["how"], f"{stream} {key}")
            yield row
        if number < due:
            strike(fault["how"], f"{stream} {key}")

    def _place(self, stream: str, key: object) -> Path:
        return self._folder / f"{stream}.{key}.json"

    def _fault(self, stream: str, key: object) -> dict[str, Any]:
        try:
            fault: dict[str, Any] = json.loads(self._place(stream, key).read_text())
        except FileNotFoundError:
            return {}
        return fault


def strike(kind: str, where: str) -> None:
    """Fail in one of the ways of authors' code and machines."""
    if kind == "raise":
        raise ValueError(f"The source broke at {where}.")
    if kind == "exit":
        sys.exit(3)
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    assert kind == "slow", kind
    time.sleep(30)


_ROWS = th.PropertiesList(
    th.Property("id", th.IntegerType),
    th.Property("at", th.DateTimeType),
    th.Property("note", th.StringType),
    th.Property("amount", th.NumberType(multiple_of=0.01)),
    th.Property("tags", th.ArrayType(th.StringType)),
).to_dict()["properties"]


def _schema(**keys: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**keys, **_ROWS}}


_NUMBER: dict[str, Any] = {"type": ["integer"]}
_WORD: dict[str, Any] = {"type": ["string"]}


class Faulty(Stream):
    """A stream with a few rows for each day up to the current one."""

    @property
    def faults(self) -> Faults:
        """The requested faults."""
        return Faults(self.config["faults"])

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the rows of a context from its bookmark on, each after a pause."""
        key = "-".join(str(value) for _, value in sorted((context or {}).items())) or "all"
        return self.faults.reading(self.name, key, self.rows(context))

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield the rows after the bookmark, without its own row, so that no row is read twice."""
        start = self.get_starting_timestamp(context) if self.replication_key == "at" else None
        first = start.strftime(_FORM) if start else ""
        for row in self.make_rows(list(self.numbers()), str(context)):
            if row["at"] > first:
                time.sleep(float(self.config["pause"]))
                yield row

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the rows, the newest days first."""
        for day in range(self.config["day"], 0, -1):
            yield from range(day * 1000, day * 1000 + self.config["rows"])

    def make_rows(self, numbers: Iterable[int], where: str) -> Iterator[Record]:
        """Yield a row for each number."""
        for number in numbers:
            yield {
                "id": number,
                "at": make_timestamp(number // 1000, number),
                "note": f'{where} "{number}" \u00fc\n',
                "amount": number / 100,
                "tags": ["a", str(number)],
            }


class ByShop(Faulty):
    """A stream with a context for each shop."""

    schema = _schema(shop=_NUMBER)

    @property
    def partitions(self) -> list[dict[str, Any]]:
        """The shops."""
        return [{"shop": number} for number in range(self.config["shops"])]


class Orders(ByShop):
    """Unsorted."""

    name = "orders"
    primary_keys = ("shop", "id")
    replication_key = "at"


class Events(ByShop):
    """Stream without keys, whose rows are appended to the table."""

    name = "events"
    replication_key = "at"


class Prices(ByShop):
    """A full-table stream, whose rows have a version."""

    name = "prices"
    primary_keys = ("shop", "id")


class Totals(ByShop):
    """Contexts that share bookmarks."""

    name = "totals"
    primary_keys = ("region", "shop", "id")
    replication_key = "at"
    state_partitioning_keys = ("region",)
    schema = _schema(region=_WORD, shop=_NUMBER)

    @property
    def partitions(self) -> list[dict[str, Any]]:
        """The shops, each in one of two regions."""
        return [
            {"region": "north" if number % 2 else "south", "shop": number}
            for number in range(self.config["shops"])
        ]

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield the rows with the shop, which is not added to records by the bookmark's context."""
        for row in super().rows(context):
            yield {**row, "shop": (context or {})["shop"]}


class Blank(ByShop):
    """Contexts without rows."""

    name = "blank"
    primary_keys = ("shop", "id")
    replication_key = "at"

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield nothing."""
        return iter(())


class Journal(Faulty):
    """Sorted and without contexts, so that it cannot be distributed."""

    name = "journal"
    primary_keys = ("id",)
    replication_key = "id"
    is_sorted = True
    schema = _schema()

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield the rows after the bookmark."""
        first = self.get_starting_replication_key_value(context) or 0
        for row in self.make_rows(sorted(self.numbers()), "journal"):
            if row["id"] > first:
                time.sleep(float(self.config["pause"]))
                yield row


class Users(Faulty):
    """The parent of notes: a full-table stream with a child context per user."""

    name = "users"
    primary_keys = ("user",)
    schema: ClassVar = {"type": "object", "properties": {"user": _NUMBER, "name": _WORD}}

    def rows(self, context: Context | None) -> Iterator[Record]:
        """Yield a user for each shop."""
        for number in range(self.config["shops"]):
            yield {"user": number, "name": f"user {number}"}

    def get_child_context(self, record: Record, context: Context | None) -> Context:
        """Return the context of a user's notes."""
        return {"user": record["user"]}


class Notes(Faulty):
    """The notes of a user."""

    name = "notes"
    parent_stream_type = Users
    primary_keys = ("user", "id")
    replication_key = "at"
    schema = _schema(user=_NUMBER)


class Readings(RESTStream, Faulty):
    """A stream that is read in windows of a day."""

    name = "readings"
    url_base = ""
    primary_keys = ("id",)
    schema = _schema()
    incremental_sync = DatetimeBasedCursor(
        cursor_field="at",
        datetime_format=_FORM,
        start_datetime="2024-01-01T00:00:00Z",
        end_datetime=lambda config: f"2024-01-{config['day']:02}T23:59:59Z",
        step="P1D",
        cursor_granularity="PT1S",
        boundary="drop",
    )

    def request_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the rows of one window."""
        assert self.stream_interval is not None
        first, last = self.stream_interval.start_time, self.stream_interval.end_time
        rows = (
            row for row in self.make_rows(self.numbers(), "window") if first <= row["at"] <= last
        )
        return self.faults.reading(self.name, first[:10], self._slowly(rows))

    def _slowly(self, rows: Iterable[Record]) -> Iterator[Record]:
        for row in rows:
            time.sleep(float(self.config["pause"]))
            yield row


_KINDS: tuple[type[Faulty], ...] = (
    Orders,
    Events,
    Prices,
    Totals,
    Blank,
    Journal,
    Users,
    Notes,
    Readings,
)


class FaultyTap(Tap):
    """The streams that the setting ``streams`` names."""

    name = "tap-faulty"
    config_jsonschema = th.PropertiesList(
        th.Property("faults", th.StringType, required=True, description="The folder of faults"),
        th.Property("streams", th.ArrayType(th.StringType), default=["orders"]),
        th.Property("shops", th.IntegerType, default=6),
        th.Property("rows", th.IntegerType, default=20, description="For each day and context"),
        th.Property("day", th.IntegerType, default=1, description="How far time has come"),
        th.Property("pause", th.NumberType, default=0, description="Seconds before each row"),
        th.Property("password", th.StringType, secret=True),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return the streams selected by the configuration."""
        names = set(self.config["streams"])
        return [kind(self) for kind in _KINDS if kind.name in names]


class Pages(RESTStream):
    """The pages of a source that returns 429 for a part of all requests."""

    name = "pages"
    path = "/pages"
    primary_keys = ("shop", "id")
    records_jsonpath = "$.rows[*]"
    schema: ClassVar = {"type": "object", "properties": {"shop": _NUMBER, "id": _NUMBER}}

    @property
    def url_base(self) -> str:
        """The base URL of the source."""
        return str(self.config["url"])

    @property
    def partitions(self) -> list[dict[str, Any]]:
        """The shops."""
        return [{"shop": number} for number in range(self.config["shops"])]

    def get_url_params(self, context: Context | None, next_page_token: Any) -> dict[str, Any]:
        """Ask for the page of one shop."""
        return {"shop": (context or {})["shop"]}


class LimitedTap(Tap):
    """A tap of an HTTP source with a rate limit."""

    name = "tap-limited"
    config_jsonschema = th.PropertiesList(
        th.Property("url", th.StringType, required=True),
        th.Property("shops", th.IntegerType, default=6),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return the one stream."""
        return [Pages(self)]
