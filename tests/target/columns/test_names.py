"""Column and table names: unique, independent of order, and safe to quote."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tap_core.events import StreamId
from target_spark.tables.identifiers import (
    fold_case,
    is_internal,
    quote,
    sanitize_names,
    table_name,
)

NAMES = st.one_of(
    st.text(max_size=12),
    st.text(alphabet="aAbB_ .2", max_size=5),
    st.sampled_from(["select", "order", "a.b", "a`b", "😀", "_corrupt", "n", "r", "", "é", "É"]),
    st.sampled_from(["__target_spark_", "__TARGET_spark_x", "___target_spark_", "__fivetran_op"]),
)


@given(st.lists(NAMES, max_size=12))
@example(["a", "A", "a_2", "A_2"])
@example(["a b", "a_b", "a,b"])
def test_sanitized_names_are_unique_ignoring_case(names: list[str]):
    cleaned = sanitize_names(names)
    assert list(cleaned) == list(dict.fromkeys(names))
    assert len({fold_case(name) for name in cleaned.values()}) == len(cleaned)
    assert not any(re.search(r"[\s,;{}()=`]", name) or not name for name in cleaned.values())
    assert not any(map(is_internal, cleaned.values()))


@pytest.mark.parametrize("names", ["iIıİ", "σΣς", "sSſ", "\u00b5\u03bc\u039c", "ßẞ", "θϑϴ"])
def test_names_that_are_equal_for_spark_get_different_columns(names: str):
    """Java's ``equalsIgnoreCase`` compares the lower case of the upper case of each character."""
    assert len({fold_case(name) for name in names}) == 1
    assert len({fold_case(name) for name in sanitize_names([*names]).values()}) == len(names)
    assert fold_case("İ") == fold_case("İ".lower())


@given(st.lists(NAMES, max_size=12), st.randoms(use_true_random=False))
def test_sanitized_names_do_not_depend_on_order(names: list[str], random):
    shuffled = names.copy()
    random.shuffle(shuffled)
    assert sanitize_names(shuffled) == sanitize_names(names)


@given(st.lists(NAMES, max_size=12))
def test_sanitizing_twice_changes_nothing(names: list[str]):
    cleaned = list(sanitize_names(names).values())
    assert sanitize_names(cleaned) == {name: name for name in cleaned}


@given(st.lists(NAMES, max_size=8), st.lists(NAMES, max_size=4))
def test_reserved_names_are_never_assigned(names: list[str], reserved: list[str]):
    folded = {fold_case(name) for name in reserved}
    assert not any(fold_case(name) in folded for name in sanitize_names(names, reserved).values())


@pytest.mark.parametrize("name", ["a.b", "😀", "select", "Größe", "n", "r", "_corrupt", "x-1", "'"])
def test_valid_names_are_unchanged(name: str):
    assert sanitize_names([name]) == {name: name}


def test_valid_name_takes_precedence_over_a_sanitized_one():
    assert sanitize_names(["a b", "a_b"]) == {"a b": "a_b_2", "a_b": "a_b"}
    assert sanitize_names(["a", "A"]) == {"A": "A", "a": "a_2"}


def test_numbering_colliding_names_takes_linear_time():
    """SEC13: names that differ in case alone cost no more than others."""

    def cost(count: int) -> float:
        letters = "abcdefghijklmn"
        names = [
            "".join(
                letter.upper() if n >> index & 1 else letter for index, letter in enumerate(letters)
            )
            for n in range(count)
        ]
        started = time.process_time()
        column_names = sanitize_names(names)
        seconds = time.process_time() - started
        assert f"_{count}" in {name[len(letters) :] for name in column_names.values()}
        return seconds

    cost_of_many = min(cost(16_000) for _ in range(3))
    assert cost_of_many < 30 * max(0.001, *(cost(2_000) for _ in range(3)))


def test_quote_escapes_backticks():
    """SEC22: no name can end its quotation in SQL."""
    assert quote("a.b", "c`d", "select") == "`a.b`.`c``d`.`select`"


IDS = st.builds(
    StreamId,
    st.text(alphabet="ab_/. é😀A", min_size=1, max_size=8),
    st.none() | st.text(alphabet="ab_/.", min_size=1, max_size=5),
)


@given(IDS, IDS)
@example(StreamId("b", "a_"), StreamId("_b", "a"))
@example(StreamId("c", "a__b"), StreamId("b__c", "a"))
@example(StreamId("a/b"), StreamId("a_b"))
def test_two_streams_never_have_the_same_table_name(first: StreamId, other: StreamId):
    if (first.namespace is None) == (other.namespace is None) and first != other:
        assert table_name(first) != table_name(other)


@given(st.builds(StreamId, st.text(max_size=200), st.none() | st.text(max_size=100)))
def test_table_name_is_a_safe_and_visible_folder_name(stream: StreamId):
    """SEC22: no stream's name puts its table outside of the path."""
    name = table_name(stream)
    assert not re.search(r"[\\/:\s`\x00]", name)
    assert name[:1] not in {"", ".", "_"}
    assert len(name.encode()) <= 140


def test_usual_stream_names_are_unchanged():
    assert table_name(StreamId("public-users")) == "public-users"
    assert table_name(StreamId("users", "public")) == "public__users"
    assert table_name(StreamId("public.users")) == "public.users"
    assert table_name(StreamId("orders__lines")) == "orders__lines"
