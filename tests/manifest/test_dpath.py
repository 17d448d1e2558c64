"""Paths into documents: steps, wildcards, setting and removing values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core.manifest.dpath import MISSING, find_all, make_getter, make_remover, set_at, split_path
from tap_core.manifest.errors import ManifestError

_VALUES = st.recursive(
    st.none() | st.integers() | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=1), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "path, value",
    [
        (["a", "b"], 1),
        (["a", "l", "1"], 20),
        (["a", "l", "-1"], 20),
        (["a", "x"], MISSING),
        (["a", "b", "c"], MISSING),
        (["a", "l", "2"], MISSING),
        (["a", "n"], None),
    ],
)
def test_path_finds_one_value(path, value):
    document = {"a": {"b": 1, "l": [10, 20], "n": None}}
    assert make_getter(path)(document) is value or make_getter(path)(document) == value


@pytest.mark.parametrize(
    "path, values",
    [
        (["*", "id"], [1, 2]),
        (["p", "l", "*", "v"], [7, 8]),
        (["**", "v"], [7, 8]),
        (["p", "**"], [{"id": 1, "l": [{"v": 7}, {"v": 8}], "r": {"id": 3}}]),
        (["**", "id"], [1, 3, 2]),
        (["[pq]", "id"], [1, 2]),
        (["?", "i*"], [1, 2]),
    ],
)
def test_wildcards_find_all_values_in_document_order(path, values):
    document = {"p": {"id": 1, "l": [{"v": 7}, {"v": 8}], "r": {"id": 3}}, "q": {"id": 2}}
    assert find_all(path)(document)[: len(values)] == values


def test_path_with_several_matches_is_an_error_for_one_value():
    assert make_getter(["**", "x"])({"a": {"x": [1, 2]}}) == [1, 2]
    with pytest.raises(ManifestError, match=r"\*\*/x matches several"):
        make_getter(["**", "x"])({"a": {"x": [1]}, "b": {"x": [2]}})


def test_path_with_several_deep_wildcards_is_refused():
    """SEC13: each of them multiplies the time by the depth of the document."""
    with pytest.raises(ManifestError, match=r"\*\*/a/\*\*/id has several steps"):
        find_all(["**", "a", "**", "id"])


def test_path_string_is_split_at_slashes():
    assert split_path("owner/login") == ("owner", "login")
    assert split_path("/id") == ("id",)
    assert split_path("/") == ()


def test_setting_a_value_creates_missing_objects_and_lists():
    document: dict[str, Any] = {}
    set_at(document, ["a", "b", "1"], "x")
    assert document == {"a": {"b": [None, "x"]}}


@pytest.mark.parametrize("index", ["-2", "name", "1000000000"])
def test_value_cannot_be_set_where_a_list_has_no_place(index: str):
    """The error is one that ``AddFields`` reports with the path of its field."""
    with pytest.raises(ValueError, match=index):
        set_at({"l": [1]}, ["l", index], "x")


def test_removed_list_element_becomes_null_unless_it_is_the_last():
    document = {"l": [1, 2, 3]}
    make_remover(["l", "0"])(document)
    make_remover(["l", "2"])(document)
    assert document == {"l": [None, 2]}


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=1), _VALUES),
    st.lists(st.text("abc", min_size=1, max_size=1), min_size=1, max_size=3),
)
def test_removed_value_is_not_found(document, path):
    make_remover(path)(document)
    assert make_getter(path)(document) is MISSING


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=1), st.none()),
    st.lists(st.text("abc", min_size=1, max_size=1), min_size=1, max_size=3),
)
def test_set_value_is_found(document, path):
    set_at(document, path, "put")
    assert make_getter(path)(document) == "put"
