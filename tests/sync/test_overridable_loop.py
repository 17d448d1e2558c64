"""Streams that override a hook: the overridable loop writes the same bytes as the compiled one."""

from __future__ import annotations

import copy
import datetime as dt
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tap_core.sync.plan import get_plan
from tap_core.typing.inspect import TypeConformanceLevel
from tests.records.values import UNUSUAL_VALUES, masks, records, schemas, streams
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

pytestmark = pytest.mark.filterwarnings("ignore:Yielding a tuple")

ID = {"id": INTEGER}
NESTED = {
    "type": "object",
    "properties": {
        "x": INTEGER,
        "deep": {"type": "object", "properties": {"y": STRING, "z": STRING}},
    },
}
ROWS = [
    {
        "id": n,
        "at": f"2024-01-{n % 27 + 1:02}T00:00:00Z",
        "n": n % 7,
        "o": {"x": n, "deep": {"y": "y", "z": str(n)}},
        "odd": UNUSUAL_VALUES[n % len(UNUSUAL_VALUES)],
        "extra": n,
    }
    for n in range(60)
]
WIDE = schema(id=INTEGER, at=DATETIME, n=INTEGER, o=NESTED, odd={}, b={"type": "boolean"})


def parent_and_descendants(parent_rows, **members):
    """Return a parent, its child and its grandchild."""
    parent = stream(
        "parent",
        parent_rows,
        schema=schema(**ID, name=STRING),
        get_child_context=lambda self, record, context: {"parent": record["id"]},
        **members,
    )
    child = stream(
        "child",
        lambda self, context: [{"id": context["parent"] * 10 + n} for n in range(3)],
        schema=schema(**ID, parent=INTEGER),
        parent_stream_type=parent,
        replication_key="id",
        get_child_context=lambda self, record, context: {**context, "child": record["id"]},
        STATE_MSG_FREQUENCY=2,
    )
    grandchild = stream(
        "grandchild",
        lambda self, context: [{"id": context["child"]}],
        schema=schema(**ID, parent=INTEGER, child=INTEGER),
        parent_stream_type=child,
        replication_key="id",
        is_sorted=True,
    )
    return [parent, child, grandchild]


def make_streams(**members):
    return [stream("a", ROWS, **{"schema": WIDE, **members})]


def make_catalog(name, definition, **selected):
    """Return a catalog of one stream; `selected` maps properties to their selection."""
    metadata = [{"breadcrumb": [], "metadata": {"selected": selected.pop("stream", True)}}]
    for path, value in selected.items():
        crumb = [word for part in path.split("__") for word in ("properties", part)]
        metadata.append({"breadcrumb": crumb, "metadata": {"selected": value}})
    entry = {"tap_stream_id": name, "stream": name, "schema": definition, "metadata": metadata}
    return {"streams": [entry]}


def drop_some(self, row, context=None):
    return None if row["id"] % 3 == 0 else {**row, "n": 1}


PAIRS = [({"id": n}, {"parent": n}) for n in range(4)]
LEVELS = {level.name: level for level in TypeConformanceLevel}
PEOPLE = [{"id": n, "name": "x"} for n in range(1, 9)]

CASES = {
    "full table": (make_streams(), {}),
    "sorted": (make_streams(replication_key="id", is_sorted=True, STATE_MSG_FREQUENCY=7), {}),
    "unsorted": (make_streams(replication_key="n", STATE_MSG_FREQUENCY=7), {}),
    "unchecked": (make_streams(replication_key="n", check_sorted=False, STATE_MSG_FREQUENCY=7), {}),
    "date-times": (make_streams(replication_key="at", STATE_MSG_FREQUENCY=7), {}),
    "log based": (make_streams(replication_key="id", forced_replication_method="LOG_BASED"), {}),
    **{
        f"conformance {name}": (make_streams(TYPE_CONFORMANCE_LEVEL=level), {})
        for name, level in LEVELS.items()
    },
    "partitions": (
        make_streams(
            replication_key="at",
            partitions=[{"p": 1}, {"p": 2, "id": 5}],
            schema=schema(**WIDE["properties"], p=INTEGER),
            STATE_MSG_FREQUENCY=13,
        ),
        {},
    ),
    "sorted partitions": (
        make_streams(
            replication_key="id", is_sorted=True, partitions=[{"p": n} for n in range(30)]
        ),
        {},
    ),
    "partitions of a state": (
        make_streams(replication_key="id"),
        {"state": {"bookmarks": {"a": {"partitions": [{"context": {"p": 1}}]}}}},
    ),
    "some keys for state": (
        make_streams(
            replication_key="id",
            is_sorted=True,
            state_partitioning_keys=["p"],
            partitions=[{"p": 1, "q": 1}, {"p": 1, "q": 2}, {"p": 2, "q": 1}],
        ),
        {},
    ),
    "no keys for state": (
        make_streams(
            replication_key="id",
            state_partitioning_keys=[],
            partitions=[{"p": 1}, {"p": 2}],
            STATE_MSG_FREQUENCY=50,
        ),
        {},
    ),
    "dropped records": (
        make_streams(post_process=drop_some, replication_key="id", STATE_MSG_FREQUENCY=5),
        {},
    ),
    "children": (parent_and_descendants(PEOPLE), {}),
    "children of an incremental parent": (parent_and_descendants(PEOPLE, replication_key="id"), {}),
    "children and their start": (
        parent_and_descendants(PEOPLE),
        {
            "state": {
                "bookmarks": {
                    "child": {
                        "partitions": [
                            {
                                "context": {"parent": 2},
                                "replication_key": "id",
                                "replication_key_value": 3,
                            },
                        ]
                    }
                }
            },
            "config": {"start_date": "5"},
        },
    ),
    "pairs": (
        parent_and_descendants([(row, {"parent": -1}) if row["id"] % 2 else row for row in PEOPLE]),
        {},
    ),
    "records of none": (parent_and_descendants([None, *PEOPLE, None]), {}),
    "a deselected parent": (
        parent_and_descendants(PEOPLE),
        {"catalog": make_catalog("child", schema(**ID, parent=INTEGER))},
    ),
    "deselected properties": (
        make_streams(replication_key="id"),
        {"catalog": make_catalog("a", WIDE, n=False, o__x=False, o__deep__z=False)},
    ),
    "a catalog with another schema": (
        make_streams(),
        {"catalog": make_catalog("a", schema(id=STRING, o={"type": "object"}))},
    ),
    "versions": (
        parent_and_descendants(PEOPLE),
        {"config": {"emit_activate_version_messages": True}},
    ),
    "more than a chunk": (
        [
            stream(
                "a",
                [{"id": n, "at": "x" * 40} for n in range(3_333)],
                replication_key="id",
                is_sorted=True,
                STATE_MSG_FREQUENCY=1_234,
            )
        ],
        {},
    ),
}


def with_hooks(kinds):
    """Return the streams with a hook that changes nothing; parents and children stay related."""
    subclasses = {}
    for kind in kinds:
        subclasses[kind] = with_hook(kind)
        parent = kind.parent_stream_type
        subclasses[kind].parent_stream_type = subclasses.get(parent, parent)
    return list(subclasses.values())


@pytest.mark.parametrize("case", CASES)
def test_compiled_and_overridable_loop_write_the_same_bytes(case):
    kinds, options = CASES[case]
    compiled = sync(*kinds, **copy.deepcopy(options)).text
    assert compiled
    assert sync(*with_hooks(kinds), **copy.deepcopy(options)).text == compiled


def test_streams_with_hooks_are_not_compiled():
    kinds, _ = CASES["children"]
    for on_path, is_compiled in ((list, True), (with_hooks, False)):
        tap = make(*on_path(kinds))
        assert [get_plan(instance).uses_fast_path for instance in tap.streams.values()] == [
            is_compiled
        ] * 3


def test_stream_with_a_hook_does_not_change_other_streams():
    kinds, _ = CASES["children"]
    expected = sync(*kinds).text
    for number, kind in enumerate(kinds):
        changed = list(kinds)
        changed[number] = with_hook(kind)
        for other in range(number + 1, len(changed)):
            changed[other] = type(changed[other].__name__, (changed[other],), {})
            changed[other].parent_stream_type = changed[other - 1]
        assert sync(*changed).text == expected


FAILURES = {
    "out of order": [{"id": 1}, {"id": 3}, {"id": 2}, {"id": 4}],
    "a key that is missing": [{"id": 1}, {"id": 2}, {"n": 3}, {"id": 4}],
}


@pytest.mark.parametrize("case", FAILURES)
@pytest.mark.parametrize("partitions", [None, [{"p": 1}, {"p": 2}]])
def test_compiled_and_overridable_loop_fail_after_the_same_bytes(case, partitions):
    kind = stream("a", FAILURES[case], replication_key="id", is_sorted=True, partitions=partitions)
    (compiled, first), (through, second) = (
        sync_until_error(Exception, kind),
        sync_until_error(Exception, with_hook(kind)),
    )
    assert (type(first), str(first)) == (type(second), str(second))
    assert through.text == compiled.text


KEYS = st.one_of(
    st.none(),
    st.integers(),
    st.sampled_from(["2024-01-01", "2024-01-01T00:00:00Z", "2023-12-31T23:00:00-02:00", "x", ""]),
    st.sampled_from(
        [
            dt.date(2024, 1, 1),
            dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc),
            Decimal("1.5"),
            UUID(int=1),
            1.5,
            float("nan"),
        ]
    ),
)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(records, KEYS), max_size=6),
    declared=schemas,
    crumbs=masks,
    members=st.fixed_dictionaries(
        {},
        optional={
            "replication_key": st.just("k"),
            "is_sorted": st.booleans(),
            "check_sorted": st.booleans(),
            "STATE_MSG_FREQUENCY": st.integers(1, 3),
            "TYPE_CONFORMANCE_LEVEL": st.sampled_from(list(TypeConformanceLevel)),
            "partitions": st.lists(
                st.fixed_dictionaries({"p": st.integers(0, 9)}),
                max_size=2,
                unique_by=lambda context: context["p"],
            ),
            "state_partitioning_keys": st.just([]),
        },
    ),
)
@example(
    rows=[({}, dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)), ({}, dt.date(2024, 1, 1))],
    declared=schema(),
    crumbs={},
    members={"replication_key": "k"},
)
@example(
    rows=[({}, dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)), ({}, 0)],
    declared=schema(),
    crumbs={},
    members={"replication_key": "k", "is_sorted": True},
)
def test_compiled_and_overridable_loop_agree_on_random_streams(rows, declared, crumbs, members):
    definition = copy.deepcopy(declared)
    definition["properties"]["k"] = {"type": ["string", "integer", "null"]}
    entry = make_catalog("a", definition)["streams"][0]
    entry["metadata"] += [
        {"breadcrumb": list(crumb), "metadata": {"selected": value}}
        for crumb, value in crumbs.items()
    ]
    entry["replication_key"] = members.get("replication_key")
    kind = stream("a", [{**row, "k": key} for row, key in rows], **members, schema=definition)
    options = {"catalog": {"streams": [entry]}}
    assert end_of_sync(kind, **options) == end_of_sync(with_hook(kind), **options)


def end_of_sync(kind, **options):
    """Sync a stream; return its output, and its error as text or None."""
    output, error = Output(), None
    try:
        make(kind, output=output, **copy.deepcopy(options)).sync_all()
    except Exception as caught:  # noqa: BLE001 - the type must be equal
        error = repr(caught)
    return output.text, error


@settings(max_examples=60, deadline=None)
@given(
    example=streams(),
    crumbs=masks,
    level=st.sampled_from(list(TypeConformanceLevel)),
    depth=st.none() | st.integers(0, 3),
)
def test_paths_agree_on_nested_records_after_the_check_is_compiled(example, crumbs, level, depth):
    """The check is compiled for the usual record, and the flattening too."""
    declared, usual, rows = example
    entry = make_catalog("a", declared)["streams"][0]
    entry["metadata"] += [
        {"breadcrumb": list(crumb), "metadata": {"selected": value}}
        for crumb, value in crumbs.items()
    ]
    kind = stream(
        "a",
        [*[usual] * 20, *rows, usual],
        schema=declared,
        TYPE_CONFORMANCE_LEVEL=level,
    )
    options = {"catalog": {"streams": [entry]}}
    if depth is not None:
        options["config"] = {"flattening_enabled": True, "flattening_max_depth": depth}
    assert end_of_sync(kind, **options) == end_of_sync(with_hook(kind), **options)
