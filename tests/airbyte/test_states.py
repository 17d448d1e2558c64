"""State files of every known writer, and the state document that a tap gets."""

from __future__ import annotations

import json
from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tap_core.events import StreamId
from tap_core.exceptions import StateFileError
from tap_core.protocols.airbyte.catalog import apply_configured_catalog, parse_configured_catalog
from tap_core.protocols.airbyte.state import InputState, parse_states, to_state_document
from tests.airbyte.configurable_taps import TapShapes

PEOPLE, SHOPS = StreamId("people"), StreamId("shops")
BOOKMARK = {"replication_key": "at", "replication_key_value": "2024-01-02T00:00:00Z"}
OLDER = {"replication_key": "at", "replication_key_value": "2023-01-01T00:00:00Z"}
SINGER_STATE = {"bookmarks": {"people": BOOKMARK}}


def stream_state(state: Any, name: Any = "people", **descriptor: Any) -> dict[str, Any]:
    body = {"stream_descriptor": {"name": name, **descriptor}, "stream_state": state}
    return {"type": "STREAM", "stream": body}


def global_state(*states: Any, shared: Any = None) -> dict[str, Any]:
    entries = [state["stream"] for state in states]
    return {"type": "GLOBAL", "global": {"shared_state": shared, "stream_states": entries}}


def state_message(state: Any) -> dict[str, Any]:
    return {"type": "STATE", "state": {**state, "destinationStats": {"recordCount": 1.0}}}


def parse(document: Any) -> InputState:
    return parse_states(json.dumps(document), "s.json")


def to_lines(*documents: Any) -> str:
    return "".join(json.dumps(message) + "\n" for message in documents)


def select_streams(*names: str) -> dict[str, Any]:
    """Return the streams of a tap of which these are selected, each in its own mode."""
    tap = TapShapes()
    entries = [{"stream": {"name": name}, "sync_mode": "incremental"} for name in names]
    configured = parse_configured_catalog(json.dumps({"streams": entries}), "c")
    tap.use_catalog(apply_configured_catalog(configured, tap.streams)[0])
    return tap.streams


# Reading


@pytest.mark.parametrize(
    "text", ["", " \n", "null", "[]", "{}", "[{}]", "[null]", "\ufeff", b"\0\0", "null\n[]\n"]
)
def test_empty_state_files_are_no_state(text) -> None:
    """RD8."""
    assert parse_states(text, "s") == InputState()


PYAIRBYTE = (
    '[{"type":"STREAM","stream":{"stream_descriptor":{"name":"people","namespace":null},'
    '"stream_state":' + json.dumps(BOOKMARK) + '},"global_":null,"data":null,"sourceStats":'
    '{"recordCount":5.0,"rejectedRecordCount":null},"destinationStats":null,"global_":null}]'
)
DUMPED_STATE = {
    **dict.fromkeys(("type", "stream", "global_", "data", "sourceStats", "id")),
    "type": "GLOBAL",
    "global_": global_state(stream_state(BOOKMARK))["global"],
}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(stream_state(BOOKMARK)),
        json.dumps([stream_state(BOOKMARK)], indent=2),
        json.dumps([{**stream_state(BOOKMARK), "newer": 1}, None]),
        json.dumps({"state_type": "STREAM", **stream_state(BOOKMARK), "type": None}),
        json.dumps({"stream": stream_state(BOOKMARK)["stream"]}),
        json.dumps(state_message(stream_state(BOOKMARK))),
        json.dumps([state_message(stream_state(OLDER)), state_message(stream_state(BOOKMARK))]),
        to_lines(stream_state(OLDER), stream_state(BOOKMARK)),
        to_lines(
            state_message(stream_state(OLDER)),
            {"type": "LOG", "log": {}},
            state_message(stream_state(BOOKMARK)),
        ),
        to_lines(
            state_message(stream_state(OLDER)),
            {"type": "RECORD", "record": {}},
            [stream_state(BOOKMARK)],
        ),
        to_lines(stream_state(OLDER), global_state(stream_state(BOOKMARK))).replace(
            "\n", "\r\n \n"
        ),
        to_lines(
            {"type": "LEGACY", "data": {"bookmarks": {"x": {}}}},
            global_state(stream_state(BOOKMARK)),
        ),
        json.dumps(global_state(stream_state(OLDER), stream_state(BOOKMARK))),
        json.dumps({"global": global_state(stream_state(BOOKMARK))["global"]}),
        PYAIRBYTE,
        json.dumps([DUMPED_STATE]),
    ],
)
def test_state_files_of_every_known_writer_are_read(text) -> None:
    """ST1, ST2, ST4, ST10, ST12: the last state of each stream is used."""
    expected = InputState(streams={PEOPLE: BOOKMARK})
    assert parse_states(text, "s") == expected
    assert parse_states(text.encode() + b"\r\n\0\0", "s") == expected


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(SINGER_STATE),
        json.dumps({"type": "LEGACY", "data": SINGER_STATE}),
        json.dumps([{"data": SINGER_STATE}]),
        json.dumps([{**dict.fromkeys(("type", "stream", "global")), "data": SINGER_STATE}]),
        json.dumps(state_message({"type": "LEGACY", "data": SINGER_STATE})),
        json.dumps({"type": "STATE", "value": SINGER_STATE}),
        json.dumps({"singer_state": SINGER_STATE}),
        json.dumps({"singer_state": {"type": "STATE", "value": SINGER_STATE}}),
        json.dumps([SINGER_STATE]),
        to_lines({"bookmarks": {"people": OLDER}}, SINGER_STATE),
        to_lines(stream_state(OLDER, "gone"), global_state(stream_state(OLDER)), SINGER_STATE),
    ],
)
def test_singer_state_is_a_legacy_state(text) -> None:
    """ST1, ST5: bare, as `data`, or without a type; it replaces all earlier states."""
    assert parse_states(text, "s") == InputState(legacy=SINGER_STATE)


@pytest.mark.parametrize("data", [{"type": "LEGACY", "data": None}, {"data": None}, {}])
def test_null_legacy_state_resets_all_streams(data) -> None:
    """ST5."""
    assert (
        parse(
            [stream_state(BOOKMARK), global_state(stream_state(BOOKMARK), shared={"lsn": 1}), data]
        )
        == InputState()
    )


def test_stream_state_takes_precedence_over_the_legacy_state() -> None:
    states = parse([{"data": SINGER_STATE}, stream_state(None)])
    assert states == InputState(streams={PEOPLE: None}, legacy=SINGER_STATE)


def test_global_state_has_the_shared_state() -> None:
    """ST4."""
    states = parse(
        [global_state(stream_state(BOOKMARK), shared={"lsn": 5}), stream_state(None, "shops")]
    )
    assert states == InputState(streams={PEOPLE: BOOKMARK, SHOPS: None}, shared={"lsn": 5})
    assert parse(global_state(shared={"lsn": 5})).shared == {"lsn": 5}
    assert parse({"type": "GLOBAL", "global": {"shared_state": {}}}) == InputState()


def test_namespaces_distinguish_streams() -> None:
    """ST2."""
    states = parse(
        [stream_state(BOOKMARK), stream_state(OLDER, namespace="n"), stream_state({}, namespace="")]
    )
    assert set(states.streams) == {PEOPLE, StreamId("people", "n"), StreamId("people", "")}


def test_numbers_are_read_exactly() -> None:
    """ST9."""
    text = '{"type":"STREAM","stream":{"stream_descriptor":{"name":"s"},"stream_state":{"a":%s}}}'
    values = ("1.10", "12345678901234567890123", "0.1", "1e400")
    states = [parse_states(text % value, "s").streams[StreamId("s")] for value in values]
    assert [state["a"] for state in states if state] == [
        Decimal("1.10"),
        12345678901234567890123,
        0.1,
        Decimal("1E+400"),
    ]


@pytest.mark.parametrize("cut", [1, 30, -1])
def test_truncated_line_is_skipped(cut, caplog) -> None:
    """E6: the state used for its stream is older, so no record is lost."""
    cut_line = json.dumps(stream_state(OLDER))[:cut]
    assert parse_states(to_lines(stream_state(BOOKMARK)) + cut_line, "s.json") == InputState(
        streams={PEOPLE: BOOKMARK}
    )
    assert "State 's.json', line 2, is cut off" in caplog.messages[0]
    joined_lines = (
        to_lines(stream_state(BOOKMARK))
        + cut_line
        + to_lines(stream_state(OLDER), stream_state(BOOKMARK, "shops"))
    )
    assert parse_states(joined_lines, "s.json").streams == {PEOPLE: BOOKMARK, SHOPS: BOOKMARK}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nope", "this is not JSON"),
        ("{", "this is not JSON"),
        (b"\xff\xfe{", "this is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("junk\n" + to_lines(stream_state(BOOKMARK)), "this is not JSON"),
        ("5", "a number where an object is needed"),
        ('"x"', "a string where an object is needed"),
        ("[1]", "[0]: there is a number"),
        ('{"type": "STREAM"}', "stream.stream_descriptor.name: there is nothing"),
        ('{"type": "STREAM", "stream": {"stream_descriptor": "a"}}', "there is a string"),
        ('{"type": "STREAM", "stream": []}', "stream: there is a list"),
        (json.dumps(stream_state(BOOKMARK, None)), "stream_descriptor.name: there is nothing"),
        (json.dumps(stream_state([1])), "stream_state ('people'): there is a list"),
        ('{"type": "GLOBAL"}', "global: there is nothing where an object"),
        (json.dumps(global_state(shared=[1])), "global.shared_state: there is a list"),
        ('{"type": "LEGACY", "data": 5}', "data: there is a number"),
        ('{"type": "STATE"}', "state: there is nothing"),
        ('{"type": "STATE", "state": null}', "state: there is nothing"),
        ('{"type": "STATE", "state": 5}', "state: there is a number"),
        ('{"bookmarks": 5}', "bookmarks: there is a number where an object is needed"),
        ('{"singer_state": {"bookmarks": [1]}}', "singer_state.bookmarks: there is a list"),
        ('{"type": "NEWER"}', "'NEWER' is not a state type"),
        ('{"type": ["x"]}', "type: there is a list"),
        (
            to_lines(stream_state(BOOKMARK), {"type": "STREAM"}),
            "line 2.stream.stream_descriptor.name",
        ),
    ],
)
def test_invalid_state_is_refused(text, expected) -> None:
    """RD10: the error has the name of the file and the location in it."""
    with pytest.raises(StateFileError) as caught:
        parse_states(text, "s.json")
    assert str(caught.value).startswith("State 's.json': ")
    assert expected in str(caught.value)


FIELDS = (
    *("type", "state_type", "stream", "global", "global_", "data", "state", "value", "name"),
    *("stream_descriptor", "stream_state", "stream_states", "shared_state", "singer_state"),
    *("STREAM", "GLOBAL", "LEGACY", "STATE", "bookmarks", "namespace"),
)
DOCUMENTS = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.sampled_from(FIELDS)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
    ),
)


SELECTED = select_streams("people", "open", "hooked", "spoken")


@given(
    st.one_of(
        st.binary(),
        st.text(),
        DOCUMENTS.map(json.dumps),
        st.lists(DOCUMENTS, max_size=4).map(lambda documents: to_lines(*documents)),
    )
)
def test_any_text_raises_only_the_state_error(text) -> None:
    try:
        result = parse_states(text, "f")
    except StateFileError as error:
        message = str(error)
    else:
        message = "State 'f'"
        make_document(result, SELECTED)
    assert message.startswith("State 'f'")


# For a tap


def make_document(*args: Any) -> dict[str, Any]:
    return to_state_document(*args)[0]


def test_states_become_bookmarks_by_stream_name() -> None:
    """ST9, ST10, ST13: states of unknown streams are ignored."""
    input_state = parse(
        [
            stream_state(BOOKMARK),
            stream_state(OLDER, "gone"),
            stream_state(OLDER, namespace="elsewhere"),
        ]
    )
    assert make_document(input_state, select_streams("people")) == {
        "bookmarks": {"people": BOOKMARK}
    }


def test_null_state_resets_only_its_stream() -> None:
    """ST3, ST13: this holds for each kind of state."""
    document = {"bookmarks": {"people": BOOKMARK, "open": OLDER}}
    for states in (
        [stream_state(BOOKMARK), stream_state(OLDER, "open"), stream_state(None)],
        [global_state(stream_state(None), stream_state(OLDER, "open"))],
        [{"data": document}, stream_state(None)],
    ):
        result = make_document(parse(states), select_streams("people", "open"))
        assert result == {"bookmarks": {"open": OLDER}}
    nulls = {"bookmarks": {**document["bookmarks"], "people": None}}
    assert make_document(parse(nulls), select_streams("open")) == {"bookmarks": {"open": OLDER}}


def test_full_refresh_stream_gets_no_state() -> None:
    """RD6: by its configured mode, or by its replication method."""
    states = parse(
        [stream_state(BOOKMARK), stream_state({"x": 1}, "colours"), stream_state(OLDER, "open")]
    )
    document = make_document(states, select_streams("people", "colours", "open"), {"people"})
    assert document == {"bookmarks": {"open": OLDER}}


def test_shared_state_has_its_keys_next_to_the_bookmarks() -> None:
    """ST4, ST9."""
    input_state = parse(
        global_state(
            stream_state(BOOKMARK), shared={"lsn": 5, "bookmarks": 1, "currently_syncing": "x"}
        )
    )
    assert make_document(input_state, select_streams("people")) == {
        "bookmarks": {"people": BOOKMARK},
        "lsn": 5,
    }
    assert make_document(parse(global_state(shared={"lsn": 5})), {}) == {"lsn": 5}


def test_state_of_another_form_is_passed_to_the_tap() -> None:
    """ST5: a tap may migrate states of its earlier versions."""
    legacy_state = {"people": {"seen": 3}, "bookmarks": None, "currently_syncing": "people"}
    assert make_document(parse(legacy_state), select_streams("people")) == {"people": {"seen": 3}}


def test_changes_of_the_state_document_do_not_affect_the_input() -> None:
    input_state = parse(
        [{"data": SINGER_STATE}, global_state(stream_state(deepcopy(BOOKMARK)), shared={"l": [1]})]
    )
    before = deepcopy(input_state)
    document = make_document(input_state, select_streams("people"))
    document["bookmarks"]["people"]["replication_key_value"] = "x"
    document["l"].append(2)
    assert input_state == before


SHOP_BOOKMARK = {"replication_key": "id", "replication_key_value": 2}
VISIT_BOOKMARKS = {"partitions": [{"context": {"shop": 1}, "replication_key": "day"}]}


@pytest.mark.parametrize(
    ("selected", "states", "expected"),
    [
        (
            ["shops", "visits"],
            {"shops": SHOP_BOOKMARK, "visits": VISIT_BOOKMARKS},
            {"shops", "visits"},
        ),
        (["shops", "visits"], {"shops": SHOP_BOOKMARK, "visits": {}}, {"shops", "visits"}),
        (["shops", "visits"], {"shops": SHOP_BOOKMARK}, set()),
        (["shops", "visits"], {"shops": SHOP_BOOKMARK, "visits": None}, set()),
        (["shops"], {"shops": SHOP_BOOKMARK}, {"shops"}),
        (["visits"], {"shops": SHOP_BOOKMARK, "visits": VISIT_BOOKMARKS}, {"visits"}),
        (["visits"], {"shops": SHOP_BOOKMARK}, set()),
        (["shops", "shelves"], {"shops": SHOP_BOOKMARK, "shelves": {}}, set()),
        (["shops", "visits", "people"], {"shops": SHOP_BOOKMARK, "people": BOOKMARK}, {"people"}),
    ],
)
def test_child_without_a_state_resets_its_parent(selected, states, expected) -> None:
    """RD6, ST3, ST13: otherwise children of older parent records would be lost."""
    input_state = parse([stream_state(state, name) for name, state in states.items()])
    document = make_document(input_state, select_streams(*selected))
    assert set(document.get("bookmarks", {})) == expected


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.text(),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=6,
)
STATES = st.dictionaries(
    st.sampled_from(["people", "open", "hooked", "spoken"]),
    st.dictionaries(st.text(), VALUES, max_size=3),
)


@settings(max_examples=50)
@given(STATES, st.sampled_from(["STREAM", "GLOBAL", "LEGACY", "lines", "dumped"]))
def test_state_of_a_tap_round_trips(bookmarks, form) -> None:
    """ST8, ST9: in every form in which states are stored."""
    states = [stream_state(state, name) for name, state in bookmarks.items()]
    text = {
        "STREAM": json.dumps(states),
        "GLOBAL": json.dumps(global_state(*states)),
        "LEGACY": json.dumps({"bookmarks": bookmarks}),
        "lines": to_lines(*map(state_message, states)),
        "dumped": json.dumps([{**DUMPED_STATE, "global_": global_state(*states)["global"]}]),
    }[form]
    document = make_document(parse_states(text, "f"), SELECTED)
    assert document.get("bookmarks", {}) == bookmarks
