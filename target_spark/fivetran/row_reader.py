"""Conversion of Fivetran's batch files to Arrow record batches, in Spark's workers.

In addition to the table's columns, a row has the number of its `FileKind` (`OP`) and its position
among all rows of the gRPC call (`ORDINAL`). If it has update files, a row also has a boolean flag
per non-key column. The flag is true, and the value null, if the row does not change the value.
Source: Fivetran's Partner SDK development guide, "Batch files", and ``destination_sdk.proto``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tap_core.protocols.fivetran.enums import DataType
from target_spark.fivetran.batch_request import FileKind, FileParams, RequestFile
from target_spark.fivetran.cell_conversion import CellConversionError, arrow_type, convert_column
from target_spark.fivetran.csv_parsing import (
    FileFaultError,
    key_columns,
    match_columns,
    read_columns,
    read_header,
)
from target_spark.fivetran.file_reader import BLOCK_BYTES, file_error, read_blocks
from target_spark.fivetran.table_schema import START, DestinationColumn, FivetranSchema

__all__ = ["OP", "ORDINAL", "RowReader", "check_header", "unmodified_flag"]

OP: Final = "__fivetran_op"
"""Column with the kind of a row, as the number of its `FileKind`."""

ORDINAL: Final = "__fivetran_ordinal"
"""Column with the position of a row among all files of the call: by file, then by row."""

_ROWS_OF_A_FILE: Final = 40
"""Number of low bits of `ORDINAL` that have the position of a row in its file. The higher bits have
the index of the file in the call."""

_INSTANTS: Final = (DataType.UTC_DATETIME, DataType.NAIVE_DATETIME)
_BEYOND_MICROSECONDS: Final = r"\.\d{6}\d*[1-9]"

_FIRST_LOOK: Final = 64 << 10
"""Bytes of a batch file that `check_header` reads, in which the header must end."""


def unmodified_flag(column: DestinationColumn) -> str:
    """Return the name of the boolean column that is true in rows which do not change ``column``."""
    return f"__fivetran_kept_{column.column}"


def check_header(file: RequestFile, params: FileParams, fivetran_schema: FivetranSchema) -> None:
    """Open a batch file and check that its header matches the table.

    Raises:
        BatchFileLoadError: The file is missing, cannot be decrypted, or has an invalid header.
    """
    if file.kind is FileKind.UPDATE and params.unmodified and params.unmodified == params.null:
        raise file_error(file, "cannot be read: the call has the same text for null and unmodified")
    try:
        first = next(read_blocks(file, params, _FIRST_LOOK), b"")
        match_columns(read_header(first)[0], fivetran_schema, file.kind)
    except FileFaultError as error:
        raise file_error(file, str(error)) from None


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
        """Columns for which each row has a flag that marks an unmodified value.

        These are all non-key columns if the call has update files; otherwise the result is empty.
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
        try:
            yield from self._rows(file, number, size)
        except FileFaultError as error:
            raise file_error(file, str(error)) from None

    def _rows(self, file: RequestFile, number: int, size: int) -> Iterator[Any]:
        blocks = read_blocks(file, self.params, size)
        names, block = read_header(next(blocks, b""))
        file_reader = self._file_reader(
            file.kind, match_columns(names, self.fivetran_schema, file.kind)
        )
        schema, count, first = self.schema, 0, number << _ROWS_OF_A_FILE
        while block or (block := next(blocks, b"")):
            texts = read_columns(block, len(names), self.params.null, count)
            block = b""
            if rows := len(texts[0]):
                values = [*file_reader.values(texts, count), _ordinals(first + count, rows)]
                yield pa.RecordBatch.from_arrays(values, schema=schema)
            count += rows

    def _file_reader(self, kind: FileKind, header: tuple[DestinationColumn, ...]) -> _FileRowReader:
        names = tuple(column.name for column in header)
        keys = key_columns(self.fivetran_schema, kind)
        unmodified = self.params.unmodified if kind is FileKind.UPDATE else ""
        return _FileRowReader(
            kind, names, self.fivetran_schema.columns, keys, self.flagged, unmodified
        )


def _ordinals(first: int, count: int) -> Any:
    return pa.array(range(first, first + count), pa.int64())


@dataclass(frozen=True, slots=True)
class _FileRowReader:
    """Converter of one batch file's rows from text to typed values.

    Attributes:
        kind: The kind of the file.
        names: The column names in the file's header.
        columns: The columns of the table.
        keys: The columns that must have a value in each row.
        flagged: The columns with a flag column that marks unmodified values.
        unmodified: The cell text that means that the old value is kept; "" for no such text.
    """

    kind: FileKind
    names: tuple[str, ...]
    columns: tuple[DestinationColumn, ...]
    keys: tuple[DestinationColumn, ...]
    flagged: tuple[DestinationColumn, ...]
    unmodified: str

    def values(self, texts: list[Any], count: int) -> Iterator[Any]:
        """Convert a block of rows to Arrow arrays, and yield one array per column.

        The columns are those of `RowReader.schema` in the same order, without the last, `ORDINAL`.

        Args:
            texts: The columns of the file as arrays of texts.
            count: The number of earlier rows in the file, for error messages.
        """
        rows = len(texts[0])
        cells = dict(zip(self.names, texts, strict=True))
        for key in self.keys:
            self._check_key(key, cells[key.name], count)
        flags = {
            column.name: self._unmodified_flags(cells.get(column.name), rows)
            for column in self.flagged
        }
        for column in self.columns:
            changed = _null_unmodified(cells.get(column.name), flags.get(column.name))
            if changed is None:
                yield pa.nulls(rows, arrow_type(column))
            else:
                yield _typed(column, changed, count)
        yield from flags.values()
        yield pa.repeat(pa.scalar(int(self.kind), pa.int8()), rows)

    def _check_key(self, key: DestinationColumn, cells: Any, count: int) -> None:
        faulty = pc.is_null(cells)
        if self.unmodified:
            faulty = pc.or_(faulty, self._unmodified_flags(cells, len(cells)))
        if pc.any(faulty).as_py():
            row = count + 1 + pc.index(faulty, True).as_py()
            raise FileFaultError(f"has no value in row {row:,}, column {key.name}, which is a key")
        if key.type not in _INSTANTS or key.name == START:
            return
        is_longer = pc.match_substring_regex(cells, _BEYOND_MICROSECONDS)
        if pc.any(is_longer).as_py():
            row = count + 1 + pc.index(is_longer, True).as_py()
            raise FileFaultError(
                f"has more digits than microseconds in row {row:,}, column {key.name}, which is a"
                " key: rows with different keys would become one. Exclude the table, or give the"
                " column a type of text in the source"
            )

    def _unmodified_flags(self, cells: Any | None, rows: int) -> Any:
        """Return a column's flags: for each row, true if an update does not change the column.

        Args:
            cells: The cells of the column, or None if the file lacks the column. Then all flags of
                an update file are true, and those of any other file are false.
            rows: The number of rows.
        """
        if cells is None or not self.unmodified:
            return pa.repeat(self.kind is FileKind.UPDATE and cells is None, rows)
        return pc.fill_null(pc.equal(cells, self.unmodified), False)  # noqa: FBT003  (a value)


def _null_unmodified(cells: Any | None, is_kept: Any | None) -> Any | None:
    """Return a column's cells, with null in place of each cell that an update leaves unmodified.

    Args:
        cells: The cells of a column, or None if the file lacks the column; the result is then None.
        is_kept: Array that is true for each unmodified cell, or None if the column has no flag.
    """
    if cells is None or is_kept is None or not pc.any(is_kept).as_py():
        return cells
    return pc.if_else(is_kept, pa.scalar(None, pa.string()), cells)


def _typed(column: DestinationColumn, texts: Any, count: int) -> Any:
    try:
        return convert_column(column, texts)
    except CellConversionError as error:
        row = count + 1 + error.row
        raise FileFaultError(
            f"has a cell in row {row:,}, column {column.name}, that {error.reason}"
        ) from None
