"""State files: the accepted formats, and the errors of invalid files."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.exceptions import StateFileError
from tap_core.state.document import StateDocument
from tap_core.state.reader import check_bookmarks, read_state

A = {"bookmarks": {"s": {"replication_key_value": 1}}}
B = {"bookmarks": {"s": {"replication_key_value": 2}}}
LINES = json.dumps(A) + "\n" + json.dumps(B) + "\n"


@pytest.mark.parametrize("text", ["", " \n\n", b"\xef\xbb\xbf", "null", b"\0\0", "{}"])
def test_empty_state_file_is_an_empty_state(text) -> None:
    assert read_state(text, "s.json") == {}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(B),
        json.dumps(B, indent=2),
        "\n\n" + json.dumps(B, indent=2) + "\n\n",
        "\ufeff" + json.dumps(B),
        LINES,
        LINES.replace("\n", "\r\n"),
        LINES + "\n \n",
        LINES + "\0\0\0",
        json.dumps({"type": "STATE", "value": A})
        + "\n"
        + json.dumps({"type": "STATE", "value": B}),
        json.dumps({"singer_state": B}),
        json.dumps({"singer_state": {"type": "STATE", "value": B}}),
        json.dumps(A) + "\n" + json.dumps({"singer_state": B}),
    ],
)
def test_last_state_of_each_file_format_is_read(text) -> None:
    assert read_state(text, "s.json") == B
    assert read_state(text.encode(), "s.json") == B


@pytest.mark.parametrize("cut", [1, 10, -1])
def test_truncated_last_line_is_ignored_with_a_warning(cut, caplog) -> None:
    assert read_state(LINES + json.dumps(A)[:cut], "s.json") == B
    assert caplog.messages == ["s.json: line 3 is cut off; the line before it is used."]


def test_last_line_truncated_within_a_character_is_ignored(caplog) -> None:
    assert read_state(LINES.encode() + '{"a":"é'.encode()[:-1], "s.json") == B
    assert "line 3 is cut off" in caplog.text


@pytest.mark.parametrize(
    "text, message",
    [
        ("hello", r"s\.json, line 1, column 1: this is not JSON"),
        (json.dumps(A)[:-1], r"s\.json, line 1, column 50: this is not JSON"),
        # A document on several lines that is cut off: its last line alone would be `{}`.
        ('{\n  "bookmarks":\n  {}\n', r"s\.json, line 3, column 5: this is not JSON"),
        (LINES + '{"a"\n{"b"', r"s\.json, line 3, column 5: this is not JSON"),
        ("log line\n" + LINES, r"s\.json, line 1, column 1: this is not JSON"),
        ("[1, 2]", r"s\.json, line 1: a state must be a JSON object, not list"),
        ("5", "not int"),
        (LINES + '"text"', r"s\.json, line 3: a state must be a JSON object, not str"),
        ('{"type": "STATE", "value": 5}', "not int"),
        (b'{"a": "\xff"}', r"s\.json, line 1: this is not UTF-8 text"),
        (b"\xf0\xfe\x00\x01binary", r"s\.json, line 1: this is not UTF-8 text\."),
        (gzip.compress(b"{}"), "line 1: this is not UTF-8 text, but compressed with gzip"),
        ("{}".encode("utf-16"), "line 1: this is not UTF-8 text, but UTF-16: convert it"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": "\udcff', "this is not JSON"),
    ],
)
def test_invalid_state_names_file_and_line(text, message) -> None:
    with pytest.raises(StateFileError, match=message):
        read_state(text, "s.json")


def test_numbers_are_kept_exactly() -> None:
    text = '{"a":1.5,"b":1.50,"c":0.1,"d":12345678901234567890.5,"e":1e400,"f":7,"g":-0.0}'
    state = read_state(text, "s.json")
    assert state["a"] == 1.5
    assert isinstance(state["c"], float)
    assert state["b"] == Decimal("1.50")
    assert state["d"] == Decimal("12345678901234567890.5")
    assert StateDocument(state).encode() == text.replace("1e400", "1E+400").encode()
    assert read_state('{"a":NaN,"b":-Infinity}', "s.json") == {"a": None, "b": None}


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.decimals(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8")),
    ),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(max_size=3), inner)),
    max_leaves=10,
)
WRAPPINGS = {"type", "singer_state"}


@given(
    st.dictionaries(st.text().filter(lambda key: key not in WRAPPINGS), JSON),
    st.lists(st.just(A), max_size=2),
    st.sampled_from([b" ", b"\r\n", b"\0", b"{", b'{"a', b'{"a":"\xc3', b'{"a":{}']),
)
def test_encoded_state_is_read_back_unchanged(state, before, truncated) -> None:
    line = StateDocument(state).encode()
    lines = [StateDocument(earlier).encode() for earlier in before]
    for last in (b"", truncated):
        result = read_state(b"\n".join([*lines, line, last]), "s.json")
        assert StateDocument(result).encode() == line


@pytest.mark.parametrize(
    ("state", "container"),
    [
        ({"bookmarks": [1]}, "bookmarks: expected an object, found list"),
        ({"bookmarks": {"a": "x"}}, "bookmarks.a: expected an object, found str"),
        ({"bookmarks": {"a": {"partitions": {}}}}, "bookmarks.a.partitions: expected a list"),
    ],
)
def test_bookmarks_of_invalid_structure_are_named_by_their_path(state, container) -> None:
    """SEC15: a manipulated state ends in a one-line error message, not in a Python exception."""
    with pytest.raises(StateFileError, match=container):
        check_bookmarks(state)


def test_state_of_valid_structure_is_accepted() -> None:
    check_bookmarks({})
    check_bookmarks({"bookmarks": None})
    check_bookmarks({"bookmarks": {"a": None, "b": {"partitions": [1, {"context": {}}]}}})
