"""Resuming from any state of a parallel sync loses no record.

The sources yield the records at or after the bookmark, as real sources do. The records before a
state and those of a sequential sync that resumes from it must together be all records.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sync.syncing import INTEGER, Output, make, schema, stream, sync, with_hook


class SourceError(Exception):
    """The failure of the source at some record."""


PARTED = schema(id=INTEGER, p=INTEGER, g=INTEGER)
CHILD = schema(id=INTEGER, of=INTEGER)


def starting_value(stream, context):
    return stream.get_starting_replication_key_value(context) or 0


def partitioned_stream(source, options, *, threads, fails=None):
    """Return a stream of partitions; ``fails`` is the (partition, row) at which it fails."""

    def get_records(self, context):
        partition = context["p"]
        start = starting_value(self, context)
        for number, value in enumerate(source[partition]):
            time.sleep(options["pace"][partition % len(options["pace"])] / 10_000)
            if fails == (partition, number):
                raise SourceError
            if value >= start:
                yield {"id": value, **context}

    kind = stream(
        "rows",
        get_records,
        replication_key="id",
        is_sorted=options["is_sorted"],
        max_parallel_partitions=threads,
        partitions=[{"p": partition, "g": partition % 2} for partition in range(len(source))],
        state_partitioning_keys=options["keys"],
        schema=PARTED,
        STATE_MSG_FREQUENCY=options["every"],
    )
    return (with_hook(kind) if options["hooked"] else kind,)


def parent_and_child(source, options, *, threads, fails=None):
    """Return a parent with one record per partition of the source, and its child stream."""

    def parents(self, context):
        start = starting_value(self, context)
        for partition in options["order"](len(source)):
            if partition + 1 >= start:
                yield {"id": partition + 1}

    parent = stream(
        "parents",
        parents,
        replication_key="id",
        is_sorted=options["is_sorted"],
        get_child_context=lambda self, record, context: {"of": record["id"]},
        schema=schema(id=INTEGER),
        STATE_MSG_FREQUENCY=options["every"],
    )
    if options["hooked"]:
        parent = with_hook(parent)
    child = stream(
        "rows",
        make_child_rows(source, options, fails),
        replication_key="id",
        is_sorted=options["is_sorted"],
        parent_stream_type=parent,
        max_parallel_partitions=threads,
        state_partitioning_keys=[] if options["keys"] else None,
        schema=CHILD,
        STATE_MSG_FREQUENCY=options["every"],
        post_process=lambda self, row, context=None: {**row, "of": context["of"]},
    )
    return parent, child


def make_child_rows(source, options, fails):
    """Return a function that yields the records of the partition in the child's context."""

    def get_records(self, context):
        partition = context["of"] - 1
        start = starting_value(self, context)
        for number, value in enumerate(source[partition]):
            time.sleep(options["pace"][partition % len(options["pace"])] / 10_000)
            if fails == (partition, number):
                raise SourceError
            if value >= start:
                yield {"id": value}

    return get_records


def read_rows(messages) -> list[tuple]:
    return [
        (message["stream"], *sorted(message["record"].items()))
        for message in messages
        if message["type"] == "RECORD"
    ]


def run(kinds, state=None) -> tuple[Output, bool]:
    output = Output()
    try:
        make(*kinds, output=output, state=state).sync_all()
    except SourceError:
        return output, False
    return output, True


def with_sorted_partitions(state):
    for entry in state["bookmarks"].values():
        entry.get("partitions", []).sort(key=lambda part: sorted(part["context"].items()))
    return state


OPTIONS = st.fixed_dictionaries(
    {
        "is_sorted": st.booleans(),
        "every": st.integers(1, 5),
        "keys": st.sampled_from([None, None, ("g",), ()]),
        "pace": st.lists(st.integers(0, 8), min_size=1, max_size=5),
        "hooked": st.booleans(),
    }
)
SOURCE = st.lists(st.lists(st.integers(1, 40), max_size=7), min_size=1, max_size=7)
FAILS = st.none() | st.tuples(st.integers(0, 6), st.integers(0, 6))


@pytest.mark.parametrize("kinds", [partitioned_stream, parent_and_child])
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), source=SOURCE, options=OPTIONS, fails=FAILS, threads=st.integers(2, 5))
def test_no_record_is_lost_after_resuming_from_any_state(
    kinds, data, source, options, fails, threads
):
    options["order"] = range
    if options["is_sorted"]:
        source = [sorted(rows) for rows in source]
    elif kinds is parent_and_child:
        order = data.draw(st.permutations(range(len(source))))
        options["order"] = lambda count: order
    complete, is_complete = run(kinds(source, options, threads=1))
    assert is_complete
    expected = set(read_rows(complete.messages))

    output, is_complete = run(kinds(source, options, threads=threads, fails=fails))
    messages = output.messages
    if is_complete:
        assert sorted(read_rows(messages)) == sorted(read_rows(complete.messages))
        actual = with_sorted_partitions(output.states[-1])
        assert actual == with_sorted_partitions(complete.states[-1])
    else:
        assert messages[-1]["type"] == "STATE"
        assert messages[-1]["value"]["currently_syncing"]
    for position, message in enumerate(messages):
        if message["type"] == "STATE":
            resumed = sync(*kinds(source, options, threads=1), state=message["value"])
            missed = (
                expected - set(read_rows(messages[:position])) - set(read_rows(resumed.messages))
            )
            assert not missed, (position, message["value"])


@pytest.mark.parametrize("kinds", [partitioned_stream, parent_and_child])
def test_order_within_a_partition_is_that_of_one_thread(kinds):
    options = {"is_sorted": False, "every": 3, "keys": None, "pace": [3, 0, 5], "hooked": False}
    options["order"] = range
    source = [[(7 * partition + 11 * n) % 40 + 1 for n in range(30)] for partition in range(6)]
    output, _ = run(kinds(source, options, threads=4))
    name = "p" if kinds is partitioned_stream else "of"
    for partition, rows in enumerate(source):
        key = partition if kinds is partitioned_stream else partition + 1
        ids = [record["id"] for record in output.records("rows") if record[name] == key]
        assert ids == rows
