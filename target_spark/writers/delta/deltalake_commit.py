"""Transactions on a Delta table in a local folder, made by deltalake (delta-rs) without a JVM.

They create a table, and commit Parquet files that Spark has written. For a small batch, planning
and committing the same append in Spark's Delta takes longer than writing the batch. A table that
needs more than files (partitions, clusters, constraints, column mapping, generated columns) is
written by Spark. Invariant: a commit is made exactly after the version that was read, or not at
all.

Source: the Delta protocol, "Actions" and "Requirements for Writers".
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T  # noqa: N812

from target_spark.tables.commit_metadata import CommitMetadata
from target_spark.writers.delta.data_files import DataFile

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["DeltaSnapshot", "commit_files", "create_table", "read_snapshot"]

_WRITABLE_FEATURES: Final = frozenset(
    {"appendOnly", "changeDataFeed", "deletionVectors", "invariants", "timestampNtz"}
)
"""Table features that have no requirement for a commit that only adds files."""

_LEGACY_WRITER: Final = 2
"""The newest writer version whose only features are appendOnly and invariants."""

_FEATURES_WRITER: Final = 7
_LEFT_TO_SPARK: Final = (
    "delta.autoOptimize.",
    "delta.columnMapping.",
    "delta.constraints.",
    "delta.dataSkipping",
    "delta.enableInCommitTimestamps",
    "delta.enableIcebergCompat",
    "delta.enableRowTracking",
    "delta.feature.",
    "delta.parquet.",
    "delta.randomize",
    "delta.targetFileSize",
    "delta.tuneFileSizes",
    "delta.universalFormat.",
)
"""Prefixes of table properties that control how rows, files or statistics are written."""

_LEFT_TO_SPARK_FIELDS: Final = (
    '"delta.generationExpression"',
    '"delta.identity.',
    '"delta.invariants"',
    '"CURRENT_DEFAULT"',
    '"nullable":false',
    '"containsNull":false',
    '"valueContainsNull":false',
)
"""Strings in the schema of a table whose values Spark computes or checks."""


@dataclass(frozen=True, slots=True)
class DeltaSnapshot:
    """One version of a Delta table in a local folder, read without Spark.

    Attributes:
        folder: The table's folder.
        table: The table object of the library deltalake.
        id: The id that Delta gave the table.
        version: The version number.
        fields: The columns as Spark types.
        properties: The table properties.
        takes_files: True if rows may be added by committing Parquet files without Spark. False if
            the table has features, such as partitions or constraints, that only Spark supports.
    """

    folder: Path
    table: DeltaTable
    id: str
    version: int
    fields: tuple[T.StructField, ...]
    properties: Mapping[str, str]
    takes_files: bool

    def has_files(self) -> bool:
        """Return True if this version of the table has data files."""
        return bool(self.table.file_uris())

    @property
    def nbytes(self) -> int:
        """Bytes of the data files of this version of the table."""
        return sum(self.table.get_add_actions(flatten=True)["size_bytes"].to_pylist())

    def has_batch(self, app_id: str, batch: int) -> bool:
        """Return True if the newest transaction of the application ``app_id`` is ``batch``."""
        return self.table.transaction_version(app_id) == batch


def read_snapshot(folder: Path) -> DeltaSnapshot | None:
    """Return the newest version of a Delta table in a local folder, read without Spark.

    Return None if there is no table, or if the library deltalake does not support it.
    """
    if not (folder / "_delta_log").is_dir():
        return None
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(folder)
    except DeltaError:
        return None
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # of the Rust code, for an unknown protocol
            return None
        raise
    metadata = table.metadata()
    schema, properties = table.schema().to_json(), metadata.configuration
    fields = tuple(T.StructType.fromJson(json.loads(schema)).fields)
    takes_files = (
        not metadata.partition_columns
        and _has_plain_protocol(table)
        and not any(name.startswith(_LEFT_TO_SPARK) for name in properties)
        and not any(text in schema for text in _LEFT_TO_SPARK_FIELDS)
    )
    version = table.version()
    return DeltaSnapshot(folder, table, str(metadata.id), version, fields, properties, takes_files)


def create_table(folder: Path, schema: str, properties: Mapping[str, str]) -> None:
    """Create an empty Delta table in a local folder, without Spark.

    If another writer creates the table at the same time, that table is kept.

    Args:
        folder: The table's folder.
        schema: The schema in Delta's JSON format.
        properties: The table properties.
    """
    from deltalake import DeltaTable, Schema
    from deltalake.exceptions import DeltaError

    folder.mkdir(parents=True, exist_ok=True)
    try:
        DeltaTable.create(
            folder,
            Schema.from_json(schema),
            mode="error",
            configuration=dict(properties),
            raise_if_key_not_exists=False,
        )
    except DeltaError:
        if read_snapshot(folder) is None:
            raise


def commit_files(
    snapshot: DeltaSnapshot, files: Sequence[DataFile], marker: CommitMetadata, app_id: str
) -> bool:
    """Commit data files as the table version that follows ``snapshot``.

    Without files, the commit stores only metadata. After an error it is not known if the commit was
    made.

    Args:
        snapshot: The version that was read.
        files: The data files to add.
        marker: The commit metadata.
        app_id: The application id of the Delta transaction.

    Returns:
        True if the commit was made; False if another writer has committed that version.
    """
    from deltalake import CommitProperties, Transaction
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import AddAction

    now = time.time_ns() // 1_000_000
    metrics = {
        "numFiles": len(files),
        "numOutputRows": sum(file.rows for file in files),
        "numOutputBytes": sum(file.size for file in files),
    }
    properties = CommitProperties(
        custom_metadata={
            "userMetadata": marker.to_json(),
            "operationMetrics": {name: str(count) for name, count in metrics.items()},
            "isBlindAppend": True,
        },
        max_commit_retries=0,
        app_transactions=[Transaction(app_id, marker.batch, now)],
    )
    actions: list[Any] = [
        AddAction(file.path.name, file.size, {}, file.modified, True, file.statistics)  # noqa: FBT003
        for file in files
    ]
    table = snapshot.table
    try:
        table.create_write_transaction(
            actions, "append", table.schema(), commit_properties=properties
        )
    except CommitFailedError:
        newest = read_snapshot(snapshot.folder)
        if newest is not None and newest.version > snapshot.version:
            return False
        raise
    return True


def _has_plain_protocol(table: DeltaTable) -> bool:
    protocol = table.protocol()
    if protocol.min_writer_version < _FEATURES_WRITER:
        return protocol.min_writer_version <= _LEGACY_WRITER
    return _WRITABLE_FEATURES.issuperset(protocol.writer_features or ())
