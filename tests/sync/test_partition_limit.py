"""Streams with more partitions than may have a bookmark: whole syncs, interrupted anywhere.

What arrived is what stood before the state that was kept; a bookmark that runs ahead of a
partition ends in a record that never arrives.
"""

from __future__ import annotations

import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tap_core.exceptions import ConfigurationError
from tap_core.streams.core import Stream
from tests.sync.syncing import INTEGER, make, parsed, schema, stream, sync


class Source:
    """Partitions in which records appear, each with a clock of its own that lags as it likes.

    Those of one group, which may share a bookmark, share the clock too.
    """

    def __init__(self, partitions: int) -> None:
        self.now = 1
        self.clocks = [0] * partitions
        self.rows: list[list[int]] = [[] for _ in range(partitions)]
        self.changed = [1] * partitions

    def appears(self, partition: int, wait: int) -> None:
        self.now += 1
        self.clocks[partition // 2] += wait + 1
        self.rows[partition].append(self.clocks[partition // 2])
        self.changed[partition] = self.now

    @property
    def all(self) -> set[tuple[int, int]]:
        return {(number, at) for number, rows in enumerate(self.rows) for at in rows}


def since(one, context):
    return one.get_starting_replication_key_value(context) or 0


def flat(source: Source, how: dict) -> list[type]:
    """One stream that says its partitions itself."""

    def rows(one, context):
        found = [at for at in source.rows[context["p"]] if at >= since(one, context)]
        for at in found if how["is_sorted"] else how["shuffle"](found):
            yield {"p": context["p"], "at": at}

    return [
        stream(
            "rows",
            rows,
            schema=schema(p=INTEGER, at=INTEGER),
            replication_key="at",
            is_sorted=how["is_sorted"],
            state_partition_limit=how["limit"],
            state_partitioning_keys=how["keys"],
            STATE_MSG_FREQUENCY=how["every"],
            partitions=property(
                lambda _: [{"p": p, "group": p // 2} for p in range(len(source.rows))]
            ),
        )
    ]


def family(source: Source, how: dict) -> list[type]:
    """A child of an incremental parent, whose contexts come one by one."""

    def parents(one, context):
        ordered = sorted(enumerate(source.changed), key=lambda pair: pair[1])
        for number, changed in ordered:
            if changed >= since(one, context):
                yield {"p": number, "changed": changed}

    parent = stream(
        "parents",
        parents,
        schema=schema(p=INTEGER, changed=INTEGER),
        replication_key="changed",
        is_sorted=True,
        STATE_MSG_FREQUENCY=how["every"],
        get_child_context=lambda _, record, context: {
            "p": record["p"],
            "group": record["p"] // 2,
        },
    )
    (child,) = flat(source, how)
    child.parent_stream_type = parent
    return [parent, child]


def arrived_before(messages, states: int) -> tuple[set[tuple[int, int]], dict]:
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


def entries_of(state: dict) -> list[dict]:
    return state.get("bookmarks", {}).get("rows", {}).get("partitions", [])


HOW = st.fixed_dictionaries(
    {
        "is_sorted": st.booleans(),
        "every": st.integers(1, 4),
        "keys": st.sampled_from([None, None, ["group"]]),
    }
)
WAIT = st.sampled_from([0, 1, 50])
LIMITS = st.lists(st.integers(1, 6) | st.none(), min_size=5, max_size=5)


@pytest.mark.parametrize("kinds", [flat, family])
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), how=HOW, limits=LIMITS, partitions=st.integers(1, 6))
def test_no_record_is_lost_whichever_state_is_kept(kinds, data, how, limits, partitions) -> None:
    source, arrived, state = Source(partitions), set(), {}
    how["shuffle"] = lambda rows: data.draw(st.permutations(rows)) if len(rows) > 1 else rows
    for run, limit in enumerate(limits):
        for partition, wait in data.draw(st.lists(st.tuples(st.integers(0, partitions - 1), WAIT))):
            source.appears(partition, wait)
        before = entries_of(state)
        output = sync(*kinds(source, {**how, "limit": limit}), state=state)
        if limit is not None:
            bound = max(limit, len(before))
            assert all(len(entries_of(found)) <= bound for found in output.states)
        count = len(output.states)
        if run == len(limits) - 1:  # nothing is lost any more, the rows behind the last state too
            arrived |= arrived_before(output.messages, 0)[0]
        elif kept := data.draw(st.integers(0, count)):
            rows, state = arrived_before(output.messages, kept)
            arrived |= rows
    assert arrived == source.all


# One by one


def limited(rows: dict[str, list[int]], **members):
    def pull(one, context):
        return [{"p": context["p"], "at": at} for at in rows[context["p"]]]

    return stream(
        "rows",
        pull,
        **{
            "schema": schema(p={"type": "string"}, at=INTEGER),
            "replication_key": "at",
            "state_partition_limit": 2,
            "partitions": property(lambda _: [{"p": p} for p in rows]),
            **members,
        },
    )


def listed(**values: int | None) -> dict:
    """A state with an entry for each partition, as it is without a limit."""
    entries = [
        {"context": {"p": p}}
        | ({} if at is None else {"replication_key": "at", "replication_key_value": at})
        for p, at in values.items()
    ]
    return {"bookmarks": {"rows": {"partitions": entries}}}


def bookmark(output) -> dict:
    return output.states[-1]["bookmarks"]["rows"]


def collapsed(at: int) -> dict:
    return {"partition_limit_reached": True, "replication_key": "at", "replication_key_value": at}


def test_the_oldest_bookmark_stands_for_all(caplog) -> None:
    rows = {"a": [5, 9], "b": [3, 4], "c": [8], "d": [7]}
    assert bookmark(sync(limited(rows))) == collapsed(4)
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    (said,) = [sentence for sentence in warned if "state_partition_limit = 2" in sentence]
    assert "Stream 'rows' has more partitions (3 so far)" in said


def test_every_partition_starts_from_the_shared_bookmark() -> None:
    starts = {}

    def pull(one, context):
        starts[context["p"]] = one.get_starting_replication_key_value(context)
        return [{"p": context["p"], "at": 6}] if context["p"] != "c" else []

    kind = limited({"a": [], "b": [], "c": []}, get_records=pull)
    output = sync(kind, state={"bookmarks": {"rows": collapsed(4)}})
    assert starts == {"a": 4, "b": 4, "c": 4}
    assert bookmark(output) == collapsed(4)  # c brought nothing: it holds the others back


def test_up_to_the_limit_nothing_changes() -> None:
    assert bookmark(sync(limited({"a": [1], "b": [2]}))) == listed(a=1, b=2)["bookmarks"]["rows"]


def test_a_list_that_is_longer_than_the_limit_collapses_to_its_minimum() -> None:
    starts = {}

    def pull(one, context):
        starts[context["p"]] = one.get_starting_replication_key_value(context)
        return [{"p": context["p"], "at": 9}]

    kind = limited({"a": [], "c": [], "new": []}, get_records=pull)
    output = sync(kind, state=listed(a=5, b=3, c=6))
    assert starts == {"a": 5, "c": 6, "new": None}  # each from its own, the new one from the start
    assert bookmark(output) == collapsed(3)  # b was not read, and may come back


@pytest.mark.parametrize("silent", ["a", "d"])
def test_a_partition_without_a_value_keeps_the_others_from_being_skipped(silent) -> None:
    rows = {p: [] if p == silent else [7] for p in "abcd"}
    found = bookmark(sync(limited(rows)))
    assert found.pop("partition_limit_reached")
    assert list(found) == ["partitions"]
    assert [entry["context"]["p"] for entry in found["partitions"]] == ["a", "b"]


def test_without_the_limit_every_partition_gets_its_bookmark_back() -> None:
    rows = {"a": [5, 9], "b": [4], "c": []}
    kind = limited(rows, state_partition_limit=None)
    output = sync(kind, state={"bookmarks": {"rows": collapsed(4)}})
    assert bookmark(output) == listed(a=9, b=4, c=4)["bookmarks"]["rows"]


def test_a_run_that_reads_no_partition_keeps_the_shared_bookmark() -> None:
    kind = limited({}, state_partition_limit=None, get_records=lambda *_: [])
    assert bookmark(sync(kind, state={"bookmarks": {"rows": collapsed(4)}})) == collapsed(4)


def test_the_shared_bookmark_of_another_key_is_no_bookmark() -> None:
    old = {**collapsed(4), "replication_key": "id"}
    found = bookmark(
        sync(limited({"a": [5], "b": [], "c": [7]}), state={"bookmarks": {"rows": old}})
    )
    assert "replication_key_value" not in found
    assert len(found["partitions"]) == 2


def test_a_full_table_keeps_no_more_entries_than_the_limit() -> None:
    kind = limited({p: [1] for p in "abcd"}, replication_key=None)
    assert bookmark(sync(kind)) == {
        "partition_limit_reached": True,
        "partitions": [{"context": {"p": "a"}}, {"context": {"p": "b"}}],
    }


def test_where_the_state_says_the_partitions_all_of_them_stay() -> None:
    kind = stream(
        "rows",
        lambda _, context: [{"p": context["p"], "at": 9}],
        schema=schema(p={"type": "string"}, at=INTEGER),
        replication_key="at",
        state_partition_limit=1,
    )
    found = bookmark(sync(kind, state=listed(a=1, b=2)))
    assert found == listed(a=9, b=9)["bookmarks"]["rows"]


def test_partitions_that_share_bookmarks_are_counted_by_them() -> None:
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
    assert bookmark(sync(kind)) == collapsed(7)


def test_a_look_at_a_partition_beyond_the_limit_adds_no_entry() -> None:
    seen = []

    def pull(one, context):
        state = one.get_context_state(context)
        yield {"p": context["p"], "at": 3}
        seen.append(state["progress_markers"]["replication_key_value"])
        assert one.get_context_state(context) is state

    kind = limited({"a": [], "b": [], "c": []}, get_records=pull, STATE_MSG_FREQUENCY=1)
    output = sync(kind)
    assert seen == [3, 3, 3]
    assert max(len(entries_of(state)) for state in output.states) == 2


def test_a_partition_that_was_only_looked_at_holds_the_others_back() -> None:
    """It may not have been read: nothing is known of it, as when a child was aborted."""

    def pull(one, context):
        if context["p"] == "c":
            one.get_context_state({"p": "elsewhere"})
        return [{"p": context["p"], "at": 3}]

    found = bookmark(sync(limited({"a": [], "b": [], "c": []}, get_records=pull)))
    assert "replication_key_value" not in found
    assert len(found["partitions"]) == 2


def children(state: dict, **members) -> dict:
    """Sync a child, of which each context has a row at 9, and return its bookmark."""
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


def test_children_that_share_bookmarks_are_final_when_all_parents_are() -> None:
    assert children({}, state_partitioning_keys=["group"]) == collapsed(9)


def test_a_parent_that_goes_on_from_a_bookmark_moves_no_shared_one() -> None:
    of_parent = {"replication_key": "at", "replication_key_value": 4}
    assert children({"rows": collapsed(3)}) == collapsed(9)
    assert children({"rows": collapsed(3), "parents": of_parent}) == collapsed(3)


def test_a_child_of_two_parents_ends_with_the_second() -> None:
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

    def pull(one, context):
        starts.append(one.get_starting_replication_key_value(context))
        return [{"p": context["p"], "at": 10 - len(starts)}]

    child = limited({}, get_records=pull, parent_stream_type=first, state_partition_limit=1)
    tap = make(first, second, child)
    tap.streams["second"].child_streams.append(tap.streams["rows"])
    tap.sync_all()
    assert starts == [None] * 4
    assert tap.document.tap_state["bookmarks"]["rows"] == collapsed(6)


# Settings


@pytest.mark.parametrize(("own", "asked", "limit"), [(3, 1, 1), (1, 3, 1), (None, 1, 1)])
def test_the_smaller_of_two_limits_counts(own, asked, limit) -> None:
    kind = limited({"a": [1], "b": [2]}, state_partition_limit=own)
    states = sync(kind, config={"state_partition_limit": asked}).states
    assert max(len(entries_of(state)) for state in states) == limit


@pytest.mark.parametrize("wrong", [0, -1, "many", 1.5])
def test_a_limit_that_is_no_count_is_refused(wrong) -> None:
    with pytest.raises(ConfigurationError, match="state_partition_limit"):
        sync(limited({"a": [1]}), config={"state_partition_limit": wrong})
    with pytest.raises(ConfigurationError, match="state_partition_limit"):
        sync(limited({"a": [1]}, state_partition_limit=wrong))


# Partitions that are gone


def pruning(gone: str, asked: list, **members):
    def retain_partition(one, context):
        asked.append(context["p"])
        return context["p"] not in gone

    return limited(
        {"a": [9], "b": [8]},
        retain_partition=retain_partition,
        **{"state_partition_limit": None, **members},
    )


def test_a_partition_that_is_gone_leaves_the_state() -> None:
    asked: list[str] = []
    output = sync(pruning("c", asked), state=listed(a=1, b=1, c=1, d=1))
    assert asked == ["c", "d"]
    assert bookmark(output) == listed(a=9, b=8, d=1)["bookmarks"]["rows"]


def test_nothing_is_asked_where_the_stream_did_not_end() -> None:
    asked: list[str] = []

    def pull(one, context):
        raise RuntimeError

    tap = make(pruning("c", asked, get_records=pull), state=listed(c=1))
    with pytest.raises(RuntimeError):
        tap.sync_all()
    assert not asked


def test_without_an_answer_of_its_own_every_partition_stays() -> None:
    kind = limited({"a": [9]}, state_partition_limit=None)
    assert bookmark(sync(kind, state=listed(a=1, z=1))) == listed(a=9, z=1)["bookmarks"]["rows"]


def test_what_is_gone_does_not_hold_the_shared_bookmark_back() -> None:
    output = sync(pruning("c", [], state_partition_limit=1), state=listed(a=1, b=1, c=1))
    assert bookmark(output) == collapsed(8)


def test_a_state_that_only_had_gone_partitions_has_none() -> None:
    kind = pruning("c", [], partitions=property(lambda _: []), get_records=lambda *_: [])
    assert "partitions" not in bookmark(sync(kind, state=listed(c=1)))


@pytest.mark.parametrize(("bookmark_of_parent", "asked"), [({}, ["z"]), ({"at": 1}, [])])
def test_children_are_asked_for_when_the_parent_named_them_all(bookmark_of_parent, asked) -> None:
    parent = stream(
        "parents",
        [{"p": "a", "at": 2}],
        schema=schema(p={"type": "string"}, at=INTEGER),
        replication_key="at",
        get_child_context=lambda _, record, context: {"p": record["p"]},
    )
    found: list[str] = []
    child = pruning("z", found, parent_stream_type=parent, partitions=Stream.partitions)
    state = listed(a=1, z=1)
    for value in bookmark_of_parent.values():
        state["bookmarks"]["parents"] = {"replication_key": "at", "replication_key_value": value}
    sync(parent, child, state=state)
    assert found == asked


def test_a_deselected_stream_keeps_its_state() -> None:
    output_before = listed(a=1, b=1, c=1)
    kind = limited({"a": [9]}, state_partition_limit=1, selected_by_default=False)
    output = sync(kind, state=output_before)
    assert parsed(output.text)[-1]["value"]["bookmarks"] == output_before["bookmarks"]


# Partitions side by side


def test_partitions_that_are_read_at_once_share_the_oldest_bookmark() -> None:
    rows = {f"p{n}": [100 + n, 50 + n] for n in range(40)}
    kind = limited(rows, state_partition_limit=5, max_parallel_partitions=4)
    for _ in range(3):
        output = sync(kind)
        assert bookmark(output) == collapsed(100)
        assert len(output.records("rows")) == 80
        assert max(len(entries_of(state)) for state in output.states) <= 5
