"""Tables that batches of files are written to, and what then stands in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tap_core.protocols.fivetran.words import Compression, DataType, Encryption
from target_spark.fivetran.batch import Batch, File, FileParams, Kind
from target_spark.fivetran.batches import Written, write_batch
from target_spark.fivetran.shapes import Column, Shape
from target_spark.fivetran.tables import Tables
from target_spark.names import RESERVED, clean, quote
from tests.fivetran import batch_files
from tests.fivetran.batch_files import Cell

__all__ = ["PARAMS", "Lake", "shape"]

PARAMS = FileParams(
    Compression.ZSTD, Encryption.AES, batch_files.NULL_TEXT, batch_files.UNMODIFIED_TEXT
)

Rows = Iterable[Sequence[Cell]]


def shape(**columns: Any) -> Shape:
    """A shape of name=type; an asterisk before the type's name makes a key of it."""
    made = []
    for name, told in columns.items():
        type_, *digits = told if isinstance(told, tuple) else (told,)
        is_key = type_.startswith("*")
        decimal = (digits[0], digits[1]) if digits else None
        made.append(Column(name, DataType[type_.lstrip("*")], is_key, decimal))
    names = clean([column.name for column in made], RESERVED["iceberg"])
    return Shape(tuple(replace(column, column=names[column.name]) for column in made))


class Lake:
    """The tables of a test, and the files that are written into them."""

    def __init__(self, tables: Tables, home: Path) -> None:
        self.tables = tables
        self.home = home
        self._files = 0

    def file(self, kind: Kind, columns: Sequence[str], rows: Rows) -> File:
        """Write a batch file with a key of its own."""
        self._files += 1
        path, key = self.home / f"{self._files}.csv.zst.aes", batch_files.new_key()
        batch_files.write(path, columns, rows, key=key)
        return File(str(path), kind, key)

    def make(self, name: str, made: Shape) -> None:
        self.tables.create("s", name, made)

    def write(
        self,
        name: str,
        made: Shape,
        *files: File,
        way: Callable[[Tables, str, str, Shape, Batch], Written] = write_batch,
    ) -> Written:
        return way(self.tables, "s", name, made, Batch(files, PARAMS))

    def ref(self, name: str) -> str:
        found = self.tables.described("s", name)
        assert found is not None
        return found.ref

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        """What stands in a table, in the order of its first columns."""
        table = self.tables.spark.table(self.ref(name))
        wanted = table.select(*map(quote, columns)) if columns else table
        return [tuple(row) for row in wanted.orderBy(*wanted.columns).collect()]

    def commits(self, name: str) -> int:
        """How many commits a table has."""
        ref = self.ref(name)
        if self.tables.format == "delta":
            return self.tables.spark.sql(f"DESCRIBE HISTORY {ref}").count()
        return self.tables.spark.table(f"{ref}.snapshots").count()
