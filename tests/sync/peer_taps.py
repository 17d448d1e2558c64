"""Taps that run on either SDK: the test copies this file with `singer_sdk` for `tap_core`.

As a program it runs scenarios one after the other in one process: each is a tap's name and its
arguments; the standard output of each scenario is written to a separate file.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import sys
from decimal import Decimal
from pathlib import Path

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.helpers.conform import TypeConformanceLevel

STARTED = 1_714_979_289_000
ID = th.Property("id", th.IntegerType, required=True)
AT = th.Property("at", th.DateTimeType)
UTC = dt.timezone.utc


class Base(Stream):
    """A stream of fixed rows."""

    primary_keys = ("id",)
    schema = th.PropertiesList(ID, AT, th.Property("n", th.IntegerType)).to_dict()
    rows: tuple[dict, ...] = ()

    def get_records(self, context):
        start = self.get_starting_replication_key_value(context)
        with Path("starts.txt").open("a") as starts:
            starts.write(f"{self.name} {dict(context or {})}: {start!r}\n")
        if self.is_timestamp_replication_key:
            start = self.get_starting_timestamp(context)
        for row in self.rows:
            if start is None or not self.is_sorted or row[self.replication_key] >= start:
                yield dict(row)


def numbers(*ids):
    return tuple({"id": number, "n": number % 3} for number in ids)


class Values(Base):
    """A stream with values of every type."""

    name = "values"
    schema = th.PropertiesList(
        ID,
        th.Property("naive", th.DateTimeType),
        th.Property("east", th.DateTimeType),
        th.Property("day", th.DateType),
        th.Property("hour", th.TimeType),
        th.Property("span", th.StringType),
        th.Property("raw", th.StringType),
        th.Property("bit", th.BooleanType),
        th.Property("truth", th.BooleanType),
        th.Property("price", th.NumberType),
        th.Property("nan", th.NumberType),
        th.Property("big", th.IntegerType),
        th.Property("any", th.AnyType),
        th.Property("free", th.ObjectType()),
        th.Property("text", th.StringType),
        th.Property("missing", th.StringType),
        th.Property(
            "deep",
            th.ObjectType(
                th.Property("a", th.DateTimeType),
                th.Property("b", th.ObjectType(th.Property("c", th.BooleanType))),
                additional_properties=False,
            ),
        ),
        th.Property(
            "open", th.ObjectType(th.Property("a", th.StringType), additional_properties=True)
        ),
        th.Property("list", th.ArrayType(th.ObjectType(th.Property("at", th.DateTimeType)))),
        th.Property("days", th.ArrayType(th.DateType)),
        th.Property("either", th.OneOf(th.StringType, th.IntegerType)),
    ).to_dict()
    rows = (
        {
            "id": 1,
            "naive": dt.datetime(2024, 1, 2, 3, 4, 5),  # noqa: DTZ001
            "east": dt.datetime(2024, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            "day": dt.date(2024, 1, 2),
            "hour": dt.time(1, 2, 3),
            "span": dt.timedelta(hours=30),
            "raw": b"\x01\xff",
            "bit": b"\x00",
            "truth": 7,
            "price": Decimal("12345678901234567890.1234567890"),
            "nan": float("nan"),
            "big": 2**200,
            "any": {"x": [1, "y", None]},
            "free": {"at": dt.datetime(2024, 1, 2, tzinfo=UTC), "x": {"y": [1.5, True]}},
            "text": "é\u2028\U0001f600\x00",
            "deep": {"a": dt.datetime(2024, 1, 2, tzinfo=UTC), "b": {"c": 1, "no": 1}, "no": 2},
            "open": {"a": "x", "more": {"b": 1}},
            "list": [{"at": dt.datetime(2024, 1, 2, tzinfo=UTC), "no": 1}, None],
            "days": [dt.date(2024, 1, 2), None],
            "either": 5,
            "unknown": 1,
        },
        {"id": 2},
        {"id": 3, "deep": None, "list": None, "open": {}, "unknown": 2, "other": 3},
    )


class RootOnly(Values):
    """Stream whose values are converted only at the top level of a record."""

    name = "root_only"
    TYPE_CONFORMANCE_LEVEL = TypeConformanceLevel.ROOT_ONLY


class NoConformance(Base):
    """A stream without type conformance."""

    name = "no_conformance"
    TYPE_CONFORMANCE_LEVEL = TypeConformanceLevel.NONE
    rows = ({"id": 1, "at": dt.datetime(2024, 1, 2, tzinfo=UTC), "more": {"x": b"text"}},)


class Sorted(Base):
    """A sorted stream with a state after each third record."""

    name = "sorted"
    replication_key = "id"
    is_sorted = True
    STATE_MSG_FREQUENCY = 3
    rows = numbers(1, 2, 2, 3, 5, 8, 13, 21)


class Unsorted(Base):
    """An unsorted stream with a state after each other record."""

    name = "unsorted"
    replication_key = "id"
    STATE_MSG_FREQUENCY = 2
    rows = numbers(5, 2, 9, 1, 7)


class Unchecked(Unsorted):
    """An unsorted stream without the check: its last value is the bookmark."""

    name = "unchecked"
    check_sorted = False


class Nulls(Unsorted):
    """Some values of the replication key are null."""

    name = "nulls"
    rows = (*numbers(5), {"id": None}, *numbers(7))


class Future(Base):
    """A date-time beyond the start of the sync is not promoted."""

    name = "future"
    replication_key = "at"
    rows = (
        {"id": 1, "at": "2024-01-01T00:00:00Z"},
        {"id": 2, "at": "2099-01-01T00:00:00Z"},
        {"id": 3, "at": dt.datetime(2024, 2, 1, tzinfo=UTC)},
    )


class Times(Base):
    """A sorted stream with datetime objects."""

    name = "times"
    replication_key = "at"
    is_sorted = True
    rows = tuple({"id": n, "at": dt.datetime(2024, 1, n, tzinfo=UTC)} for n in range(1, 6))


class Signpost(Unsorted):
    """A log position that bounds the bookmark."""

    name = "signpost"

    def get_replication_key_signpost(self, context=None):
        return 6


class Parted(Unsorted):
    """A stream of partitions with separate bookmarks."""

    name = "parted"
    schema = th.PropertiesList(ID, th.Property("p", th.StringType)).to_dict()
    partitions = [{"p": "x"}, {"p": "y"}]


class PartedSorted(Parted):
    """Sorted partitions."""

    name = "parted_sorted"
    is_sorted = True
    rows = numbers(1, 2, 3, 4, 5)


class SomeKeys(Parted):
    """Two contexts share a bookmark, the third has its own."""

    name = "some_keys"
    is_sorted = True
    state_partitioning_keys = ["p"]
    partitions = [{"p": "x", "q": 1}, {"p": "x", "q": 2}, {"p": "y", "q": 1}]


class NoKeys(SomeKeys):
    """One bookmark for all contexts."""

    name = "no_keys"
    state_partitioning_keys = []


class FromState(Unsorted):
    """A stream whose partitions come from the state."""

    name = "from_state"


class Processed(Sorted):
    """A stream whose post_process drops or changes records."""

    name = "processed"

    def post_process(self, row, context=None):
        return None if row["id"] == 2 else {**row, "n": -row["n"]}


class Pairs(Base):
    """The deprecated pairs of record and context, None in place of a record."""

    name = "pairs"

    def get_records(self, context):
        yield {"id": 1}, {"x": 1}
        yield None
        yield {"id": 2}


class Selected(Base):
    """A stream whose catalog deselects some of it."""

    name = "selected"
    replication_key = "id"
    schema = th.PropertiesList(
        ID,
        th.Property("a", th.StringType),
        th.Property("b", th.StringType),
        th.Property(
            "o",
            th.ObjectType(
                th.Property("c", th.StringType), th.Property("d", th.StringType, required=True)
            ),
        ),
    ).to_dict()
    rows = ({"id": 1, "a": "a", "b": "b", "o": {"c": "c", "d": "d", "e": "e"}}, {"id": 2})


class Off(Base):
    """A stream that is not selected by default."""

    name = "off"
    selected_by_default = False
    rows = numbers(1)


class Parent(Base):
    """A parent whose children get their context from its records."""

    name = "parent"
    replication_key = "id"
    is_sorted = True
    rows = numbers(1, 2, 3)

    def get_child_context(self, record, context):
        return None if record["id"] == 2 else {"parent": record["id"]}


class Child(Unsorted):
    """A child, incremental in each context."""

    name = "child"
    parent_stream_type = Parent
    schema = th.PropertiesList(ID, th.Property("parent", th.IntegerType)).to_dict()

    def preprocess_context(self, context):
        return {**context, "kind": "c"}

    def get_child_context(self, record, context):
        return {**context, "child": record["id"]} if record["id"] > 6 else None


class FullChild(Base):
    """Child stream without a replication key."""

    name = "full_child"
    parent_stream_type = Parent
    schema = th.PropertiesList(ID, th.Property("parent", th.IntegerType)).to_dict()
    rows = numbers(1, 2)


class OneBookmark(Unsorted):
    """A child with one bookmark for all contexts."""

    name = "one_bookmark"
    parent_stream_type = Parent
    state_partitioning_keys = []


class Grandchild(Sorted):
    """A child of the child."""

    name = "grandchild"
    parent_stream_type = Child
    rows = numbers(4, 5)


class Many(Base):
    """A parent that generates several child contexts per record."""

    name = "many"
    rows = numbers(1, 2)

    def generate_child_contexts(self, record, context):
        yield {"of": record["id"], "half": "first"}
        yield {"of": record["id"], "half": "second"}


class ManyChild(Sorted):
    """The child stream of the parent above."""

    name = "many_child"
    parent_stream_type = Many


class Looks(Sorted):
    """Reads and changes its state at every record."""

    name = "looks"
    STATE_MSG_FREQUENCY = 1

    def post_process(self, row, context=None):
        state = self.get_context_state(context)
        row["n"] = state.get("replication_key_value")
        state["seen"] = state.get("seen", 0) + 1
        return row


class WritesItself(Base):
    """Overrides the hooks that plugins override."""

    name = "writes_itself"
    replication_key = "id"
    rows = numbers(1, 2, 3)

    def _increment_stream_state(self, latest_record, *, context=None):
        super()._increment_stream_state({"id": latest_record["id"] * 10}, context=context)

    def _write_schema_message(self):
        super()._write_schema_message()

    def _generate_record_messages(self, record):
        for message in super()._generate_record_messages(record):
            message.record["n"] = 99
            yield message


class BothTap(Tap):
    """The tap with most streams of this module."""

    name = "tap-both"
    initialized_at = STARTED
    config_jsonschema = th.PropertiesList(
        th.Property("start_date", th.StringType),
        th.Property("legacy", th.BooleanType),
        th.Property("only", th.ArrayType(th.StringType)),
        th.Property("emit_activate_version_messages", th.BooleanType),
    ).to_dict()

    def discover_streams(self):
        kinds = [
            Values,
            RootOnly,
            NoConformance,
            Sorted,
            Unsorted,
            Unchecked,
            Nulls,
            Future,
            Times,
            Signpost,
            Parted,
            PartedSorted,
            SomeKeys,
            NoKeys,
            FromState,
            Processed,
            Pairs,
            Selected,
            Off,
            Parent,
            Child,
            FullChild,
            OneBookmark,
            Grandchild,
            Many,
            ManyChild,
            Looks,
            WritesItself,
        ]
        only = self.config.get("only")
        return [kind(tap=self) for kind in kinds if not only or kind.name in only]

    def load_state(self, state):
        super().load_state(state)
        if self.config.get("legacy"):
            for name, value in state.get("positions", {}).items():
                self.state.setdefault("bookmarks", {})[name] = {
                    "replication_key": "id",
                    "replication_key_value": value,
                }


class LoopTap(BothTap):
    """A tap that syncs its streams in its own order, in a copy of singer_sdk's `sync_all`."""

    name = "tap-loop"

    def sync_all(self):
        self._reset_state_progress_markers()
        self._set_compatible_replication_methods()
        if self.state:
            self._state_writer.write_state(self.state)
        for stream in reversed(self.streams.values()):
            if not stream.selected and not stream.has_selected_descendents:
                continue
            if stream.parent_stream_type:
                continue
            stream.sync()
            stream.finalize_state_progress_markers()
        for stream in self.streams.values():
            stream.log_sync_costs()


class Aside(Base):
    """A parent whose bookmark does not move with its children."""

    name = "aside"
    replication_key = "id"
    is_sorted = True
    rows = numbers(1, 2)

    def get_child_context(self, record, context):
        return {"of": record["id"]}


class AsideChild(Sorted):
    """The child stream of the parent above."""

    name = "aside_child"
    parent_stream_type = Aside
    ignore_parent_replication_key = True


class AsideTap(Tap):
    """A parent that must be read in full."""

    name = "tap-aside"
    initialized_at = STARTED
    config_jsonschema = {"properties": {}}

    def discover_streams(self):
        return [Aside(self), AsideChild(self)]


class Broken(Base):
    """A sorted stream whose records are out of order."""

    name = "broken"
    replication_key = "id"
    is_sorted = True
    rows = numbers(1, 5, 3, 7)


class BrokenTap(Tap):
    """Tap with a stream whose records are not sorted, although it is declared as sorted."""

    name = "tap-broken"
    initialized_at = STARTED
    config_jsonschema = {"properties": {}}

    def discover_streams(self):
        return [Sorted(self), Broken(self)]


TAPS = {tap.name: tap for tap in (BothTap, LoopTap, AsideTap, BrokenTap)}


@contextlib.contextmanager
def output_to(path):
    """Redirect standard output to a file."""
    sys.stdout.flush()
    saved = os.dup(1)
    with Path(path).open("wb") as file:
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            sys.stdout.flush()
            os.dup2(saved, 1)
            os.close(saved)


def run(name, args):
    """Run a tap's command; return its exit code, or the error that ended it."""
    try:
        TAPS[name].cli.main(args=args, prog_name=name, standalone_mode=False)
    except SystemExit as system_exit:
        return system_exit.code
    except Exception as error:  # noqa: BLE001 - the other SDK has to end with it too
        return type(error).__name__
    return 0


if __name__ == "__main__":
    codes = {}
    for scenario, (tap, arguments) in json.loads(Path(sys.argv[1]).read_text()).items():
        print("SCENARIO", scenario, file=sys.stderr, flush=True)
        with output_to(f"{scenario}.out"):
            codes[scenario] = run(tap, arguments)
    Path("codes.json").write_text(json.dumps(codes))
