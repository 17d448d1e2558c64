"""Encoder of records as Fivetran's Record messages, with one generated function per table.

For speed, the bytes before a column's value are cached by the length of the value. Values of
unusual types are converted or rejected by `value_conversion`. An UPSERT has every selected column,
with null for a property that the record lacks. A DELETE has the key columns. A record without a key
value is an error. Column names are only string literals in the generated source.
Source: Fivetran's Partner SDK, common.proto, ``ValueType``, and connector_sdk.proto, ``Record``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NoReturn

from tap_core.exceptions import DataError
from tap_core.protocols.fivetran.column_types import INTEGER_BITS
from tap_core.protocols.fivetran.columns import DELETED_AT, SourceColumn, TableId
from tap_core.protocols.fivetran.enums import DataType, RecordType
from tap_core.protocols.fivetran.timestamps import (
    encode_date,
    encode_datetime,
    encode_datetime_text,
)
from tap_core.protocols.fivetran.value_conversion import (
    make_decimal_encoder,
    make_json_encoder,
    to_bool,
    to_bytes,
    to_double,
    to_int,
    to_text,
    utf8,
)
from tap_core.protocols.fivetran.varint_encoding import encode_length_delimited, encode_varint
from tap_core.records.conform import UnmappedCallback
from tap_core.records.serializer import TypedRecordSerializer
from tap_core.types import JsonSchema, Record, RecordBodyEncoder
from tap_core.typing.inspect import TypeConformanceLevel

__all__ = ["MAX_MESSAGE_BYTES", "RecordEncoder", "StreamSpec"]

MAX_MESSAGE_BYTES: Final = 128 * 1024 * 1024 - 1024
"""Maximum size of an encoded record in bytes, so that its message stays below Fivetran's limit."""

# Tags of protobuf fields: an UpdateResponse has a Record, a Record has map entries with its data.
_ENTRY_KEY_TAG: Final = b"\x0a"
_ENTRY_VALUE_TAG: Final = b"\x12"
_DATA_TAG: Final = b"\x22"
_RECORD_TAG: Final = b"\x0a"
_SCHEMA_NAME_TAG: Final = b"\x0a"
_TABLE_NAME_TAG: Final = b"\x12"
_RECORD_TYPE_TAG: Final = b"\x18"
_NULL_VALUE: Final = b"\x08\x01"
"""ValueType with the value null."""

_MAX_CACHED: Final = 4_096
_MAX_CACHED_INTEGER: Final = 256

_VALUE_TAGS: Final[Mapping[DataType, bytes]] = {
    DataType.BOOLEAN: b"\x10",
    DataType.SHORT: b"\x18",
    DataType.INT: b"\x20",
    DataType.LONG: b"\x28",
    DataType.DOUBLE: b"\x39",
    DataType.NAIVE_DATE: b"\x42",
    DataType.NAIVE_DATETIME: b"\x4a",
    DataType.UTC_DATETIME: b"\x52",
    DataType.DECIMAL: b"\x5a",
    DataType.BINARY: b"\x62",
    DataType.STRING: b"\x6a",
    DataType.JSON: b"\x72",
    DataType.XML: b"\x7a",
}
"""Tag of the ValueType field for each column type."""

_pack_double: Final = Struct("<d").pack


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """Properties of a stream that determine the encoding of its records for Fivetran.

    Attributes:
        name: Name of the stream, for error messages.
        properties: JSON Schemas of the declared properties, by name.
        level: Nesting depth down to which values in a JSON column are converted to the types of the
            schema.
        unmapped: Called with the names of a record's undeclared properties, which are dropped.
    """

    name: str
    properties: Mapping[str, Any]
    level: TypeConformanceLevel
    unmapped: UnmappedCallback


class _PrefixCache(dict[int, bytes]):
    """Cache of the protobuf bytes (tags and lengths) before a value, by the length of the value.

    ``make`` returns the bytes for a length in bytes. The bytes for long values are not cached.
    """

    def __init__(self, make: Callable[[int], bytes]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, length: int) -> bytes:
        prefix = self._make(length)
        if length < _MAX_CACHED:
            self[length] = prefix
        return prefix


class _IntegerCache(dict[int, bytes]):
    """Cache of the encoded values of an integer column, by value. Only small values are cached.

    Args:
        entry: Encoder of the protobuf bytes before a value, such as the column's name.
        bits: Size in bits of the column's integer type.
        refuse: Function that raises the error for an integer that needs more bits.
    """

    def __init__(self, entry: _Entry, bits: int, refuse: Callable[[Any], NoReturn]) -> None:
        super().__init__()
        self._heads = {length: entry.head(length) for length in range(1, 11)}
        self._limit = 1 << bits - 1
        self._refuse = refuse

    def __missing__(self, value: int) -> bytes:
        if not -self._limit <= value < self._limit:
            self._refuse(value)
        content = encode_varint(value)
        if 0 <= value < _MAX_CACHED_INTEGER:
            return self.setdefault(value, self._heads[len(content)] + content)
        return self._heads[len(content)] + content


@dataclass(frozen=True, slots=True)
class _Entry:
    """Encoder of the bytes before a column's value in a Record message of Fivetran.

    The message holds a protobuf map with an entry per column.

    Attributes:
        name: Name of the column in UTF-8.
        tag: Protobuf tag of the column's type.
        has_length: True if values of this type are encoded with their length.
    """

    name: bytes
    tag: bytes
    has_length: bool

    @classmethod
    def from_column(cls, column: SourceColumn) -> _Entry:
        kind = column.kind.type
        has_length = kind not in {*INTEGER_BITS, DataType.BOOLEAN, DataType.DOUBLE}
        return cls(utf8(column.name), _VALUE_TAGS[kind], has_length)

    def head(self, length: int) -> bytes:
        """Return the protobuf bytes (name, type) that precede a value of ``length`` bytes."""
        field = self.tag + encode_varint(length) if self.has_length else self.tag
        return self._before(len(field) + length) + field

    @property
    def null(self) -> bytes:
        """Protobuf bytes of a column with the value null: its name, and the marker for null."""
        return self._before(len(_NULL_VALUE)) + _NULL_VALUE

    def _before(self, length: int) -> bytes:
        """Return the bytes of a column's map entry before its value, which has ``length`` bytes."""
        inside = (
            encode_length_delimited(_ENTRY_KEY_TAG, self.name)
            + _ENTRY_VALUE_TAG
            + encode_varint(length)
        )
        return _DATA_TAG + encode_varint(len(inside) + length) + inside


@dataclass(frozen=True, slots=True)
class _ColumnEncoder:
    """Encoder of the values of one column, as a function and as faster Python source.

    `RecordEncoder` generates one Python function that encodes a whole record. It consists of the
    expressions of all columns.

    Attributes:
        column: The column.
        convert: Function that returns the bytes of the column's name and value, for any value.
        quick: Expression for the generated function. It encodes common values itself, and calls
            ``convert`` for others. The placeholder VALUE is replaced by the value.
        variables: Variables that ``quick`` uses, by name. The placeholder ``#`` in a name stands
            for the column's number.
    """

    column: SourceColumn
    convert: Callable[[Any], bytes]
    quick: str
    variables: Mapping[str, Any]


class RecordEncoder(TypedRecordSerializer):
    """Encoder that converts the records of a table to Record messages of Fivetran, as bytes."""

    def __init__(self, table: TableId, columns: Sequence[SourceColumn], source: StreamSpec) -> None:
        self._source = source
        self.columns = tuple(columns)
        self._encoders = [_make_column_encoder(column, source) for column in columns]
        self._record_starts = {
            kind: _PrefixCache(self._make_start_encoder(table, kind)) for kind in RecordType
        }
        self._has_deletion_times = DELETED_AT in source.properties
        self._known_names = {*source.properties, *(column.name for column in columns)}
        keys = [encoder for encoder in self._encoders if encoder.column.is_key]
        self._key_encoders = keys or self._encoders
        super().__init__(self._compile(), self.encode_upsert)

    def encode_upsert(self, record: Record) -> bytes:
        """Encode a record with values of any type as an UPSERT.

        A record with a deletion time (``_sdc_deleted_at``) becomes a DELETE, which contains only
        the key columns, or all columns of a table without keys. Common records are encoded by
        faster code, which `_compile` generates.

        Raises:
            DataError: A value does not match its column, or a key is missing.
        """
        if self._has_deletion_times and record.get(DELETED_AT) is not None:
            return self._encode(RecordType.DELETE, self._key_encoders, record)
        return self._encode(RecordType.UPSERT, self._encoders, record)

    def encode_truncate(self) -> bytes:
        """Return the TRUNCATE of the table, which contains no columns."""
        return self._encode(RecordType.TRUNCATE, (), {})

    def _encode(
        self, kind: RecordType, encoders: Sequence[_ColumnEncoder], record: Record
    ) -> bytes:
        data = b"".join(
            [encoder.convert(_get_value(encoder.column, record)) for encoder in encoders]
        )
        return self._record_starts[kind][len(data)] + data

    def _make_start_encoder(self, table: TableId, kind: RecordType) -> Callable[[int], bytes]:
        """Return a function that encodes the start of a Record message of Fivetran.

        The start has the table's name and the operation ``kind``. The function takes the total
        length of the encoded columns that follow.
        """
        head = encode_length_delimited(_TABLE_NAME_TAG, utf8(table.table))
        if table.schema is not None:
            head = encode_length_delimited(_SCHEMA_NAME_TAG, utf8(table.schema)) + head
        if kind:  # UPSERT is 0, protobuf's default, which is not sent
            head += _RECORD_TYPE_TAG + encode_varint(kind)

        def encode_start(length: int) -> bytes:
            if length > MAX_MESSAGE_BYTES:
                raise DataError(
                    f"Stream '{self._source.name}': a record has {length:,} bytes, and Fivetran"
                    " accepts no message above 128 MB. Exclude the column with the large value."
                )
            return _RECORD_TAG + encode_varint(len(head) + length) + head

        return encode_start

    def _compile(self) -> RecordBodyEncoder:
        """Generate and compile a Python function that encodes the records of this table fast.

        For values of unusual types, the function calls slower ones.
        """
        names: dict[str, Any] = {
            "join": b"".join,
            "starts": self._record_starts[RecordType.UPSERT],
            "encode_upsert": self.encode_upsert,
            "report": self._report_undeclared,
        }
        entries = []
        for number, encoder in enumerate(self._encoders):
            suffix = str(number)
            names |= {name.replace("#", suffix): item for name, item in encoder.variables.items()}
            value = "r" if encoder.column.has_record else f"get({encoder.column.name!r})"
            entries.append(encoder.quick.replace("#", suffix).replace("VALUE", value))
        lines = ["def encode(r):", " get = r.get"]
        if self._has_deletion_times:
            lines.append(f" if get({DELETED_AT!r}) is not None: return encode_upsert(r)")
        if not any(column.has_record for column in self.columns):
            lines.append(f" if len(r) > {len(self._known_names)}: report(r)")
        lines.append(f" data = join(({''.join(f'{entry},' for entry in entries)}))")
        lines.append(" return starts[len(data)] + data")
        exec("\n".join(lines), names)  # noqa: S102 - only literals and fixed names
        encode: RecordBodyEncoder = names["encode"]
        return encode

    def _report_undeclared(self, record: Record) -> None:
        """Pass the names of a record's undeclared properties to the callback ``unmapped``.

        These properties have no column, so their values are not sent to Fivetran.
        """
        names = map(str, record)
        self._source.unmapped(tuple(name for name in names if name not in self._known_names))


def _get_value(column: SourceColumn, record: Record) -> Any:
    """Return the value of a column for a record: the property with the column's name.

    If the stream declares no properties, its only column has the record as JSON.
    """
    return record if column.has_record else record.get(column.name)


# Encoding of a column


def _make_column_encoder(column: SourceColumn, source: StreamSpec) -> _ColumnEncoder:
    entry, variables = _Entry.from_column(column), dict[str, Any]()
    cases = [*_generate_cases(column, entry, source, variables)]
    if not column.is_key:
        cases.append(("n#", "v is None"))
        variables["n#"] = entry.null
    variables["c#"] = convert = _make_converter(column, entry, source)
    if not cases:
        return _ColumnEncoder(column, convert, "c#(VALUE)", variables)
    # The first condition also assigns the value to the variable `v`.
    (expression, first), *others = cases
    cases = [(expression, f"(v := VALUE){first.removeprefix('v')}"), *others]
    chain = "".join(f"{expression} if {condition} else " for expression, condition in cases)
    return _ColumnEncoder(column, convert, f"({chain}c#(v))", variables)


def _generate_cases(
    column: SourceColumn, entry: _Entry, source: StreamSpec, variables: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield Python source for the common types of a column's values: (expression, condition) pairs.

    If its condition is true, an expression returns the encoded value ``v``, as in
    ``("f#", "v is False")``. The caller replaces ``#`` by the column's number.

    Args:
        column: The column.
        entry: Encoder of the bytes before a value.
        source: Stream of the records.
        variables: Receives the objects that the source uses, by their names in the source.
    """
    kind, refuse = column.kind.type, _make_refusal(column, source)
    if kind in {DataType.STRING, DataType.XML}:
        variables["h#"] = _PrefixCache(entry.head)
        yield "h#[len(b := v.encode())] + b", "v.__class__ is str"
    elif kind in INTEGER_BITS:
        variables["w#"] = _IntegerCache(entry, INTEGER_BITS[kind], refuse)
        yield "w#[v]", "v.__class__ is int"
    elif kind == DataType.DOUBLE:
        variables |= {"h#": entry.head(8), "double": _pack_double}
        yield "h# + double(v)", "v.__class__ is float"
    elif kind == DataType.BOOLEAN:
        variables |= {"t#": entry.head(1) + b"\x01", "f#": entry.head(1) + b"\x00"}
        yield from (("t#", "v is True"), ("f#", "v is False"))
    elif kind in _DATETIME_TYPES:
        variables["m#"] = _make_text_encoder(encode_datetime_text, entry, refuse)
        yield "m#(v)", "v.__class__ is str"
    elif kind == DataType.NAIVE_DATE:
        variables["m#"] = lru_cache(_MAX_CACHED)(_make_text_encoder(encode_date, entry, refuse))
        yield "m#(v)", "v.__class__ is str"


def _make_text_encoder(
    encode: Callable[[str], bytes], entry: _Entry, refuse: Callable[[Any], NoReturn]
) -> Callable[[str], bytes]:
    """Return a function that encodes the strings of a date or datetime column for Fivetran.

    Args:
        encode: Encodes a string as a protobuf Timestamp.
        entry: Encoder of the bytes before a value, such as the column's name.
        refuse: Raises the error for an invalid string.
    """
    prefixes = _PrefixCache(entry.head)

    def encode_entry(text: str) -> bytes:
        try:
            content = encode(text)
        except _CONVERSION_ERRORS:
            refuse(text)
        return prefixes[len(content)] + content

    return encode_entry


def _make_converter(
    column: SourceColumn, entry: _Entry, source: StreamSpec
) -> Callable[[Any], bytes]:
    """Return a function that encodes a column with a value of any type for Fivetran.

    The function returns the column's map entry in a Record message. It raises a DataError for an
    invalid value, and for None in a key column.
    """
    read, heads = _make_value_encoder(column, source), _PrefixCache(entry.head)
    refuse, null = _make_refusal(column, source), entry.null

    def convert(value: Any) -> bytes:
        try:
            content = None if value is None else read(value)
        except _CONVERSION_ERRORS:
            refuse(value)
        if content is not None:
            return heads[len(content)] + content
        if column.is_key:
            refuse(None)
        return null

    return convert


def _make_value_encoder(column: SourceColumn, source: StreamSpec) -> Callable[[Any], bytes | None]:
    """Return a function that encodes a value of a column, without the bytes that precede it.

    The function returns None for a value that becomes null. ``source`` describes the stream.
    """
    kind = column.kind
    if kind.type == DataType.JSON:
        if column.has_record:
            return make_json_encoder(column.name, {}, source.level, source.unmapped)
        definition = source.properties.get(column.name)
        schema: JsonSchema = definition if isinstance(definition, dict) else {}
        return make_json_encoder(column.name, schema, source.level, source.unmapped)
    if kind.type == DataType.DECIMAL:
        digits = make_decimal_encoder(kind.precision, kind.scale)
        return lambda value: digits(value).encode()
    if kind.type in INTEGER_BITS:
        limit = 1 << INTEGER_BITS[kind.type] - 1
        return lambda value: encode_varint(_check_range(to_int(value), limit))
    return _VALUE_ENCODERS[kind.type]


def _check_range(value: int, limit: int) -> int:
    if not -limit <= value < limit:
        raise ValueError("beyond the column's limits")
    return value


def _make_refusal(column: SourceColumn, source: StreamSpec) -> Callable[[Any], NoReturn]:
    """Return a function that raises a DataError for an invalid value of a column.

    The message names the stream in ``source``. It does not show the value, which may be
    confidential.
    """
    start = f"Stream '{source.name}': "

    def refuse(value: Any) -> NoReturn:
        if value is None:
            raise DataError(
                f"{start}a record has no value for its key '{column.name}'. Each record needs"
                " one: set it in post_process, or declare other primary_keys."
            )
        kind = column.kind
        size = f"({kind.precision}, {kind.scale})" if kind.type == DataType.DECIMAL else ""
        raise DataError(
            f"{start}a value of '{column.name}', of Python's type {type(value).__name__}, does not"
            f" fit its column, which is {kind.type.name}{size} by the stream's schema. Correct the"
            " schema, or the value in post_process. The value may also be nested too deeply."
        ) from None

    return refuse


_CONVERSION_ERRORS: Final = (ValueError, ArithmeticError, RecursionError)
_DATETIME_TYPES: Final = frozenset((DataType.UTC_DATETIME, DataType.NAIVE_DATETIME))
_VALUE_ENCODERS: Final[Mapping[DataType, Callable[[Any], bytes | None]]] = {
    DataType.BOOLEAN: lambda value: b"\x01" if to_bool(value) else b"\x00",
    DataType.DOUBLE: lambda value: _pack_double(to_double(value)),
    DataType.NAIVE_DATE: encode_date,
    DataType.NAIVE_DATETIME: encode_datetime,
    DataType.UTC_DATETIME: encode_datetime,
    DataType.BINARY: to_bytes,
    DataType.STRING: to_text,
    DataType.XML: to_text,
}
