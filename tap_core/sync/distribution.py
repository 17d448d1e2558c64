"""Distribution of work to other processes, such as Spark executors, and merge of their states.

- A work unit is a context (a partition or parent record), or one time window of a context. The same
  engine syncs it in any process. The `WorkDistributor` decides where it runs and how its rows reach
  the destination.
- The state of a work unit is merged after its rows are written. A failed unit leaves the state
  unchanged. If a window of a context fails, the results of its later windows are discarded.
- The state document of this process is the one that is saved; results are merged into it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tap_core.exceptions import PartitionsFailedError
from tap_core.state.partition_index import freeze_context
from tap_core.sync.activate_version import emit_activate_version
from tap_core.sync.plan import get_plan
from tap_core.sync.worker_pool import SyncJob, WorkerPool

if TYPE_CHECKING:
    from types import TracebackType

    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.sync_run import SyncRun
    from tap_core.sync.work_units import WorkDistributor, WorkResult, WorkUnit
    from tap_core.types import Context

__all__ = ["DistributedPool", "make_pool"]

_EntryIndex: TypeAlias = dict[tuple[str, ...], dict[Any, list[dict[str, Any]]]]
"""Copies of partition entries, by the keys that their contexts have in common with those of a
parent, and by the values of these keys."""

_MAX_LISTED = 5
"""Maximum number of failed partitions listed in an error message."""


def make_pool(
    run: SyncRun,
    size: int,
    streams: Sequence[SyncStream],
    *,
    distributes: bool = False,
    in_order: bool = False,
) -> WorkerPool | DistributedPool:
    """Return a pool that syncs partitions of streams, in threads or in other processes.

    Args:
        run: Sync of the calling thread.
        size: Maximum number of threads; not used for other processes.
        streams: Streams to sync.
        distributes: True to use other processes instead of threads, if the output supports it.
        in_order: True to discard the results of all partitions after the first failed one. It has
            no effect on threads.
    """
    distributor = run.outbox.distributor
    if distributes and distributor is not None:
        return DistributedPool(run, distributor, in_order=in_order)
    return WorkerPool(run, size, streams)


class DistributedPool:
    """Pool that syncs partitions of streams in other processes, such as Spark executors.

    It has the methods of `WorkerPool`, which uses threads.
    """

    def __init__(
        self, owner: SyncRun, distributor: WorkDistributor, *, in_order: bool = False
    ) -> None:
        self.owner = owner
        self._distributor = distributor
        self._in_order = in_order
        self._jobs: list[tuple[SyncJob, WorkUnit]] = []
        self._failed: list[tuple[SyncJob, str]] = []
        self._descendant_states = _DescendantStates()
        self._begun: set[str] = set()
        """Names of the streams whose schemas are written."""

    def __enter__(self) -> DistributedPool:  # noqa: PYI034  Self needs Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing at the end of the ``with`` block. Jobs that are still queued are dropped."""

    def submit(self, job: SyncJob) -> None:
        """Queue a job. If the queue is then full, run its jobs in other processes and wait.

        A job syncs one partition of a stream.
        """
        self._begin(job.stream)
        unit = _build_work_unit(job, len(self._jobs), self._descendant_states)
        self._jobs.append((job, unit))
        if len(self._jobs) >= self._distributor.max_units:
            self._send()

    def _begin(self, stream: SyncStream) -> None:
        """Write the schemas and table versions of a stream and its descendants, once per pool."""
        for member in (stream, *stream.descendent_streams):
            if member.selected and member.name not in self._begun:
                self._begun.add(member.name)
                member._write_schema_message()
                emit_activate_version(member, self.owner)

    def check(self) -> None:
        """Do nothing: `drain` raises the errors of all jobs after they have ended."""

    def drain(self) -> None:
        """Run all queued jobs in other processes, and wait for them.

        Raises:
            PartitionsFailedError: At least one partition failed. The data of all others is written;
                with ``in_order``, only the data of partitions before the first failed one.
        """
        self._send()
        if self._failed:
            failed, self._failed = self._failed, []
            raise _make_error(failed)

    def _send(self) -> None:
        jobs, self._jobs = self._jobs, []
        if not jobs or (self._in_order and self._failed):
            return
        run = self.owner
        run.settle()
        self._descendant_states = _DescendantStates()
        synced = self._distributor.sync([unit for _, unit in jobs], in_order=self._in_order)
        for event in synced.events:
            run.emit(event)
        with run.outbox.lock:
            for result in sorted(synced.results, key=lambda result: result.number):
                self._merge_result(*jobs[result.number], result)
        run.outbox.settle_deferred_bookmarks()
        for stream in {job.stream.name: job.stream for job, _ in jobs}.values():
            stream._write_state_message()

    def _merge_result(self, job: SyncJob, unit: WorkUnit, result: WorkResult) -> None:
        """Merge the state and row counts that another process has returned for ``unit``.

        If the sync in that process has failed, store its error for `drain`. If the pool was created
        with ``in_order``, ignore results after the first error.
        """
        if result.error is not None:
            self._failed.append((job, result.error))
            return
        if self._in_order and self._failed:
            return
        for stream in (job.stream, *job.stream.descendent_streams):
            returned = result.bookmarks.get(stream.name)
            if returned:
                _merge_state(stream, unit, returned)
            _count_rows(self.owner, stream, result.counts)
        job.done()


def _build_work_unit(job: SyncJob, number: int, descendants: _DescendantStates) -> WorkUnit:
    """Return the work unit for a job: the data that another process needs to sync a partition.

    The data include the state of the partition, and the states of descendant streams.

    Args:
        job: Job with the stream and the partition.
        number: Index of the work unit in the queue.
        descendants: Lookup of the descendants' states.
    """
    from tap_core.sync.work_units import WorkUnit  # most taps distribute no work

    stream, context = job.stream, job.context
    family = (stream, *stream.descendent_streams)
    known = context
    if context and stream.parent_stream_type:  # the sync of the child stream does the same
        known = stream.preprocess_context(dict(context))
    entry = stream.state_manager.get_context_state(known)
    bookmarks = {stream.name: _make_stream_state(entry)}
    for child in stream.descendent_streams:
        bookmarks[child.name] = descendants.select(child, known)
    return WorkUnit(
        number,
        stream.name,
        None if context is None else dict(context),
        is_child=bool(stream.parent_stream_type),
        interval=job.interval,
        versions={
            member.name: member._stream_version
            for member in family
            if member._stream_version is not None
        },
        bookmarks=bookmarks,
    )


def _make_stream_state(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a stream whose only partition has the state ``entry``."""
    copied = {name: copy.deepcopy(value) for name, value in entry.items() if name != "partitions"}
    return {"partitions": [copied]} if "context" in copied else copied


class _DescendantStates:
    """Lookup of child stream states by the partition of the parent stream."""

    def __init__(self) -> None:
        self._indexes: dict[tuple[str, tuple[str, ...]], _EntryIndex] = {}

    def select(self, stream: SyncStream, context: Context | None) -> dict[str, Any]:
        """Return a copy of a child stream's state, restricted to the partitions below a parent.

        ``context`` contains the values that identify the partition of the parent. A partition of
        the child may be below it if both contexts have equal values for the keys that both have.
        """
        state = stream.state_manager.stream_state
        copied = {
            name: copy.deepcopy(value) for name, value in state.items() if name != "partitions"
        }
        if state.get("partitions"):
            copied["partitions"] = self._get_entries(stream, dict(context or {}))
        return copied

    def _get_entries(self, stream: SyncStream, context: dict[str, Any]) -> list[dict[str, Any]]:
        keys = tuple(sorted(context))
        index = self._indexes.get((stream.name, keys))
        if index is None:
            index = _index_entries(stream.state_manager.get_state_partitions() or (), keys)
            self._indexes[stream.name, keys] = index
        return [
            entry
            for common, by_values in index.items()
            for entry in by_values.get(freeze_context({key: context[key] for key in common}), ())
        ]


def _index_entries(entries: Iterable[dict[str, Any]], keys: Sequence[str]) -> _EntryIndex:
    """Return an index of partition entries by the values of ``keys`` in their contexts.

    A context without any of the keys may be below each parent. Such an entry is left out if it has
    no bookmark, because it would be sent with each work unit for nothing.
    """
    index: _EntryIndex = {}
    for entry in entries:
        context = entry.get("context") or {}
        common = tuple(key for key in keys if key in context)
        if common or not keys or "replication_key_value" in entry:
            values = freeze_context({key: context[key] for key in common})
            index.setdefault(common, {}).setdefault(values, []).append(copy.deepcopy(entry))
    return index


def _merge_state(stream: SyncStream, unit: WorkUnit, returned: Mapping[str, Any]) -> None:
    """Merge ``returned``, a stream's state from another process, into the state of the tap.

    ``unit`` is the work unit that the process has synced.
    """
    entries = [entry for entry in returned.get("partitions") or () if "context" in entry]
    if unit.interval is not None:
        _merge_interval(stream, unit, entries[0] if entries else returned)
    elif stream.state_partitioning_keys is None:
        for entry in entries:  # no other work unit has this context
            state = stream._tap.document.change(stream.name, entry["context"])
            state.clear()
            state.update(entry)
    else:
        sent = _index_bookmarks(unit.bookmarks.get(stream.name, {}))
        for entry in (*entries, returned):
            _merge_shared(stream, entry, sent.get(freeze_context(entry.get("context") or {})))


def _merge_interval(stream: SyncStream, unit: WorkUnit, entry: Mapping[str, Any]) -> None:
    """Advance a bookmark to the end of the time window that another process has read.

    ``unit`` is the work unit with the window, and ``entry`` is the state that the process has
    returned for its partition.
    """
    value, key = entry.get("replication_key_value"), stream.replication_key
    if value is not None and key:
        stream.state_manager.close_window(unit.context, replication_key=key, until=value)


def _index_bookmarks(state: Mapping[str, Any]) -> dict[Any, Any]:
    """Return the bookmarks in a stream's state, including its own, by their frozen context."""
    entries = (state, *(state.get("partitions") or ()))
    return {
        freeze_context(entry.get("context") or {}): entry.get("replication_key_value")
        for entry in entries
    }


def _merge_shared(stream: SyncStream, entry: Mapping[str, Any], sent: Any) -> None:
    """Advance a bookmark with ``state_partitioning_keys``, if another process has a greater value.

    If the keys are all those of a context, no other context shares the bookmark. The process has
    then made it final, and so does this function.

    Args:
        stream: Stream of the bookmark.
        entry: State that the process has returned for the bookmark.
        sent: Value of the bookmark that was sent to the process, or None.
    """
    key, context = stream.replication_key, entry.get("context")
    markers, value = entry.get("progress_markers") or {}, entry.get("replication_key_value")
    if not key:
        return
    manager = stream.state_manager
    if "replication_key_value" in markers:
        value = markers["replication_key_value"]
        manager.increment_state({key: value}, context=context, replication_key=key)
    elif value is not None and value != sent:
        manager.increment_state({key: value}, context=context, replication_key=key)
        stream._finalize_state(manager.get_context_state(context))


def _count_rows(run: SyncRun, stream: SyncStream, counts: Mapping[str, int]) -> None:
    tally = run.tallies.get(stream.name)
    if tally is not None:
        names = (str(schema.stream) for schema in get_plan(stream).schemas)
        tally.count(sum(counts.get(name, 0) for name in names))


def _make_error(failed: Sequence[tuple[SyncJob, str]]) -> PartitionsFailedError:
    """Return the error about partitions whose sync in other processes has failed.

    The message names at most five of them, with reasons. ``failed`` contains (job, reason) pairs.
    """
    details = [f"{_describe_job(job)}: {reason}" for job, reason in failed[:_MAX_LISTED]]
    more = f"; and {len(failed) - _MAX_LISTED} more" if len(failed) > _MAX_LISTED else ""
    names = sorted({job.stream.name for job, _ in failed})
    return PartitionsFailedError(
        f"{len(failed)} of the contexts of {', '.join(names)} failed; the data of the others"
        f" was written, with their bookmarks. {'; '.join(details)}{more}"
    )


def _describe_job(job: SyncJob) -> str:
    where = "" if job.interval is None else f", {job.interval.window.start_time}"
    return f"{job.stream.name} {dict(job.context) if job.context else 'without a context'}{where}"
