"""Validation of ``partition_by``, ``cluster_by`` and ``sort_by`` against a stream's schema.

If such a setting is made for one stream (``streams.<name>.partition_by``) and cannot be applied,
an error is raised. If it is made for all streams, it is applied where possible, and the report
names the streams to which it was not applied.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

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
from target_spark.tables.model import PartitionField, TableLayout

__all__ = ["reject_empty_partition_values", "resolve_layout"]

_PLAIN: Final = (Boolean, Date, Decimal, Double, Integer, Text, Timestamp)
_COMPARED: Final = (Date, Decimal, Double, Integer, Text, Timestamp)


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
    own = options.streams.get(str(stream), StreamOptions())
    settings, remarks = options.of(stream), list[str]()

    def possible(
        setting: str,
        fields: Iterable[PartitionField],
        fault: Callable[[PartitionField], str | None],
    ) -> Iterator[PartitionField]:
        for field_ in fields:
            reason = fault(field_)
            if reason is None:
                yield field_
            elif getattr(own, setting):
                raise UnsupportedError(
                    f"streams.{stream}.{setting}: {reason}. Remove it, or name a property that"
                    " the stream's schema has."
                )
            else:
                remarks.append(f"{setting} is not applied: {reason}")

    def named(setting: str, sources: Iterable[str], types: tuple[type, ...]) -> tuple[str, ...]:
        fields = map(PartitionField, sources)
        applicable = possible(
            setting, fields, lambda field_: _fault(table_schema, field_.source, types)
        )
        return tuple(dict.fromkeys(field_.source for field_ in applicable))

    filled = {column.source for column in table_schema.columns if column.is_fed}
    partitions = possible(
        "partition_by",
        settings.partition_by,
        lambda field_: _partition_fault(table_schema, field_, filled),
    )
    layout = TableLayout(
        tuple(dict.fromkeys(partitions)),
        named("cluster_by", settings.cluster_by, _COMPARED),
        named("sort_by", settings.sort_by, _PLAIN),
        settings.file_bytes,
    )
    return layout, tuple(remarks)


def reject_empty_partition_values(
    options: LoadOptions, stream: StreamId, table_schema: TableSchema
) -> TableSchema:
    """Return a table schema in which an empty string is invalid for a partition column.

    The loader quarantines rows with such a value, because a Delta table would store null instead.
    The text properties to partition by are listed in the attribute ``filled`` of the result. For
    another table format, ``table_schema`` is returned unchanged.
    """
    if options.format != "delta":
        return table_schema
    fields = (
        field_ for field_ in options.of(stream).partition_by if field_.transform == "identity"
    )
    filled = (
        field_.source for field_ in fields if _fault(table_schema, field_.source, (Text,)) is None
    )
    return replace(table_schema, filled=tuple(filled))


def _fault(table_schema: TableSchema, source: str, types: tuple[type, ...]) -> str | None:
    column = table_schema.column_fed_by(source)
    if column is None:
        return f"the stream has no property {source!r}"
    if not isinstance(column.type, types):
        return f"{source!r} is of type {column.type.ddl}, which is not supported for it"
    return None


def _partition_fault(
    table_schema: TableSchema, field_: PartitionField, filled: Collection[str]
) -> str | None:
    if field_.transform == "identity":
        if filled == {field_.source}:
            return f"{field_.source!r} is the only property, and files need at least one more"
        return _fault(table_schema, field_.source, _PLAIN)
    column = table_schema.column_fed_by(field_.source)
    if column is not None and f"_part_{field_.transform}_{column.name}" in table_schema.types:
        return f"_part_{field_.transform}_{column.name} is a property"
    types = (Timestamp,) if field_.transform == "hour" else (Timestamp, Date)
    fault = _fault(table_schema, field_.source, types)
    return fault and f"{field_.transform}({field_.source}): {fault}"
