"""Warehouse: a mapping of table names to tables that are read as Arrow, pandas, Polars or DuckDB.

Each format has a module with the functions `is_table`, `read_runs`, `open_table`, `get_schema` and
`read_rows`. `get_schema` and `read_rows` take the result of `open_table`, so that schema and rows
are of the same version. A table is read at one version: a Delta version, an Iceberg snapshot id, or
the commit number of a Parquet manifest. The default, None, is the newest version.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from target_spark.errors import TableError, UnsupportedError
from target_spark.readers import delta, iceberg, parquet
from target_spark.storage.uris import list_subfolders, to_local_folder

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["Warehouse", "WarehouseTable", "open_warehouse"]


_READERS: Final[Mapping[str, ModuleType]] = {
    "delta": delta,
    "iceberg": iceberg,
    "parquet": parquet,
}


@dataclass(frozen=True, slots=True)
class WarehouseTable:
    """A table that target-spark has loaded, at its newest version or as of the end of a run.

    Attributes:
        name: The name of the table and of its folder.
        format: ``delta``, ``iceberg`` or ``parquet``.
        folder: The folder of the table.
        version: The version that is read; None for the newest at the time of each read.
    """

    name: str
    format: str
    folder: Path
    version: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table as an Arrow schema."""
        table = self._reader.open_table(self.folder, self.version)
        schema: pa.Schema = self._reader.get_schema(table)
        return schema

    @property
    def runs(self) -> Mapping[str, int]:
        """The table version after each run of target-spark, by run id, newest run first.

        A run's version is the one that its last commit created. Runs whose commits are no longer in
        the table's history are missing.
        """
        versions: Mapping[str, int] = self._reader.read_runs(self.folder)
        return versions

    def at_run(self, run: str) -> WarehouseTable:
        """Return the table as it was after the last commit of a run of target-spark.

        Args:
            run: Id of the run, as in `runs`, in the report and in the table of runs.

        Raises:
            TableError: The run has not written to the table, or its commits are no longer in the
                table's history.
        """
        version = self.runs.get(run)
        if version is None:
            raise TableError(
                f"Table {self.name} has no commit of run {run}. `runs` has the runs whose commits"
                " are still in the table's history."
            )
        return replace(self, version=version)

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of the table as an Arrow table.

        Args:
            columns: Names of the columns to read; None for all.

        Raises:
            TableError: A column does not exist, or the table has a feature that can only be read
                by Spark.
        """
        table = self._reader.open_table(self.folder, self.version)
        names = self._reader.get_schema(table).names
        missing = [name for name in columns or () if name not in names]
        if missing:
            raise TableError(
                f"Table {self.name} has no column {', '.join(missing)}. Its columns are:"
                f" {', '.join(names)}."
            )
        rows: pa.Table = self._reader.read_rows(table, columns or names)
        return rows

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame; ``columns`` are those to read, None for all.

        The DataFrame has Arrow types, so that integer columns with nulls do not become floats.
        """
        pandas = _import("pandas")
        frame: pd.DataFrame = self.to_arrow(columns).to_pandas(types_mapper=pandas.ArrowDtype)
        return frame

    def to_polars(self, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows as a Polars DataFrame; ``columns`` are those to read, None for all."""
        frame: pl.DataFrame = _import("polars").from_arrow(self.to_arrow(columns))
        return frame

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Register the rows in DuckDB under the name of the table, and return them as a relation.

        Args:
            connection: The DuckDB connection; None for DuckDB's default connection.
        """
        used = _import("duckdb") if connection is None else connection
        used.register(self.name, self.to_arrow())
        relation: duckdb.DuckDBPyRelation = used.table(self.name)
        return relation

    @property
    def _reader(self) -> ModuleType:
        return _READERS[self.format]


class Warehouse(Mapping[str, WarehouseTable]):
    """The tables that target-spark has loaded into a folder, by name.

    The mapping contains the tables of streams, their quarantine tables, and the table of runs. Each
    access reads the folder again, so tables of later runs appear too.

    Args:
        folder: The folder of the tables, which is the setting ``path`` of target-spark.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> WarehouseTable:
        """Return the table named ``name``.

        Raises:
            KeyError: There is no such table.
        """
        folder = self._folder / name
        if Path(name).name == name:
            for format_, reader in _READERS.items():
                if reader.is_table(folder):
                    return WarehouseTable(name, format_, folder)
        tables = ", ".join(self) or "none"
        raise KeyError(f"There is no table {name!r} in {self._folder}. Tables: {tables}.")

    def __iter__(self) -> Iterator[str]:
        for folder in list_subfolders(self._folder):
            if any(reader.is_table(folder) for reader in _READERS.values()):
                yield folder.name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"Warehouse({str(self._folder)!r}: {', '.join(self) or 'no tables'})"


def open_warehouse(path: str | os.PathLike[str]) -> Warehouse:
    """Open the folder into which target-spark has loaded tables, to read them without Spark.

    ```python
    warehouse = target_spark.open_warehouse("out/tables")
    warehouse["orders"].to_pandas()
    warehouse["orders"].at_run("1764159000000-3f2a").to_arrow(["id", "price"])
    ```

    Args:
        path: A local folder, or its ``file:`` URI: the setting ``path`` of target-spark.

    Raises:
        UnsupportedError: The path is not on a local file system.
        TableError: There is no such folder, or it is the folder of a single table.
    """
    folder = to_local_folder(os.fspath(path))
    if folder is None:
        raise UnsupportedError(
            f"open_warehouse reads local folders, and {path} is not one. Read one table of a remote"
            " storage with deltalake.DeltaTable, or with a catalog of pyiceberg."
        )
    if not folder.is_dir():
        raise TableError(f"There is no folder {folder}. Check the path of the tables.")
    if any(reader.is_table(folder) for reader in _READERS.values()):
        raise TableError(
            f"{folder} is a table. Open the folder above it, and get the table from the result by"
            f" its name: open_warehouse(…)[{folder.name!r}]."
        )
    return Warehouse(folder)


def _import(library: str) -> Any:
    """Import an optional library, which the user has to install, such as Polars.

    Raises:
        UnsupportedError: The library is not installed.
    """
    try:
        return import_module(library)
    except ImportError as error:
        raise UnsupportedError(
            f"{library} is not installed: pip install {library}, or use to_arrow()."
        ) from error
