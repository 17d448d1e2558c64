"""SQL statements and Spark settings that several table formats share.

All names are quoted and all strings are escaped. Spark settings are restored after the statement
that needs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from target_spark.columns import IS_CURRENT, VALID_FROM, VALID_TO, SchemaChange, TableSchema
from target_spark.errors import TableError
from target_spark.tables.identifiers import format_instant, quote, sql_literal
from target_spark.tables.table import TableLayout
from target_spark.writers.base import VersionDelete

__all__ = [
    "BATCH_VIEW",
    "ONE_FILE_CONF",
    "build_alter_statements",
    "build_column_list",
    "build_end_values",
    "build_file_size_conf",
    "build_version_delete_sql",
    "check_folder_is_empty",
    "find_small_commit_conf",
    "format_properties",
    "spark_conf",
    "version_delete_condition",
]

BATCH_VIEW = "target_spark_batch"
"""Name of the temporary view with the rows that a statement writes into a table."""

ONE_FILE_CONF: Final = {"spark.sql.leafNodeDefaultParallelism": "1"}
"""Spark setting to write rows that Spark holds in memory to one file, instead of one per
processor."""

_PLANNING_DEFAULTS: Final = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""Spark's defaults of settings for the planning of queries. If a user has changed one of them,
target-spark leaves all of them as they are."""

_FILE_SIZE_SETTINGS: Final = (
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes",
)

_SMALL_COMMIT_CONF: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}

_FORMAT_SIGNS: Final = {"_delta_log": "delta", "_manifest.json": "parquet", "metadata": "iceberg"}
"""Files and folders in a table's folder that identify its format, with the value of the setting
``format``."""

_NO_NAME: Final = re.compile("")
"""Pattern that matches no file name."""


def format_properties(properties: Mapping[str, str]) -> str:
    """Return table properties as SQL for TBLPROPERTIES: ``{"a": "1"}`` -> ``'a' = '1'``."""
    return ", ".join(
        f"{sql_literal(key)} = {sql_literal(value)}" for key, value in properties.items()
    )


def build_alter_statements(
    changes: Sequence[SchemaChange], *, to_widen: str | None = None
) -> Iterator[str]:
    """Yield the clauses that follow ``ALTER TABLE <name>`` for a sequence of column changes.

    ``to_widen`` is a clause that must run before the first type change, such as one that enables
    type widening in Delta. None if no such clause is needed.
    """
    added = [change for change in changes if change.kind == "add"]
    widened = [change for change in changes if change.kind == "widen"]
    if added:
        columns = ", ".join(
            f"{quote(*change.path)} {change.ddl}"
            + (f" COMMENT {sql_literal(change.comment)}" if change.comment else "")
            for change in added
        )
        yield f"ADD COLUMNS ({columns})"
    if widened and to_widen is not None:
        yield to_widen
    for change in widened:
        yield f"ALTER COLUMN {quote(*change.path)} TYPE {change.ddl}"


def build_column_list(table_schema: TableSchema) -> str:
    """Return the columns, types and comments of a table schema as SQL for CREATE TABLE."""
    return ", ".join(
        f"{quote(column.name)} {column.type.ddl}"
        + (f" COMMENT {sql_literal(column.comment)}" if column.comment else "")
        for column in table_schema.columns
    )


def version_delete_condition(deletion: VersionDelete) -> str:
    """Return a SQL condition that is true for the rows to delete: rows of other table versions.

    Table versions come from the ACTIVATE_VERSION messages of Singer taps. Rows that are already
    marked as deleted, and ended row versions of an scd2 table, are excluded.
    """
    is_other = f"NOT ({quote(deletion.column)} <=> {deletion.version}L)"
    if deletion.history:
        return f"{quote(IS_CURRENT)} AND {is_other}"
    return (
        is_other
        if deletion.deleted is None
        else f"{is_other} AND {quote(deletion.deleted)} IS NULL"
    )


def build_end_values(deletion: VersionDelete) -> dict[str, str]:
    """Return the SQL values, by column, that end a row version (SCD2) or mark a row as deleted.

    The dictionary is empty if ``deletion`` requires that rows are removed instead.
    """
    time = format_instant(deletion.at)
    values = {}
    if deletion.history:
        # A version ends after its begin, even if that is later than the deletion.
        earliest_end = f"{quote(VALID_FROM)} + INTERVAL 1 MICROSECOND"
        values = {VALID_TO: f"greatest({time}, {earliest_end})", IS_CURRENT: "false"}
    if deletion.deleted is not None:
        values[deletion.deleted] = time
    return values


def build_version_delete_sql(target: str, deletion: VersionDelete) -> str:
    """Return the SQL that deletes rows of other table versions, or marks them as deleted.

    Args:
        target: The SQL name of the table.
        deletion: The table version to keep, and the columns to set.
    """
    condition = version_delete_condition(deletion)
    assignments = ", ".join(
        f"{quote(name)} = {value}" for name, value in build_end_values(deletion).items()
    )
    if not assignments:
        return f"DELETE FROM {target} WHERE {condition}"  # noqa: S608  (every name is quoted)
    return f"UPDATE {target} SET {assignments} WHERE {condition}"  # noqa: S608


def build_file_size_conf(layout: TableLayout) -> dict[str, str]:
    """Return Spark settings that keep output files near the configured size.

    The settings limit the bytes that a task reads and shuffles, and thus the size of the file that
    it writes. The result is empty if the layout has no file size.
    """
    if layout.file_bytes is None:
        return {}
    return dict.fromkeys(_FILE_SIZE_SETTINGS, str(layout.file_bytes))


def find_small_commit_conf(spark: SparkSession) -> dict[str, str]:
    """Return Spark settings that speed up a commit of few rows that reads no large table.

    The settings turn off adaptive planning and code generation, which take longer than such a
    commit. The dictionary is empty if the user has changed Spark's planning settings.
    """
    is_tuned = any(
        str(spark.conf.get(key, default)).upper() != default.upper()
        for key, default in _PLANNING_DEFAULTS.items()
    )
    return {} if is_tuned else dict(_SMALL_COMMIT_CONF)


@contextmanager
def spark_conf(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Context manager: set Spark settings, and restore the previous values when the block ends."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


def check_folder_is_empty(
    folder: Path, table_format: str, *, allowed: re.Pattern[str] = _NO_NAME
) -> None:
    """Check that a local folder has no files, so that a table can be created in the folder.

    Hidden files, names that begin with ``_``, and names that match ``allowed`` are ignored.

    Args:
        folder: The folder, which need not exist.
        table_format: The format of the new table, for the message, such as ``Delta``.
        allowed: The pattern of names to ignore.

    Raises:
        TableError: The folder has other files. The message names the setting ``format`` if the
            files belong to a table of another format.
    """
    if not folder.is_dir():
        return
    names = {file.name for file in folder.iterdir()}
    foreign = min(
        (name for name in names if name[0] not in "._" and not allowed.fullmatch(name)),
        default=None,
    )
    if foreign is None:
        return
    other = next((name for sign, name in _FORMAT_SIGNS.items() if sign in names), None)
    remedy = f"Set format to {other}, or path" if other else "Set path"
    raise TableError(
        f"{folder} has files ({foreign}) and is not a table in {table_format} format. {remedy}"
        f" to another folder{'' if other else ', or move the files away'}."
    )
