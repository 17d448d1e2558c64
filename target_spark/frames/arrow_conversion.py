"""Conversion of JSON records to Arrow record batches, with the same rules as the SQL conversions.

All records of a batch are decoded together with msgspec, and each column is converted as a whole.
If a column contains a value in a less common form, such as a number in quotes, its values are
converted one by one by `target_spark.frames.scalar_parsing`. A value that cannot be converted
exactly is an error, or null if the caller requests nulls. Error messages contain the path of the
value, but not the value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import accumulate, chain
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from target_spark.columns import (
    Array,
    Binary,
    Boolean,
    Column,
    ColumnSource,
    ColumnType,
    Date,
    Decimal,
    Double,
    Integer,
    Struct,
    TableSchema,
    Text,
    Timestamp,
)
from target_spark.frames.conversion_errors import (
    MISSING_KEY,
    describe_expected_type,
    describe_wrong_structure,
)
from target_spark.frames.scalar_parsing import parse_scalar

__all__ = ["ArrowConverter", "ConversionError", "arrow_schema", "arrow_type"]

_Path: TypeAlias = tuple[str, ...]
"""Path of a value in a record, such as ``("orders", "[]", "id")``: property names, and ``[]`` for
an item of an array."""

_ITEM: Final = "[]"
_NULL: Final = b"null"
_QUOTE: Final = b'"'
_DAY_LENGTH: Final = len("2024-01-01")
_INSTANT: Final = pa.timestamp("us", "UTC")


class ConversionError(Exception):
    """Error for a value that cannot be converted exactly to the type of its column.

    Attributes:
        row: The index of the record in the list of records passed to `ArrowConverter.batch`.
    """

    def __init__(self, path: _Path, reason: str) -> None:
        location = "".join(name if name == _ITEM else f".{name}" for name in path).lstrip(".")
        super().__init__(f"{location}: {reason}" if location else reason)
        self.row = 0


def arrow_schema(table_schema: TableSchema) -> pa.Schema:
    """Return the Arrow schema with one field for each column of a table schema."""
    return pa.schema(
        [pa.field(column.name, arrow_type(column.type)) for column in table_schema.columns]
    )


def arrow_type(type_: ColumnType) -> pa.DataType:
    """Return the Arrow type of a column type, such as ``timestamp[us, tz=UTC]`` for `Timestamp`."""
    if isinstance(type_, Array):
        return pa.list_(pa.field("element", arrow_type(type_.element)))
    if isinstance(type_, Struct):
        return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in type_.fields])
    if isinstance(type_, Decimal):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, Integer):
        return _ARROW_INTEGERS[type_.bits]
    return _ARROW_TYPES[type(type_)]


class ArrowConverter:
    """Converter of JSON records of one stream to Arrow record batches. It is not thread-safe.

    Args:
        table_schema: The table schema of the stream.
        nulls: True to convert invalid values to null, and to accept records whose primary key is
            null or missing. False to raise an error in both cases.
        counts_zoneless: True to count date-times without a time zone. Counting makes the conversion
            slower.

    Attributes:
        schema: The Arrow schema of the record batches.
        zoneless: The number of date-times without a time zone, which are read as UTC, by property.
            Properties without such date-times are left out.
    """

    def __init__(
        self, table_schema: TableSchema, *, nulls: bool = False, counts_zoneless: bool = False
    ) -> None:
        self.schema: pa.Schema = arrow_schema(table_schema)
        self._truncate = table_schema.truncate_timestamps
        self.zoneless: Counter[str] = Counter()
        self._counts_zoneless = counts_zoneless
        self._nulls = nulls
        self._columns = [
            column for column in table_schema.columns if column.feed is ColumnSource.PROPERTY
        ]
        self._is_whole_record = [
            column.feed is ColumnSource.WHOLE for column in table_schema.columns
        ]
        self._keys = () if nulls else table_schema.key_sources
        self._raw_paths: set[_Path] = set()
        """Paths of text values for which a record had another JSON type, such as a number. From
        then on `_decoded_type` makes decoders for these paths that accept any type."""
        self._fast_decoder = self._make_fast_decoder()
        self._record_type = self._make_record_type(self._columns, (), exact=True)
        self._exact_decoder = _make_list_decoder(self._record_type)

    def batch(self, bodies: Sequence[bytes]) -> pa.RecordBatch:
        """Convert records, each encoded as a JSON object, to the rows of an Arrow record batch.

        Raises:
            ConversionError: A value cannot be converted to its column's type, or a primary key
                column is null or missing.
        """
        try:
            return self._convert_records(bodies, self._decode_records(bodies))
        except ConversionError:  # find the first record with an error
            for row, body in enumerate(bodies):
                self._check_record(body, row)
            raise

    def _check_record(self, body: bytes, row: int) -> None:
        try:
            self._convert_records([body], self._decode_records([body]))
        except ConversionError as error:
            error.row = row
            raise

    # ------------------------------------------------------------------------- decoding

    def _decode_records(self, bodies: Sequence[bytes]) -> list[Any]:
        """Decode JSON records; return one msgspec struct for each record, with a field per column.

        If a value has an unexpected type, all records are decoded again by a slower decoder that
        accepts more types.
        """
        joined = b"[%b]" % b",".join(bodies)
        for decoder in (self._fast_decoder, self._exact_decoder):
            with suppress(msgspec.MsgspecError):
                records: list[Any] = decoder.decode(joined)
                return records
        return [self._decode_record(body) for body in bodies]

    def _decode_record(self, body: bytes) -> Any:
        """Decode one JSON record to a msgspec struct with a field per column.

        If a value has a wrong structure, such as a string in a column of objects, each column is
        decoded separately, and the value becomes null if the converter was created with
        ``nulls=True``.

        Raises:
            ConversionError: A value has a wrong structure and must not become null, or the record
                is not valid JSON.
        """
        try:
            return self._exact_decoder.decode(b"[%b]" % body)[0]
        except msgspec.MsgspecError:
            pass
        try:
            raw_values = _RAW_VALUES.decode(body)
        except msgspec.MsgspecError:
            raise ConversionError((), "the record cannot be read as JSON") from None
        values = {}
        for index, column in enumerate(self._columns):
            raw = raw_values.get(column.source, _NULL)
            values[f"f{index}"] = self._decode_value(self._column_decoders[index], raw, column)
        return self._record_type(**values)

    def _decode_value(self, decoder: msgspec.json.Decoder[Any], raw: Any, column: Column) -> Any:
        try:
            return decoder.decode(raw)
        except msgspec.MsgspecError:
            if self._nulls:
                return None
            raise ConversionError((column.source,), describe_wrong_structure(column.type)) from None

    @cached_property
    def _column_decoders(self) -> list[msgspec.json.Decoder[Any]]:
        """JSON decoders that decode the value of one column each, in column order."""
        types = (
            self._decoded_type(column.type, (column.source,), exact=True)
            for column in self._columns
        )
        return [msgspec.json.Decoder(type_) for type_ in types]

    def _make_fast_decoder(self) -> msgspec.json.Decoder[Any]:
        return _make_list_decoder(self._make_record_type(self._columns, (), exact=False))

    def _make_record_type(self, columns: Sequence[Column], path: _Path, *, exact: bool) -> Any:
        fields = [
            (
                f"f{index}",
                self._decoded_type(column.type, (*path, column.source), exact=exact),
                msgspec.field(name=column.source, default=None),
            )
            for index, column in enumerate(columns)
            if column.feed is ColumnSource.PROPERTY
        ]
        return msgspec.defstruct("Record", fields, gc=False)

    def _decoded_type(self, type_: ColumnType, path: _Path, *, exact: bool) -> Any:
        """Return the type for decoding the values of a column, field or array item with msgspec.

        Args:
            type_: The column type of the values.
            path: The path of the values in the record.
            exact: True to decode every scalar as `msgspec.Raw`, which accepts any JSON value. False
                to decode to Python types, which is faster but rejects some valid values, such as a
                number in quotes.
        """
        if isinstance(type_, Array):
            return list[self._decoded_type(type_.element, (*path, _ITEM), exact=exact)] | None  # type: ignore[misc]
        if isinstance(type_, Struct):
            return self._make_record_type(type_.fields, path, exact=exact) | None
        if exact or path in self._raw_paths or isinstance(type_, Decimal):
            return msgspec.Raw
        return _DECODED_TYPES[type(type_)] | None

    # -------------------------------------------------------------------------- columns

    def _convert_records(self, bodies: Sequence[bytes], records: list[Any]) -> pa.RecordBatch:
        raw_paths_before = len(self._raw_paths)
        by_source = {
            column.source: self._to_array(
                column.type, list(map(attrgetter(f"f{index}"), records)), (column.source,)
            )
            for index, column in enumerate(self._columns)
        }
        for key in self._keys:
            if by_source[key].null_count:
                raise ConversionError((key,), MISSING_KEY)
        if len(self._raw_paths) > raw_paths_before:
            self._fast_decoder = self._make_fast_decoder()
        arrays = iter(by_source.values())
        columns = [
            pa.array(bodies, pa.binary()).cast(pa.string()) if is_whole else next(arrays)
            for is_whole in self._is_whole_record
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _to_array(self, type_: ColumnType, values: list[Any], path: _Path) -> pa.Array:
        """Return the decoded values of a column, field or array item as an Arrow array.

        Raises:
            ConversionError: A value cannot be converted to the type.
        """
        if isinstance(type_, Array):
            inner = self._to_array(
                type_.element, list(chain.from_iterable(filter(None, values))), (*path, _ITEM)
            )
            lengths = accumulate((len(value or ()) for value in values), initial=0)
            offsets = pa.array(lengths, pa.int32())
            return pa.ListArray.from_arrays(
                offsets, inner, arrow_type(type_), mask=_build_null_mask(values)
            )
        if isinstance(type_, Struct):
            fields = [
                self._to_array(
                    field.type, _get_field_values(values, f"f{index}"), (*path, field.source)
                )
                if field.feed is ColumnSource.PROPERTY
                else pa.nulls(len(values), arrow_type(field.type))
                for index, field in enumerate(type_.fields)
            ]
            return pa.StructArray.from_arrays(
                fields, fields=list(arrow_type(type_)), mask=_build_null_mask(values)
            )
        return self._to_scalar_array(type_, values, path)

    def _to_scalar_array(self, type_: ColumnType, values: list[Any], path: _Path) -> pa.Array:
        """Convert scalar values to an Arrow array.

        All are converted together or, if a value has a less common form, one by one.
        """
        if self._counts_zoneless and isinstance(type_, Timestamp):
            count = sum(map(_has_no_timezone, map(_get_text, values)))
            self.zoneless += Counter({path[0]: count})
        convert = _COLUMN_CONVERTERS[type(type_)]
        try:
            return convert(values, type_)
        except (ValueError, TypeError, OverflowError):
            pass
        if isinstance(type_, Text):
            texts = [_get_text(value) for value in values]
            if any(_is_not_string(value) for value in values):
                self._raw_paths.add(path)
            return pa.array(texts, pa.string())
        return pa.array(
            [self._convert_value(value, type_, path) for value in values], _get_storage_type(type_)
        ).view(arrow_type(type_))

    def _convert_value(self, value: Any, type_: ColumnType, path: _Path) -> Any:
        text = _encode_json(value) if isinstance(type_, Boolean) else _get_text(value)
        if text is None:
            return None
        try:
            return parse_scalar(text, type_, truncate=self._truncate)
        except ValueError:
            if self._nulls:
                return None
            # The messages are those of the SQL conversions, where the JSON reader checks booleans.
            is_boolean = isinstance(type_, Boolean)
            describe = describe_wrong_structure if is_boolean else describe_expected_type
            raise ConversionError(path, describe(type_)) from None


_RAW_VALUES: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _make_list_decoder(item_type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(list[item_type])


def _build_null_mask(values: list[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _get_field_values(values: list[Any], name: str) -> list[Any]:
    return [None if value is None else getattr(value, name) for value in values]


def _encode_json(value: Any) -> str | None:
    """Return the JSON text of a `msgspec.Raw` value; None for a JSON null."""
    raw = bytes(value) if value is not None else _NULL
    return None if raw == _NULL else raw.decode()


def _get_text(value: Any) -> str | None:
    """Return the content of a JSON string, or the text of any other value; None for null."""
    if isinstance(value, msgspec.Raw):
        text = _encode_json(value)
        if text is None or text[0] != '"':
            return text
        return msgspec.json.decode(text, type=str)
    return value if value is None else str(value)


def _has_no_timezone(text: str | None) -> bool:
    """Return True if a date-time has neither ``Z`` nor a UTC offset; False for None.

    `target_spark.frames.sql_casts.has_no_timezone` does the same in SQL.
    """
    return text is not None and not (
        text.endswith(("Z", "z")) or "+" in text or "-" in text[_DAY_LENGTH:]
    )


def _is_not_string(value: Any) -> bool:
    """Return True for a `msgspec.Raw` value that is a JSON number, boolean, array or object."""
    return isinstance(value, msgspec.Raw) and not bytes(value).startswith((_QUOTE, _NULL))


# --------------------------------------------------------------- conversion of columns
# Each function converts the decoded values of a column, or raises if one cannot be converted.


def _convert_directly(values: list[Any], type_: ColumnType) -> pa.Array:
    return pa.array(values, arrow_type(type_))


def _convert_decimals(values: list[Any], type_: Any) -> pa.Array:
    """Convert `msgspec.Raw` numbers, with or without quotes, to an Arrow array of decimals.

    Raises:
        ValueError: A value is not a number, or has an exponent or more digits than the type allows.
            The caller then converts the values one by one.
    """
    cells = pa.array([None if value is None else bytes(value) for value in values], pa.binary())
    texts = pc.ascii_trim(cells.cast(pa.string()), characters='"')
    texts = pc.if_else(pc.equal(cells, _NULL), None, texts)
    integer_digits, scale = type_.precision - type_.scale, type_.scale
    integer = rf"0|[1-9][0-9]{{0,{integer_digits - 1}}}" if integer_digits else "0"
    fraction = rf"(?:\.[0-9]{{1,{scale}}})?" if scale else ""
    return _check_pattern(texts, rf"\A-?(?:{integer}){fraction}\z").cast(arrow_type(type_))


_CLOCK: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_ZONE: Final = r"(?:Z|[+-](?:0[0-9]|1[0-7]):?[0-5][0-9])"
_FIRST_INSTANT, _LAST_INSTANT = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Start of the year 0001 and end of the year 9999, in microseconds since 1970."""
_FIRST_DAY: Final = -719_162
"""The day 0001-01-01, in days since 1970-01-01."""


def _convert_date_times(values: list[Any], _type: ColumnType) -> pa.Array:
    texts = pa.array(values, pa.string())
    if _all_true(pc.match_substring_regex(texts, rf"\A{_CLOCK}{_ZONE}\z")):
        instants = texts.cast(_INSTANT)
    else:  # a date-time without a zone is UTC
        instants = _check_pattern(texts, rf"\A{_CLOCK}\z").cast(pa.timestamp("us")).view(_INSTANT)
    return _check_range(instants, pa.int64(), _FIRST_INSTANT, _LAST_INSTANT)


def _convert_dates(values: list[Any], _type: ColumnType) -> pa.Array:
    texts = _check_pattern(pa.array(values, pa.string()), r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z")
    return _check_range(texts.cast(pa.date32()), pa.int32(), _FIRST_DAY, None)


def _check_pattern(texts: pa.Array, pattern: str) -> pa.Array:
    """Return texts, after checking that all of them match ``pattern``; None counts as a match."""
    if not _all_true(pc.match_substring_regex(texts, pattern)):
        raise ValueError
    return texts


def _all_true(conditions: pa.Array) -> bool:
    """Return True if no value of a boolean Arrow array is false."""
    return pc.all(conditions).as_py() is not False


def _check_range(values: pa.Array, integer: pa.DataType, first: int, last: int | None) -> pa.Array:
    """Return dates or timestamps, after checking that all are between ``first`` and ``last``.

    ``integer`` is the Arrow integer type of the same width, as which the values are compared.
    """
    bounds = pc.min_max(values.view(integer)).as_py()
    least, greatest = bounds["min"], bounds["max"]
    if least is not None and (least < first or (last is not None and greatest > last)):
        raise ValueError
    return values


def _reject(_values: list[Any], _type: ColumnType) -> pa.Array:
    raise ValueError


def _get_storage_type(type_: ColumnType) -> pa.DataType:
    """Return the Arrow type of an array with the results of `parse_scalar` for a column.

    For timestamps, it is a 64-bit integer of microseconds since 1970. For all other types, it is
    the Arrow type of the column.
    """
    return pa.int64() if isinstance(type_, Timestamp) else arrow_type(type_)


_ARROW_INTEGERS: Final[Mapping[int, pa.DataType]] = MappingProxyType(
    {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
)
_ARROW_TYPES: Final[Mapping[type[ColumnType], pa.DataType]] = MappingProxyType(
    {
        Boolean: pa.bool_(),
        Double: pa.float64(),
        Text: pa.string(),
        Timestamp: _INSTANT,
        Date: pa.date32(),
        Binary: pa.binary(),
    }
)
_DECODED_TYPES: Final[Mapping[type[ColumnType], Any]] = MappingProxyType(
    {
        Boolean: bool,
        Integer: int,
        Double: float,
        Text: str,
        Timestamp: str,
        Date: str,
        Binary: str,
    }
)
"""Python type that the fast decoder returns for JSON values of each column type."""

_COLUMN_CONVERTERS: Final[Mapping[type[ColumnType], Callable[[list[Any], Any], pa.Array]]] = (
    MappingProxyType(
        {
            Boolean: _convert_directly,
            Integer: _convert_directly,
            Double: _convert_directly,
            Text: _convert_directly,
            Decimal: _convert_decimals,
            Timestamp: _convert_date_times,
            Date: _convert_dates,
            Binary: _reject,
        }
    )
)
"""Functions that convert all decoded values of a column together, by column type."""
