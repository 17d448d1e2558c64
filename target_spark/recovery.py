"""What the tables themselves say was committed: the state to resume from.

Rules of the room: reading only. The tables of a job are found where its settings put
tables (the folders below ``path``, the tables of each catalog and database), and each is
asked for its newest marker. Over a job's tables the marker with the last position counts
(`ledger.newest`). A table that has rows and no marker is unknown, never empty: somebody
else wrote it, and what it holds is not known to be in any state. Spark is started only
where tables do not lie on this machine as files that can be read without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from target_spark.errors import StorageError, TableError, TargetSparkError
from target_spark.ledger import Marker, newest
from target_spark.names import quote
from target_spark.options import LoadOptions, in_folders, levels_of
from target_spark.places import local_folder
from target_spark.retries import first_line
from target_spark.stores import refusal_in
from target_spark.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.writers import Writer

__all__ = ["Witness", "last_marker_of", "witnesses"]


@dataclass(frozen=True, slots=True)
class Witness:
    """A table and its newest marker. Without a marker it is ``unknown`` if it has rows."""

    table: str
    marker: Marker | None
    unknown: bool = False


def last_marker_of(jobs: Collection[str], found: Iterable[Witness]) -> Marker | None:
    """Return the marker to recover a job from; None where none of its tables holds a state.

    ``jobs`` are its name and its former ones.
    """
    last = newest(each.marker for each in found if each.marker and each.marker.job in jobs)
    return None if last is None or last.state is None else last


def witnesses(options: LoadOptions, spark: Callable[[], SparkSession]) -> list[Witness]:
    """Return what each table says; ``spark`` is called only where it is needed.

    Raises:
        TargetSparkError: Spark cannot come up, or a table cannot be read.
    """
    found: list[Witness] = []
    for catalog, database in _places(options):
        levels = levels_of(catalog, database)
        if in_folders(options.format, catalog) or not levels:
            found += _below(options, "/".join((options.path.rstrip("/"), *levels)), spark)
        else:
            found += _in_database(options, spark(), levels)
    return found


def _places(options: LoadOptions) -> list[tuple[str | None, str | None]]:
    """Return each catalog and database in which a stream may have its table, none included."""
    asked = [options.every, *(own.over(options.every) for own in options.streams.values())]
    return list(dict.fromkeys((each.catalog, each.database) for each in asked))


# Folders below the path


def _below(options: LoadOptions, path: str, spark: Callable[[], SparkSession]) -> Iterator[Witness]:
    folder = local_folder(path)
    if folder is None:
        yield from _at_address(options, path, spark())
    elif folder.is_dir():
        read = _READ_AS_FILES[options.format]
        for place in sorted(folder.iterdir()):
            if place.name[0] not in "._" and place.is_dir():
                yield from read(place)


def _at_address(options: LoadOptions, path: str, spark: SparkSession) -> list[Witness]:
    try:
        return list(_by_writer(options, spark, _folders(path, spark)))
    except Exception as error:
        refusal = refusal_in(str(error))
        if refusal is None:
            raise
        words = f"The tables at {path} cannot be listed: {refusal}. It says: {first_line(error)}"
        raise StorageError(words) from error


def _of_delta(folder: Path) -> Iterator[Witness]:
    from target_spark.writers.delta_log import ever_had_rows, newest_in_folder

    if (folder / "_delta_log").is_dir():
        marker = newest_in_folder(folder)
        yield Witness(folder.name, marker, unknown=marker is None and ever_had_rows(folder))


def _of_parquet(folder: Path) -> Iterator[Witness]:
    from target_spark.writers.parquet import Manifest

    manifest = Manifest.read(folder)
    if manifest is not None:
        yield Witness(folder.name, manifest.marker)
    elif next(folder.glob("*.parquet"), None) is not None:
        yield Witness(folder.name, None, unknown=True)


def _of_iceberg(folder: Path) -> Iterator[Witness]:
    from target_spark.writers.iceberg_log import has_table, in_folder

    if not has_table(folder):
        return
    known = list(in_folder(folder))
    marker = next(filter(None, (snapshot.marker for snapshot in known)), None)
    with_rows = any(snapshot.summary.get("total-records") != "0" for snapshot in known)
    yield Witness(folder.name, marker, unknown=marker is None and with_rows)


_READ_AS_FILES: Final[Mapping[str, Callable[[Path], Iterator[Witness]]]] = {
    "delta": _of_delta,
    "iceberg": _of_iceberg,
    "parquet": _of_parquet,
}
"""By format: how a table on this machine is read without Spark."""


def _folders(path: str, spark: SparkSession) -> Iterator[Table]:
    from target_spark.folders import subfolders

    for name in subfolders(spark, path):
        if name[0] not in "._":
            yield Table(f"{path}/{name}", name)


# Tables of a catalog


def _in_database(
    options: LoadOptions, spark: SparkSession, place: tuple[str, ...]
) -> Iterator[Witness]:
    from pyspark.errors import AnalysisException

    try:
        rows = spark.sql(f"SHOW TABLES IN {quote(*place)}").collect()
    except AnalysisException as error:
        if error.getCondition() == "SCHEMA_NOT_FOUND":  # the first run makes it
            return
        raise TableError(
            f"The tables of {'.'.join(place)} cannot be listed. Check catalog and database,"
            f" and what the setting spark says of the catalog: {error.getCondition()}"
        ) from error
    names = sorted(row.tableName for row in rows if not row.isTemporary)
    yield from _by_writer(options, spark, (Table("", name, (*place, name)) for name in names))


def _by_writer(
    options: LoadOptions, spark: SparkSession, tables: Iterable[Table]
) -> Iterator[Witness]:
    from target_spark.writers import writer_for

    writer = writer_for(options.format)
    for table in tables:
        if _is_table(writer, spark, table):
            marker = writer.last_marker(spark, table)
            unknown = marker is None and not writer.rows(spark, table).isEmpty()
            yield Witness(table.name, marker, unknown=unknown)


def _is_table(writer: Writer, spark: SparkSession, table: Table) -> bool:
    try:
        return writer.table_types(spark, table) is not None
    except TargetSparkError:  # files of something else: no table of ours
        return False
