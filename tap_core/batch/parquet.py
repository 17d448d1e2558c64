"""Lossless conversion between rows and Parquet.

A column has the type of its schema, the same in every file: text (date-times too, unchanged
from RECORD messages), 64-bit integers, doubles, booleans, and structs and lists of these. If
a file has values that this type cannot hold exactly, numbers are written as decimals and
other values as JSON text in a marked column. A column without a single declared type is also JSON
text. Parquet has no absent values: readers treat a null that the schema does not allow as absent.
Source: the Apache Parquet format, "Logical Types"; column metadata is Arrow's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from types import NoneType
from typing import IO, TYPE_CHECKING, Any, Final, cast

import msgspec

from tap_core.batch.parquet_limits import (
    check_parquet,
    get_batch_rows,
    get_max_copied_bytes,
    repeating_columns,
    text_columns,
)
from tap_core.batch.parquet_pages import check_pages
from tap_core.limits.memory import Bound, InputTooLargeError, format_size
from tap_core.types import JsonSchema, Record

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["JSON_COLUMN_MARKER", "ParquetEncoder", "check_copies", "read_parquet"]

JSON_COLUMN_MARKER: Final = {b"tap_core": b"json"}
"""Arrow metadata that marks a column of JSON text."""

_ROWS_AT_ONCE: Final = 1_000
_INDEXES_AT_ONCE: Final = 1 << 16
_BUFFER: Final = 1 << 20
"""Read-ahead per column in bytes; without it pyarrow reads the whole column of a row group."""


def _number(text: str) -> float | Decimal:
    """Convert the text of a number with a fraction to float if that is exact, else to Decimal."""
    double = float(text)
    if repr(double) == text:
        return double
    exact = Decimal(text)
    return double if Decimal(repr(double)) == exact else exact


_decode: Final = msgspec.json.Decoder(dict[str, Any], float_hook=_number).decode
_decode_any: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


# Writing


class ParquetEncoder:
    """Encoder that collects the rows of one Parquet file and writes them at the end."""

    def __init__(self, file: IO[bytes], schema: JsonSchema, compression: str | None) -> None:
        """Create an encoder.

        Args:
            file: Open file to write to.
            schema: JSON Schema of the rows.
            compression: Compression of the file; by default Snappy, as in pyarrow.
        """
        self._file = file
        self._schema = schema
        self._compression = compression or "snappy"
        self._bodies: list[bytes] = []

    def write(self, bodies: Sequence[bytes]) -> None:
        """Add rows, each encoded as JSON."""
        self._bodies.extend(bodies)

    def finish(self) -> None:
        """Write the rows to the file."""
        from pyarrow import parquet

        table = _table([_decode(body) for body in self._bodies], self._schema)
        parquet.write_table(table, self._file, compression=self._compression)


def _table(rows: list[Record], schema: JsonSchema) -> pa.Table:
    """Return rows as an Arrow table.

    Properties that the schema does not declare are the last columns.
    """
    import pyarrow as pa

    declared = schema.get("properties")
    types = {name: _to_arrow_type(definition) for name, definition in (declared or {}).items()}
    undeclared = sorted(set().union(*rows) - types.keys())
    fields, arrays = [], []
    for name in [*types, *undeclared]:
        values = [row.get(name) for row in rows]
        kind = types.get(name) if declared is not None else _guess(values)
        array = None if kind is None else _exactly(values, kind)
        mark = None if array is not None else JSON_COLUMN_MARKER
        array = pa.array(map(_as_json, values), pa.string()) if array is None else array
        fields.append(pa.field(name, array.type, metadata=mark))
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _as_json(value: Any) -> str | None:
    return None if value is None else _encode(value).decode()


def _guess(values: list[Any]) -> pa.DataType | None:
    """Return the Arrow type that all values of an undeclared property have in common.

    Return None if there is no such type.
    """
    names = {"str": "string", "int": "integer", "bool": "boolean", "float": "number"}
    type_names = {type(value).__name__ for value in values if value is not None}
    kinds = [names.get(name, "number" if name == "Decimal" else "") for name in type_names]
    return _to_arrow_type({"type": kinds})


def _to_arrow_type(schema: Any) -> pa.DataType | None:
    """Return the Arrow type for a schema, or None if the schema has no single type."""
    import pyarrow as pa

    kinds = _kinds(schema)
    if kinds == {"object"}:
        return _to_arrow_struct(schema)
    if kinds == {"array"}:
        item = _to_arrow_type(schema.get("items"))
        return None if item is None else pa.list_(item)
    scalars: dict[frozenset[str], Callable[[], pa.DataType]] = {
        frozenset({"string"}): pa.string,
        frozenset({"integer"}): pa.int64,
        frozenset({"boolean"}): pa.bool_,
        frozenset({"number"}): pa.float64,
        frozenset({"integer", "number"}): pa.float64,
    }
    make = scalars.get(frozenset(kinds))
    return None if make is None else make()


def _to_arrow_struct(schema: JsonSchema) -> pa.DataType | None:
    """Return the Arrow type for an object schema, or None if a property's type is not known."""
    import pyarrow as pa

    if schema.get("additionalProperties") or schema.get("patternProperties"):
        return None
    types = {
        name: _to_arrow_type(definition)
        for name, definition in (schema.get("properties") or {}).items()
    }
    if not types or None in types.values():
        return None
    return pa.struct(list(cast("dict[str, pa.DataType]", types).items()))


def _kinds(schema: Any) -> set[str]:
    """Return the JSON types that a schema declares, except null."""
    if not isinstance(schema, dict):
        return set()
    named = schema.get("type")
    if named is not None:
        return ({named} if isinstance(named, str) else set(named)) - {"null"}
    options = [
        _kinds_or_null(option) for option in schema.get("anyOf") or schema.get("oneOf") or ()
    ]
    return set() if None in options else set().union(*cast("list[set[str]]", options))


def _kinds_or_null(schema: Any) -> set[str] | None:
    """Return the types of one ``anyOf`` option.

    The set is empty for the option null. Return None if the option declares no type.
    """
    is_null = isinstance(schema, dict) and schema.get("type") == "null"
    return _kinds(schema) or (set() if is_null else None)


def _exactly(values: list[Any], kind: pa.DataType) -> pa.Array | None:
    """Return an Arrow array that holds exactly these values, or None if that is not possible.

    It has the type ``kind`` or, for numbers that ``kind`` would change, a decimal type.
    """
    import pyarrow as pa

    types = set(map(type, values)) - {NoneType}
    if pa.types.is_nested(kind):
        array = _array(values, kind)
        return array if array is not None and _all_hold(array.to_pylist(), values) else None
    if types <= _python_types(kind):
        array = _array(values, kind)
        if array is not None:
            return array
    if types <= {int, float, Decimal} and kind in {pa.int64(), pa.float64()}:
        return _array([None if value is None else Decimal(str(value)) for value in values], None)
    return None


def _array(values: list[Any], kind: pa.DataType | None) -> pa.Array | None:
    """Return an Arrow array of values, or None if a value cannot be converted to the type."""
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None


def _python_types(kind: pa.DataType) -> set[type]:
    import pyarrow as pa

    if kind == pa.string():
        return {str}
    if kind == pa.bool_():
        return {bool}
    return {int} if kind == pa.int64() else {int, float}


def _all_hold(read: list[Any], written: list[Any]) -> bool:
    """Return True if the values read from an array equal the original values (``written``)."""
    return len(read) == len(written) and all(map(_holds, read, written))


def _holds(read: Any, written: Any) -> bool:
    """Return True if a value read from an array equals the original value (``written``).

    A property that is missing in the original may be read as null.
    """
    if isinstance(written, dict):
        return written.keys() <= read.keys() and all(
            _holds(read[name], written[name]) for name in written
        )
    if isinstance(written, list):
        return _all_hold(read, written)
    return bool(type(read) is type(written) and read == written)


# Reading


def read_parquet(file: IO[bytes], bound: Bound | None = None) -> Iterator[Record]:
    """Yield the rows of a Parquet file, decoding at most a thousand at a time.

    Columns marked as JSON are parsed. Numbers are converted as in JSON: decimals of scale 0 become
    integers, and doubles become the Decimal of their shortest text.

    Raises:
        InputTooLargeError: A column would take more memory when decoded than ``bound`` allows.
    """
    from pyarrow import parquet

    metadata = parquet.read_metadata(file)
    if bound is not None:
        check_parquet(metadata, bound)
        check_pages(file, metadata, bound, trusts_footer=True)
    source = parquet.ParquetFile(
        file, metadata=metadata, read_dictionary=text_columns(metadata), buffer_size=_BUFFER
    )
    readers = [
        (arrow_field.name, reader)
        for arrow_field in source.schema_arrow
        if (reader := _reader(arrow_field))
    ]
    for batch in source.iter_batches(batch_size=get_batch_rows(metadata, _ROWS_AT_ONCE)):
        columns = [_values(column) for column in batch.columns]
        for values in zip(*columns, strict=True) if columns else [()] * batch.num_rows:
            row = dict(zip(batch.schema.names, values, strict=True))
            for name, read in readers:
                if row[name] is not None:
                    row[name] = read(row[name])
            yield row


def _values(column: pa.Array) -> list[Any]:
    """Return the values of a column.

    If the column is stored as a dictionary, equal texts share one Python object.
    """
    import pyarrow as pa

    if not isinstance(column, pa.DictionaryArray):
        return list(column.to_pylist())
    used = column.indices.unique().drop_null()
    texts = dict(zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True))
    return [texts.get(index) for index in column.indices.to_pylist()]


def _reader(field: pa.Field) -> Callable[[Any], Any] | None:
    """Return the function that converts a column's values, or None if they are not converted."""
    import pyarrow as pa

    if JSON_COLUMN_MARKER.items() <= (field.metadata or {}).items():
        return _decode_any
    if pa.types.is_decimal(field.type) and field.type.scale == 0:
        return int
    may_have_doubles = pa.types.is_floating(field.type) or pa.types.is_nested(field.type)
    return _without_doubles if may_have_doubles else None


def _without_doubles(value: Any) -> Any:
    """Return a value in which each float is replaced by the Decimal of its shortest text."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, list):
        return [_without_doubles(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_doubles(item) for name, item in value.items()}
    return value


# Checks for readers that copy repeated dictionary values


def check_copies(file: IO[bytes], bound: Bound) -> None:
    """Check the size that the texts of a file have if each repeated text is copied.

    A dictionary-encoded column stores a repeated text once. `read_parquet` does not copy it, but
    other readers copy it for every row; this check is for them. It reads the dictionaries, and for
    columns with long texts also the indexes.

    Raises:
        InputTooLargeError: The limit is exceeded, or a column would take more memory when decoded
            than ``bound`` allows.
    """
    from pyarrow import parquet

    metadata = parquet.read_metadata(file)
    check_parquet(metadata, bound)
    check_pages(file, metadata, bound)
    limit = get_max_copied_bytes(file.seek(0, os.SEEK_END), bound)
    for path in repeating_columns(metadata, limit):
        source = parquet.ParquetFile(
            file, metadata=metadata, read_dictionary=[path], buffer_size=_BUFFER
        )
        if _estimate_max_bytes(source, path) > limit and (
            "." in path or _sum_text_bytes(source, path) > limit
        ):
            raise InputTooLargeError(
                f"column {path!r} repeats its texts to more than {format_size(limit)}; raise"
                f" {bound.setting} to read it"
            )


def _estimate_max_bytes(source: Any, path: str) -> int:
    """Return an upper bound of a column's bytes: the row count times the longest text's length."""
    import pyarrow.compute as pc

    total = 0
    for number in range(source.num_row_groups):
        first = next(source.iter_batches(1, row_groups=[number], columns=[path]), None)
        texts = None if first is None else _dictionary(first.column(0))
        if texts is not None and len(texts):
            group = source.metadata.row_group(number)
            total += pc.max(pc.binary_length(texts)).as_py() * _num_values(group, path)
    return total


def _num_values(group: Any, path: str) -> int:
    """Return the number of values that a column has in a row group, a section of the file."""
    columns = map(group.column, range(group.num_columns))
    return sum(column.num_values for column in columns if column.path_in_schema == path)


def _dictionary(column: Any) -> Any:
    """Return the dictionary of a column, or None if it has none.

    For a nested column, this is the dictionary of its innermost first field.
    """
    import pyarrow as pa

    while not isinstance(column, pa.DictionaryArray):
        if not pa.types.is_nested(column.type):
            return None
        inner = column.flatten()
        column = inner[0] if isinstance(inner, list) else inner
    return column.dictionary


def _sum_text_bytes(source: Any, path: str) -> int:
    """Return the total size in bytes of a column's texts; the column must not be nested."""
    import pyarrow.compute as pc

    total = 0
    for batch in source.iter_batches(_INDEXES_AT_ONCE, columns=[path]):
        column = batch.column(0)
        lengths = pc.binary_length(column.dictionary).take(column.indices)
        total += pc.sum(lengths).as_py() or 0
    return total
