"""Syncs over partitions that are interrupted anywhere and resumed, on a growing source.

Only the records before the last emitted state count as delivered; all later ones count as lost.
So a state that is ahead of its records, or a bookmark that was promoted too early or too far,
leads to a record that is never delivered.
"""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tap_core.state import StateDocument, StreamStateManager, make_comparator, read_state
from tap_core.state.partition_index import freeze_context
from tests.state.contexts import end_context

CONTEXTS = [{"a": a, "b": b} for a, b in itertools.product((1, 2), (1, 2))]
KEYS = st.sampled_from([None, None, None, ["a"], [], ["a", "b"]])


def moment(hour: int, form: int) -> str:
    """Return an hour in one of three formats, whose texts do not sort by time."""
    day, of_day = divmod(hour, 24)
    date = f"2024-05-{day + 1:02}"
    if form == 1 and of_day >= 5:
        return f"{date}T{of_day - 5:02}:00:00-05:00"
    return f"{date}T{of_day:02}:00:00" + ("Z" if form == 0 else ".000+00:00")


class InterruptedSyncError(Exception):
    """Simulates that the tap is killed."""


class Syncs(RuleBasedStateMachine):
    """A source to which records with increasing timestamps are added, and syncs that read it."""

    @initialize(is_sorted=st.booleans(), keys=KEYS)
    def begin(self, is_sorted, keys) -> None:
        self.declared = {"is_sorted": is_sorted, "state_partitioning_keys": keys}
        self.is_sorted = is_sorted and keys is None
        self.order = make_comparator({"type": "string", "format": "date-time"})
        self.hour = 1
        self.source: list[list[str]] = [[] for _ in CONTEXTS]
        self.delivered: set[tuple[int, str]] = set()
        self.pending: set[tuple[int, str]] = set()
        self.signposts: list[str] = []
        self.state = b"{}"

    # The source

    @rule(partition=st.integers(0, 3), form=st.integers(0, 2), wait=st.integers(0, 3))
    def record_is_added(self, partition, form, wait) -> None:
        self.hour += wait
        self.source[partition].append(moment(self.hour, form))

    # Syncs

    @rule(data=st.data(), breaks=st.none() | st.integers(0, 12), every=st.integers(1, 4))
    def run_sync(self, data, breaks, every) -> None:
        before = self.bookmarks()
        manager = self.manager()
        try:
            self.read_all(manager, data, breaks, every)
        except InterruptedSyncError:
            self.incomplete_contexts_keep_their_bookmarks(before)
        else:
            self.no_value_of_the_run_is_left()

    @rule()
    def uninterrupted_sync_delivers_everything(self) -> None:
        """Check that a sync without interruption delivers all remaining records."""
        self.read_all(self.manager(), None, None, 100)
        existing = {(n, row) for n, rows in enumerate(self.source) for row in rows}
        assert existing == self.delivered

    def manager(self) -> StreamStateManager:
        document = StateDocument(read_state(self.state, "state.json"))
        document.reset_progress_markers()
        return StreamStateManager(
            stream_name="s",
            tap_state=document.tap_state,
            document=document,
            order=self.order,
            **self.declared,
        )

    def read_all(self, manager, data, breaks, every) -> None:
        self.pending.clear()
        self.signposts.append(moment(self.hour, 0))
        remaining = itertools.count() if breaks is None else iter(range(breaks))
        for number, context in enumerate(CONTEXTS):
            self.read(manager, data, remaining, number, every)
            if end_context(manager, context):
                self.emit_state(manager)
        manager.finalize_progress_markers(partitions=CONTEXTS)
        self.emit_state(manager)

    def read(self, manager, data, remaining, number, every) -> None:
        context = CONTEXTS[number]
        manager.write_starting_replication_value(context, "INCREMENTAL", "at", {})
        manager.write_replication_key_signpost(self.signposts[-1], context=context)
        since = manager.get_starting_replication_value(context, "INCREMENTAL")
        rows = [r for r in self.source[number] if not since or self.order.newer_or_equal(r, since)]
        if data and not self.is_sorted:
            rows = data.draw(st.permutations(rows))
        cursor = manager.cursor(context, replication_key="at")
        for count, row in enumerate(rows, 1):
            if next(remaining, None) is None:
                raise InterruptedSyncError
            self.pending.add((number, row))
            cursor.advance(row)
            if count % every == 0:
                if cursor.settle():
                    manager.touch(context)
                self.emit_state(manager)
            if data and data.draw(st.booleans()):
                self.record_is_added(data.draw(st.integers(0, 3)), count % 3, 1)
        if cursor.settle():
            manager.touch(context)

    def emit_state(self, manager) -> None:
        self.state = manager.document.encode()
        self.delivered |= self.pending

    # What must hold

    def entries(self) -> list[dict]:
        stream = read_state(self.state, "state.json").get("bookmarks", {}).get("s", {})
        return [stream, *stream.get("partitions", [])]

    def bookmarks(self) -> dict:
        return {
            freeze_context(entry.get("context", {})): entry.get("replication_key_value")
            for entry in self.entries()
        }

    def incomplete_contexts_keep_their_bookmarks(self, before) -> None:
        for entry in self.entries():
            if "progress_markers" in entry:
                assert not self.is_sorted
                was = before.get(freeze_context(entry.get("context", {})))
                assert entry.get("replication_key_value") == was

    def no_value_of_the_run_is_left(self) -> None:
        for entry in self.entries():
            assert entry.keys() <= {
                "context",
                "partitions",
                "replication_key",
                "replication_key_value",
            }

    @invariant()
    def no_bookmark_is_ahead_of_the_records(self) -> None:
        """The limit is the last delivered record if sorted, else the start of the last sync."""
        for entry in self.entries():
            bookmark = entry.get("replication_key_value")
            if bookmark is None:
                continue
            if self.is_sorted:
                number = CONTEXTS.index(entry["context"])
                limits = [row for n, row in self.delivered if n == number]
            else:
                limits = self.signposts
            assert any(self.order.newer_or_equal(limit, bookmark) for limit in limits)

    @invariant()
    def sorted_streams_have_no_signposts_or_markers(self) -> None:
        for entry in self.entries() if self.is_sorted else ():
            assert not {"replication_key_signpost", "progress_markers"} & entry.keys()


TestSyncs = Syncs.TestCase
TestSyncs.settings = settings(
    max_examples=80,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
