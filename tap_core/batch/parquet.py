"""Lossless conversion between records and Parquet files.

A column has the Arrow type of its JSON Schema: string (also for date-times, which keep their text),
int64, double, boolean, or a struct or list of these. If this type cannot represent every value of
the column exactly, numbers are written as decimals of at most 38 digits, and other values as JSON
text. A column without a single declared type is also written as JSON text. The metadata of a column
marks it as JSON text. A missing property is written as null; a reader omits a property that is null
although its schema does not allow null.
Source: the Apache Parquet format, "Logical Types"; column metadata is Arrow's.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from types import NoneType
from typing import IO, TYPE_CHECKING, Any, Final, cast

import msgspec

from tap_core.batch.parquet_limits import (
    check_parquet,
    find_repeating_columns,
    find_text_columns,
    get_batch_rows,
    get_max_copied_bytes,
)
from tap_core.batch.parquet_pages import check_pages
from tap_core.limits.memory import Bound, InputTooLargeError, format_size
from tap_core.schema.type_variants import get_allowed_types
from tap_core.types import JsonSchema, Record

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "JSON_COLUMN_MARKER",
    "ParquetEncoder",
    "check_copies",
    "find_json_columns",
    "read_parquet",
]

JSON_COLUMN_MARKER: Final = {b"tap_core": b"json"}
"""Arrow field metadata that marks a column whose values are JSON text."""

_ARROW_SCHEMA: Final = b"ARROW:schema"
"""Key of a file's metadata with the Arrow schema, which has the metadata of the columns."""

_ROWS_AT_ONCE: Final = 1_000
_INDEXES_AT_ONCE: Final = 1 << 16
_BUFFER_BYTES: Final = 1 << 20
"""Bytes to read ahead per column; without a limit, pyarrow reads a row group's whole column."""


def _parse_fraction(text: str) -> float | Decimal:
    """Parse a JSON number with a fraction as a float, or as a Decimal if a float is not exact."""
    double = float(text)
    if repr(double) == text:
        return double
    exact = Decimal(text)
    return double if Decimal(repr(double)) == exact else exact


_decode: Final = msgspec.json.Decoder(dict[str, Any], float_hook=_parse_fraction).decode
_decode_any: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


# Writing


class ParquetEncoder:
    """Encoder of one Parquet file, which collects all rows in memory and then writes the file."""

    def __init__(self, file: IO[bytes], schema: JsonSchema, compression: str | None) -> None:
        """Create an encoder that writes one Parquet file.

        Args:
            file: Open file to write to.
            schema: JSON Schema of the rows.
            compression: Compression codec, such as ``gzip``; None means Snappy, as in pyarrow.
        """
        self._file = file
        self._schema = schema
        self._compression = compression or "snappy"
        self._bodies: list[bytes] = []

    def write(self, bodies: Sequence[bytes]) -> None:
        """Add rows to the file; ``bodies`` contains each row as a JSON object, encoded as bytes."""
        self._bodies.extend(bodies)

    def finish(self) -> None:
        """Convert the collected rows to columns, and write them to the Parquet file."""
        from pyarrow import parquet

        table = _to_arrow_table([_decode(body) for body in self._bodies], self._schema)
        parquet.write_table(table, self._file, compression=self._compression)


def _to_arrow_table(rows: list[Record], schema: JsonSchema) -> pa.Table:
    """Convert rows to an Arrow table with one column per property.

    The columns of undeclared properties come last, sorted by name, as JSON text. If the schema
    has no ``properties``, the column types are inferred from the values.
    """
    import pyarrow as pa

    declared = schema.get("properties")
    types = {name: _to_arrow_type(definition) for name, definition in (declared or {}).items()}
    undeclared = sorted(set().union(*rows) - types.keys())
    fields, arrays = [], []
    for name in [*types, *undeclared]:
        values = [row.get(name) for row in rows]
        kind = types.get(name) if declared is not None else _infer_arrow_type(values)
        array = None if kind is None else _to_exact_array(values, kind)
        mark = None
        if array is None:
            mark = JSON_COLUMN_MARKER
            array = pa.array(map(_to_json_text, values), pa.string())
        fields.append(pa.field(name, array.type, metadata=mark))
        arrays.append(array)
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _to_json_text(value: Any) -> str | None:
    return None if value is None else _encode(value).decode()


def _infer_arrow_type(values: list[Any]) -> pa.DataType | None:
    """Return an Arrow type that fits all values of a property, or None if there is no such type.

    Integers mixed with other numbers become doubles. Objects, lists and other mixtures have no
    type.
    """
    names = {"str": "string", "int": "integer", "bool": "boolean", "float": "number"}
    type_names = {type(value).__name__ for value in values if value is not None}
    kinds = [names.get(name, "number" if name == "Decimal" else "") for name in type_names]
    return _to_arrow_type({"type": kinds})


def _to_arrow_type(schema: Any) -> pa.DataType | None:
    """Return the Arrow type for a JSON Schema, such as int64 for ``integer``.

    Return None if the schema declares no type or several types (null is not counted).
    """
    import pyarrow as pa

    kinds = get_allowed_types(schema) - {"null"}
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
    make = scalars.get(kinds)
    return None if make is None else make()


def _to_arrow_struct(schema: JsonSchema) -> pa.DataType | None:
    """Return the Arrow struct type for the JSON Schema of an object.

    Return None if a property has no single type, or undeclared properties are allowed.
    """
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


def _to_exact_array(values: list[Any], kind: pa.DataType) -> pa.Array | None:
    """Convert values to an Arrow array without loss.

    Args:
        values: Values of one column.
        kind: Arrow type to convert to. If it cannot represent all numbers exactly, the array has
            decimals instead.

    Returns:
        The array, or None if no lossless array is possible.
    """
    import pyarrow as pa

    types = set(map(type, values)) - {NoneType}
    if pa.types.is_nested(kind):
        array = _make_array(values, kind)
        return array if array is not None and _are_equal(array.to_pylist(), values) else None
    if types <= _get_python_types(kind):
        array = _make_array(values, kind)
        if array is not None:
            return array
    if types <= {int, float, Decimal} and kind in {pa.int64(), pa.float64()}:
        array = _make_array(
            [None if value is None else Decimal(str(value)) for value in values], None
        )
        # Arrow has decimals of more than 38 digits, but Spark and many databases do not read them.
        return None if array is None or pa.types.is_decimal256(array.type) else array
    return None


def _make_array(values: list[Any], kind: pa.DataType | None) -> pa.Array | None:
    """Convert values to an Arrow array; return None if one does not fit the type ``kind``."""
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None


def _get_python_types(kind: pa.DataType) -> set[type]:
    import pyarrow as pa

    if kind == pa.string():
        return {str}
    if kind == pa.bool_():
        return {bool}
    return {int} if kind == pa.int64() else {int, float}


def _are_equal(read: list[Any], written: list[Any]) -> bool:
    """Return True if all values read from an Arrow array equal the values written to it."""
    return len(read) == len(written) and all(map(_is_equal, read, written))


def _is_equal(read: Any, written: Any) -> bool:
    """Return True if a value read from an Arrow array equals the value that was written.

    An object that is read may have additional properties, because a missing property is written as
    null.
    """
    if isinstance(written, dict):
        return written.keys() <= read.keys() and all(
            _is_equal(read[name], written[name]) for name in written
        )
    if isinstance(written, list):
        return _are_equal(read, written)
    return bool(type(read) is type(written) and read == written)


# Reading


def read_parquet(file: IO[bytes], bound: Bound) -> Iterator[Record]:
    """Yield the rows of a Parquet file as dicts; at most a thousand rows are decoded at once.

    Columns marked as JSON text are parsed. Decimals without fraction digits become integers, and
    doubles become Decimals of their shortest text (0.1 becomes ``Decimal("0.1")``).

    Args:
        file: The open file.
        bound: Limit on the size of a decoded column.

    Raises:
        InputTooLargeError: A column would take more memory when decoded than ``bound`` allows.
    """
    from pyarrow import parquet

    metadata = parquet.read_metadata(file)
    check_parquet(metadata, bound)
    check_pages(file, metadata, bound, trusts_footer=True)
    source = parquet.ParquetFile(
        file,
        metadata=metadata,
        read_dictionary=find_text_columns(metadata),
        buffer_size=_BUFFER_BYTES,
    )
    readers = [
        (arrow_field.name, reader)
        for arrow_field in source.schema_arrow
        if (reader := _get_converter(arrow_field))
    ]
    for batch in source.iter_batches(batch_size=get_batch_rows(metadata, _ROWS_AT_ONCE)):
        columns = [_to_python_values(column) for column in batch.columns]
        for values in zip(*columns, strict=True) if columns else [()] * batch.num_rows:
            row = dict(zip(batch.schema.names, values, strict=True))
            for name, read in readers:
                if row[name] is not None:
                    row[name] = read(row[name])
            yield row


def find_json_columns(file: IO[bytes]) -> frozenset[str]:
    """Return the names of the columns of a Parquet file that are marked as JSON text.

    A column may have any type, also one that pyarrow does not read.
    """
    import pyarrow as pa
    from pyarrow import parquet

    stored = (parquet.read_metadata(file).metadata or {}).get(_ARROW_SCHEMA, b"")
    schema = base64.b64decode(stored)
    if not all(key in schema for key in JSON_COLUMN_MARKER):  # of another writer
        return frozenset()
    return frozenset(
        field.name for field in pa.ipc.read_schema(pa.py_buffer(schema)) if _is_json(field)
    )


def _is_json(field: pa.Field) -> bool:
    return bool(JSON_COLUMN_MARKER.items() <= (field.metadata or {}).items())


def _to_python_values(column: pa.Array) -> list[Any]:
    """Convert an Arrow column to a list of Python values, one per row.

    Equal texts in a dictionary-encoded column become the same Python object, to save memory.
    """
    import pyarrow as pa

    if not isinstance(column, pa.DictionaryArray):
        return list(column.to_pylist())
    used = column.indices.unique().drop_null()
    texts = dict(zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True))
    return [texts.get(index) for index in column.indices.to_pylist()]


def _get_converter(field: pa.Field) -> Callable[[Any], Any] | None:
    """Return the function that converts each value of a column, or None for no conversion."""
    import pyarrow as pa

    if _is_json(field):
        return _decode_any
    if pa.types.is_decimal(field.type) and field.type.scale == 0:
        return int
    may_have_doubles = pa.types.is_floating(field.type) or pa.types.is_nested(field.type)
    return _replace_floats if may_have_doubles else None


def _replace_floats(value: Any) -> Any:
    """Replace each float in a value, also in lists and dicts: 0.1 becomes ``Decimal("0.1")``."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, list):
        return [_replace_floats(item) for item in value]
    if isinstance(value, dict):
        return {name: _replace_floats(item) for name, item in value.items()}
    return value


# Checks for readers that copy repeated dictionary values


def check_copies(file: IO[bytes], bound: Bound) -> None:
    """Check that Spark, or a similar reader, can decode a Parquet file without excess memory.

    A dictionary-encoded column stores a repeated text once. `read_parquet` keeps one copy in
    memory, but other readers copy the text for every row.

    Args:
        file: The open file.
        bound: Limit on the size of decoded data.

    Raises:
        InputTooLargeError: A column's decoded data, with each repeated text copied, are too large.
    """
    from pyarrow import parquet

    metadata = parquet.read_metadata(file)
    check_parquet(metadata, bound)
    check_pages(file, metadata, bound)
    limit = get_max_copied_bytes(file.seek(0, os.SEEK_END), bound)
    for path in find_repeating_columns(metadata, limit):
        source = parquet.ParquetFile(
            file, metadata=metadata, read_dictionary=[path], buffer_size=_BUFFER_BYTES
        )
        if _estimate_max_bytes(source, path) > limit and (
            "." in path or _sum_text_bytes(source, path) > limit
        ):
            raise InputTooLargeError(
                f"column {path!r} repeats its texts to more than {format_size(limit)}; raise"
                f" {bound.setting} to read it"
            )


def _estimate_max_bytes(source: Any, path: str) -> int:
    """Return an upper bound for the size in bytes of all texts of the Parquet column ``path``.

    For each row group of ``source``, a pyarrow ``ParquetFile``, the number of values is multiplied
    by the length of the longest text.
    """
    import pyarrow.compute as pc

    total = 0
    for number in range(source.num_row_groups):
        first = next(source.iter_batches(1, row_groups=[number], columns=[path]), None)
        texts = None if first is None else _get_dictionary(first.column(0))
        if texts is not None and len(texts):
            group = source.metadata.row_group(number)
            total += pc.max(pc.binary_length(texts)).as_py() * _count_values(group, path)
    return total


def _count_values(group: Any, path: str) -> int:
    """Return the number of values of the column ``path`` in a row group (pyarrow metadata)."""
    columns = map(group.column, range(group.num_columns))
    return sum(column.num_values for column in columns if column.path_in_schema == path)


def _get_dictionary(column: Any) -> Any:
    """Return the distinct values of a dictionary-encoded Arrow column; None for other columns.

    For a nested column, these are the values of the first field at the deepest level.
    """
    import pyarrow as pa

    while not isinstance(column, pa.DictionaryArray):
        if not pa.types.is_nested(column.type):
            return None
        inner = column.flatten()
        column = inner[0] if isinstance(inner, list) else inner
    return column.dictionary


def _sum_text_bytes(source: Any, path: str) -> int:
    """Return the size in bytes of all texts of the Parquet column ``path``, each copy included.

    ``source`` is a pyarrow ``ParquetFile``. The column must be dictionary-encoded and not nested.
    """
    import pyarrow.compute as pc

    total = 0
    for batch in source.iter_batches(_INDEXES_AT_ONCE, columns=[path]):
        column = batch.column(0)
        lengths = pc.binary_length(column.dictionary).take(column.indices)
        total += pc.sum(lengths).as_py() or 0
    return total
