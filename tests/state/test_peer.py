"""The same steps give the same state in tap_core and in singer_sdk.

Deliberate differences are not compared: a sorted stream gets no signpost, and the text of a
date-time key is compared as a point in time (here all texts have the same format).
"""

from __future__ import annotations

import copy
import datetime as dt
import importlib.util
import json
import subprocess
import uuid
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tap_core.helpers import _state as functions
from tap_core.state import StateDocument, StreamStateManager, make_comparator
from tests.peers import missing_reason, peer_python

SCRIPT = Path(__file__).with_name("peer_states.py")
_SPEC = importlib.util.spec_from_file_location("peer_states", SCRIPT)
peer_states = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(peer_states)

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def ask():
    """Return a function that sends a question to the peer's process and returns its answer."""
    python = peer_python("singer_sdk")
    if python is None:
        pytest.skip(missing_reason("singer_sdk"))
    with subprocess.Popen(
        [str(python), str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as peer:

        def put(question: dict) -> object:
            peer.stdin.write(json.dumps(question) + "\n")
            peer.stdin.flush()
            line = peer.stdout.readline()
            assert line, f"the peer failed at {question}"
            return json.loads(line)

        yield put
        peer.stdin.close()


class CursorManager(StreamStateManager):
    """Counts records as the sync engine does, with one cursor per context."""

    _cursor = None
    _context = None

    def increment_state(self, latest_record, *, context=None, replication_key) -> None:
        if self._cursor is None or self._context != context:
            self._cursor = self.cursor(context, replication_key=replication_key)
            self._context = context
        try:
            self._cursor.advance(latest_record[replication_key])
        finally:
            if self._cursor.settle():
                self.touch(context)

    def finalize_state(self, state=None) -> None:
        self._cursor = None
        super().finalize_state(state)

    def finalize_progress_markers(self, state=None, partitions=None) -> None:
        self._cursor = None
        super().finalize_progress_markers(state, partitions)


class FunctionManager(StreamStateManager):
    """Uses the module-level functions, as taps that import them do."""

    def get_context_state(self, context):
        return functions.get_writeable_state_dict(
            self.tap_state, self.stream_name, self.get_state_partition_context(context)
        )

    def increment_state(self, latest_record, *, context=None, replication_key) -> None:
        functions.increment_state(
            self.get_context_state(context),
            latest_record=latest_record,
            replication_key=replication_key,
            is_sorted=self.is_sorted,
            check_sorted=self._check_sorted,
        )
        self.document.refresh()

    def finalize_state(self, state=None) -> None:
        functions.finalize_state_progress_markers(state)
        self.document.refresh()
        self.is_flushed = False


def ours(manager_class, question: dict) -> dict:
    state = copy.deepcopy(question["state"])
    document = StateDocument(state)
    manager = manager_class(
        stream_name="s",
        tap_state=state,
        document=document,
        order=make_comparator(question["schema"]),
        **question["settings"],
    )

    def reset() -> None:
        manager._cursor = None
        document.reset_progress_markers()

    returned = peer_states.steps(manager, reset, question["steps"])
    return {"returned": returned, "state": state, "text": document.encode().decode()}


MOMENTS = st.integers(1, 6).map(lambda n: f"2024-05-{n:02}T00:00:00.000000+00:00")
CONTEXTS = st.sampled_from([None, {"a": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 2}, {"b": [1]}])
METHODS = st.sampled_from(["INCREMENTAL", "INCREMENTAL", "LOG_BASED", "FULL_TABLE"])
SETTINGS = st.fixed_dictionaries(
    {
        "is_sorted": st.booleans(),
        "check_sorted": st.sampled_from([True, True, False]),
        "tap_name": st.just("tap-x"),
        "state_partitioning_keys": st.sampled_from([None, None, [], ["a"]]),
    }
)


@st.composite
def questions(draw) -> dict:
    settings = draw(SETTINGS)
    schema, values = draw(
        st.sampled_from(
            [
                ({"type": "integer"}, st.integers(1, 6)),
                ({"type": "string", "format": "date-time"}, MOMENTS),
                (None, st.sampled_from(["a", "b", "c"])),
            ]
        )
    )
    some = values | st.none()
    kinds = [
        st.tuples(st.just("start"), CONTEXTS, METHODS, st.sampled_from(["k", "k", "other"]), some),
        st.tuples(st.just("record"), CONTEXTS, some),
        st.tuples(st.just("record"), CONTEXTS, values),
        st.tuples(st.just("end of context"), CONTEXTS),
        st.tuples(st.just("end of stream"), st.lists(CONTEXTS, max_size=3) | st.none()),
        st.tuples(st.just("new sync"), st.none()),
        st.tuples(st.just("resumable?"), CONTEXTS),
    ]
    if not settings["is_sorted"] or settings["state_partitioning_keys"] is not None:
        kinds.append(st.tuples(st.just("signpost"), CONTEXTS, some))
    bookmark = {"replication_key": "k", "replication_key_value": draw(values)}
    entry = {"context": {"a": 1}, **bookmark}
    stream = draw(st.sampled_from([{}, bookmark, {"partitions": [entry], **bookmark}]))
    return {
        "settings": settings,
        "schema": schema,
        "state": draw(st.sampled_from([{}, {"bookmarks": {"s": stream, "other": {"x": 1}}}])),
        "steps": draw(st.lists(st.one_of(kinds), max_size=20)),
    }


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(question=questions())
@pytest.mark.parametrize("manager", [StreamStateManager, CursorManager, FunctionManager])
def test_same_steps_leave_the_state_of_singer_sdk(ask, manager, question) -> None:
    theirs = ask(question)
    assert ours(manager, question) == theirs


@pytest.mark.parametrize(
    "expression",
    [
        "{'a': 1, 'b': [1.5, None, True, 'é\\u2028'], 'c': {}}",
        "{'a': Decimal('1.50'), 'b': 2 ** 80, 'c': float('nan'), 'd': float('-inf')}",
        "{'a': dt.datetime(2024, 1, 2, 3), 'b': dt.date(2024, 1, 2)}",
        "{'a': dt.datetime(2024, 1, 2, tzinfo=dt.timezone.utc)}",
        "{'a': uuid.UUID(int=5), 'b': (1, 2), 'c': dt.time(1, 2)}",
        "{1: 2, None: 3, 2.5: 4, 'a': {True: 1}}",
    ],
)
def test_values_have_the_text_of_singer_sdk(ask, expression) -> None:
    names = {"Decimal": Decimal, "dt": dt, "uuid": uuid}
    value = eval(expression, names)  # noqa: S307  the expressions above
    text = ask({"expression": expression})
    assert StateDocument({"x": value}).encode().decode() == f'{{"x":{text}}}'
