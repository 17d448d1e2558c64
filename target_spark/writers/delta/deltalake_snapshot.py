"""Versions of a Delta table in a local folder, read by the library deltalake without a JVM.

A snapshot says if the table may be written without Spark. Tables with partitions, clustering,
constraints, column mapping or generated columns may not.

Source: the Delta protocol, "Requirements for Writers" and "Table Features".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812

from target_spark.storage.uris import is_read_as_another_folder

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset
    from deltalake import DeltaTable

__all__ = ["DeltaSnapshot", "open_dataset", "read_snapshot"]

_WRITABLE_FEATURES: Final = frozenset(
    {"appendOnly", "changeDataFeed", "deletionVectors", "invariants", "timestampNtz"}
)
"""Delta table features that require nothing special of a commit that only adds files."""

_REWRITABLE_FEATURES: Final = frozenset({"appendOnly", "invariants", "timestampNtz"})
"""Delta table features that require nothing special of a commit that replaces files."""

_COLUMN_MAPPING: Final = "delta.columnMapping.mode"

_REWRITE_PROPERTIES: Final = (
    "delta.appendOnly",
    "delta.enableChangeDataFeed",
    "delta.enableDeletionVectors",
)
"""Table properties that, if set, require Spark for a commit that replaces files."""

_LEGACY_WRITER: Final = 2
"""The highest writer version of the Delta protocol that requires only the features appendOnly and
invariants."""

_FEATURES_WRITER: Final = 7
_SPARK_ONLY_PROPERTIES: Final = (
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
"""Prefixes of table properties that control how rows, files or statistics are written. A table with
such a property is written by Spark."""

_SPARK_ONLY_FIELDS: Final = (
    '"delta.generationExpression"',
    '"delta.identity.',
    '"delta.invariants"',
    '"CURRENT_DEFAULT"',
    '"__CHAR_VARCHAR_TYPE_STRING"',
    '"nullable":false',
    '"containsNull":false',
    '"valueContainsNull":false',
)
"""Strings in the JSON schema of a table with columns that Spark computes or checks, such as NOT
NULL columns. Such a table is written by Spark."""


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
        partition_columns: The names of the partition columns.
        takes_files: True if rows may be added by committing Parquet files without Spark. False if
            the table has features, such as partitions or constraints, that only Spark supports.
        takes_rewrites: True if rows may also be updated, deleted or overwritten without Spark.
            False if features such as a change data feed require Spark for this.
    """

    folder: Path
    table: DeltaTable
    id: str
    version: int
    fields: tuple[T.StructField, ...]
    properties: Mapping[str, str]
    partition_columns: tuple[str, ...]
    takes_files: bool
    takes_rewrites: bool

    def has_files(self) -> bool:
        """Return True if this version of the table has data files."""
        return bool(self.table.file_uris())

    def file_bytes(self) -> int:
        """Return the total size in bytes of the data files of this version."""
        import pyarrow as pa

        sizes = pa.table(self.table.get_add_actions(flatten=True))["size_bytes"]
        return sum(sizes.to_pylist())

    def read_columns(self, is_read: Callable[[pa.DataType], bool]) -> pa.Table:
        """Return the columns of this version for whose type ``is_read`` is true, with all rows.

        Without such a column, no file is read, and the result is empty.
        """
        import pyarrow as pa

        schema = pa.schema(self.table.schema().to_arrow())
        names = [field.name for field in schema if is_read(field.type)]
        return _to_dataset(self.folder, self.table).to_table(names) if names else pa.table({})

    def has_value(self, column: str, value: int) -> bool:
        """Return True if a row of this version has the integer ``value`` in a column."""
        import pyarrow.compute as pc

        rows = _to_dataset(self.folder, self.table)
        return bool(rows.head(1, columns=[column], filter=pc.field(column) == value).num_rows)

    def has_batch(self, app_id: str, batch: int) -> bool:
        """Return True if the last batch that a run committed to the table has the number ``batch``.

        Delta's log stores the number under ``app_id``, the application id of the run (see
        `txn_app_id`).
        """
        return self.table.transaction_version(app_id) == batch


def read_snapshot(folder: Path) -> DeltaSnapshot | None:
    """Return the newest version of a Delta table in a local folder, read without Spark.

    Return None if there is no table, or if the library deltalake does not support it.
    """
    if not (folder / "_delta_log").is_dir() or is_read_as_another_folder(folder):
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
    schema = table.schema().to_json()
    properties = metadata.configuration
    fields = tuple(T.StructType.fromJson(json.loads(schema)).fields)
    takes_files = (
        not metadata.partition_columns
        and _has_supported_protocol(table)
        and not any(name.startswith(_SPARK_ONLY_PROPERTIES) for name in properties)
        and not any(text in schema for text in _SPARK_ONLY_FIELDS)
    )
    takes_rewrites = takes_files and not _requires_spark_for_rewrites(table, properties)
    return DeltaSnapshot(
        folder,
        table,
        str(metadata.id),
        table.version(),
        fields,
        properties,
        tuple(metadata.partition_columns),
        takes_files,
        takes_rewrites,
    )


def open_dataset(folder: Path) -> pa.dataset.Dataset | None:
    """Return a Delta table in a local folder as an Arrow dataset.

    Return None if there is no table, or if the library deltalake cannot read it, for example
    because of deletion vectors or mapped columns.
    """
    from deltalake.exceptions import DeltaError

    snapshot = read_snapshot(folder)
    if snapshot is None or _COLUMN_MAPPING in snapshot.properties:
        return None  # deltalake reads mapped columns by wrong names if the reader version is 2
    try:
        return _to_dataset(folder, snapshot.table)
    except DeltaError:
        return None


def _to_dataset(folder: Path, table: DeltaTable) -> pa.dataset.Dataset:
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    # With deltalake's own file system, which is Python code, a thread of Arrow that still reads
    # ahead when the process ends would abort it.
    files = SubTreeFileSystem(str(folder.absolute()), LocalFileSystem())
    return table.to_pyarrow_dataset(filesystem=files)


def _requires_spark_for_rewrites(table: DeltaTable, properties: Mapping[str, str]) -> bool:
    features = set(table.protocol().writer_features or ())
    is_set = {name for name in _REWRITE_PROPERTIES if properties.get(name, "false") != "false"}
    return bool(is_set or features - _REWRITABLE_FEATURES)


def _has_supported_protocol(table: DeltaTable) -> bool:
    protocol = table.protocol()
    if protocol.min_writer_version < _FEATURES_WRITER:
        return protocol.min_writer_version <= _LEGACY_WRITER
    return _WRITABLE_FEATURES.issuperset(protocol.writer_features or ())
