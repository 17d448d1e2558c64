"""state_partition_limit: streams with more partitions than bookmarks, interrupted anywhere.

Only the records before the kept state count as delivered, so a bookmark that is ahead of a
partition leads to a record that is never delivered.
"""

from __future__ import annotations

import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tap_core.exceptions import ConfigurationError
from tap_core.streams.core import Stream
from tests.sync.syncing import INTEGER, make, parse_messages, schema, stream, sync


class Source:
    """Partitions to which records are added, each with its own clock that may lag.

    The partitions of one group, which may share a bookmark, share the clock.
    """

    def __init__(self, partitions: int) -> None:
        self.now = 1
        self.clocks = [0] * partitions
        self.rows: list[list[int]] = [[] for _ in range(partitions)]
        self.changed = [1] * partitions

    def add_record(self, partition: int, wait: int) -> None:
        self.now += 1
        self.clocks[partition // 2] += wait + 1
        self.rows[partition].append(self.clocks[partition // 2])
        self.changed[partition] = self.now

    @property
    def all(self) -> set[tuple[int, int]]:
        return {(number, value) for number, rows in enumerate(self.rows) for value in rows}


def starting_value(stream, context):
    return stream.get_starting_replication_key_value(context) or 0


def partitioned(source: Source, options: dict) -> list[type]:
    """Return a stream that declares its partitions."""

    def rows(self, context):
        values = [
            value for value in source.rows[context["p"]] if value >= starting_value(self, context)
        ]
        for value in values if options["is_sorted"] else options["shuffle"](values):
            yield {"p": context["p"], "at": value}

    return [
        stream(
            "rows",
            rows,
            schema=schema(p=INTEGER, at=INTEGER),
            replication_key="at",
            is_sorted=options["is_sorted"],
            state_partition_limit=options["limit"],
            state_partitioning_keys=options["keys"],
            STATE_MSG_FREQUENCY=options["every"],
            partitions=property(
                lambda _: [{"p": p, "group": p // 2} for p in range(len(source.rows))]
            ),
        )
    ]


def parent_and_child(source: Source, options: dict) -> list[type]:
    """Return an incremental parent and its child stream."""

    def parents(self, context):
        ordered = sorted(enumerate(source.changed), key=lambda pair: pair[1])
        for number, changed in ordered:
            if changed >= starting_value(self, context):
                yield {"p": number, "changed": changed}

    parent = stream(
        "parents",
        parents,
        schema=schema(p=INTEGER, changed=INTEGER),
        replication_key="changed",
        is_sorted=True,
        STATE_MSG_FREQUENCY=options["every"],
        get_child_context=lambda _, record, context: {
            "p": record["p"],
            "group": record["p"] // 2,
        },
    )
    (child,) = partitioned(source, options)
    child.parent_stream_type = parent
    return [parent, child]


def rows_before_state(messages, states: int) -> tuple[set[tuple[int, int]], dict]:
    """Return the rows before the n-th state of a run, and that state."""
    rows, state = set(), {}
    for message in messages:
        if message["type"] == "RECORD" and message["stream"] == "rows":
            rows.add((message["record"]["p"], message["record"]["at"]))
        elif message["type"] == "STATE":
            state = message["value"]
            states -= 1
            if not states:
                break
    return rows, state


def get_entries(state: dict) -> list[dict]:
    return state.get("bookmarks", {}).get("rows", {}).get("partitions", [])


OPTIONS = st.fixed_dictionaries(
    {
        "is_sorted": st.booleans(),
        "every": st.integers(1, 4),
        "keys": st.sampled_from([None, None, ["group"]]),
    }
)
WAIT = st.sampled_from([0, 1, 50])
LIMITS = st.lists(st.integers(1, 6) | st.none(), min_size=5, max_size=5)


@pytest.mark.parametrize("kinds", [partitioned, parent_and_child])
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), options=OPTIONS, limits=LIMITS, partitions=st.integers(1, 6))
def test_no_record_is_lost_after_resuming_from_any_state(
    kinds, data, options, limits, partitions
) -> None:
    source, delivered, state = Source(partitions), set(), {}
    options["shuffle"] = lambda rows: data.draw(st.permutations(rows)) if len(rows) > 1 else rows
    for run, limit in enumerate(limits):
        for partition, wait in data.draw(st.lists(st.tuples(st.integers(0, partitions - 1), WAIT))):
            source.add_record(partition, wait)
        before = get_entries(state)
        output = sync(*kinds(source, {**options, "limit": limit}), state=state)
        if limit is not None:
            bound = max(limit, len(before))
            assert all(len(get_entries(interim)) <= bound for interim in output.states)
        count = len(output.states)
        if run == len(limits) - 1:  # the last run is not interrupted: all its rows are delivered
            delivered |= rows_before_state(output.messages, 0)[0]
        elif written := data.draw(st.integers(0, count)):
            rows, state = rows_before_state(output.messages, written)
            delivered |= rows
    assert delivered == source.all


# Single cases


def limited(rows: dict[str, list[int]], **members):
    def get_records(self, context):
        return [{"p": context["p"], "at": value} for value in rows[context["p"]]]

    return stream(
        "rows",
        get_records,
        **{
            "schema": schema(p={"type": "string"}, at=INTEGER),
            "replication_key": "at",
            "state_partition_limit": 2,
            "partitions": property(lambda _: [{"p": p} for p in rows]),
            **members,
        },
    )


def listed(**values: int | None) -> dict:
    """Return a state with one entry per partition, as it is without a limit."""
    entries = [
        {"context": {"p": p}}
        | ({} if value is None else {"replication_key": "at", "replication_key_value": value})
        for p, value in values.items()
    ]
    return {"bookmarks": {"rows": {"partitions": entries}}}


def bookmark(output) -> dict:
    return output.states[-1]["bookmarks"]["rows"]


def shared_bookmark(value: int) -> dict:
    return {
        "partition_limit_reached": True,
        "replication_key": "at",
        "replication_key_value": value,
    }


def test_oldest_bookmark_is_shared_beyond_the_limit(caplog) -> None:
    rows = {"a": [5, 9], "b": [3, 4], "c": [8], "d": [7]}
    assert bookmark(sync(limited(rows))) == shared_bookmark(4)
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    (message,) = [sentence for sentence in warned if "state_partition_limit = 2" in sentence]
    assert "Stream 'rows' has more partitions (3 so far)" in message


def test_each_partition_starts_from_the_shared_bookmark() -> None:
    starts = {}

    def get_records(self, context):
        starts[context["p"]] = self.get_starting_replication_key_value(context)
        return [{"p": context["p"], "at": 6}] if context["p"] != "c" else []

    kind = limited({"a": [], "b": [], "c": []}, get_records=get_records)
    output = sync(kind, state={"bookmarks": {"rows": shared_bookmark(4)}})
    assert starts == {"a": 4, "b": 4, "c": 4}
    assert bookmark(output) == shared_bookmark(4)  # c has no record, so the bookmark cannot advance


def test_partitions_up_to_the_limit_have_separate_bookmarks() -> None:
    assert bookmark(sync(limited({"a": [1], "b": [2]}))) == listed(a=1, b=2)["bookmarks"]["rows"]


def test_stored_bookmarks_beyond_the_limit_are_replaced_by_their_minimum() -> None:
    starts = {}

    def get_records(self, context):
        starts[context["p"]] = self.get_starting_replication_key_value(context)
        return [{"p": context["p"], "at": 9}]

    kind = limited({"a": [], "c": [], "new": []}, get_records=get_records)
    output = sync(kind, state=listed(a=5, b=3, c=6))
    assert starts == {
        "a": 5,
        "c": 6,
        "new": None,
    }  # each from its own bookmark, the new one from the beginning
    assert bookmark(output) == shared_bookmark(3)  # b was not read, but may be read later


@pytest.mark.parametrize("silent", ["a", "d"])
def test_partition_without_a_bookmark_prevents_a_shared_bookmark(silent) -> None:
    rows = {p: [] if p == silent else [7] for p in "abcd"}
    stored = bookmark(sync(limited(rows)))
    assert stored.pop("partition_limit_reached")
    assert list(stored) == ["partitions"]
    assert [entry["context"]["p"] for entry in stored["partitions"]] == ["a", "b"]


def test_removed_limit_restores_separate_bookmarks() -> None:
    rows = {"a": [5, 9], "b": [4], "c": []}
    kind = limited(rows, state_partition_limit=None)
    output = sync(kind, state={"bookmarks": {"rows": shared_bookmark(4)}})
    assert bookmark(output) == listed(a=9, b=4, c=4)["bookmarks"]["rows"]


def test_sync_without_partitions_keeps_the_shared_bookmark() -> None:
    kind = limited({}, state_partition_limit=None, get_records=lambda *_: [])
    assert bookmark(
        sync(kind, state={"bookmarks": {"rows": shared_bookmark(4)}})
    ) == shared_bookmark(4)


def test_shared_bookmark_of_another_replication_key_is_ignored() -> None:
    old = {**shared_bookmark(4), "replication_key": "id"}
    entry = bookmark(
        sync(limited({"a": [5], "b": [], "c": [7]}), state={"bookmarks": {"rows": old}})
    )
    assert "replication_key_value" not in entry
    assert len(entry["partitions"]) == 2


def test_full_table_state_has_no_more_entries_than_the_limit() -> None:
    kind = limited({p: [1] for p in "abcd"}, replication_key=None)
    assert bookmark(sync(kind)) == {
        "partition_limit_reached": True,
        "partitions": [{"context": {"p": "a"}}, {"context": {"p": "b"}}],
    }


def test_limit_does_not_apply_if_partitions_come_from_the_state() -> None:
    kind = stream(
        "rows",
        lambda _, context: [{"p": context["p"], "at": 9}],
        schema=schema(p={"type": "string"}, at=INTEGER),
        replication_key="at",
        state_partition_limit=1,
    )
    entry = bookmark(sync(kind, state=listed(a=1, b=2)))
    assert entry == listed(a=9, b=9)["bookmarks"]["rows"]


def test_limit_counts_bookmarks_of_partitioning_keys() -> None:
    rows = {"a": [5], "b": [9], "c": [7]}
    kind = limited(
        rows,
        state_partitioning_keys=["group"],
        partitions=property(
            lambda _: [{"p": "a", "group": 1}, {"p": "b", "group": 2}, {"p": "c", "group": 1}]
        ),
    )
    assert [e["replication_key_value"] for e in bookmark(sync(kind))["partitions"]] == [7, 9]
    kind.state_partition_limit = 1
    assert bookmark(sync(kind)) == shared_bookmark(7)


def test_get_context_state_beyond_the_limit_adds_no_entry() -> None:
    values = []

    def get_records(self, context):
        state = self.get_context_state(context)
        yield {"p": context["p"], "at": 3}
        values.append(state["progress_markers"]["replication_key_value"])
        assert self.get_context_state(context) is state

    kind = limited({"a": [], "b": [], "c": []}, get_records=get_records, STATE_MSG_FREQUENCY=1)
    output = sync(kind)
    assert values == [3, 3, 3]
    assert max(len(get_entries(state)) for state in output.states) == 2


def test_partition_that_was_only_accessed_prevents_a_shared_bookmark() -> None:
    """Such a partition may not have been read completely, for example if a child was aborted."""

    def get_records(self, context):
        if context["p"] == "c":
            self.get_context_state({"p": "elsewhere"})
        return [{"p": context["p"], "at": 3}]

    entry = bookmark(sync(limited({"a": [], "b": [], "c": []}, get_records=get_records)))
    assert "replication_key_value" not in entry
    assert len(entry["partitions"]) == 2


def sync_children(state: dict, **members) -> dict:
    """Sync a child stream with a row at 9 per context, and return its bookmark."""
    parent = stream(
        "parents",
        [{"p": p, "at": 5} for p in "abc"],
        schema=schema(p={"type": "string"}, at=INTEGER),
        replication_key="at",
        get_child_context=lambda _, record, context: {"p": record["p"], "group": record["p"]},
    )
    child = limited(
        {},
        get_records=lambda _, context: [{"p": context["p"], "at": 9}],
        parent_stream_type=parent,
        partitions=Stream.partitions,
        **members,
    )
    return bookmark(sync(parent, child, state={"bookmarks": state}))


def test_shared_bookmark_of_children_is_final_after_all_parent_records() -> None:
    assert sync_children({}, state_partitioning_keys=["group"]) == shared_bookmark(9)


def test_incremental_parent_does_not_advance_the_shared_bookmark() -> None:
    of_parent = {"replication_key": "at", "replication_key_value": 4}
    assert sync_children({"rows": shared_bookmark(3)}) == shared_bookmark(9)
    assert sync_children({"rows": shared_bookmark(3), "parents": of_parent}) == shared_bookmark(3)


def test_child_of_two_parents_is_finalized_after_the_second() -> None:
    starts = []

    def parent(name):
        rows = [{"p": f"{name}{n}", "at": n} for n in range(2)]
        return stream(
            name,
            rows,
            schema=schema(p={"type": "string"}, at=INTEGER),
            get_child_context=lambda _, record, context: {"p": record["p"]},
        )

    first, second = parent("first"), parent("second")

    def get_records(self, context):
        starts.append(self.get_starting_replication_key_value(context))
        return [{"p": context["p"], "at": 10 - len(starts)}]

    child = limited({}, get_records=get_records, parent_stream_type=first, state_partition_limit=1)
    tap = make(first, second, child)
    tap.streams["second"].child_streams.append(tap.streams["rows"])
    tap.sync_all()
    assert starts == [None] * 4
    assert tap.document.tap_state["bookmarks"]["rows"] == shared_bookmark(6)


# Settings


@pytest.mark.parametrize(("class_limit", "setting", "limit"), [(3, 1, 1), (1, 3, 1), (None, 1, 1)])
def test_smaller_limit_of_class_and_setting_applies(class_limit, setting, limit) -> None:
    kind = limited({"a": [1], "b": [2]}, state_partition_limit=class_limit)
    states = sync(kind, config={"state_partition_limit": setting}).states
    assert max(len(get_entries(state)) for state in states) == limit


@pytest.mark.parametrize("wrong", [0, -1, "many", 1.5])
def test_invalid_limit_is_rejected(wrong) -> None:
    with pytest.raises(ConfigurationError, match="state_partition_limit"):
        sync(limited({"a": [1]}), config={"state_partition_limit": wrong})
    with pytest.raises(ConfigurationError, match="state_partition_limit"):
        sync(limited({"a": [1]}, state_partition_limit=wrong))


# Removed partitions


def pruning(removed: str, calls: list, **members):
    def retain_partition(self, context):
        calls.append(context["p"])
        return context["p"] not in removed

    return limited(
        {"a": [9], "b": [8]},
        retain_partition=retain_partition,
        **{"state_partition_limit": None, **members},
    )


def test_partition_that_is_not_retained_is_removed_from_the_state() -> None:
    calls: list[str] = []
    output = sync(pruning("c", calls), state=listed(a=1, b=1, c=1, d=1))
    assert calls == ["c", "d"]
    assert bookmark(output) == listed(a=9, b=8, d=1)["bookmarks"]["rows"]


def test_retain_partition_is_not_called_after_a_failed_sync() -> None:
    calls: list[str] = []

    def get_records(self, context):
        raise RuntimeError

    tap = make(pruning("c", calls, get_records=get_records), state=listed(c=1))
    with pytest.raises(RuntimeError):
        tap.sync_all()
    assert not calls


def test_partitions_are_retained_by_default() -> None:
    kind = limited({"a": [9]}, state_partition_limit=None)
    assert bookmark(sync(kind, state=listed(a=1, z=1))) == listed(a=9, z=1)["bookmarks"]["rows"]


def test_removed_partition_does_not_limit_the_shared_bookmark() -> None:
    output = sync(pruning("c", [], state_partition_limit=1), state=listed(a=1, b=1, c=1))
    assert bookmark(output) == shared_bookmark(8)


def test_state_with_only_removed_partitions_becomes_empty() -> None:
    kind = pruning("c", [], partitions=property(lambda _: []), get_records=lambda *_: [])
    assert "partitions" not in bookmark(sync(kind, state=listed(c=1)))


@pytest.mark.parametrize(("bookmark_of_parent", "expected"), [({}, ["z"]), ({"at": 1}, [])])
def test_retain_partition_of_children_is_called_only_after_a_full_parent_sync(
    bookmark_of_parent, expected
) -> None:
    parent = stream(
        "parents",
        [{"p": "a", "at": 2}],
        schema=schema(p={"type": "string"}, at=INTEGER),
        replication_key="at",
        get_child_context=lambda _, record, context: {"p": record["p"]},
    )
    calls: list[str] = []
    child = pruning("z", calls, parent_stream_type=parent, partitions=Stream.partitions)
    state = listed(a=1, z=1)
    for value in bookmark_of_parent.values():
        state["bookmarks"]["parents"] = {"replication_key": "at", "replication_key_value": value}
    sync(parent, child, state=state)
    assert calls == expected


def test_deselected_stream_keeps_its_state() -> None:
    output_before = listed(a=1, b=1, c=1)
    kind = limited({"a": [9]}, state_partition_limit=1, selected_by_default=False)
    output = sync(kind, state=output_before)
    assert parse_messages(output.text)[-1]["value"]["bookmarks"] == output_before["bookmarks"]


# Parallel partitions


def test_parallel_partitions_share_the_oldest_bookmark() -> None:
    rows = {f"p{n}": [100 + n, 50 + n] for n in range(40)}
    kind = limited(rows, state_partition_limit=5, max_parallel_partitions=4)
    for _ in range(3):
        output = sync(kind)
        assert bookmark(output) == shared_bookmark(100)
        assert len(output.records("rows")) == 80
        assert max(len(get_entries(state)) for state in output.states) <= 5
