"""Stream maps in a sync: both sync loops write the same; bookmarks follow unmapped records."""

from __future__ import annotations

import datetime as dt
import math
from collections import UserDict
from decimal import Decimal
from uuid import UUID

import pytest

from tap_core import Tap
from tap_core.exceptions import (
    ConfigValidationError,
    InvalidReplicationKeyException,
    InvalidStreamSortException,
    MapExpressionError,
    MapperNotInitialized,
    SingerSDKDeprecationWarning,
)
from tap_core.mapper import PluginMapper, RemoveRecordTransform, SameRecordTransform, StreamMap
from tap_core.singerlib.catalog import Catalog
from tap_core.sync.plan import get_plan
from tap_core.typing.inspect import TypeConformanceLevel
from tests.records.values import UNUSUAL_VALUES
from tests.sync.syncing import (
    DATETIME,
    INTEGER,
    STRING,
    Output,
    make,
    schema,
    stream,
    sync,
    sync_until_error,
    with_hook,
)

WIDE = schema(
    id=INTEGER,
    at=DATETIME,
    n={"type": ["number", "null"]},
    b={"type": "boolean"},
    o={"type": "object", "properties": {"x": {"type": "number"}, "y": STRING}},
    tags={"type": "array", "items": STRING},
    odd={},
    gone=STRING,
)
ROWS = [
    {
        "id": n,
        "at": dt.datetime(2024, 1, n % 27 + 1, tzinfo=dt.timezone.utc) if n % 5 else None,
        "n": (1.5, math.nan, math.inf, 3, None, Decimal("1.10"))[n % 6],
        "b": (True, False, 1, None)[n % 4],
        "o": ({"x": 1.5, "y": "z"}, {"x": math.nan}, None)[n % 3],
        "tags": ["a", str(n)],
        "odd": UNUSUAL_VALUES[n % len(UNUSUAL_VALUES)],
        "extra": n,
    }
    for n in range(60)
]
PLAIN = [
    {"id": n, "n": n / 2, "tags": ["t"], "o": {"x": 1.0}, "odd": "x", "b": True} for n in range(60)
]
FLAT = {"flattening_enabled": True, "flattening_max_depth": 2}


def maps(**definitions):
    return {"stream_maps": definitions}


SEVERAL = maps(
    a={"__filter__": "id % 2", "n": "n is None"},
    copy={"__source__": "a", "key": "md5(str(id))"},
    third={"__source__": "a", "__else__": None, "id": "id", "__filter__": "id > 50"},
)
COMPUTED = maps(
    a={
        "day": "datetime.date(2024, 1, 1)",
        "moment": "datetime.datetime(2024, 1, 1)",
        "pair": "(id, {'s': [odd]})",
        "text": "'\\ud800'",
        "nan": "float('nan')",
        "missing": "_.get('missing')",
        "whole": "record",
        "odd": None,
    }
)
CASES = {
    "computed": COMPUTED,
    "several": SEVERAL,
    "out": maps(a=None),
    "out but copied": maps(a=None, copy={"__source__": "a"}),
    "filtered to nothing": maps(a={"__filter__": "False"}),
    "renamed": maps(**{"*": {"__alias__": "'x_' + __stream_name__"}}),
    "flat": FLAT,
    "flat and computed": {**FLAT, **COMPUTED},
    "flat and several": {**FLAT, **SEVERAL},
    "mutating": maps(a={"last": "tags.pop()", "rest": "tags", "id": "record.pop('id')"}),
    "not a number": maps(a={"x": "n == n", "y": "o and o.get('x')", "n": "n is None"}),
}
LEVELS = list(TypeConformanceLevel)


@pytest.mark.parametrize("rows", [ROWS, PLAIN], ids=["odd", "plain"])
@pytest.mark.parametrize("level", LEVELS, ids=[level.name for level in LEVELS])
@pytest.mark.parametrize("config", CASES.values(), ids=CASES)
def test_compiled_and_overridable_loop_write_the_same_mapped_rows(config, level, rows):
    members = {
        "schema": WIDE,
        "replication_key": "id",
        "TYPE_CONFORMANCE_LEVEL": level,
        "STATE_MSG_FREQUENCY": 7,
    }
    kind = stream("a", rows, **members)
    compiled, through_hook = sync(kind, config=config), sync(with_hook(kind), config=config)
    assert compiled.select("STATE")
    assert sorted(compiled.text.splitlines()) == sorted(through_hook.text.splitlines())
    names = {message["stream"] for message in compiled.select("RECORD")}
    for name in names:
        assert compiled.records(name) == through_hook.records(name)


@pytest.mark.parametrize("config", CASES.values(), ids=CASES)
def test_stream_with_maps_is_compiled(config):
    kind = stream("a", ROWS, schema=WIDE)

    def _generate_record_messages(self, record):
        yield from super(by_messages, self)._generate_record_messages(record)

    by_messages = type("A", (kind,), {"_generate_record_messages": _generate_record_messages})
    output, theirs = Output(), Output()
    tap = make(kind, output=output, config=config)
    assert get_plan(tap.streams["a"]).uses_fast_path
    assert (get_plan(tap.streams["a"]).mapped is None) is False
    tap.sync_all()
    make(by_messages, output=theirs, config=config).sync_all()
    for name in {message["stream"] for message in output.select("RECORD")}:
        assert output.records(name) == theirs.records(name)
    assert output.select("SCHEMA") == theirs.select("SCHEMA")


def test_stream_without_maps_has_a_plan_without_maps():
    tap = make(stream("a", []), stream("b", []), config=maps(b={"x": "id"}))
    assert get_plan(tap.streams["a"]).mapped is None
    assert get_plan(tap.streams["b"]).mapped is not None
    idle = make(stream("a", []))
    assert get_plan(idle.streams["a"]).mapped is None
    assert not idle.has_mapper


def test_bookmark_is_the_value_before_the_map():
    kind = stream("a", [{"id": n} for n in (1, 2, 3)], replication_key="id", is_sorted=True)
    output = sync(kind, config=maps(a={"__filter__": "id < 2", "id": "id * 100"}))
    assert output.records() == [{"id": 100}]
    assert output.states[-1]["bookmarks"]["a"]["replication_key_value"] == 3


def test_maps_do_not_change_the_record_of_the_author():
    records = [{"id": 1, "gone": "x", "tags": ["a", "b"]}]
    kind = stream("a", lambda self, context: iter(records), schema=WIDE)
    entry = {"tap_stream_id": "a", "stream": "a", "schema": WIDE, "metadata": [
        {"breadcrumb": [], "metadata": {"selected": True}},
        {"breadcrumb": ["properties", "gone"], "metadata": {"selected": False}},
    ]}  # fmt: skip
    config = maps(a={"last": "tags.pop()", "id": "record.pop('id')"})
    output = sync(kind, config=config, catalog={"streams": [entry]})
    assert records == [{"id": 1, "tags": ["a", "b"]}]
    assert output.records() == [{"tags": ["a"], "last": "b", "id": 1}]
    assert "gone" not in output.select("SCHEMA")[0]["schema"]["properties"]


def test_rows_of_all_mapped_streams_precede_the_state_that_covers_them():
    kind = stream("a", [{"id": n} for n in range(20)], replication_key="id", STATE_MSG_FREQUENCY=5)
    output = sync(kind, config=maps(b={"__source__": "a", "__filter__": "id % 3 == 0"}))
    counts = {"a": 0, "b": 0}
    for message in output.messages:
        if message["type"] == "RECORD":
            counts[message["stream"]] += 1
        elif message["type"] == "STATE":
            entry = message["value"]["bookmarks"]["a"]
            value = entry.get("progress_markers", entry).get("replication_key_value")
            if value is not None:
                assert counts["a"] >= value + 1
                assert counts["b"] >= value // 3 + 1


def parent_and_child(parent_rows, **members):
    parent = stream(
        "parent",
        parent_rows,
        get_child_context=lambda self, record, context: {"parent": record["id"]},
        **members,
    )
    child = stream(
        "child",
        lambda self, context: [{"id": context["parent"] * 10}],
        parent_stream_type=parent,
    )
    return parent, child


@pytest.mark.parametrize("on_path", [lambda kind: kind, with_hook], ids=["compiled", "hooked"])
@pytest.mark.parametrize(
    "definition, children",
    [({"__filter__": "id > 2"}, [30, 40]), ({"x": "1"}, [10, 20, 30, 40]), (None, [])],
)
def test_filter_of_a_parent_also_filters_its_children(on_path, definition, children):
    parent, child = parent_and_child([{"id": n} for n in (1, 2, 3, 4)])
    parent = on_path(parent)
    child.parent_stream_type = parent
    config = maps(parent=definition, all={"__source__": "parent"})
    output = sync(parent, child, config=config)
    assert [record["id"] for record in output.records("child")] == children
    assert len(output.records("all")) == 4


def test_map_expression_error_leaves_valid_output():
    kind = stream("a", [{"id": 1}, {"id": 2, "at": 5}], replication_key="id", is_sorted=True)
    output, error = sync_until_error(
        MapExpressionError, kind, config=maps(a={"x": "at + 1 if at else 0"})
    )
    assert output.records() == [{"id": 1, "x": 0}] or not output.records()
    assert "property 'x' in the map of stream 'a'" in str(error)


def test_invalid_map_is_an_error_before_the_sync():
    with pytest.raises(MapExpressionError, match="property 'x' in the map of stream 'a'"):
        make(stream("a", []), config=maps(a={"x": "1 +"}))
    with pytest.raises(ConfigValidationError, match="Flattening is misconfigured"):
        make(stream("a", []), config={"flattening_enabled": True})


def test_activate_version_is_written_for_every_mapped_stream():
    config = {"emit_activate_version_messages": True, **maps(a=None, b={"__source__": "a"})}
    output = sync(stream("a", [{"id": 1}]), config=config)
    assert {message["stream"] for message in output.select("ACTIVATE_VERSION")} == {"b"}
    assert {message["stream"] for message in output.select("SCHEMA")} == {"b"}
    assert all("version" in message for message in output.select("RECORD"))


def test_mappings_and_tuples_are_mapped():
    rows = lambda self, context: iter([UserDict(id=1), None, ({"id": 2}, None)])  # noqa: E731
    with pytest.warns(SingerSDKDeprecationWarning, match="Yielding a tuple"):
        output = sync(stream("a", rows), config=maps(a={"x": "id + 1"}))
    assert output.records() == [{"id": 1, "x": 2}, {"id": 2, "x": 3}]


def test_sort_errors_are_raised_with_maps():
    config = maps(a={"x": "1"})
    members = {"replication_key": "id", "is_sorted": True}
    output, _ = sync_until_error(
        InvalidStreamSortException, stream("a", [{"id": 2}, {"id": 1}], **members), config=config
    )
    assert [record["id"] for record in output.records()] == [2, 1]
    sync_until_error(
        InvalidReplicationKeyException, stream("a", [{"n": 2}], **members), config=config
    )


# ---------------------------------------------------------------------- the mapper of a tap


def test_mapper_is_created_at_its_first_use():
    tap = make(stream("a", [{"id": 1}]))
    assert not tap.has_mapper
    assert type(tap.mapper.stream_maps["a"][0]) is SameRecordTransform
    assert tap.streams["a"].stream_maps is tap.mapper.stream_maps["a"]


def test_tap_without_a_mapper_syncs_but_has_no_mapper_attribute():
    output = Output()
    tap = make(stream("a", [{"id": 1}]), output=output, setup_mapper=False, config=maps(a=None))
    tap.sync_all()
    assert output.records() == [{"id": 1}]
    with pytest.raises(MapperNotInitialized):
        _ = tap.mapper
    with pytest.raises(MapperNotInitialized):
        _ = tap.streams["a"].stream_maps


def test_tap_accepts_a_custom_mapper_and_stream_maps():
    class Doubled(StreamMap):
        def transform(self, record):
            record["id"] *= 2
            return super().transform(record)

        def get_filter_result(self, record):
            return record["id"] > 1

    output = Output()
    rows = [{"id": 1}, {"id": 2}]
    tap = make(stream("a", lambda self, context: iter(rows)), output=output)
    mapper = PluginMapper({}, tap.logger)
    mapper.stream_maps["a"] = [Doubled("b", schema(id=INTEGER), None, None)]
    tap.mapper = mapper
    tap.sync_all()
    assert output.records("b") == [{"id": 2}, {"id": 4}]
    assert rows == [{"id": 1}, {"id": 2}]


def test_stream_maps_of_a_stream_can_be_overridden():
    maps_of = property(lambda self: [RemoveRecordTransform("a", self.schema, None, None)])
    output = sync(stream("a", [{"id": 1}], stream_maps=maps_of))
    assert output.records() == []
    assert output.select("SCHEMA") == []


def test_schema_messages_follow_an_overridden_catalog():
    class Widened(Tap):
        name = "tap-test"

        def discover_streams(self):
            return [stream("a", [{"id": 1}])(self)]

        @property
        def catalog(self):
            copied = Catalog.from_dict(super().catalog.to_dict())
            copied["a"].schema.properties["more"] = copied["a"].schema.properties["n"]
            return copied

        def _setup_signal_handlers(self):
            """Leave the signals to pytest."""

    written = []

    class Writer:
        def write_message(self, message):
            written.append(message.to_dict())

    Widened(message_writer=Writer()).sync_all()
    [schema_message] = [document for document in written if document["type"] == "SCHEMA"]
    assert "more" in schema_message["schema"]["properties"]


def test_deselected_stream_with_a_map_is_not_synced():
    entry = {"tap_stream_id": "a", "stream": "a", "schema": WIDE, "key_properties": ["id"],
             "metadata": [{"breadcrumb": [], "metadata": {"selected": False}}]}  # fmt: skip
    kind = stream("a", [{"id": 1}], schema=WIDE)
    output = sync(kind, config=maps(a={"x": "id"}), catalog={"streams": [entry]})
    assert output.select("RECORD") == []


def test_parent_missing_in_the_catalog_is_mapped():
    parent, child = parent_and_child([{"id": n} for n in (1, 2)])
    entry = {"tap_stream_id": "child", "stream": "child", "schema": child.schema,
             "metadata": [{"breadcrumb": [], "metadata": {"selected": True}}]}  # fmt: skip
    config = maps(parent={"__filter__": "id > 1"})
    output = sync(parent, child, config=config, catalog={"streams": [entry]})
    assert output.records("child") == [{"id": 20}]


def test_values_without_a_json_type_are_written_as_without_maps():
    value = UUID("12345678123456781234567812345678")
    kind = stream("a", [{"id": 1, "odd": value}], schema=WIDE)
    output = sync(kind, config=maps(a={"same": "odd", "list": "[odd]"}))
    assert output.records() == [
        {"id": 1, "odd": str(value), "same": str(value), "list": [str(value)]}
    ]


def test_mutating_map_does_not_change_records_of_overridden_messages():
    records = [{"id": 1, "n": 2}]
    kind = stream(
        "a",
        lambda self, context: iter(records),
        TYPE_CONFORMANCE_LEVEL=TypeConformanceLevel.NONE,
    )

    def _generate_record_messages(self, record):
        yield from super(subclass, self)._generate_record_messages(record)

    subclass = type("A", (kind,), {"_generate_record_messages": _generate_record_messages})
    config = maps(a={"n": "record.pop('id')"})
    assert sync(subclass, config=config).records() == sync(kind, config=config).records()
    assert records == [{"id": 1, "n": 2}]
