"""Recovery of the last Singer state that a job has committed together with its rows.

The state is stored in the commit metadata of the tables. All tables below ``path`` and in the
configured catalogs and databases are searched, and the newest state of the job is returned. Spark
is started only for tables that cannot be read as local files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from target_spark.config.options import LoadOptions, split_identifier, uses_paths
from target_spark.errors import StorageError, TableError, TargetSparkError
from target_spark.storage.commit_retry import first_error_line
from target_spark.storage.error_explanations import find_storage_error
from target_spark.storage.uris import list_subfolders, to_local_folder
from target_spark.tables.commit_metadata import (
    NO_METADATA,
    CommitMetadata,
    ExpectedMetadata,
    find_latest_metadata,
)
from target_spark.tables.identifiers import quote
from target_spark.tables.table import RUNS, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.writers import Writer

__all__ = [
    "UNCOVERED_ROWS",
    "RecoveredTable",
    "find_recoverable_tables",
    "get_expected_metadata",
    "get_job_metadata",
]

UNCOVERED_ROWS: Final = (
    "A later run committed rows after this state and ended before a state of its own. If that run"
    " resumed from an older state, and its tap sends changes (log-based replication) instead of"
    " current values, upserted rows may be older than this state: resume from the state with which"
    " that run began."
)
"""Warning that an interrupted run has committed rows after the last state.

The metadata of the state then has `CommitMetadata.uncovered_since`, the start of that run.
"""


@dataclass(frozen=True, slots=True)
class RecoveredTable:
    """An existing table, and the metadata of its newest commit, which may contain a state.

    Attributes:
        table: The table.
        marker: The metadata that target-spark stored in the commit, such as the state; None if the
            commit has no such metadata.
        unknown: True if another program has written the rows of the table, so that it has no
            metadata.
    """

    table: Table
    marker: CommitMetadata | None
    unknown: bool = False


def get_job_metadata(
    jobs: Collection[str], tables: Iterable[RecoveredTable]
) -> CommitMetadata | None:
    """Return the metadata of a job's newest commit, including the job's last state.

    Return None if no table contains a state of the job.

    Args:
        jobs: The job's name, and the default names that earlier releases gave the same job.
        tables: The tables to search, each with the metadata of its newest commit.
    """
    last = find_latest_metadata(
        each.marker for each in tables if each.marker and each.marker.job in jobs
    )
    return None if last is None or last.state is None else last


def get_expected_metadata(tables: Iterable[RecoveredTable]) -> ExpectedMetadata:
    """Return the commit metadata that each table must have when the run first reads the table.

    Other metadata at that time means that the table has changed. ``tables`` are the existing tables
    in all locations to which the run loads.
    """
    return ExpectedMetadata(
        {each.table.key: None if each.unknown else each.marker or NO_METADATA for each in tables}
    )


def find_recoverable_tables(
    options: LoadOptions, get_spark: Callable[[], SparkSession]
) -> list[RecoveredTable]:
    """Return the existing tables in all configured locations, to recover a state from them.

    Each has the metadata of its newest commit.

    Args:
        options: The options of the load, which determine the locations.
        get_spark: A function that returns a Spark session. It is called only if tables cannot be
            read as local files.

    Raises:
        TargetSparkError: Spark cannot start, or a table cannot be read.
    """
    tables: list[RecoveredTable] = []
    for catalog, database in _get_catalog_databases(options):
        levels = split_identifier(catalog, database)
        if uses_paths(options.format, catalog) or not levels:
            tables += _find_below_path(
                options, "/".join((options.path.rstrip("/"), *levels)), get_spark
            )
        else:
            tables += _find_in_database(options, get_spark(), levels)
    return tables


def _get_catalog_databases(options: LoadOptions) -> list[tuple[str | None, str | None]]:
    """Return the (catalog, database) pairs of all tables that the settings define.

    An item of a pair is None if the setting is missing.
    """
    options_of_streams = [
        options.every,
        *(special.with_defaults(options.every) for special in options.streams.values()),
    ]
    return list(dict.fromkeys((merged.catalog, merged.database) for merged in options_of_streams))


# Folders below the path


def _find_below_path(
    options: LoadOptions, path: str, get_spark: Callable[[], SparkSession]
) -> Iterator[RecoveredTable]:
    folder = to_local_folder(path)
    if folder is None:
        yield from _find_at_url(options, path, get_spark())
    elif folder.is_dir():
        read = _READ_AS_FILES[options.format]
        for table_folder in list_subfolders(folder):
            name = table_folder.name
            if name[0] not in "._":
                yield from read(table_folder, Table(f"{path}/{name}", name))


def _find_at_url(options: LoadOptions, path: str, spark: SparkSession) -> list[RecoveredTable]:
    try:
        return list(_read_with_writer(options, spark, _list_folder_tables(path, spark)))
    except Exception as error:
        refusal = find_storage_error(str(error))
        if refusal is None:
            raise
        raise StorageError(
            f"The tables at {path} cannot be listed: {refusal}. Error: {first_error_line(error)}"
        ) from error


def _read_delta(folder: Path, table: Table) -> Iterator[RecoveredTable]:
    from target_spark.writers.delta.log_reader import has_had_rows, read_last_metadata

    if (folder / "_delta_log").is_dir():
        marker = read_last_metadata(folder)
        yield RecoveredTable(table, marker, unknown=marker is None and has_had_rows(folder))


def _read_parquet(folder: Path, table: Table) -> Iterator[RecoveredTable]:
    from target_spark.tables.parquet_manifest import CommitManifest

    manifest = CommitManifest.read(folder)
    if manifest is not None:
        yield RecoveredTable(table, manifest.marker)
    elif next(folder.glob("*.parquet"), None) is not None:
        yield RecoveredTable(table, None, unknown=True)


def _read_iceberg(folder: Path, table: Table) -> Iterator[RecoveredTable]:
    from target_spark.tables.iceberg_metadata import read_local_snapshots, table_exists

    if not table_exists(folder):
        return
    snapshots = list(read_local_snapshots(folder))
    marker = next(filter(None, (snapshot.marker for snapshot in snapshots)), None)
    with_rows = any(snapshot.summary.get("total-records") != "0" for snapshot in snapshots)
    yield RecoveredTable(table, marker, unknown=marker is None and with_rows)


_READ_AS_FILES: Final[Mapping[str, Callable[[Path, Table], Iterator[RecoveredTable]]]] = {
    "delta": _read_delta,
    "iceberg": _read_iceberg,
    "parquet": _read_parquet,
}
"""Functions that read tables as local files without Spark, by table format.

If a folder contains a table, the function yields it with the metadata of its newest commit.
"""


def _list_folder_tables(path: str, spark: SparkSession) -> Iterator[Table]:
    from target_spark.storage.hadoop_fs import list_folders

    for name in list_folders(spark, path):
        if name[0] not in "._":
            yield Table(f"{path}/{name}", name)


# Tables of a catalog

_NO_DATABASE: Final = re.compile(r"\[SCHEMA_NOT_FOUND\]|\bNoSuchNamespaceException\b")
"""Regular expression for the errors that Spark and Iceberg's catalogs raise for a database that
does not exist."""


def _find_in_database(
    options: LoadOptions, spark: SparkSession, levels: tuple[str, ...]
) -> Iterator[RecoveredTable]:
    try:
        rows = spark.sql(f"SHOW TABLES IN {quote(*levels)}").collect()
    except Exception as error:
        if _NO_DATABASE.search(str(error)):  # the first run creates it
            return
        raise TableError(
            f"The tables of {'.'.join(levels)} cannot be listed. Check catalog and database,"
            f" and the catalog's options in the setting spark. Error:"
            f" {find_storage_error(str(error)) or first_error_line(error)}"
        ) from error
    names = sorted(row.tableName for row in rows if not row.isTemporary and row.tableName != RUNS)
    tables = (Table("", name, (*levels, name)) for name in names)
    yield from _read_with_writer(options, spark, tables)


def _read_with_writer(
    options: LoadOptions, spark: SparkSession, tables: Iterable[Table]
) -> Iterator[RecoveredTable]:
    from target_spark.writers import get_writer

    writer = get_writer(options.format)
    for table in tables:
        if _is_table(writer, spark, table):
            marker = writer.get_last_metadata(spark, table)
            unknown = marker is None and not writer.rows(spark, table).isEmpty()
            yield RecoveredTable(table, marker, unknown=unknown)


def _is_table(writer: Writer, spark: SparkSession, table: Table) -> bool:
    try:
        return writer.get_column_types(spark, table) is not None
    except TargetSparkError:  # the folder is not a table
        return False
