"""Checks before and after a commit: other jobs and runs, lost or replaced tables, row counts.

Each failed check is an error that says which rows and states are affected, and what to do.
"""

from __future__ import annotations

from target_spark.errors import CommitLostError, RowCountError, TableError, TableOwnerError
from target_spark.tables.commit_metadata import NO_METADATA, CommitMetadata
from target_spark.tables.table import Table

__all__ = [
    "check_predecessor",
    "check_same_table",
    "check_written_count",
    "next_metadata",
    "table_moved_error",
    "table_owner_error",
    "table_removed_error",
    "table_replaced_error",
]


def next_metadata(
    before: CommitMetadata | None, commit: CommitMetadata, table: Table, *, acknowledged: bool
) -> CommitMetadata:
    """Return the commit metadata to write for a batch, after checking the table's newest metadata.

    If the batch has no state, the state of the table's newest commit is written again. The
    writer of the table format checks if the table already contains the batch.

    Args:
        before: The newest commit metadata in the table, or None.
        commit: The commit metadata of the batch.
        table: The table to write to.
        acknowledged: True if this run knows that a commit of this batch has succeeded. False if the
            table may contain the batch although this run does not know it, because the response to
            an earlier commit was lost.

    Raises:
        TableOwnerError: Another job has loaded the table since this run read its metadata.
        TableError: Another run of the job has loaded it, or an earlier version was restored.
        CommitLostError: The batch number is not higher than that of the run's newest commit, so the
            batch would be skipped as already committed.
    """
    check_predecessor(table, before, commit)
    if before is not None and commit.is_same_run(before):
        repeated = commit.batch == before.batch and not acknowledged
        if commit.batch <= before.batch and not repeated:
            raise CommitLostError(
                f"Batch {commit.batch} of table {table.name} comes after batch"
                f" {before.batch}: it would be skipped. Nothing was written."
            )
    return commit.with_earlier_state(before)


def check_predecessor(table: Table, before: CommitMetadata | None, commit: CommitMetadata) -> None:
    """Check that no other job or run has committed to a table since this run first read it.

    Args:
        table: The table.
        before: The metadata of target-spark's last commit before ``commit``; None if there is none.
        commit: The commit to make. Its field ``earlier`` has the metadata that the run first read.

    Raises:
        TableOwnerError: Another job has committed.
        TableError: Another run of the job has committed, or an earlier version was restored.
    """
    if before is not None and before.job not in {commit.job, *commit.former}:
        raise table_owner_error(table, before.job, commit.job)
    if commit.earlier is None or commit.is_same_run(before):
        return
    predecessor = before or NO_METADATA
    if not commit.earlier.has_same_batch(predecessor):
        raise table_moved_error(table, commit.earlier, predecessor)


def check_written_count(table: Table, rows: int, written: int) -> None:
    """Check that the files written for a batch have as many rows as the batch.

    Args:
        table: The table, for the error message.
        rows: The number of rows in the batch.
        written: The number of rows in the written files.

    Raises:
        RowCountError: The numbers differ; the files must not be committed.
    """
    if written != rows:
        raise RowCountError(
            f"Table {table.name}: {rows} rows were to be written, but the files that Spark wrote"
            f" have {written}. They are not committed, and no state that covers these rows is"
            " emitted."
        )


def check_same_table(table: Table, expected: str | None, actual: str | None) -> str | None:
    """Check that a table was not replaced during the run, and return its current id.

    Args:
        table: The table.
        expected: The id that this run saw first, or None if it has seen none.
        actual: The current id, or None if the table does not exist.

    Raises:
        TableError: The ids differ, because the table was removed or replaced.
    """
    if expected is not None and actual is None:
        raise table_removed_error(table)
    if expected is not None and actual != expected:
        raise table_replaced_error(table)
    return actual


def table_owner_error(table: Table, owner: str, job: str) -> TableOwnerError:
    """Return the error for writing to a table that another job (``owner``) loads.

    Two jobs must not share a table, because a run resumes from the state of the last commit.
    """
    return TableOwnerError(
        f"Table {table.name} ({table.key}) is loaded by job {owner!r}, and this run is job"
        f" {job!r}. If they are one pipeline, set job to {owner!r}; if they are two, give this"
        " one another path, table_prefix or database. Nothing more was written to it."
    )


def table_moved_error(table: Table, expected: CommitMetadata, newest: CommitMetadata) -> TableError:
    """Return the error for a table whose newest metadata changed after the start of the run.

    Args:
        table: The table.
        expected: The table's metadata at the start of the run, or `NO_METADATA`.
        newest: The newest metadata in the table that another run has stored, or `NO_METADATA`.
    """
    return TableError(
        f"Table {table.name} ({table.key}) is not as this run found it: the newest commit of"
        f" target-spark in it was {_describe_commit(expected)}, and is now"
        f" {_describe_commit(newest)}. Another run of the job has loaded the table meanwhile, or"
        " the table was removed, or restored to an earlier version. No state that covers rows after"
        " these commits is emitted. Let only one run of the job be active; if two have loaded the"
        " same rows, restore the version before them. Then start again: target-spark run resumes by"
        " itself, other runs from the state that target-spark last-state prints."
    )


def _describe_commit(metadata: CommitMetadata) -> str:
    return f"commit {metadata.batch} of run {metadata.run}" if metadata.run else "none"


def table_removed_error(table: Table) -> TableError:
    """Return the error for a table that was removed or restored after this run's last commit."""
    return TableError(
        f"Table {table.name} ({table.key}) was removed while it was loaded, or an earlier version"
        " of it was restored: rows that this run had committed are gone. States that cover them may"
        " have been emitted. Start again from a state before them."
    )


def table_replaced_error(table: Table) -> TableError:
    """Return the error for a table that another program replaced during the run."""
    return TableError(
        f"Table {table.name} ({table.key}) was replaced by another table while it was loaded."
        " Nothing was written to the new one. Rows that this run had committed are gone with the"
        " old one, and states that cover them may have been emitted. Start again from a state"
        " before them."
    )
