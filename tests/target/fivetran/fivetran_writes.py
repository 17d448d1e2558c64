"""Tables of a Fivetran destination and the batch files that tests write into them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tap_core.events import StreamId
from tap_core.protocols.fivetran.enums import Compression, DataType, Encryption
from target_spark.fivetran.batch_request import FileKind, FileParams, RequestFile
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from target_spark.fivetran.tables import TableService
from target_spark.fivetran.write_batch import (
    BatchResult,
    BatchTarget,
    write_changes,
    write_with_retry,
)
from target_spark.tables.identifiers import RESERVED, quote, sanitize_names
from tests.fivetran import batch_files
from tests.fivetran.batch_files import Cell

__all__ = ["PARAMS", "DestinationTables", "make_schema"]

PARAMS = FileParams(
    Compression.ZSTD, Encryption.AES, batch_files.NULL_TEXT, batch_files.UNMODIFIED_TEXT
)

Rows = Iterable[Sequence[Cell]]


def make_schema(**columns: Any) -> FivetranSchema:
    """Return the schema of columns name=type; an asterisk before the type marks a key."""
    created = []
    for name, column_type in columns.items():
        type_, *digits = column_type if isinstance(column_type, tuple) else (column_type,)
        is_key = type_.startswith("*")
        decimal = (digits[0], digits[1]) if digits else None
        created.append(DestinationColumn(name, DataType[type_.lstrip("*")], is_key, decimal))
    names = sanitize_names([column.name for column in created], RESERVED["iceberg"])
    return FivetranSchema(tuple(replace(column, column=names[column.name]) for column in created))


class DestinationTables:
    """The tables of a test, and the files that are written into them."""

    def __init__(self, tables: TableService, home: Path) -> None:
        self.tables = tables
        self.home = home
        self._files = 0

    def file(self, kind: FileKind, columns: Sequence[str], rows: Rows) -> RequestFile:
        """Write a batch file with a new key."""
        self._files += 1
        path, key = self.home / f"{self._files}.csv.zst.aes", batch_files.new_key()
        batch_files.write_batch_file(path, columns, rows, key=key)
        return RequestFile(str(path), kind, key)

    def make(self, name: str, fivetran_schema: FivetranSchema) -> None:
        self.tables.create(StreamId(name, "s"), fivetran_schema)

    def write(
        self,
        name: str,
        fivetran_schema: FivetranSchema,
        *files: RequestFile,
        write_with: Callable[[BatchTarget, Sequence[RequestFile], FileParams], int] = write_changes,
    ) -> BatchResult:
        return write_with_retry(
            self.tables, StreamId(name, "s"), fivetran_schema, files, PARAMS, write_with
        )

    def ref(self, name: str) -> str:
        existing = self.tables.describe(StreamId(name, "s"))
        assert existing is not None
        return existing.ref

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return the rows of a table, ordered by its columns."""
        table = self.tables.spark.table(self.ref(name))
        selected = table.select(*map(quote, columns)) if columns else table
        return [tuple(row) for row in selected.orderBy(*selected.columns).collect()]

    def commits(self, name: str) -> int:
        """Return the number of commits of a table."""
        ref = self.ref(name)
        if self.tables.format == "delta":
            return self.tables.spark.sql(f"DESCRIBE HISTORY {ref}").count()
        return self.tables.spark.table(f"{ref}.snapshots").count()
