"""PartitionIndex: finds the entry of a context in a list that others may change."""

from __future__ import annotations

import copy
import datetime as dt
import json
import types
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.state.encoder import encode_value
from tap_core.state.partition_index import PartitionIndex, freeze_context
from tap_core.state.reader import read_state

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.5, 1.0, -0.0, 0.1]),
    st.sampled_from(["", "1", "a", "true"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=4,
)
CONTEXTS = st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1, max_size=2)


@given(CONTEXTS, CONTEXTS)
def test_contexts_are_equal_if_python_compares_them_equal(first, other) -> None:
    assert (freeze_context(first) == freeze_context(other)) == (first == other)
    assert freeze_context(types.MappingProxyType(first)) == freeze_context(
        dict(reversed(first.items()))
    )


RARE = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.datetimes(timezones=st.just(dt.timezone.utc)),
    st.datetimes(),
    st.dates(),
    st.uuids(),
    st.lists(st.decimals(allow_nan=False, allow_infinity=False), max_size=2).map(tuple),
)


@given(st.dictionaries(st.sampled_from("ab"), RARE, min_size=1))
def test_context_is_equal_after_a_round_trip_through_a_state_file(context) -> None:
    back = read_state(encode_value({"context": context}), "state.json")["context"]
    assert freeze_context(back) == freeze_context(context)


def test_equal_numbers_are_one_partition_and_text_is_another() -> None:
    index = PartitionIndex([])
    entry = index.find_or_add({"id": 1})
    assert index.find_or_add({"id": 1.0}) is entry
    assert index.find_or_add({"id": Decimal(1)}) is entry
    assert index.find_or_add({"id": "1"}) is not entry
    assert len(index.entries) == 2


def test_entry_has_a_copy_of_the_context() -> None:
    context = {"id": 1}
    entry = PartitionIndex([]).find_or_add(context)
    context["id"] = 2
    assert entry == {"context": {"id": 1}}


def test_duplicate_context_is_named_in_the_error() -> None:
    index = PartitionIndex([{"context": {"id": 1}}, {"context": {"id": 2}}, {"context": {"id": 1}}])
    assert index.find({"id": 2}) == {"context": {"id": 2}}
    with pytest.raises(ValueError, match=r"more than one entry for the partition \{'id': 1\}"):
        index.find({"id": 1})


def test_entries_without_a_context_are_ignored() -> None:
    entries = [{"note": 1}, {"context": None}, "text", {"context": {"id": 1}}]
    index = PartitionIndex(entries)
    assert index.position({"id": 1}) == 3
    assert index.position({"id": 2}) is None


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["find", "add", "append", "pop", "clear", "reverse", "replace"]),
        st.integers(0, 4),
    ),
    max_size=25,
)


@given(ACTIONS)
def test_index_follows_changes_of_the_list(actions) -> None:
    """The index always finds the entry that a linear search of the list finds."""
    entries: list[dict] = []
    index = PartitionIndex(entries)
    for action, number in actions:
        context = {"id": number}
        matching = [e for e in entries if e["context"] == context]
        if action in {"find", "add"}:
            result = index.find(context) if action == "find" else index.find_or_add(context)
            assert result is (matching[0] if matching else entries[-1] if action == "add" else None)
        elif action == "append" and not matching:
            entries.append({"context": context})
        elif action in {"pop", "clear", "reverse"}:
            if entries or action != "pop":
                getattr(entries, action)()
        elif action == "replace" and entries:
            entries[-1] = {"context": entries[-1]["context"]}


def test_context_that_was_changed_in_place_is_found() -> None:
    entries = [{"context": {"id": 1}}, {"context": {"id": 2}}]
    index = PartitionIndex(entries)
    assert index.find({"id": 1}) is entries[0]
    assert index.find({"id": 2}) is entries[1]
    entries[0]["context"]["id"] = 3
    assert index.find({"id": 1}) is None
    assert index.find({"id": 3}) is entries[0]


def test_lookup_time_does_not_depend_on_the_number_of_partitions() -> None:
    """Context values count their comparisons: the index finds them by their hash."""

    class Counted(str):
        __slots__ = ()
        compared = 0

        def __eq__(self, other: object) -> bool:
            type(self).compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    def comparisons(n: int) -> int:
        index = PartitionIndex([])
        contexts = [{"id": Counted(i)} for i in range(n)]
        Counted.compared = 0
        for context in [*contexts, *copy.deepcopy(contexts)]:
            index.find_or_add(context)
        assert len(index.entries) == n
        return Counted.compared

    assert comparisons(2_000) <= 11 * comparisons(200)


def test_context_values_of_any_type_are_found_by_their_text() -> None:
    index = PartitionIndex([])
    mark = uuid.uuid4()
    entry = index.find_or_add({"id": mark, "day": dt.date(2024, 1, 1), "set": frozenset({1})})
    assert index.find({"id": str(mark), "day": "2024-01-01", "set": "frozenset({1})"}) is entry
    assert json.loads(encode_value(entry))["context"]["id"] == str(mark)
