"""Validation of a stream's layout settings against the properties of its schema.

A setting of this one stream that cannot be applied is an error. A setting for all streams applies
where possible, and the report names the streams without it.
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

__all__ = ["add_partition_columns", "resolve_layout"]

_PLAIN: Final = (Boolean, Date, Decimal, Double, Integer, Text, Timestamp)
_COMPARED: Final = (Date, Decimal, Double, Integer, Text, Timestamp)


def resolve_layout(
    options: LoadOptions, stream: StreamId, layout: TableSchema
) -> tuple[TableLayout, tuple[str, ...]]:
    """Return the file layout of a stream's table, and remarks on settings not applied.

    Raises:
        UnsupportedError: A setting of this one stream cannot be applied.
    """
    own = options.streams.get(str(stream), StreamOptions())
    asked, left_out = options.of(stream), list[str]()

    def possible(
        setting: str,
        wishes: Iterable[PartitionField],
        fault: Callable[[PartitionField], str | None],
    ) -> Iterator[PartitionField]:
        for wish in wishes:
            why = fault(wish)
            if why is None:
                yield wish
            elif getattr(own, setting):
                raise UnsupportedError(
                    f"streams.{stream}.{setting}: {why}. Remove it, or name a property that"
                    " the stream's schema has."
                )
            else:
                left_out.append(f"{setting} is not applied: {why}")

    def named(setting: str, sources: Iterable[str], types: tuple[type, ...]) -> tuple[str, ...]:
        wishes = map(PartitionField, sources)
        found = possible(setting, wishes, lambda wish: _fault(layout, wish.source, types))
        return tuple(dict.fromkeys(wish.source for wish in found))

    fed = {column.source for column in layout.columns if column.is_fed}
    partitions = possible(
        "partition_by", asked.partition_by, lambda wish: _partition_fault(layout, wish, fed)
    )
    design = TableLayout(
        tuple(dict.fromkeys(partitions)),
        named("cluster_by", asked.cluster_by, _COMPARED),
        named("sort_by", asked.sort_by, _PLAIN),
        asked.file_bytes,
    )
    return design, tuple(left_out)


def add_partition_columns(
    options: LoadOptions, stream: StreamId, layout: TableSchema
) -> TableSchema:
    """Return the layout with the text columns that must not be empty.

    Delta stores an empty text in a partition column as null, so the value would be falsified.
    """
    if options.format != "delta":
        return layout
    wishes = (wish for wish in options.of(stream).partition_by if wish.transform == "identity")
    filled = (wish.source for wish in wishes if _fault(layout, wish.source, (Text,)) is None)
    return replace(layout, filled=tuple(filled))


def _fault(layout: TableSchema, source: str, types: tuple[type, ...]) -> str | None:
    column = layout.column_fed_by(source)
    if column is None:
        return f"the stream has no property {source!r}"
    if not isinstance(column.type, types):
        return f"{source!r} is of type {column.type.ddl}, which is not supported for it"
    return None


def _partition_fault(layout: TableSchema, wish: PartitionField, fed: Collection[str]) -> str | None:
    if wish.transform == "identity":
        if fed == {wish.source}:
            return f"{wish.source!r} is the only property, and files need at least one more"
        return _fault(layout, wish.source, _PLAIN)
    column = layout.column_fed_by(wish.source)
    if column is not None and f"_part_{wish.transform}_{column.name}" in layout.types:
        return f"_part_{wish.transform}_{column.name} is a property"
    types = (Timestamp,) if wish.transform == "hour" else (Timestamp, Date)
    found = _fault(layout, wish.source, types)
    return found and f"{wish.transform}({wish.source}): {found}"
