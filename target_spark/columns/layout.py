"""What a table looks like to us: columns, keys, and the changes it needs.

Rules of the room: pure and frozen. A `Layout` lists every column of its table in the
table's order, also those that nothing feeds any more, so that a frame made from it can
be written as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from target_spark.columns.types import (
    Array,
    Boolean,
    Column,
    ColumnSource,
    ColumnType,
    Decimal,
    Integer,
    Struct,
    Text,
    Timestamp,
)
from target_spark.tables.identifiers import fold_case, quote

__all__ = [
    "AIRBYTE_COLUMNS",
    "CDC_DELETED_AT",
    "DELETED_AT",
    "EXTRACTED_AT",
    "GENERATION",
    "HISTORY_COLUMNS",
    "IS_CURRENT",
    "META",
    "METADATA_COLUMNS",
    "ORDINAL",
    "RAW_ID",
    "TABLE_VERSION",
    "VALID_FROM",
    "VALID_TO",
    "ColumnOptions",
    "SchemaChange",
    "TableSchema",
]

ORDINAL = "__target_spark_ordinal"
"""The column of a frame, not of the table, that holds a row's place in the input."""

DELETED_AT = "_sdc_deleted_at"
TABLE_VERSION = "_sdc_table_version"
VALID_FROM = "_sdc_valid_from"
VALID_TO = "_sdc_valid_to"
IS_CURRENT = "_sdc_is_current"

RAW_ID = "_airbyte_raw_id"
EXTRACTED_AT = "_airbyte_extracted_at"
META = "_airbyte_meta"
GENERATION = "_airbyte_generation_id"

CDC_DELETED_AT = "_ab_cdc_deleted_at"
"""The property by which Airbyte's sources say of a row that it was deleted."""

METADATA_COLUMNS: Mapping[str, ColumnType] = MappingProxyType(
    {
        "_sdc_extracted_at": Timestamp(),
        "_sdc_received_at": Timestamp(),
        "_sdc_batched_at": Timestamp(),
        DELETED_AT: Timestamp(),
        "_sdc_sequence": Integer(),
        TABLE_VERSION: Integer(),
        "_sdc_sync_started_at": Integer(),
    }
)
"""The columns that targets of the Singer SDK add, with the same names and meanings."""

HISTORY_COLUMNS: Mapping[str, ColumnType] = MappingProxyType(
    {VALID_FROM: Timestamp(), VALID_TO: Timestamp(), IS_CURRENT: Boolean()}
)
"""The columns of a table that keeps every version of its rows."""

AIRBYTE_COLUMNS: Mapping[str, ColumnType] = MappingProxyType(
    {RAW_ID: Text(), EXTRACTED_AT: Timestamp(), META: Text(), GENERATION: Integer()}
)
"""The columns that Airbyte's destinations add; what is to be known of a row is JSON."""


_UNSIZED = Decimal(38, 18)


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """What a user can say about columns.

    ``plain_numbers``: the type of a ``number`` without ``multipleOf``; None is double.
    ``unsized_decimals``: the type of a decimal string whose digits nobody declares.
    ``oversized_as_text``: numbers declared with more than 38 digits become text; else
    they are decimals, and the values that do not fit are set aside.
    ``cut_timestamps``: what a date-time says beyond microseconds is cut off; else it is set
    aside. ``metadata`` adds the columns of `METADATA_COLUMNS`, ``table_version`` the one of
    them that tells the versions of a table apart, ``history`` those of `HISTORY_COLUMNS`.
    ``reserved`` are names that no column of a record gets.

    ``airbyte`` adds the columns of `AIRBYTE_COLUMNS`, of which one tells the versions apart,
    and lets a row stay whose value does not fit: that value is null then, and the row's
    meta says so. With ``misfits_aside`` such a row is set aside all the same.
    """

    plain_numbers: Decimal | None = None
    unsized_decimals: Decimal = _UNSIZED
    oversized_as_text: bool = False
    cut_timestamps: bool = False
    metadata: bool = False
    table_version: bool = False
    history: bool = False
    reserved: frozenset[str] = frozenset()
    airbyte: bool = False
    misfits_aside: bool = False

    @property
    def keeps_misfits(self) -> bool:
        """Whether a row stays whose values do not all fit."""
        return self.airbyte and not self.misfits_aside

    @property
    def version_column(self) -> str:
        """The column that tells the versions of a table apart."""
        return GENERATION if self.airbyte else TABLE_VERSION

    def metadata_columns(self) -> tuple[Column, ...]:
        """Return the columns that the options add to every table."""
        return tuple(
            Column(name, name, type_, feed=ColumnSource.METADATA)
            for name, type_ in {**METADATA_COLUMNS, **HISTORY_COLUMNS, **AIRBYTE_COLUMNS}.items()
            if self._has(name)
        )

    def _has(self, name: str) -> bool:
        if name in HISTORY_COLUMNS:
            return self.history
        if name in AIRBYTE_COLUMNS:
            return self.airbyte
        if name == TABLE_VERSION:
            return (self.metadata or self.table_version) and not self.airbyte
        return self.metadata


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a table in its order, and the names of those that identify a row.

    With ``cut_timestamps`` a date-time is cut to microseconds. A text of the properties
    ``filled`` must not be empty. With ``keeps_misfits`` a value that does not fit is null,
    and its row stays, unless the row cannot be told apart or its deletion not be seen.
    """

    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ()
    key_sources: tuple[str, ...] = ()
    cut_timestamps: bool = False
    filled: tuple[str, ...] = ()
    keeps_misfits: bool = False

    @property
    def types(self) -> dict[str, str]:
        """Column name to DDL, in order."""
        return {column.name: column.type.ddl for column in self.columns}

    @property
    def sources(self) -> dict[str, str]:
        """The columns and fields that are not named as their property, and that property.

        The first is a quoted path, with ``element`` for the items of an array. A property
        that differs in case alone has only borrowed the column.
        """
        return dict(_renamed(self.columns))

    @property
    def keeps_whole(self) -> bool:
        """Whether a column takes the whole record, which is then read as text."""
        return any(column.feed is ColumnSource.WHOLE for column in self.columns)

    @property
    def has_meta(self) -> bool:
        """Whether a column takes what is to be known of each row."""
        return self.column_fed_by(META, ColumnSource.METADATA) is not None

    @property
    def must_fit(self) -> frozenset[str]:
        """The properties that are never null for not fitting: keys, and what deletes a row."""
        return frozenset((*self.key_sources, DELETED_AT, CDC_DELETED_AT))

    def with_metadata(self, name: str) -> TableSchema:
        """Return this layout with one of `METADATA_COLUMNS`, unless that name is taken."""
        if name in self.types:
            return self
        column = Column(name, name, METADATA_COLUMNS[name], feed=ColumnSource.METADATA)
        return replace(self, columns=(*self.columns, column))

    def column_fed_by(
        self, source: str, feed: ColumnSource = ColumnSource.PROPERTY
    ) -> Column | None:
        """Return the column that gets a property (or what ``feed`` says), if one does."""
        for column in self.columns:
            if column.source == source and column.feed is feed:
                return column
        return None


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One step that makes a table fit: a column or field more, or a wider type.

    ``path`` leads to the column or to the field in it (an array's items are called
    ``element``), ``ddl`` is the type that it shall have. ``instead_of`` names the column
    that could not take the values and therefore stays as it was. ``comment`` is that of
    a new column.
    """

    kind: Literal["add", "widen"]
    path: tuple[str, ...]
    ddl: str
    instead_of: str | None = None
    comment: str | None = None

    def told(self) -> str:
        """Return it in words for a person."""
        beside = f", beside {self.instead_of}, which cannot take it" if self.instead_of else ""
        return f"column {'.'.join(self.path)} is now {self.ddl}{beside}"


def _renamed(columns: Iterable[Column], path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    for column in columns:
        here, type_ = (*path, column.name), column.type
        is_ours = column.feed not in {ColumnSource.METADATA, ColumnSource.WHOLE}
        if is_ours and fold_case(column.name) != fold_case(column.source):
            yield quote(*here), column.source
        while isinstance(type_, Array):
            here, type_ = (*here, "element"), type_.element
        if isinstance(type_, Struct):
            yield from _renamed(type_.fields, here)
