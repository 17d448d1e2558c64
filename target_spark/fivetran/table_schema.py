"""Data classes for the schema of a destination table, with Fivetran's types and names.

A column has a name in Fivetran and a name in the table. They differ only if the table format does
not allow Fivetran's name. Fivetran types are stored with the table, because Spark has no types for
times, XML and JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tap_core.protocols.fivetran.enums import DataType
from target_spark.tables.identifiers import sanitize_names

__all__ = [
    "ACTIVE",
    "DATETIME_TYPES",
    "END",
    "FIVETRAN_ID",
    "START",
    "DestinationColumn",
    "FivetranSchema",
    "parse_columns",
    "sanitize_columns",
]

FIVETRAN_ID: Final = "_fivetran_id"
"""Column with a row id. Fivetran adds it to tables without a primary key."""

START: Final = "_fivetran_start"
"""Column with the start time of a row version, in tables in history mode. It is part of the key."""

END: Final = "_fivetran_end"
"""Column with the end time of a row version, in tables in history mode."""

ACTIVE: Final = "_fivetran_active"
"""Column that is true in the active version of a row, in tables in history mode."""

DATETIME_TYPES: Final = (DataType.UTC_DATETIME, DataType.NAIVE_DATETIME)
"""Types of date-times with and without a time zone."""

_MAX_DIGITS: Final = 38
_DEFAULT_DIGITS: Final = (38, 10)
"""Precision and scale of a DECIMAL column without declared precision and scale."""


@dataclass(frozen=True, slots=True)
class DestinationColumn:
    """Column of a destination table, with its Fivetran type.

    Attributes:
        name: The column's name in Fivetran.
        type: The column's Fivetran type.
        is_key: True if the column belongs to the primary key.
        decimal: The precision and scale of a DECIMAL; None if not declared.
        column: The column's name in the table.
    """

    name: str
    type: DataType
    is_key: bool = False
    decimal: tuple[int, int] | None = None
    column: str = ""

    @property
    def digits(self) -> tuple[int, int]:
        """Precision and scale of a DECIMAL column; (38, 10) if Fivetran declared none."""
        return self.decimal or _DEFAULT_DIGITS


@dataclass(frozen=True, slots=True)
class FivetranSchema:
    """Schema of a destination table: its columns, in table order, with their Fivetran types."""

    columns: tuple[DestinationColumn, ...]

    @property
    def keys(self) -> tuple[DestinationColumn, ...]:
        """Primary key columns. If there are none, only Fivetran's id column ``_fivetran_id``.

        The result is empty if the table lacks the id column too.
        """
        keys = tuple(column for column in self.columns if column.is_key)
        return keys or tuple(column for column in self.columns if column.name == FIVETRAN_ID)

    @property
    def non_key_columns(self) -> tuple[DestinationColumn, ...]:
        """Columns that do not belong to the primary key (`keys`), in table order."""
        keys = self.keys
        return tuple(column for column in self.columns if column not in keys)

    @property
    def by_name(self) -> Mapping[str, DestinationColumn]:
        """Columns of the table by their names in Fivetran."""
        return {column.name: column for column in self.columns}


def parse_columns(columns: Iterable[Any], reserved: Collection[str] = ()) -> FivetranSchema:
    """Convert the columns in a gRPC request of Fivetran to a schema.

    Args:
        columns: The columns of the request, as protobuf messages.
        reserved: Names that the table format reserves. A column with such a name gets another name
            in the table.

    Raises:
        ValueError: A name occurs twice, or a column has no valid type.
    """
    parsed = tuple(map(_parse_column, columns))
    names = [column.name for column in parsed]
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise ValueError(f"column {', '.join(twice)} occurs twice")
    return FivetranSchema(sanitize_columns(parsed, reserved))


def sanitize_columns(
    columns: Sequence[DestinationColumn], reserved: Collection[str]
) -> tuple[DestinationColumn, ...]:
    """Return columns whose names in the table are derived from their names in Fivetran.

    ``reserved`` are names that no column may have in the table.
    """
    names = sanitize_names([column.name for column in columns], reserved)
    return tuple(replace(column, column=names[column.name]) for column in columns)


def _parse_column(message: Any) -> DestinationColumn:
    if message.type == DataType.UNSPECIFIED:
        raise ValueError(f"column {message.name} has no type")
    decimal = None
    if message.type == DataType.DECIMAL and message.HasField("params"):
        params = message.params.decimal
        precision, scale = params.precision or _MAX_DIGITS, params.scale
        if not scale <= precision <= _MAX_DIGITS:
            raise ValueError(
                f"column {message.name} is a decimal of {precision} digits, {scale} of them after"
                f" the point; the maximum is {_MAX_DIGITS}"
            )
        decimal = (precision, scale)
    return DestinationColumn(message.name, DataType(message.type), message.primary_key, decimal)
