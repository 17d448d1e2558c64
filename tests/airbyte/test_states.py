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
AT = {"replication_key": "at", "replication_key_value": "2024-01-02T00:00:00Z"}
OTHER = {"replication_key": "at", "replication_key_value": "2023-01-01T00:00:00Z"}
SINGER = {"bookmarks": {"people": AT}}


def stream(state: Any, name: Any = "people", **descriptor: Any) -> dict[str, Any]:
    body = {"stream_descriptor": {"name": name, **descriptor}, "stream_state": state}
    return {"type": "STREAM", "stream": body}


def global_state(*states: Any, shared: Any = None) -> dict[str, Any]:
    entries = [state["stream"] for state in states]
    return {"type": "GLOBAL", "global": {"shared_state": shared, "stream_states": entries}}


def state_message(state: Any) -> dict[str, Any]:
    return {"type": "STATE", "state": {**state, "destinationStats": {"recordCount": 1.0}}}


def parse(document: Any) -> InputState:
    return parse_states(json.dumps(document), "s.json")


def lines(*documents: Any) -> str:
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
    '"stream_state":' + json.dumps(AT) + '},"global_":null,"data":null,"sourceStats":'
    '{"recordCount":5.0,"rejectedRecordCount":null},"destinationStats":null,"global_":null}]'
)
DUMPED = {
    **dict.fromkeys(("type", "stream", "global_", "data", "sourceStats", "id")),
    "type": "GLOBAL",
    "global_": global_state(stream(AT))["global"],
}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(stream(AT)),
        json.dumps([stream(AT)], indent=2),
        json.dumps([{**stream(AT), "newer": 1}, None]),
        json.dumps({"state_type": "STREAM", **stream(AT), "type": None}),
        json.dumps({"stream": stream(AT)["stream"]}),
        json.dumps(state_message(stream(AT))),
        json.dumps([state_message(stream(OTHER)), state_message(stream(AT))]),
        lines(stream(OTHER), stream(AT)),
        lines(state_message(stream(OTHER)), {"type": "LOG", "log": {}}, state_message(stream(AT))),
        lines(state_message(stream(OTHER)), {"type": "RECORD", "record": {}}, [stream(AT)]),
        lines(stream(OTHER), global_state(stream(AT))).replace("\n", "\r\n \n"),
        lines({"type": "LEGACY", "data": {"bookmarks": {"x": {}}}}, global_state(stream(AT))),
        json.dumps(global_state(stream(OTHER), stream(AT))),
        json.dumps({"global": global_state(stream(AT))["global"]}),
        PYAIRBYTE,
        json.dumps([DUMPED]),
    ],
)
def test_state_files_of_every_known_writer_are_read(text) -> None:
    """ST1, ST2, ST4, ST10, ST12: the last state of each stream is used."""
    expected = InputState(streams={PEOPLE: AT})
    assert parse_states(text, "s") == expected
    assert parse_states(text.encode() + b"\r\n\0\0", "s") == expected


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(SINGER),
        json.dumps({"type": "LEGACY", "data": SINGER}),
        json.dumps([{"data": SINGER}]),
        json.dumps([{**dict.fromkeys(("type", "stream", "global")), "data": SINGER}]),
        json.dumps(state_message({"type": "LEGACY", "data": SINGER})),
        json.dumps({"type": "STATE", "value": SINGER}),
        json.dumps({"singer_state": SINGER}),
        json.dumps({"singer_state": {"type": "STATE", "value": SINGER}}),
        json.dumps([SINGER]),
        lines({"bookmarks": {"people": OTHER}}, SINGER),
        lines(stream(OTHER, "gone"), global_state(stream(OTHER)), SINGER),
    ],
)
def test_singer_state_is_a_legacy_state(text) -> None:
    """ST1, ST5: bare, as `data`, or without a type; it replaces all earlier states."""
    assert parse_states(text, "s") == InputState(legacy=SINGER)


@pytest.mark.parametrize("data", [{"type": "LEGACY", "data": None}, {"data": None}, {}])
def test_null_legacy_state_resets_all_streams(data) -> None:
    """ST5."""
    assert parse([stream(AT), global_state(stream(AT), shared={"lsn": 1}), data]) == InputState()


def test_stream_state_takes_precedence_over_the_legacy_state() -> None:
    states = parse([{"data": SINGER}, stream(None)])
    assert states == InputState(streams={PEOPLE: None}, legacy=SINGER)


def test_global_state_has_the_shared_state() -> None:
    """ST4."""
    states = parse([global_state(stream(AT), shared={"lsn": 5}), stream(None, "shops")])
    assert states == InputState(streams={PEOPLE: AT, SHOPS: None}, shared={"lsn": 5})
    assert parse(global_state(shared={"lsn": 5})).shared == {"lsn": 5}
    assert parse({"type": "GLOBAL", "global": {"shared_state": {}}}) == InputState()


def test_namespaces_distinguish_streams() -> None:
    """ST2."""
    states = parse([stream(AT), stream(OTHER, namespace="n"), stream({}, namespace="")])
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
    torn = json.dumps(stream(OTHER))[:cut]
    assert parse_states(lines(stream(AT)) + torn, "s.json") == InputState(streams={PEOPLE: AT})
    assert "State 's.json', line 2, is cut off" in caplog.messages[0]
    glued = lines(stream(AT)) + torn + lines(stream(OTHER), stream(AT, "shops"))
    assert parse_states(glued, "s.json").streams == {PEOPLE: AT, SHOPS: AT}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nope", "this is not JSON"),
        ("{", "this is not JSON"),
        (b"\xff\xfe{", "this is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("junk\n" + lines(stream(AT)), "this is not JSON"),
        ("5", "a number where an object is needed"),
        ('"x"', "a string where an object is needed"),
        ("[1]", "[0]: there is a number"),
        ('{"type": "STREAM"}', "stream.stream_descriptor.name: there is nothing"),
        ('{"type": "STREAM", "stream": {"stream_descriptor": "a"}}', "there is a string"),
        ('{"type": "STREAM", "stream": []}', "stream: there is a list"),
        (json.dumps(stream(AT, None)), "stream_descriptor.name: there is nothing"),
        (json.dumps(stream([1])), "stream_state ('people'): there is a list"),
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
        (lines(stream(AT), {"type": "STREAM"}), "line 2.stream.stream_descriptor.name"),
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
        st.lists(DOCUMENTS, max_size=4).map(lambda all_: lines(*all_)),
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
    input_state = parse([stream(AT), stream(OTHER, "gone"), stream(OTHER, namespace="elsewhere")])
    assert make_document(input_state, select_streams("people")) == {"bookmarks": {"people": AT}}


def test_null_state_resets_only_its_stream() -> None:
    """ST3, ST13: this holds for each kind of state."""
    document = {"bookmarks": {"people": AT, "open": OTHER}}
    for states in (
        [stream(AT), stream(OTHER, "open"), stream(None)],
        [global_state(stream(None), stream(OTHER, "open"))],
        [{"data": document}, stream(None)],
    ):
        result = make_document(parse(states), select_streams("people", "open"))
        assert result == {"bookmarks": {"open": OTHER}}
    nulls = {"bookmarks": {**document["bookmarks"], "people": None}}
    assert make_document(parse(nulls), select_streams("open")) == {"bookmarks": {"open": OTHER}}


def test_full_refresh_stream_gets_no_state() -> None:
    """RD6: by its configured mode, or by its replication method."""
    states = parse([stream(AT), stream({"x": 1}, "colours"), stream(OTHER, "open")])
    document = make_document(states, select_streams("people", "colours", "open"), {"people"})
    assert document == {"bookmarks": {"open": OTHER}}


def test_shared_state_has_its_keys_next_to_the_bookmarks() -> None:
    """ST4, ST9."""
    input_state = parse(
        global_state(stream(AT), shared={"lsn": 5, "bookmarks": 1, "currently_syncing": "x"})
    )
    assert make_document(input_state, select_streams("people")) == {
        "bookmarks": {"people": AT},
        "lsn": 5,
    }
    assert make_document(parse(global_state(shared={"lsn": 5})), {}) == {"lsn": 5}


def test_state_of_another_form_is_passed_to_the_tap() -> None:
    """ST5: a tap may migrate states of its earlier versions."""
    old = {"people": {"seen": 3}, "bookmarks": None, "currently_syncing": "people"}
    assert make_document(parse(old), select_streams("people")) == {"people": {"seen": 3}}


def test_changes_of_the_state_document_do_not_affect_the_input() -> None:
    input_state = parse([{"data": SINGER}, global_state(stream(deepcopy(AT)), shared={"l": [1]})])
    before = deepcopy(input_state)
    document = make_document(input_state, select_streams("people"))
    document["bookmarks"]["people"]["replication_key_value"] = "x"
    document["l"].append(2)
    assert input_state == before


SHOP = {"replication_key": "id", "replication_key_value": 2}
DAYS = {"partitions": [{"context": {"shop": 1}, "replication_key": "day"}]}


@pytest.mark.parametrize(
    ("selected", "states", "expected"),
    [
        (["shops", "visits"], {"shops": SHOP, "visits": DAYS}, {"shops", "visits"}),
        (["shops", "visits"], {"shops": SHOP, "visits": {}}, {"shops", "visits"}),
        (["shops", "visits"], {"shops": SHOP}, set()),
        (["shops", "visits"], {"shops": SHOP, "visits": None}, set()),
        (["shops"], {"shops": SHOP}, {"shops"}),
        (["visits"], {"shops": SHOP, "visits": DAYS}, {"visits"}),
        (["visits"], {"shops": SHOP}, set()),
        (["shops", "shelves"], {"shops": SHOP, "shelves": {}}, set()),
        (["shops", "visits", "people"], {"shops": SHOP, "people": AT}, {"people"}),
    ],
)
def test_child_without_a_state_resets_its_parent(selected, states, expected) -> None:
    """RD6, ST3, ST13: otherwise children of older parent records would be lost."""
    input_state = parse([stream(state, name) for name, state in states.items()])
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
    states = [stream(state, name) for name, state in bookmarks.items()]
    text = {
        "STREAM": json.dumps(states),
        "GLOBAL": json.dumps(global_state(*states)),
        "LEGACY": json.dumps({"bookmarks": bookmarks}),
        "lines": lines(*map(state_message, states)),
        "dumped": json.dumps([{**DUMPED, "global_": global_state(*states)["global"]}]),
    }[form]
    document = make_document(parse_states(text, "f"), SELECTED)
    assert document.get("bookmarks", {}) == bookmarks
