"""Validation of ``partition_by``, ``cluster_by`` and ``sort_by`` against a stream's schema.

If such a setting is made for one stream (``streams.<name>.partition_by``) and cannot be applied,
an error is raised. If it is made for all streams, it is applied where possible, and the report
names the streams to which it was not applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeVar

from tap_core.events import StreamId
from target_spark.columns import (
    Boolean,
    Date,
    Decimal,
    Double,
    Integer,
    TableSchema,
    Text,
    Timestamp,
)
from target_spark.config.options import LoadOptions, StreamOptions
from target_spark.errors import UnsupportedError
from target_spark.tables.table import PartitionField, TableLayout

__all__ = ["TYPES_WITH_BOUNDS", "reject_empty_partition_values", "resolve_layout"]

TYPES_WITH_BOUNDS: Final = (Date, Decimal, Double, Integer, Text, Timestamp)
"""Column types for which Delta stores the minimum and maximum per file."""

_SCALAR: Final = (Boolean, *TYPES_WITH_BOUNDS)

_Field = TypeVar("_Field", PartitionField, str)
"""A partition field, or the name of a property to cluster or sort by."""


def resolve_layout(
    options: LoadOptions, stream: StreamId, table_schema: TableSchema
) -> tuple[TableLayout, tuple[str, ...]]:
    """Return the layout of a stream's table, such as its partition fields.

    Args:
        options: The options of the load.
        stream: The stream.
        table_schema: The stream's table schema.

    Returns:
        A tuple of the layout, and of remarks for the user. Each remark is about a setting for all
        streams that is not applied to this one, for example because it lacks the property.

    Raises:
        UnsupportedError: A layout setting in ``streams.<name>``, for this stream only, cannot be
            applied.
    """
    stream_options = options.streams.get(str(stream), StreamOptions())
    settings = options.of(stream)
    remarks: list[str] = []

    def keep_applicable(
        setting: str, fields: Iterable[_Field], find_fault: Callable[[_Field], str | None]
    ) -> tuple[_Field, ...]:
        applicable: list[_Field] = []
        for field_ in fields:
            reason = find_fault(field_)
            if reason is None:
                applicable.append(field_)
            elif getattr(stream_options, setting):
                raise UnsupportedError(
                    f"streams.{stream}.{setting}: {reason}. Remove it, or name a property that"
                    " the stream's schema has."
                )
            else:
                remarks.append(f"{setting} is not applied: {reason}")
        return tuple(dict.fromkeys(applicable))

    layout = TableLayout(
        keep_applicable(
            "partition_by",
            settings.partition_by,
            lambda field_: _find_partition_fault(table_schema, field_),
        ),
        keep_applicable(
            "cluster_by",
            settings.cluster_by,
            lambda source: _find_fault(table_schema, source, TYPES_WITH_BOUNDS),
        ),
        keep_applicable(
            "sort_by", settings.sort_by, lambda source: _find_fault(table_schema, source, _SCALAR)
        ),
        settings.file_bytes,
    )
    return layout, tuple(remarks)


def reject_empty_partition_values(
    options: LoadOptions, stream: StreamId, table_schema: TableSchema
) -> TableSchema:
    """Return a table schema in which partition columns of text must not be empty.

    In a partition column, Delta would store null in place of a value in `PARTITION_NULLS`, such as
    an empty string, so the loader quarantines rows with such a value.

    The attribute ``text_partitions`` of the returned schema lists these columns' properties. For
    other formats than Delta, return ``table_schema`` unchanged.
    """
    if options.format != "delta":
        return table_schema
    sources = (
        field_.source
        for field_ in options.of(stream).partition_by
        if field_.transform == "identity"
        and _find_fault(table_schema, field_.source, (Text,)) is None
    )
    return replace(table_schema, text_partitions=tuple(sources))


def _find_fault(table_schema: TableSchema, source: str, types: tuple[type, ...]) -> str | None:
    """Return the reason why the property ``source`` cannot define a table's layout; None if it can.

    The property must have a column of one of the ``types``.
    """
    column = table_schema.column_fed_by(source)
    if column is None:
        return f"the stream has no property {source!r}"
    if not isinstance(column.type, types):
        return f"{source!r} is of type {column.type.ddl}, which is not supported for it"
    return None


def _find_partition_fault(table_schema: TableSchema, field_: PartitionField) -> str | None:
    """Return the reason why a table cannot be partitioned by ``field_``; None if it can."""
    if field_.transform == "identity":
        if {column.source for column in table_schema.columns if column.is_fed} == {field_.source}:
            return f"{field_.source!r} is the only property, and files need at least one more"
        return _find_fault(table_schema, field_.source, _SCALAR)
    column = table_schema.column_fed_by(field_.source)
    if column is not None and f"_part_{field_.transform}_{column.name}" in table_schema.types:
        return f"_part_{field_.transform}_{column.name} is a property"
    types = (Timestamp,) if field_.transform == "hour" else (Timestamp, Date)
    fault = _find_fault(table_schema, field_.source, types)
    return fault and f"{field_.transform}({field_.source}): {fault}"
