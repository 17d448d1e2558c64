"""Conversion of Fivetran's batch files to Arrow record batches, in Spark's workers.

In addition to the table's columns, a row has the number of its `FileKind` (`OP`) and its position
among all rows of the gRPC call (`ORDINAL`). If the call has update files, a row also has a boolean
flag per non-key column. The flag is true, and the value null, if the row does not change the value.
Source: Fivetran's Partner SDK development guide, "Batch files", and ``destination_sdk.proto``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from target_spark.fivetran.batch_request import FileKind, FileParams, RequestFile
from target_spark.fivetran.cell_conversion import CellConversionError, arrow_type, convert_column
from target_spark.fivetran.csv_parsing import (
    FileFaultError,
    check_columns,
    key_columns,
    read_columns,
    read_header,
)
from target_spark.fivetran.file_reader import BLOCK_BYTES, file_error, read_blocks
from target_spark.fivetran.table_schema import (
    DATETIME_TYPES,
    START,
    DestinationColumn,
    FivetranSchema,
)

__all__ = [
    "OP",
    "ORDINAL",
    "RowReader",
    "check_header",
    "convert_file_faults",
    "read_cells",
    "unmodified_flag",
]

OP: Final = "__fivetran_op"
"""Column with the kind of a row, as the number of its `FileKind`."""

ORDINAL: Final = "__fivetran_ordinal"
"""Column with the position of a row among all rows of the gRPC call, in the order of its files."""

_ROW_BITS: Final = 40
"""Number of low bits of `ORDINAL` that store the position of a row in its file. The higher bits
store the index of the file in the gRPC call."""

_BEYOND_MICROSECONDS: Final = r"\.\d{6}\d*[1-9]"

_HEADER_BYTES: Final = 64 << 10
"""Number of bytes that `check_header` reads from a batch file, including the whole header."""


def unmodified_flag(column: DestinationColumn) -> str:
    """Return the name of the flag column that is true in rows that do not change ``column``."""
    return f"__fivetran_kept_{column.column}"


def check_header(file: RequestFile, params: FileParams, fivetran_schema: FivetranSchema) -> None:
    """Open a batch file and check that its header matches the table.

    Raises:
        BatchFileLoadError: The file is missing, cannot be decrypted, or has an invalid header.
    """
    if file.kind is FileKind.UPDATE and params.unmodified and params.unmodified == params.null:
        raise file_error(file, "cannot be read: the call has the same text for null and unmodified")
    with convert_file_faults(file):
        names, _ = read_header(next(read_blocks(file, params, _HEADER_BYTES), b""))
        check_columns(names, fivetran_schema, file.kind)


@contextmanager
def convert_file_faults(file: RequestFile) -> Iterator[None]:
    """Context manager that converts a `FileFaultError` to an error that names the file."""
    try:
        yield
    except FileFaultError as error:
        raise file_error(file, str(error)) from None


def read_cells(
    file: RequestFile, params: FileParams, fivetran_schema: FivetranSchema, size: int = BLOCK_BYTES
) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the cells of a batch file as texts, one block of rows after the other.

    Each item is a tuple: the columns of the block by their names in the header, as Arrow arrays of
    texts, and the number of rows before the block. ``size`` is the approximate number of CSV bytes
    per block.

    Raises:
        BatchFileLoadError: The file is missing, truncated or damaged, or its key is wrong.
        FileFaultError: The header or a row is invalid.
    """
    blocks = read_blocks(file, params, size)
    names, block = read_header(next(blocks, b""))
    check_columns(names, fivetran_schema, file.kind)
    rows_before = 0
    while block or (block := next(blocks, b"")):
        columns = read_columns(block, len(names), params.null, rows_before)
        block = b""  # its memory is not needed while the cells are converted
        if rows := len(columns[0]):
            yield dict(zip(names, columns, strict=True)), rows_before
        rows_before += rows


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reader that converts the rows of Fivetran's batch files to Arrow record batches.

    Attributes:
        params: The format of the files.
        fivetran_schema: The columns of the table.
        has_updates: True if the gRPC call has update files. The record batches then have flag
            columns that mark unmodified values.
    """

    params: FileParams
    fivetran_schema: FivetranSchema
    has_updates: bool

    @property
    def schema(self) -> Any:
        """Arrow schema of the record batches: table columns, flag columns, `OP` and `ORDINAL`."""
        fields = [(column.column, arrow_type(column)) for column in self.fivetran_schema.columns]
        flags = [(unmodified_flag(column), pa.bool_()) for column in self.flagged]
        return pa.schema([*fields, *flags, (OP, pa.int8()), (ORDINAL, pa.int64())])

    @property
    def flagged(self) -> tuple[DestinationColumn, ...]:
        """Columns that have a flag column in the record batches.

        A flag is true if a row keeps the old value of the column in the table. If the call has
        update files, all non-key columns have a flag; otherwise none has.
        """
        return self.fivetran_schema.non_key_columns if self.has_updates else ()

    def rows(self, file: RequestFile, number: int, size: int = BLOCK_BYTES) -> Iterator[Any]:
        """Yield the rows of a batch file as Arrow record batches.

        Args:
            file: The file.
            number: The index of the file in the gRPC call; `ORDINAL` values increase with it.
            size: The approximate number of CSV bytes per record batch.

        Raises:
            BatchFileLoadError: The file, its header, a row or a cell is invalid.
        """
        unmodified = self.params.unmodified if file.kind is FileKind.UPDATE else ""
        converter = _RowConverter(file.kind, self.fivetran_schema, self.flagged, unmodified)
        schema = self.schema
        file_ordinal = number << _ROW_BITS
        with convert_file_faults(file):
            for cells, rows_before in read_cells(file, self.params, self.fivetran_schema, size):
                *values, ops = converter.values(cells, rows_before)
                first = file_ordinal + rows_before
                ordinals = pa.array(range(first, first + len(ops)), pa.int64())
                yield pa.RecordBatch.from_arrays([*values, ops, ordinals], schema=schema)


@dataclass(frozen=True, slots=True)
class _RowConverter:
    """Converter of one batch file's rows from text to typed values.

    Attributes:
        kind: The kind of the file.
        fivetran_schema: The columns of the table.
        flagged: The columns with a flag column that marks unmodified values.
        unmodified: The cell text that means: keep the old value; "" if there is no such text.
    """

    kind: FileKind
    fivetran_schema: FivetranSchema
    flagged: tuple[DestinationColumn, ...]
    unmodified: str

    def values(self, cells: Mapping[str, Any], rows_before: int) -> Iterator[Any]:
        """Convert a block of rows to Arrow arrays, and yield one array per column.

        The arrays are in the order of `RowReader.schema`, but without its last column, `ORDINAL`.

        Args:
            cells: The columns of the file as arrays of texts, by their names in the header.
            rows_before: The number of earlier rows in the file, for error messages.
        """
        rows = len(next(iter(cells.values())))
        for key in key_columns(self.fivetran_schema, self.kind):
            self._check_key(key, cells[key.name], rows_before)
        flags = {
            column.name: self._unmodified_flags(cells.get(column.name), rows)
            for column in self.flagged
        }
        for column in self.fivetran_schema.columns:
            texts = _null_unmodified(cells.get(column.name), flags.get(column.name))
            if texts is None:
                yield pa.nulls(rows, arrow_type(column))
            else:
                yield _convert_cells(column, texts, rows_before)
        yield from flags.values()
        yield pa.repeat(pa.scalar(int(self.kind), pa.int8()), rows)

    def _check_key(self, key: DestinationColumn, cells: Any, rows_before: int) -> None:
        is_missing = pc.is_null(cells)
        if self.unmodified:
            is_missing = pc.or_(is_missing, self._unmodified_flags(cells, len(cells)))
        if pc.any(is_missing).as_py():
            row = rows_before + 1 + pc.index(is_missing, True).as_py()
            raise FileFaultError(f"has no value in row {row:,}, column {key.name}, which is a key")
        if key.type not in DATETIME_TYPES or key.name == START:
            return
        is_too_precise = pc.match_substring_regex(cells, _BEYOND_MICROSECONDS)
        if pc.any(is_too_precise).as_py():
            row = rows_before + 1 + pc.index(is_too_precise, True).as_py()
            raise FileFaultError(
                f"has more digits than microseconds in row {row:,}, column {key.name}, which is a"
                " key: rows with different keys would become one. Exclude the table, or give the"
                " column a type of text in the source"
            )

    def _unmodified_flags(self, cells: Any | None, rows: int) -> Any:
        """Return a column's flags: for each row, true if an update does not change the column.

        ``cells`` is None if the file lacks the column. Then all flags of an update file are true,
        and those of any other file are false. ``rows`` is the number of rows.
        """
        if cells is None or not self.unmodified:
            return pa.repeat(self.kind is FileKind.UPDATE and cells is None, rows)
        return pc.fill_null(pc.equal(cells, self.unmodified), False)  # noqa: FBT003  (a value)


def _null_unmodified(cells: Any | None, flags: Any | None) -> Any | None:
    """Return a column's cells, with null in place of each cell whose flag is true (unmodified).

    Without ``flags``, the cells are returned unchanged. ``cells`` and the result are None if the
    file lacks the column.
    """
    if cells is None or flags is None or not pc.any(flags).as_py():
        return cells
    return pc.if_else(flags, pa.scalar(None, pa.string()), cells)


def _convert_cells(column: DestinationColumn, cells: Any, rows_before: int) -> Any:
    """Convert a column's cells to an Arrow array of the column's type.

    Raises:
        FileFaultError: A cell is not a valid value of the column's type.
    """
    try:
        return convert_column(column, cells)
    except CellConversionError as error:
        row = rows_before + 1 + error.row
        raise FileFaultError(
            f"has a cell in row {row:,}, column {column.name}, that {error.reason}"
        ) from None
