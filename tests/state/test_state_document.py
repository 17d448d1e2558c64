"""StateDocument: its text always equals its dict, and encoding costs only what changed."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tap_core.state.document import StateDocument
from tap_core.state.reader import read_state
from tests.state.encoding_cost import count_encoded_bytes


def encode_plainly(state: dict) -> bytes:
    return json.dumps(state, separators=(",", ":")).encode()


def make_document(partitions: int, stream: str = "s") -> StateDocument:
    document = StateDocument({})
    for i in range(partitions):
        document.context_state(stream, {"id": i})["replication_key_value"] = i
    return document


def test_empty_documents_are_encoded() -> None:
    assert StateDocument({}).encode() == b"{}"
    assert StateDocument({"bookmarks": {}}).encode() == b'{"bookmarks":{}}'
    assert StateDocument({"bookmarks": {"s": {}}}).encode() == b'{"bookmarks":{"s":{}}}'


def test_states_are_created_in_the_dict_of_the_caller() -> None:
    state: dict = {}
    document = StateDocument(state)
    assert state == {}
    inner = document.context_state("s", {"id": 1})
    assert document.context_state("s", {"id": 1}) is inner
    assert document.context_state("s", None) is document.stream_state("s")
    assert document.context_state("s", {}) is state["bookmarks"]["s"]
    assert state == {"bookmarks": {"s": {"partitions": [{"context": {"id": 1}}]}}}


def test_other_members_of_the_state_are_encoded() -> None:
    state = {"global": {"lsn": 5}, "bookmarks": {"s": {"a": 1}}, "currently_syncing": "é"}
    assert StateDocument(state).encode() == encode_plainly(state)


@pytest.mark.parametrize(
    "bookmarks",
    [
        {"s": "2021-01-01"},
        {"s": None},
        {"s": {"partitions": {"1": "2021"}}},
        {"s": {"a": 1, "partitions": [], "b": 2}},
        {"s": {"partitions": ["x", {"context": {}}, None]}},
        {"s": {"a": 1, "partitions": [{"context": {"id": 1}}], "b": {"c": [2]}}},
        {'q"\n': {"partitions": [{"context": {"é": "\u2028"}}, {"context": {"é": 2}}]}, "t": {}},
        "text",
    ],
)
def test_bookmarks_of_unknown_structure_are_kept(bookmarks) -> None:
    state = {"bookmarks": bookmarks}
    before = copy.deepcopy(state)
    document = StateDocument(state)
    assert document.encode() == document.encode() == encode_plainly(before)
    if isinstance(bookmarks, dict):
        document.reset_progress_markers()
        assert document.encode() == encode_plainly(before)


def test_refresh_reads_a_dict_that_was_filled_later() -> None:
    state: dict = {}
    document = StateDocument(state)
    assert document.encode_if_changed() == b"{}"
    state["bookmarks"] = {"s": {"partitions": [{"context": {"id": 1}, "v": 1}]}}
    document.refresh()
    assert document.encode_if_changed() == encode_plainly(state)
    assert document.context_state("s", {"id": 1})["v"] == 1


def test_duplicate_entries_of_a_context_are_an_error() -> None:
    twice = {"bookmarks": {"s": {"partitions": [{"context": {"id": 1}}, {"context": {"id": 1}}]}}}
    with pytest.raises(ValueError, match="more than one entry"):
        StateDocument(twice).context_state("s", {"id": 1})


def test_reset_removes_all_progress_markers() -> None:
    markers = {"Note": "n", "replication_key": "k", "replication_key_value": 9}
    state = {
        "bookmarks": {
            "s": {
                "replication_key_value": 1,
                "progress_markers": dict(markers),
                "partitions": [
                    {"context": {"id": 1}, "progress_tracking": dict(markers)},
                    {"context": {"id": 2}, "replication_key_value": 2, "progress_markers": {}},
                ],
            }
        }
    }
    document = StateDocument(state)
    assert b"progress" in document.encode()
    document.reset_progress_markers()
    assert json.loads(document.encode()) == {
        "bookmarks": {
            "s": {
                "replication_key_value": 1,
                "partitions": [
                    {"context": {"id": 1}},
                    {"context": {"id": 2}, "replication_key_value": 2},
                ],
            }
        }
    }


# Cost of encoding


@pytest.mark.parametrize("partitions", [100, 10_000])
def test_checkpoint_encodes_only_what_changed(partitions, monkeypatch) -> None:
    encoded_bytes = count_encoded_bytes(monkeypatch)
    document = make_document(partitions)
    other = document.stream_state("other")
    document.encode()
    for change in range(5):
        before = encoded_bytes()
        document.change("s", {"id": change})["replication_key_value"] = -change
        text = document.encode()
        assert encoded_bytes() - before < 60
        assert text == encode_plainly(document.tap_state)
    before = encoded_bytes()
    other["replication_key_value"] = 5
    document.touch("other")
    assert document.encode() == encode_plainly(document.tap_state)
    assert encoded_bytes() - before < 60


def test_cost_of_encoding_grows_linearly_with_the_partitions(monkeypatch) -> None:
    encoded_bytes = count_encoded_bytes(monkeypatch)

    def count_bytes(partitions: int) -> int:
        before, document = encoded_bytes(), StateDocument({})
        for i in range(partitions):
            document.change("s", {"id": i})["replication_key_value"] = i
            if i % 10 == 0:
                document.encode()
        return encoded_bytes() - before

    assert count_bytes(2_000) <= 11 * count_bytes(200)


def test_shared_dict_is_encoded_each_time_until_it_is_unshared(monkeypatch) -> None:
    encoded_bytes = count_encoded_bytes(monkeypatch)
    document = make_document(1_000)
    partition_state = document.context_state("s", {"id": 7})
    document.share("s", {"id": 7})
    document.encode()
    before = encoded_bytes()
    for value in range(5):
        partition_state["x"] = value
        assert document.encode() == encode_plainly(document.tap_state)
    assert encoded_bytes() - before < 5 * 60
    document.unshare()
    document.encode()
    before = encoded_bytes()
    assert document.encode() == encode_plainly(document.tap_state)
    assert encoded_bytes() == before


def test_sharing_a_new_partition_creates_it(monkeypatch) -> None:
    encoded_bytes = count_encoded_bytes(monkeypatch)
    document = make_document(1_000)
    document.encode()
    document.share("s", {"id": "new"})
    document.context_state("s", {"id": "new"})["v"] = 1
    before = encoded_bytes()
    assert document.encode() == encode_plainly(document.tap_state)
    assert encoded_bytes() - before < 60


def test_encode_if_changed_returns_none_without_a_change(monkeypatch) -> None:
    encoded_bytes = count_encoded_bytes(monkeypatch)
    document = make_document(3)
    first = document.encode_if_changed()
    assert first == document.encode()
    bytes_before = encoded_bytes()
    assert document.encode_if_changed() is None
    document.touch("s", {"id": 1})
    assert document.encode_if_changed() is None
    document.change("s", {"id": 1})["v"] = 1
    assert document.size_estimate > len(first)
    second = document.encode_if_changed()
    assert second == encode_plainly(document.tap_state)
    assert document.size_estimate == len(second)
    assert encoded_bytes() > bytes_before


def test_shared_document_is_compared_at_each_encoding() -> None:
    document = make_document(3)
    document.encode_if_changed()
    document.share()
    assert document.encode_if_changed() is None
    document.tap_state["bookmarks"]["s"]["partitions"][1]["v"] = 5
    assert document.encode_if_changed() == encode_plainly(document.tap_state)
    document.unshare()
    assert document.encode_if_changed() is None


def test_shared_partition_is_encoded_after_its_list_was_replaced() -> None:
    document = make_document(3)
    partition_state = document.context_state("s", {"id": 2})
    document.share("s", {"id": 2})
    document.encode()
    document.change("s")["partitions"] = [partition_state, {"context": {"id": 9}}]
    partition_state["v"] = 1
    assert document.encode() == encode_plainly(document.tap_state)
    partition_state["v"] = 2
    assert document.encode() == encode_plainly(document.tap_state)
    assert document.context_state("s", {"id": 2}) is partition_state


def test_partition_list_replaced_by_one_of_equal_length_is_encoded() -> None:
    document = make_document(2)
    document.encode()
    document.change("s")["partitions"] = [{"context": {"id": 8}}, {"context": {"id": 9}}]
    assert document.encode() == encode_plainly(document.tap_state)
    assert (
        document.context_state("s", {"id": 9})
        is document.tap_state["bookmarks"]["s"]["partitions"][1]
    )


# Random sequences of changes

STREAMS = st.sampled_from(["a", "b"])
CONTEXTS = st.sampled_from([None, {"id": 1}, {"id": 2}, {"id": "2"}, {"x": {"y": [1]}}])
KEYS = st.sampled_from(["replication_key_value", "n", "progress_markers"])
VALUES = st.sampled_from([0, 1.5, "x", None, {"Note": "n"}, [1, {"é": 2}]])


class DocumentMachine(RuleBasedStateMachine):
    """The engine reports its changes; authors change dicts that they hold without a report."""

    def __init__(self) -> None:
        super().__init__()
        self.state: dict = {}
        self.document = StateDocument(self.state)
        self.shared_states: list[dict] = []
        self.last: bytes | None = None

    @rule(stream=STREAMS, context=CONTEXTS, key=KEYS, value=VALUES)
    def engine_changes(self, stream, context, key, value) -> None:
        self.document.change(stream, context)[key] = copy.deepcopy(value)

    @rule(stream=STREAMS, context=CONTEXTS, key=KEYS, value=VALUES)
    def engine_changes_and_reports(self, stream, context, key, value) -> None:
        self.document.context_state(stream, context)[key] = copy.deepcopy(value)
        self.document.touch(stream, context)

    @rule(stream=STREAMS, context=CONTEXTS)
    def author_takes_a_state(self, stream, context) -> None:
        self.shared_states.append(self.document.context_state(stream, context))
        self.document.share(stream, context)

    @rule()
    def author_takes_the_document(self) -> None:
        self.document.share()
        self.shared_states.extend(self.state.get("bookmarks", {}).values())

    @precondition(lambda self: self.shared_states)
    @rule(data=st.data(), key=KEYS, value=VALUES)
    def author_writes(self, data, key, value) -> None:
        data.draw(st.sampled_from(self.shared_states))[key] = copy.deepcopy(value)

    @precondition(lambda self: self.shared_states)
    @rule(data=st.data(), number=st.integers(10, 15))
    def author_adds_a_partition(self, data, number) -> None:
        target = data.draw(st.sampled_from(self.shared_states))
        if "context" not in target:
            entries = target.setdefault("partitions", [])
            if {"id": number} not in [e.get("context") for e in entries]:
                entries.append({"context": {"id": number}})

    @precondition(lambda self: self.shared_states)
    @rule(data=st.data())
    def author_removes_a_partition(self, data) -> None:
        target = data.draw(st.sampled_from(self.shared_states))
        if target.get("partitions"):
            target["partitions"].pop(0)

    @rule()
    def sync_ends(self) -> None:
        self.document.unshare()
        self.shared_states.clear()

    @rule()
    def sync_starts(self) -> None:
        self.document.reset_progress_markers()
        assert not any(
            "progress_markers" in entry
            for state in self.state.get("bookmarks", {}).values()
            for entry in (state, *state.get("partitions", []))
        )

    @rule()
    def state_is_emitted(self) -> None:
        line = self.document.encode_if_changed()
        text = encode_plainly(self.state)
        assert line == (None if text == self.last else text)
        self.last = text

    @invariant()
    def text_equals_the_encoded_dict(self) -> None:
        text = self.document.encode()
        assert text == encode_plainly(self.state)
        assert read_state(text, "state.json") == self.state


TestDocument = DocumentMachine.TestCase
TestDocument.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
