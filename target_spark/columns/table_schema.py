"""The schema of a table: its columns, its keys, and the changes that an existing table needs.

All classes are immutable and independent of Spark. A `TableSchema` lists every column of its table
in table order, so that a DataFrame with these columns can be written directly. It includes columns
that the stream does not fill.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
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
    "PARTITION_NULLS",
    "RAW_ID",
    "TABLE_VERSION",
    "VALID_FROM",
    "VALID_TO",
    "ColumnOptions",
    "OnSchemaChange",
    "SchemaChange",
    "TableSchema",
]

ORDINAL = "__target_spark_ordinal"
"""DataFrame column with the position of a row in the input. It is not written to the table."""

DELETED_AT = "_sdc_deleted_at"
"""Column with the time at which the source deleted a row, if the row is kept."""

PARTITION_NULLS: Mapping[str, str] = MappingProxyType(
    {"": "an empty string", "__HIVE_DEFAULT_PARTITION__": "the text __HIVE_DEFAULT_PARTITION__"}
)
"""Texts that Delta stores as null in a partition column, with words for error messages."""

TABLE_VERSION = "_sdc_table_version"
"""Column with the Singer table version of a row: the ``version`` of its RECORD message."""
VALID_FROM = "_sdc_valid_from"
"""Column with the time from which a version of a row is valid, in a table with history."""
VALID_TO = "_sdc_valid_to"
"""Column with the end of a version's validity, in a table with history; null for the latest."""
IS_CURRENT = "_sdc_is_current"
"""Column that is true in the latest version of a row, in a table with history."""

RAW_ID = "_airbyte_raw_id"
"""Column of Airbyte's destinations with an identifier of the record."""
EXTRACTED_AT = "_airbyte_extracted_at"
"""Column of Airbyte's destinations with the time at which the source read a record."""
META = "_airbyte_meta"
"""Column of Airbyte's destinations with metadata of a record as JSON.

The metadata list, for example, values of a wrong type that were set to null.
"""
GENERATION = "_airbyte_generation_id"
"""Column of Airbyte's destinations with the generation id, which Airbyte increases for each full
refresh of a stream."""

CDC_DELETED_AT = "_ab_cdc_deleted_at"
"""Property with the deletion time of a row in the records of Airbyte's CDC sources."""

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
"""Metadata columns that targets of the Singer SDK add, with their types."""

HISTORY_COLUMNS: Mapping[str, ColumnType] = MappingProxyType(
    {VALID_FROM: Timestamp(), VALID_TO: Timestamp(), IS_CURRENT: Boolean()}
)
"""Columns of a table that keeps all versions of its rows (SCD2)."""

AIRBYTE_COLUMNS: Mapping[str, ColumnType] = MappingProxyType(
    {RAW_ID: Text(), EXTRACTED_AT: Timestamp(), META: Text(), GENERATION: Integer()}
)
"""Columns that Airbyte's destinations add; `_airbyte_meta` is JSON text."""

_DEFAULT_DECIMAL = Decimal(38, 18)


class OnSchemaChange(Enum):
    """Policy for a stream's schema that does not fit the columns of its existing table.

    Under every policy, target-spark adds its own metadata columns to the table.
    """

    EVOLVE = "evolve"
    """Add columns and widen types. If a type cannot be widened, add a second column beside it."""
    WIDEN = "widen"
    """Add columns and widen types. If a type cannot be widened, end the run with an error."""
    IGNORE = "ignore"
    """Never change the table: leave new properties out, and convert values to existing types."""
    FAIL = "fail"
    """End the run with an error if a column would have to be added or widened."""


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """Options for the columns of a table: types of numbers, metadata columns, conversion errors.

    Attributes:
        plain_numbers: Type of a JSON ``number`` without ``multipleOf``; None to use double.
        unsized_decimals: Type of a string with a decimal ``format`` but no ``precision``.
        oversized_as_text: True to store numbers declared with more than 38 digits as text. False to
            store them as decimals; rows with values that do not fit are then quarantined.
        truncate_timestamps: True to cut off the digits of a time after microseconds. False to
            quarantine rows with such times.
        metadata: True to add the columns of `METADATA_COLUMNS`.
        table_version: True to add the column `_sdc_table_version` even if ``metadata`` is False.
        history: True to add the columns of `HISTORY_COLUMNS`.
        reserved: Names that columns must not have, because the table format reserves them.
        airbyte: True to add the columns of `AIRBYTE_COLUMNS`. The generation id is then the table
            version. Rows with conversion errors are loaded: the value becomes null, and the column
            `_airbyte_meta` records the error. False to quarantine such rows.
        quarantines_invalid_rows: True to quarantine rows with conversion errors even if ``airbyte``
            is True. Quarantined rows go to a separate table.
    """

    plain_numbers: Decimal | None = None
    unsized_decimals: Decimal = _DEFAULT_DECIMAL
    oversized_as_text: bool = False
    truncate_timestamps: bool = False
    metadata: bool = False
    table_version: bool = False
    history: bool = False
    reserved: frozenset[str] = frozenset()
    airbyte: bool = False
    quarantines_invalid_rows: bool = False

    @property
    def nulls_invalid_values(self) -> bool:
        """True if rows with conversion errors are loaded, with null in place of invalid values.

        False if such rows are quarantined.
        """
        return self.airbyte and not self.quarantines_invalid_rows

    @property
    def version_column(self) -> str:
        """Name of the column with the table version of a row.

        It is `_airbyte_generation_id` for Airbyte, else `_sdc_table_version`. A source increases
        the version when it sends all rows again, to replace all earlier rows.
        """
        return GENERATION if self.airbyte else TABLE_VERSION

    def metadata_columns(self) -> tuple[Column, ...]:
        """Return the metadata columns that these options add to every table, in table order.

        Examples are `_sdc_extracted_at` and `_airbyte_raw_id`.
        """
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
    """The columns of a table in order, its keys, and rules for the conversion of records.

    Attributes:
        columns: All columns of the table, in order.
        keys: Names of the key columns.
        key_sources: Names of the properties that fill the key columns, in the same order.
        truncate_timestamps: True to truncate date-times to microseconds. False to quarantine rows
            with more digits.
        text_partitions: Names of the properties that fill text partition columns of a Delta table.
            Rows in which such a property has a value of `PARTITION_NULLS` are quarantined, because
            Delta would store null.
        nulls_invalid_values: True to load a row with conversion errors and write null instead of
            the bad values, unless a key or the deletion time is bad. False to quarantine the row.
        on_change: The policy for an existing table whose columns differ.
    """

    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ()
    key_sources: tuple[str, ...] = ()
    truncate_timestamps: bool = False
    text_partitions: tuple[str, ...] = ()
    nulls_invalid_values: bool = False
    on_change: OnSchemaChange = OnSchemaChange.EVOLVE

    @property
    def types(self) -> dict[str, str]:
        """The type of each column, as DDL (such as ``bigint``), by name and in table order."""
        return {column.name: column.type.ddl for column in self.columns}

    @property
    def sources(self) -> dict[str, str]:
        """Property name of each column or struct field that is named differently in the table.

        Each key is the quoted path of a column or field, and each value the name of its property:
        ``{"`user_id`": "user-id"}``. In a path, ``element`` means the items of an array. Names
        that differ only in case are left out.
        """
        return dict(_find_renamed(self.columns))

    @property
    def keeps_whole(self) -> bool:
        """True if a column stores the whole record as JSON text.

        A stream whose schema declares no properties has such a column.
        """
        return any(column.feed is ColumnSource.WHOLE for column in self.columns)

    @property
    def has_meta(self) -> bool:
        """True if the table has the column `_airbyte_meta`, which records conversion errors."""
        return self.column_fed_by(META, ColumnSource.METADATA) is not None

    @property
    def has_deletion_time(self) -> bool:
        """True if the table has the column `_sdc_deleted_at`, which is filled from the record.

        It is the only metadata column whose value comes from the record.
        """
        return self.column_fed_by(DELETED_AT, ColumnSource.METADATA) is not None

    @property
    def must_fit(self) -> frozenset[str]:
        """Names of properties in which an invalid value always quarantines the row.

        They are the keys, `_sdc_deleted_at` and `_ab_cdc_deleted_at`. An invalid value of another
        property may be replaced by null (`nulls_invalid_values`).
        """
        return frozenset((*self.key_sources, DELETED_AT, CDC_DELETED_AT))

    def with_metadata(self, name: str) -> TableSchema:
        """Return a copy with a metadata column added at the end.

        If the schema has the column already, it is returned unchanged.

        Args:
            name: The name of the column in `METADATA_COLUMNS`, such as `_sdc_deleted_at`.
        """
        if name in self.types:
            return self
        column = Column(name, name, METADATA_COLUMNS[name], feed=ColumnSource.METADATA)
        return replace(self, columns=(*self.columns, column))

    def with_text_partitions(self, partition_columns: Collection[str]) -> TableSchema:
        """Return a copy in which ``text_partitions`` also has the properties of other columns.

        Args:
            partition_columns: Names of columns in which the table stores certain texts, the
                `PARTITION_NULLS`, as null.
        """
        sources = (
            column.source
            for column in self.columns
            if column.name in partition_columns
            and column.feed is ColumnSource.PROPERTY
            and column.type == Text()
        )
        return replace(
            self, text_partitions=tuple(dict.fromkeys((*self.text_partitions, *sources)))
        )

    def column_fed_by(
        self, source: str, feed: ColumnSource = ColumnSource.PROPERTY
    ) -> Column | None:
        """Return the column that is filled from ``source``, or None if there is no such column.

        Args:
            source: The name of a property or metadata column.
            feed: The kind of source; by default a property of the record.
        """
        for column in self.columns:
            if column.source == source and column.feed is feed:
                return column
        return None

    def names_fed_by(self, sources: Iterable[str]) -> tuple[str, ...]:
        """Return the names of the columns that are filled from the properties ``sources``.

        Properties without a column are left out.
        """
        columns = map(self.column_fed_by, sources)
        return tuple(column.name for column in columns if column is not None)


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """Change of a table column that a stream's schema requires and a policy allows or prevents.

    Attributes:
        kind: ``add`` or ``widen``: the column is added, or gets a wider type. ``omit``: the policy
            IGNORE adds no column, and the property is left out. ``keep``: the policy IGNORE keeps
            the column's type. ``refuse``: the change is forbidden and ends the run.
        path: Path of the column or struct field. ``element`` means the items of an array.
        ddl: The new type in the table, as DDL. For a change that is not made, the type in the
            stream's schema.
        instead_of: The name of the existing column whose type cannot be widened, if a second column
            is added for the same property; else None.
        comment: The comment of a new column, or None.
        old: The type of the existing column, as DDL; None for a new property.
        requested: The type in the stream's schema, as DDL, if it is not ``ddl``; else None.
    """

    kind: Literal["add", "widen", "omit", "keep", "refuse"]
    path: tuple[str, ...]
    ddl: str
    instead_of: str | None = None
    comment: str | None = None
    old: str | None = field(default=None, compare=False)
    requested: str | None = field(default=None, compare=False)

    @property
    def is_made(self) -> bool:
        """True if the change is made in the table; False if it is only reported."""
        return self.kind in {"add", "widen"}

    def describe(self) -> str:
        """Return the change of a table as text for the log, such as ``new column a (bigint)``."""
        name = ".".join(self.path)
        if self.kind == "omit" or (self.kind == "refuse" and self.old is None):
            return f"column {name} ({self.ddl}) is not in the table"
        if self.kind == "keep":
            return (
                f"column {name} stays {self.old}, although its schema says {self.ddl}: values that"
                " do not fit are not stored in it"
            )
        if self.kind == "refuse":
            return f"column {name} is {self.old} in the table and {self.ddl} in the schema"
        if self.kind == "widen":
            return f"column {name} is now {self.ddl}"
        if self.instead_of is None:
            return f"new column {name} ({self.ddl})"
        return f"new column {name} ({self.ddl}), because column {self.instead_of} cannot be widened"

    def refuse(self) -> SchemaChange:
        """Return this schema change as one that is not allowed (``refuse``) and ends the run.

        A change that would add a second column for a property, because the first one cannot be
        widened, becomes a refused change of the first column.
        """
        path = (*self.path[:-1], self.instead_of) if self.instead_of else self.path
        return SchemaChange("refuse", path, self.requested or self.ddl, old=self.old)


def _find_renamed(
    columns: Iterable[Column], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, str]]:
    for column in columns:
        current_path, type_ = (*path, column.name), column.type
        has_property = column.feed not in {ColumnSource.METADATA, ColumnSource.WHOLE}
        if has_property and fold_case(column.name) != fold_case(column.source):
            yield quote(*current_path), column.source
        while isinstance(type_, Array):
            current_path, type_ = (*current_path, "element"), type_.element
        if isinstance(type_, Struct):
            yield from _find_renamed(type_.fields, current_path)
