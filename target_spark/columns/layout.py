"""What a table looks like to us: columns, keys, and the changes it needs.

Rules of the room: pure and frozen. A `Layout` lists every column of its table in the
table's order, also those that nothing feeds any more, so that a frame made from it can
be written as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from target_spark.columns.types import (
    Column,
    ColumnType,
    Decimal,
    Feed,
    Integer,
    Timestamp,
)

__all__ = [
    "DELETED_AT",
    "METADATA_COLUMNS",
    "ORDINAL",
    "TABLE_VERSION",
    "Change",
    "ColumnOptions",
    "Layout",
]

ORDINAL = "__target_spark_ordinal"
"""The column of a frame, not of the table, that holds a row's place in the input."""

DELETED_AT = "_sdc_deleted_at"
TABLE_VERSION = "_sdc_table_version"

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


_UNSIZED = Decimal(38, 18)


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """What a user can say about columns.

    ``plain_numbers``: the type of a ``number`` without ``multipleOf``; None is double.
    ``unsized_decimals``: the type of a decimal string whose digits nobody declares.
    ``oversized_as_text``: numbers declared with more than 38 digits become text; else
    they are decimals, and the values that do not fit are set aside.
    ``metadata`` adds the columns of `METADATA_COLUMNS`, ``table_version`` the one of
    them that tells the versions of a table apart.
    """

    plain_numbers: Decimal | None = None
    unsized_decimals: Decimal = _UNSIZED
    oversized_as_text: bool = False
    metadata: bool = False
    table_version: bool = False

    def metadata_columns(self) -> tuple[Column, ...]:
        """Return the columns that the options add to every table."""
        return tuple(
            Column(name, name, type_, feed=Feed.METADATA)
            for name, type_ in METADATA_COLUMNS.items()
            if self.metadata or (self.table_version and name == TABLE_VERSION)
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table in its order, and the names of those that identify a row."""

    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ()
    key_sources: tuple[str, ...] = ()

    @property
    def types(self) -> dict[str, str]:
        """Column name to DDL, in order."""
        return {column.name: column.type.ddl for column in self.columns}

    def column_fed_by(self, source: str, feed: Feed = Feed.PROPERTY) -> Column | None:
        """Return the column that gets a property (or what ``feed`` says), if one does."""
        for column in self.columns:
            if column.source == source and column.feed is feed:
                return column
        return None


@dataclass(frozen=True, slots=True)
class Change:
    """One step that makes a table fit: a column or field more, or a wider type.

    ``path`` leads to the column or to the field in it (an array's items are called
    ``element``), ``ddl`` is the type that it shall have. ``instead_of`` names the column
    that could not take the values and therefore stays as it was.
    """

    kind: Literal["add", "widen"]
    path: tuple[str, ...]
    ddl: str
    instead_of: str | None = None
