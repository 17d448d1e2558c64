"""Rows of twenty columns as batch files of Fivetran's, and the same lines as plain CSV.

Everything follows from a row's number. No cell is null or unmodified, so that a
reader without Fivetran's marks reads the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from fivetran_tester.batch_files import BatchFileSet
from fivetran_tester.known_tables import KnownColumn
from tap_core.protocols.fivetran.enums import Compression, DataType, Encryption

__all__ = ["COLUMNS", "DDL", "EXPANDING", "expanding", "packed", "plain", "rows"]

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
_DIGITS = {"amount": (12, 2), "price": (18, 4)}

COLUMNS = tuple(
    KnownColumn(name, kind, name == "id", _DIGITS.get(name)) for name, kind, _ in _TYPES
)
"""The columns as Fivetran tells them."""

DDL = ", ".join(f"{name} {ddl}" for name, _, ddl in _TYPES)
"""The columns as Spark writes them."""

EXPANDING = (
    KnownColumn("id", DataType.LONG, is_key=True),
    KnownColumn("text", DataType.STRING, is_key=False),
    KnownColumn("_fivetran_synced", DataType.UTC_DATETIME, is_key=False),
)
"""The columns of rows that a file holds in a tenth of their size."""

_STEP = 10_000
_FILLER = "the quick brown fox jumps over the lazy dog " * 20


def rows(numbers: Iterable[int], turn: int = 0) -> Iterator[str]:
    """Yield the lines of rows; in another turn they have other values."""
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


def expanding(count: int) -> Iterator[str]:
    """Yield the lines of rows of a kilobyte, a tenth of which is made up anew in each."""
    for n in range(count):
        yield f'{n},"{os.urandom(100).hex()}{_FILLER}",2024-05-01T08:00:00Z\n'


def packed(
    folder: Path, name: str, columns: Iterable[KnownColumn], lines: Iterator[str], each: int
) -> tuple[BatchFileSet, list[str]]:
    """Write files of so many rows each, compressed and encrypted; return them and their paths."""
    files = BatchFileSet(folder)
    return files, _written(files, name, columns, lines, each)


def plain(
    folder: Path, name: str, columns: Iterable[KnownColumn], lines: Iterator[str], each: int
) -> list[str]:
    """Write the same as plain CSV; return the paths."""
    files = BatchFileSet(folder, Compression.OFF, Encryption.NONE)
    return _written(files, name, columns, lines, each)


def _written(
    files: BatchFileSet,
    name: str,
    columns: Iterable[KnownColumn],
    lines: Iterator[str],
    each: int,
) -> list[str]:
    header = ",".join(column.name for column in columns) + "\n"
    paths: list[str] = []
    while first := list(islice(lines, min(_STEP, each))):
        path = f"{name}-{len(paths)}.csv"
        with files.open(path) as file:
            file.write(header.encode())
            file.write("".join(first).encode())
            left = each - len(first)
            while left and (block := list(islice(lines, min(_STEP, left)))):
                file.write("".join(block).encode())
                left -= len(block)
        paths.append(str(files.folder / path))
    return paths
