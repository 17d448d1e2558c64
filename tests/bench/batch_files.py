"""Rows of twenty columns in batch files of Fivetran, and the same lines in plain CSV.

All values depend only on the number of the row. No value is null or unmodified, so that a reader
that does not know Fivetran's markers reads the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from fivetran_tester.batch_files import BatchFileSet
from fivetran_tester.known_tables import KnownColumn
from tap_core.protocols.fivetran.enums import Compression, DataType, Encryption

__all__ = [
    "COLUMNS",
    "COMPRESSIBLE_COLUMNS",
    "DDL",
    "compressible_rows",
    "csv_rows",
    "write_encrypted",
    "write_plain",
]

_TYPES = (
    ("id", DataType.LONG, "BIGINT"),
    ("name", DataType.STRING, "STRING"),
    ("email", DataType.STRING, "STRING"),
    ("city", DataType.STRING, "STRING"),
    ("note", DataType.STRING, "STRING"),
    ("code", DataType.STRING, "STRING"),
    ("quantity", DataType.INT, "INT"),
    ("place", DataType.SHORT, "SMALLINT"),
    ("big", DataType.LONG, "BIGINT"),
    ("amount", DataType.DECIMAL, "DECIMAL(12,2)"),
    ("price", DataType.DECIMAL, "DECIMAL(18,4)"),
    ("ratio", DataType.DOUBLE, "DOUBLE"),
    ("score", DataType.DOUBLE, "DOUBLE"),
    ("weight", DataType.FLOAT, "FLOAT"),
    ("active", DataType.BOOLEAN, "BOOLEAN"),
    ("day", DataType.NAIVE_DATE, "DATE"),
    ("at", DataType.UTC_DATETIME, "TIMESTAMP"),
    ("local", DataType.NAIVE_DATETIME, "TIMESTAMP_NTZ"),
    ("_fivetran_deleted", DataType.BOOLEAN, "BOOLEAN"),
    ("_fivetran_synced", DataType.UTC_DATETIME, "TIMESTAMP"),
)
_PRECISIONS = {"amount": (12, 2), "price": (18, 4)}

COLUMNS = tuple(
    KnownColumn(name, kind, name == "id", _PRECISIONS.get(name)) for name, kind, _ in _TYPES
)
"""The columns in Fivetran's types."""

DDL = ", ".join(f"{name} {ddl}" for name, _, ddl in _TYPES)
"""The columns as a schema of Spark."""

COMPRESSIBLE_COLUMNS = (
    KnownColumn("id", DataType.LONG, is_key=True),
    KnownColumn("text", DataType.STRING, is_key=False),
    KnownColumn("_fivetran_synced", DataType.UTC_DATETIME, is_key=False),
)
"""The columns of rows that compression reduces to a tenth of their size."""

_ROWS_PER_WRITE = 10_000
_FILLER = "the quick brown fox jumps over the lazy dog " * 20


def csv_rows(numbers: Iterable[int], turn: int = 0) -> Iterator[str]:
    """Yield the lines of rows. Their values differ between turns."""
    for n in numbers:
        k = (n * 7919 + turn) % 1_000_003
        yield (
            f"{n},Customer {k % 5000},customer.{k}@example.com,City {k % 300},"
            f'"a note of some length about {k}, with a comma",C{k:06},{k % 100_000},{k % 1000},'
            f"{n * 4_000_037},{k % 9999}.{k % 100:02},{k}.{k % 10_000:04},{k / 7},{k / 1000},"
            f"{k % 512}.5,{'true' if k % 2 else 'false'},20{k % 25:02}-{k % 12 + 1:02}-"
            f"{k % 28 + 1:02},2024-{k % 12 + 1:02}-{k % 28 + 1:02}T{k % 24:02}:{k % 60:02}:07."
            f"{k % 1000:03}Z,2023-{k % 12 + 1:02}-11T{k % 24:02}:{k % 60:02}:{k % 60:02},false,"
            f"2024-05-01T08:{turn:02}:00Z\n"
        )


def compressible_rows(count: int) -> Iterator[str]:
    """Yield the lines of rows of a kilobyte, of which a tenth is random."""
    for n in range(count):
        yield f'{n},"{os.urandom(100).hex()}{_FILLER}",2024-05-01T08:00:00Z\n'


def write_encrypted(
    folder: Path, name: str, columns: Iterable[KnownColumn], lines: Iterator[str], file_rows: int
) -> tuple[BatchFileSet, list[str]]:
    """Write compressed and encrypted files of ``file_rows`` rows; return them and their paths."""
    files = BatchFileSet(folder)
    return files, _write_files(files, name, columns, lines, file_rows)


def write_plain(
    folder: Path, name: str, columns: Iterable[KnownColumn], lines: Iterator[str], file_rows: int
) -> list[str]:
    """Write plain CSV files of ``file_rows`` rows; return their paths."""
    files = BatchFileSet(folder, Compression.OFF, Encryption.NONE)
    return _write_files(files, name, columns, lines, file_rows)


def _write_files(
    files: BatchFileSet,
    name: str,
    columns: Iterable[KnownColumn],
    lines: Iterator[str],
    file_rows: int,
) -> list[str]:
    header = ",".join(column.name for column in columns) + "\n"
    paths: list[str] = []
    while first := list(islice(lines, min(_ROWS_PER_WRITE, file_rows))):
        path = f"{name}-{len(paths)}.csv"
        with files.open(path) as file:
            file.write(header.encode())
            file.write("".join(first).encode())
            remaining = file_rows - len(first)
            while remaining and (block := list(islice(lines, min(_ROWS_PER_WRITE, remaining)))):
                file.write("".join(block).encode())
                remaining -= len(block)
        paths.append(str(files.folder / path))
    return paths
