"""Commits to a Delta table in a local folder by the library deltalake (delta-rs), without a JVM.

The commits create a table, add columns, add Parquet files, or merge small batches. deltalake is
used because Spark's Delta takes longer to plan and commit a small append than to write its rows.
`deltalake_snapshot` decides which tables must be written by Spark. A commit creates exactly the
version after the one that was read, or fails.

Source: the Delta protocol, "Actions" and "Requirements for Writers".
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T  # noqa: N812

from target_spark.storage.uris import is_read_as_another_folder
from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.tables.identifiers import quote
from target_spark.writers.base import VersionDelete
from target_spark.writers.delta.data_files import DataFile
from target_spark.writers.delta.deltalake_snapshot import DeltaSnapshot, read_snapshot
from target_spark.writers.delta.log_reader import list_versions
from target_spark.writers.merge_statement import BATCH_ALIAS, Merge, source_column

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties

__all__ = [
    "MERGE_TARGET",
    "add_columns",
    "annotate_table",
    "checkpoint_log",
    "commit_files",
    "create_table",
    "delete_other_versions",
    "merge_rows",
]

MERGE_TARGET: Final = quote("__target_spark_table")
"""The quoted SQL name of the table in a `Merge` that `merge_rows` runs."""

_REWRITE_LOCK: Final = threading.Lock()
"""Lock that lets only one thread rewrite files at a time, because a rewrite needs much memory."""

_QUOTED_NAME: Final = re.compile(r"`((?:[^`]|``)*)`")


def checkpoint_log(folder: Path, interval: int) -> None:
    """Write a checkpoint of a Delta log if its newest version is a multiple of ``interval``.

    Readers then read the checkpoint and the later commits, instead of every commit. A failure is
    ignored, since readers can do without a checkpoint.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    newest = max(list_versions(folder), default=0)
    if newest and newest % interval == 0:
        with suppress(DeltaError, OSError):
            DeltaTable(folder).create_checkpoint()


def create_table(folder: Path, schema: str, properties: Mapping[str, str]) -> bool:
    """Create an empty Delta table in a local folder, without Spark.

    If another writer creates the table at the same time, that table is kept.

    Args:
        folder: The table's folder.
        schema: The schema in Delta's JSON format.
        properties: The table properties.

    Returns:
        True if the table exists; False if the library deltalake cannot read the folder, or cannot
        parse the schema, because it has more than 41 levels of nested structs (128 levels of JSON).
    """
    if is_read_as_another_folder(folder):
        return False
    from deltalake import CommitProperties, DeltaTable, Schema
    from deltalake.exceptions import DeltaError

    try:
        parsed = Schema.from_json(schema)
    except ValueError:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    try:
        DeltaTable.create(
            folder,
            parsed,
            mode="error",
            configuration=dict(properties),
            raise_if_key_not_exists=False,
            # A retry would replace the schema and the id of a table that another writer created.
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except DeltaError:
        if read_snapshot(folder) is None:
            raise
    return True


def commit_files(
    snapshot: DeltaSnapshot,
    files: Sequence[DataFile],
    marker: CommitMetadata,
    app_id: str,
    *,
    replaces: bool = False,
    source_rows: int = 0,
) -> bool:
    """Commit data files as the table version that follows ``snapshot``.

    Without files, the commit stores only metadata. After an error it is not known if the commit was
    made.

    Args:
        snapshot: The newest table version, as the caller has read it.
        files: The data files to add.
        marker: The metadata to store in the commit, such as the newest state.
        app_id: The application id of the Delta transaction.
        replaces: True to remove all files of ``snapshot``; False to keep them.
        source_rows: The number of rows that a MERGE read, if it changed no row; else 0.

    Returns:
        True if the commit was made; False if another writer has committed that version.
    """
    from deltalake.transaction import AddAction

    metrics = {
        "numFiles": len(files),
        "numOutputRows": sum(file.rows for file in files),
        "numOutputBytes": sum(file.size for file in files),
        "numSourceRows": source_rows,
    }
    actions: list[Any] = [
        AddAction(file.path.name, file.size, {}, file.modified, True, file.statistics)  # noqa: FBT003
        for file in files
    ]
    properties = _commit_properties(
        marker,
        app_id,
        operationMetrics={name: str(count) for name, count in metrics.items()},
        isBlindAppend=not replaces,
    )
    table = snapshot.table
    mode = "overwrite" if replaces else "append"
    return _try_commit(
        snapshot,
        lambda: table.create_write_transaction(
            actions, mode, table.schema(), commit_properties=properties
        ),
    )


def merge_rows(
    snapshot: DeltaSnapshot, rows: pa.Table, merge: Merge, marker: CommitMetadata, app_id: str
) -> bool:
    """Run a MERGE on a table, as the table version that follows ``snapshot``.

    The library deltalake rewrites the files that may have matching rows, in the memory of this
    process. If no row changes, for example because all rows to delete are missing in the table, the
    commit stores only metadata.

    ``rows`` is the batch, with one row per key. The target of ``merge`` must be `MERGE_TARGET`.
    ``marker`` is the metadata to store in the commit, such as the newest state, and ``app_id`` the
    application id of the Delta transaction. Return True if the commit was made, and False if
    another writer has committed that version. After an error it is not known if the commit was
    made.
    """
    merger = snapshot.table.merge(
        rows,
        predicate=_to_datafusion(merge.on),
        source_alias=BATCH_ALIAS,
        target_alias=MERGE_TARGET.strip("`"),
        commit_properties=_commit_properties(marker, app_id),
    )
    for clause in merge.matched:
        when = None if clause.when is None else _to_datafusion(clause.when)
        if clause.put is None:
            merger = merger.when_matched_delete(when)
        else:
            assignments = {
                _quote_for_datafusion(name): _to_datafusion(sql) for name, sql in clause.put.items()
            }
            merger = merger.when_matched_update(assignments, when)
    inserted = {
        _quote_for_datafusion(name): _to_datafusion(source_column(name)) for name in merge.inserted
    }
    when = None if merge.inserted_when is None else _to_datafusion(merge.inserted_when)
    merger = merger.when_not_matched_insert(inserted, when)
    with _REWRITE_LOCK:
        is_committed = _try_commit(snapshot, merger.execute)
    return is_committed and _commit_if_unchanged(snapshot, marker, app_id, rows.num_rows)


def delete_other_versions(
    snapshot: DeltaSnapshot, app_id: str, *, deletion: VersionDelete, marker: CommitMetadata
) -> bool:
    """Delete the rows of all Singer table versions but one, or mark them as deleted.

    The commit is the Delta version that follows ``snapshot``. If no row has another Singer version,
    it stores only metadata. ``deletion`` has the version to keep, and the rule to delete rows or to
    mark them as deleted. ``marker`` is the metadata to store in the commit, such as the newest
    state, and ``app_id`` the application id of the Delta transaction. Return True if the commit was
    made, and False if another writer has committed that version. After an error it is not known if
    the commit was made.
    """
    table, properties = snapshot.table, _commit_properties(marker, app_id)
    is_other = f"({_quote_for_datafusion(deletion.column)} IS DISTINCT FROM {deletion.version})"

    def commit() -> None:
        if deletion.deleted is None:
            table.delete(is_other, commit_properties=properties)
            return
        table.update(
            new_values={deletion.deleted: deletion.at},
            predicate=f"{is_other} AND ({_quote_for_datafusion(deletion.deleted)} IS NULL)",
            commit_properties=properties,
        )

    with _REWRITE_LOCK:
        is_committed = _try_commit(snapshot, commit)
    return is_committed and _commit_if_unchanged(snapshot, marker, app_id)


def _commit_if_unchanged(
    snapshot: DeltaSnapshot, marker: CommitMetadata, app_id: str, source_rows: int = 0
) -> bool:
    """Make a commit that stores only metadata, if a SQL statement has made no commit.

    The library deltalake makes no commit for a statement that changes no row of ``snapshot``.

    Returns:
        True if the statement or this call has made a commit; False if another writer has committed
        the version after ``snapshot``.
    """
    if snapshot.table.version() > snapshot.version:
        return True
    return commit_files(snapshot, [], marker, app_id, source_rows=source_rows)


def add_columns(
    snapshot: DeltaSnapshot, fields: Sequence[T.StructField], before: CommitMetadata | None
) -> bool:
    """Add nullable columns to a table, as the table version that follows ``snapshot``.

    Args:
        snapshot: The newest table version, as the caller has read it.
        fields: The columns as Spark types. Their metadata may have a comment.
        before: The newest commit metadata in the table, which the commit repeats; None if the table
            has no commit metadata.

    Returns:
        True if the commit was made; False if another writer has committed that version.
    """
    from deltalake import Field

    added = [Field.from_json(field.json()) for field in fields]
    return _try_commit(
        snapshot,
        lambda: snapshot.table.alter.add_columns(
            added, commit_properties=_repeated_metadata(before)
        ),
    )


def annotate_table(
    snapshot: DeltaSnapshot,
    properties: Mapping[str, str],
    comments: Mapping[str, str],
    before: CommitMetadata | None,
) -> bool:
    """Set table properties and column comments, by one or more commits after ``snapshot``.

    Args:
        snapshot: The newest table version, as the caller has read it.
        properties: The properties to set.
        comments: The comments to set, by column.
        before: The newest commit metadata in the table, which the commits repeat; None if the table
            has no commit metadata.

    Returns:
        True if all commits were made; False if another writer has committed one of the versions.
    """
    alter, repeated = snapshot.table.alter, _repeated_metadata(before)

    def commit() -> None:
        if properties:
            alter.set_table_properties(
                dict(properties), raise_if_not_exists=False, commit_properties=repeated
            )
        for column, comment in comments.items():
            alter.set_column_metadata(column, {"comment": comment}, commit_properties=repeated)

    return _try_commit(snapshot, commit)


def _commit_properties(marker: CommitMetadata, app_id: str, **kwargs: Any) -> CommitProperties:
    """Return deltalake's options for the commit of a batch, without retries.

    The options contain the commit metadata, the transaction (``app_id`` and batch number), and
    ``kwargs`` as further metadata. Retries are off, because a retry by the library could commit
    after another writer.
    """
    from deltalake import CommitProperties, Transaction

    now = time.time_ns() // 1_000_000
    return CommitProperties(
        custom_metadata={"userMetadata": marker.to_json(), **kwargs},
        max_commit_retries=0,
        app_transactions=[Transaction(app_id, marker.batch, now)],
    )


def _repeated_metadata(before: CommitMetadata | None) -> CommitProperties:
    from deltalake import CommitProperties

    metadata = {} if before is None else {"userMetadata": before.to_json()}
    return CommitProperties(custom_metadata=metadata, max_commit_retries=0)


def _try_commit(snapshot: DeltaSnapshot, commit: Callable[[], object]) -> bool:
    """Call ``commit``, a function that makes a commit; return True if the commit was made.

    Return False if another writer has committed the same version. Other errors are raised.
    """
    from deltalake.exceptions import CommitFailedError

    try:
        commit()
    except CommitFailedError:
        newest = read_snapshot(snapshot.folder)
        if newest is not None and newest.version > snapshot.table.version():
            return False
        raise
    return True


def _to_datafusion(sql: str) -> str:
    """Convert a Spark SQL expression to DataFusion's syntax: ```a` IS NULL`` -> ``"a" IS NULL``."""
    return _QUOTED_NAME.sub(lambda match: _quote_for_datafusion(match[1].replace("``", "`")), sql)


def _quote_for_datafusion(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
