"""Metadata that target-spark stores in each commit of a table, such as the Singer state.

The metadata identifies the batch (``job``, ``run``, ``batch``) and contains the newest state whose
rows are all committed, with its position in the input (``run_started``, ``ordinal``). If the run
has no such state yet, the commit repeats the state of the table's previous commit, and
``uncovered_since`` has the start of the run.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, Final

import msgspec

from target_spark.tables.identifiers import fold_case
from target_spark.tables.table import Table

__all__ = [
    "NO_METADATA",
    "CommitMetadata",
    "ExpectedMetadata",
    "find_last_commits",
    "find_latest_metadata",
    "merge_states",
    "txn_app_id",
]

_decode_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode

_FIELD = "target_spark"
"""The only key of the commit metadata's JSON. Other programs do not use it, so it identifies
commits of target-spark."""


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """Metadata that target-spark stores in each commit of a table.

    Attributes:
        job: Name of the job that loads the table.
        run: Id of the run.
        run_started: Start of the run, in milliseconds since 1970. States are ordered by
            ``run_started``, then by ``ordinal``.
        batch: Number of the commit within the run and table, from 1.
        ordinal: Position of ``state`` in the input of the run that received it.
        state: The newest state whose rows are all committed, or None.
        replay: Id of the last run that loaded quarantined rows of the table again; None if no run
            did.
        uncovered_since: Start, in milliseconds since 1970, of the last run, if it committed rows
            but no state, so that ``state`` is from an earlier run; else None. With log-based
            replication, such a run may have replaced rows by older versions. A run that loads
            quarantined rows again does not count, because ``state`` covers these rows.
        key: The key columns as a JSON list, if the run has ensured that no two rows of the table
            have the same key; None if it has not.
        former: Default names of the job in earlier releases. Tables that were loaded under these
            names also belong to the job. Not stored in the commit.
        earlier: The newest metadata in the table when the run first read the table, or
            `NO_METADATA` if it had none. If another run has committed since then, this commit
            fails. None if other runs may commit at the same time. Not stored in the commit.
    """

    job: str
    run: str
    run_started: int
    batch: int
    ordinal: int
    state: str | None = None
    replay: str | None = None
    uncovered_since: int | None = None
    key: str | None = None
    former: tuple[str, ...] = field(default=(), compare=False)
    earlier: CommitMetadata | None = field(default=None, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes that are stored in the commit, by name."""
        fields = asdict(self)
        del fields["former"], fields["earlier"]
        return fields

    def to_json(self) -> str:
        """Return the metadata as one line of JSON, with the single key ``target_spark``."""
        return json.dumps({_FIELD: self.as_dict()}, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> CommitMetadata | None:
        """Parse the metadata of a commit. Return None if target-spark did not write it."""
        try:
            document = json.loads(text or "")
            return cls(**document[_FIELD])
        except (ValueError, TypeError, KeyError):
            return None

    def is_same_run(self, other: CommitMetadata | None) -> bool:
        """Return True if the commit metadata ``other`` is from the same run of the same job."""
        return other is not None and (self.job, self.run) == (other.job, other.run)

    def has_same_batch(self, other: CommitMetadata | None) -> bool:
        """Return True if the metadata ``other`` has this job, run and batch number."""
        return other is not None and self.is_same_run(other) and self.batch == other.batch

    def with_earlier_state(self, before: CommitMetadata | None) -> CommitMetadata:
        """Return a copy that repeats the previous commit's state if this commit has no state.

        If both commits have Airbyte states, which are JSON lists with a state per stream, the lists
        are merged.

        Args:
            before: The metadata of the table's previous commit, or None.
        """
        if before is None:
            return self
        completed = replace(self, replay=self.replay or before.replay)
        if before.state is None:
            return completed
        if self.state is not None:
            return replace(completed, state=merge_states(before.state, self.state))
        is_covered = self.replay is not None or self.is_same_run(before)
        return replace(
            completed,
            run_started=before.run_started,
            ordinal=before.ordinal,
            state=before.state,
            uncovered_since=before.uncovered_since if is_covered else self.run_started,
        )


NO_METADATA: Final = CommitMetadata("", "", 0, 0, 0)
"""Placeholder for the commit metadata of a table that has none."""


@dataclass(frozen=True)
class ExpectedMetadata:
    """Commit metadata of all existing tables, read together with the state that a run resumes from.

    If a table has other metadata when the run first reads it, the table was restored or removed, or
    another run has loaded it.
    """

    by_table: Mapping[str, CommitMetadata | None] | None = None
    """Metadata by `Table.key`: `NO_METADATA` for a table without rows, None if unknown.

    None instead of the mapping if the run has not read the metadata of any table.
    """

    def get(self, table: Table) -> CommitMetadata | None:
        """Return the metadata expected at the first read of a table, or None if it is unknown.

        The result is `NO_METADATA` if the table did not exist. Some catalogs list names in lower
        case: the metadata is unknown if the table was listed under a name of another case.
        """
        if self.by_table is None:
            return None
        if table.key not in self.by_table and fold_case(table.key) not in self._folded_keys:
            return NO_METADATA
        return self.by_table.get(table.key)

    def find_run_start(self, started: int, jobs: Collection[str]) -> int:
        """Return a start time for a run that is later than those of the job's runs in all tables.

        The result is ``started`` or, if the clock of an earlier run was ahead, one millisecond
        after the start of that run. Times are in milliseconds since 1970.

        Args:
            started: The time at which the run started.
            jobs: The current and all former names of the job.
        """
        markers = filter(None, (self.by_table or {}).values())
        return max((started, *(marker.run_started + 1 for marker in markers if marker.job in jobs)))

    @cached_property
    def _folded_keys(self) -> frozenset[str]:
        return frozenset(map(fold_case, self.by_table or ()))


def find_latest_metadata(markers: Iterable[CommitMetadata | None]) -> CommitMetadata | None:
    """Return the metadata with the state from which the next run of a job resumes.

    The result is the newest metadata that has a state; Airbyte states per stream are merged from
    all tables. If no metadata has a state, the newest metadata is returned. If a later run has
    committed rows without a state, ``uncovered_since`` is the start of that run.

    Args:
        markers: The newest commit metadata of each table; None for a table without commit metadata.

    Returns:
        The metadata; None if no table has commit metadata.
    """
    present = [marker for marker in markers if marker is not None]
    in_order = sorted(
        present, key=lambda each: (each.state is not None, each.run_started, each.ordinal)
    )
    states = [marker.state for marker in in_order if marker.state is not None]
    if not states:
        return in_order[-1] if in_order else None
    newest = in_order[-1]
    uncovered = max((marker.uncovered_since or 0 for marker in present), default=0)
    return replace(
        newest,
        state=reduce(merge_states, states),
        uncovered_since=uncovered if uncovered > newest.run_started else None,
    )


def find_last_commits(commits: Iterable[tuple[int, CommitMetadata | None]]) -> dict[str, int]:
    """Return the table version after each run's last batch, by run id, newest run first.

    A later commit without a batch, such as a new column, repeats the metadata of the commit before
    it. So of several commits with the same metadata, only the oldest contains the batch.

    Args:
        commits: The versions of the table (Delta versions or Iceberg snapshot ids), newest first,
            each with the commit metadata.
    """
    versions: dict[str, int] = {}
    newest: dict[str, CommitMetadata] = {}
    for version, metadata in commits:
        if metadata is None:
            continue
        if metadata.has_same_batch(newest.setdefault(metadata.run, metadata)):
            versions[metadata.run] = version
    return versions


def txn_app_id(job: str, stream: str, run: str) -> str:
    """Return the application id (``txnAppId``) of a run's commits in a Delta table.

    Each run has a different id, because each run numbers its commits from 1, and Delta skips a
    commit whose number was already used with the same id.
    """
    return f"target-spark:{job}:{stream}:{run}"


def merge_states(before: str, after: str) -> str:
    """Merge the states of an older commit (``before``) and a newer commit (``after``).

    If both are JSON lists of Airbyte states per stream, return a list with the newest state of each
    stream. Otherwise return ``after``.
    """
    if not (before.startswith("[") and after.startswith("[")):
        return after
    from tap_core.protocols.airbyte.reader import get_stream_id

    try:
        states = [bytes(body) for text in (before, after) for body in _decode_list(text)]
    except msgspec.DecodeError:  # not written by target-spark
        return after
    newest: dict[Hashable, bytes] = {}
    for body in states:
        scope = get_stream_id(body)
        if scope is None:
            newest.clear()
        newest.pop(scope, None)  # so that the newest state is last
        newest[scope] = body
    return "[" + b",".join(newest.values()).decode() + "]"
