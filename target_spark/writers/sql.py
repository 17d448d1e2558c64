"""SQL statements and Spark settings that several table formats share.

All names are quoted and all strings are escaped. Settings that pass a value to a statement are
reset after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from target_spark.columns import IS_CURRENT, VALID_FROM, VALID_TO, SchemaChange, TableSchema
from target_spark.errors import TableError
from target_spark.tables.identifiers import format_instant, quote, sql_literal
from target_spark.writers.base import DELETE_ONLY_COLUMN, MergeKeys, VersionDelete, sort_rows

__all__ = [
    "BATCH_VIEW",
    "as_initial_rows",
    "build_alter_statements",
    "build_end_values",
    "build_version_delete",
    "check_folder_is_table",
    "format_properties",
    "get_columns",
    "spark_conf",
    "version_delete_condition",
]

BATCH_VIEW = "target_spark_batch"
"""Name of the temporary view with the rows that a statement writes into a table."""


def format_properties(properties: Mapping[str, str]) -> str:
    """Return table properties as the list that TBLPROPERTIES takes."""
    return ", ".join(
        f"{sql_literal(key)} = {sql_literal(value)}" for key, value in properties.items()
    )


def build_alter_statements(
    changes: Sequence[SchemaChange], *, to_widen: str | None = None
) -> Iterator[str]:
    """Yield one ALTER TABLE clause per change; ``to_widen`` precedes the first widened type.

    ``to_widen`` is a clause that enables type widening in the table.
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


def get_columns(layout: TableSchema) -> str:
    """Return the column list of CREATE TABLE, with comments."""
    return ", ".join(
        f"{quote(column.name)} {column.type.ddl}"
        + (f" COMMENT {sql_literal(column.comment)}" if column.comment else "")
        for column in layout.columns
    )


def as_initial_rows(newest: DataFrame, keys: MergeKeys) -> DataFrame:
    """Return the rows of a batch to insert into an empty table, without deleted rows."""
    if keys.deleted is not None and keys.hard_delete:
        newest = newest.where(F.col(quote(keys.deleted)).isNull())
    if keys.removed is not None:
        newest = newest.where(F.col(quote(keys.removed)).isNull())
    return sort_rows(newest.drop(DELETE_ONLY_COLUMN), keys.sort_by)


def version_delete_condition(retirement: VersionDelete) -> str:
    """Return the SQL condition for rows of other table versions that are not yet marked deleted."""
    others = f"NOT ({quote(retirement.column)} <=> {retirement.version}L)"
    if retirement.history:
        return f"{quote(IS_CURRENT)} AND {others}"
    return (
        others
        if retirement.deleted is None
        else f"{others} AND {quote(retirement.deleted)} IS NULL"
    )


def build_end_values(retirement: VersionDelete) -> dict[str, str]:
    """Return the SQL values, by column, that mark a row as deleted; empty if rows are removed."""
    at = format_instant(retirement.at)
    put = {}
    if retirement.history:
        later = f"{quote(VALID_FROM)} + INTERVAL 1 MICROSECOND"
        put = {VALID_TO: f"greatest({at}, {later})", IS_CURRENT: "false"}
    if retirement.deleted is not None:
        put[retirement.deleted] = at
    return put


def build_version_delete(target: str, retirement: VersionDelete) -> str:
    """Return the statement that deletes, or marks as deleted, the rows of other table versions."""
    found = version_delete_condition(retirement)
    put = ", ".join(
        f"{quote(name)} = {value}" for name, value in build_end_values(retirement).items()
    )
    if not put:
        return f"DELETE FROM {target} WHERE {found}"  # noqa: S608  (every name is quoted)
    return f"UPDATE {target} SET {put} WHERE {found}"  # noqa: S608


@contextmanager
def spark_conf(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set Spark settings during the block, and restore the previous values after it."""
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


def check_folder_is_table(
    folder: Path, table_format: str, *, but: Collection[str] = frozenset()
) -> None:
    """Check that a folder without a table has no files, except hidden ones and those in ``but``.

    Raises:
        TableError: the folder has other files.
    """
    if not folder.is_dir():
        return
    names = (file.name for file in folder.iterdir())
    strange = next((name for name in names if name[0] not in "._" and name not in but), None)
    if strange is not None:
        raise TableError(
            f"{folder} has files ({strange}) but is not a {table_format} table. Set path to"
            " another folder, or move the files away."
        )
