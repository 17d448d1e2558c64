"""Conversion of a small batch of rows from spool files (JSON lines) to Arrow, without Spark.

Rows and columns are the same as those of `target_spark.frames.spool_frame`. If a value does not fit
its column, or if only Spark supports a feature of the batch, an error is raised. The caller then
reads the same files with Spark.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import pyarrow as pa

from target_spark.columns import (
    AIRBYTE_COLUMNS,
    DELETED_AT,
    EXTRACTED_AT,
    GENERATION,
    HISTORY_COLUMNS,
    IS_CURRENT,
    META,
    METADATA_COLUMNS,
    ORDINAL,
    PARTITION_NULLS,
    RAW_ID,
    TABLE_VERSION,
    VALID_FROM,
    VALID_TO,
    Array,
    Column,
    ColumnSource,
    ColumnType,
    LocalTimestamp,
    Struct,
    TableSchema,
    Timestamp,
    UnmanagedType,
)
from target_spark.frames.airbyte_meta import NODE_DIGITS, meta_prefix
from target_spark.frames.arrow_conversion import ArrowConverter, ConversionError, arrow_type
from target_spark.frames.scalar_parsing import parse_scalar, to_micros
from target_spark.frames.spool_frame import BatchMetadata
from target_spark.frames.sql_plan import SEQUENCE_STEP
from target_spark.storage.uris import to_local_folder

__all__ = ["ArrowBatch", "UnsupportedBatchError", "read_arrow_batch"]

_METADATA_TYPES: Final = {**METADATA_COLUMNS, **HISTORY_COLUMNS, **AIRBYTE_COLUMNS}


class UnsupportedBatchError(Exception):
    """Error for a batch of rows that cannot be converted without Spark.

    The caller then converts the rows with Spark. The message contains the reason, but no value of a
    row.
    """


class _Line(msgspec.Struct, gc=False):
    """One row of a spool file, which keeps uncommitted rows on disk as lines of JSON.

    Attributes:
        n: The ordinal: the position of the row in the input.
        r: The record.
        t: The extraction time of the record, or None if unknown.
        v: The Singer table version, or None.
        m: Metadata from the Airbyte source, or None.
    """

    n: int
    r: msgspec.Raw
    t: str | None = None
    v: int | None = None
    m: msgspec.Raw | None = None


_decode_lines: Final = msgspec.json.Decoder(_Line).decode_lines
_NO_META: Final = (None, b"null")


@dataclass(frozen=True, slots=True)
class ArrowBatch:
    """Rows of one commit, as an Arrow table with the column types of the target table.

    Attributes:
        table: The rows in the order of the files. The columns are those that the loader fills,
            followed by the ordinal, the row's position in the input.
        zoneless: The number of date-times without a time zone, which are read as UTC, by column.
            Columns without such date-times are left out.
    """

    table: pa.Table
    zoneless: Mapping[str, int]


def read_arrow_batch(
    paths: Sequence[str], table_schema: TableSchema, metadata: BatchMetadata
) -> ArrowBatch:
    """Read rows from spool files (JSON lines on disk) into an Arrow table, without Spark.

    Args:
        paths: Local paths or ``file:`` URLs of the spool files.
        table_schema: The schema with the column types of the converted values.
        metadata: Times and ids of the batch, which fill the metadata columns.

    Raises:
        UnsupportedBatchError: A value does not fit its column, or only Spark supports a feature of
            the table schema or of the files.
    """
    _check_supported(table_schema, metadata)
    lines = [line for path in paths for line in _read_lines(path)]
    properties = _property_columns(table_schema)
    property_schema = replace(table_schema, columns=tuple(properties.values()))
    try:
        converter = ArrowConverter(property_schema, counts_zoneless=True)
    except ValueError as error:  # msgspec matches no names with quotes or control characters
        raise UnsupportedBatchError("a property has an unusual name") from error
    try:
        records = converter.batch([bytes(line.r) for line in lines])
    except (ConversionError, RecursionError) as error:
        raise UnsupportedBatchError(str(error)) from error
    by_source = dict(zip(properties, records.columns, strict=True))
    _refuse_partition_nulls(table_schema, by_source)
    arrays = {}
    for column in table_schema.columns:
        if column.feed is ColumnSource.METADATA and column.source != DELETED_AT:
            arrays[column.name] = _build_metadata_column(column.source, lines, metadata)
        elif column.is_fed:
            arrays[column.name] = by_source[column.source]
        elif column.feed is ColumnSource.EMPTIED:
            arrays[column.name] = pa.nulls(len(lines), arrow_type(column.type))
    arrays[ORDINAL] = pa.array([line.n for line in lines], pa.int64())
    names = {column.source: column.name for column in table_schema.columns if _is_property(column)}
    zoneless = {
        names[source]: count for source, count in converter.zoneless.items() if source in names
    }
    return ArrowBatch(pa.table(arrays), zoneless)


def _check_supported(table_schema: TableSchema, metadata: BatchMetadata) -> None:
    if metadata.starts:
        raise UnsupportedBatchError("rows that Spark's workers have read")
    for column in table_schema.columns:
        if column.path:
            raise UnsupportedBatchError(f"column {column.name} is filled by a nested value")
        if column.feed is ColumnSource.WHOLE:
            raise UnsupportedBatchError(f"column {column.name} is filled by the whole record")
        is_standard = (
            column.feed is not ColumnSource.METADATA
            or column.type == _METADATA_TYPES.get(column.source)
        )
        is_written = column.feed is not ColumnSource.NOTHING
        if not is_standard or (is_written and not _is_convertible(column.type)):
            raise UnsupportedBatchError(f"column {column.name} is of type {column.type.ddl}")


def _is_convertible(type_: ColumnType) -> bool:
    if isinstance(type_, Array):
        return _is_convertible(type_.element)
    if isinstance(type_, Struct):
        return bool(type_.fields) and all(_is_convertible(field.type) for field in type_.fields)
    return not isinstance(type_, LocalTimestamp | UnmanagedType)


def _is_property(column: Column) -> bool:
    return column.feed is ColumnSource.PROPERTY


def _property_columns(table_schema: TableSchema) -> dict[str, Column]:
    """Return the table columns that are filled from properties of a record, by property name.

    The result includes the column of the deletion time (``_sdc_deleted_at``), if the table has it.

    Raises:
        UnsupportedBatchError: The property ``_sdc_deleted_at`` fills two columns.
    """
    columns = {column.source: column for column in table_schema.columns if _is_property(column)}
    deletion_time = table_schema.column_fed_by(DELETED_AT, ColumnSource.METADATA)
    if deletion_time is not None:
        if DELETED_AT in columns:
            raise UnsupportedBatchError(f"property {DELETED_AT} fills two columns")
        columns[DELETED_AT] = replace(deletion_time, feed=ColumnSource.PROPERTY)
    return columns


def _read_lines(path: str) -> list[_Line]:
    file = to_local_folder(path)
    if file is None:
        raise UnsupportedBatchError("its rows are not on this machine")
    if file.is_dir():
        raise UnsupportedBatchError("its rows come from files or tables that Spark reads")
    try:
        lines = _decode_lines(file.read_bytes())
    except (msgspec.MsgspecError, OSError, RecursionError) as error:
        raise UnsupportedBatchError("a line cannot be read") from error
    if any(line.m not in _NO_META for line in lines):
        raise UnsupportedBatchError("rows have metadata of the source")
    return lines


def _refuse_partition_nulls(table_schema: TableSchema, by_source: Mapping[str, pa.Array]) -> None:
    """Raise `UnsupportedBatchError` if a partition column has a text that Delta stores as null.

    ``by_source`` has the values of each column, by the name of its property.
    """
    for source in table_schema.text_partitions:
        if not PARTITION_NULLS.keys().isdisjoint(by_source[source].to_pylist()):
            raise UnsupportedBatchError(f"{source}: a text that a partition stores as null")


def _build_metadata_column(
    source: str, lines: Sequence[_Line], metadata: BatchMetadata
) -> pa.Array:
    """Return the values of a metadata column, such as ``_sdc_received_at``, one per row."""
    type_, values = _METADATA_TYPES[source], _get_metadata_values(source, lines, metadata)
    if isinstance(type_, Timestamp):  # microseconds since 1970
        return pa.array(values, pa.int64()).view(arrow_type(type_))
    return pa.array(values, arrow_type(type_))


def _get_metadata_values(
    source: str, lines: Sequence[_Line], metadata: BatchMetadata
) -> list[object]:
    if source in {TABLE_VERSION, GENERATION}:
        return [line.v for line in lines]
    if source == RAW_ID:
        prefix = str(uuid.uuid4())[:-NODE_DIGITS]
        return [f"{prefix}{line.n:0{NODE_DIGITS}}" for line in lines]
    if source == "_sdc_sequence":
        first = metadata.sync_started_at * SEQUENCE_STEP
        return [first + line.n for line in lines]
    received = to_micros(metadata.received_at)
    if source in {"_sdc_extracted_at", EXTRACTED_AT, VALID_FROM}:
        invalid = None if source == "_sdc_extracted_at" else received
        times = {line.t for line in lines}
        by_text = {t: received if t is None else _parse_time(t, invalid) for t in times}
        return [by_text[line.t] for line in lines]
    constants = {
        "_sdc_received_at": received,
        "_sdc_batched_at": to_micros(metadata.batched_at),
        "_sdc_sync_started_at": metadata.sync_started_at,
        VALID_TO: None,
        IS_CURRENT: True,
        META: f"{meta_prefix(metadata.sync_id)}[]}}",
    }
    return [constants[source]] * len(lines)


def _parse_time(text: str, invalid: int | None) -> int | None:
    """Return a time in microseconds since 1970, or ``invalid`` if the text is not a date-time."""
    try:
        micros: int = parse_scalar(text, Timestamp(), truncate=True)
    except ValueError:
        return invalid
    return micros
