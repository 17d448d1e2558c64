"""A table as Fivetran describes it, and what each of its columns is in Spark.

Rules of the room: pure and frozen, without Spark. A column has two names: Fivetran's, and the
one that it has in the table, which differs only where a table format refuses the first. The
type is Fivetran's own and is remembered beside the table, since Spark has none for a time, for
XML and for JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tap_core.protocols.fivetran.enums import DataType
from target_spark.tables.identifiers import sanitize_names

__all__ = [
    "ACTIVE",
    "END",
    "FIVETRAN_ID",
    "START",
    "DestinationColumn",
    "FivetranSchema",
    "parse_columns",
]

FIVETRAN_ID: Final = "_fivetran_id"
"""The column by which Fivetran tells the rows of a table without keys apart."""

START: Final = "_fivetran_start"
"""From when a version of a row holds; with the row's key it is that of the version."""

END: Final = "_fivetran_end"
"""Until when."""

ACTIVE: Final = "_fivetran_active"
"""Whether it holds now."""

_MOST_DIGITS: Final = 38
_USUAL: Final = (38, 10)
"""Digits, and places of them, of a decimal of which nothing is said."""


@dataclass(frozen=True, slots=True)
class DestinationColumn:
    """One column: ``name`` is Fivetran's, ``column`` the table's.

    ``decimal`` are the digits of a DECIMAL and how many of them stand after the point.
    """

    name: str
    type: DataType
    is_key: bool = False
    decimal: tuple[int, int] | None = None
    column: str = ""

    @property
    def digits(self) -> tuple[int, int]:
        """The digits of a DECIMAL, and how many of them stand after the point."""
        return self.decimal or _USUAL


@dataclass(frozen=True, slots=True)
class FivetranSchema:
    """The columns of a table, in their order."""

    columns: tuple[DestinationColumn, ...]

    @property
    def keys(self) -> tuple[DestinationColumn, ...]:
        """The columns that identify a row; Fivetran's own, where the table has no others."""
        keys = tuple(column for column in self.columns if column.is_key)
        return keys or tuple(column for column in self.columns if column.name == FIVETRAN_ID)

    @property
    def others(self) -> tuple[DestinationColumn, ...]:
        """The columns that are no keys."""
        keys = self.keys
        return tuple(column for column in self.columns if column not in keys)

    @property
    def by_name(self) -> Mapping[str, DestinationColumn]:
        """The columns by Fivetran's names."""
        return {column.name: column for column in self.columns}


def parse_columns(columns: Iterable[Any], reserved: Iterable[str] = ()) -> FivetranSchema:
    """Return the shape of a request's columns; ``reserved`` names are the table format's own.

    Raises:
        ValueError: a name stands there twice, or a column has no type that a table can have.
    """
    found = tuple(map(_column, columns))
    names = [column.name for column in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"column {', '.join(twice)} stands there twice")
    cleaned = sanitize_names(names, tuple(reserved))
    return FivetranSchema(tuple(replace(column, column=cleaned[column.name]) for column in found))


def _column(told: Any) -> DestinationColumn:
    if told.type == DataType.UNSPECIFIED:
        raise ValueError(f"column {told.name} has no type")
    decimal = None
    if told.type == DataType.DECIMAL and told.HasField("params"):
        given = told.params.decimal
        decimal = (given.precision or _USUAL[0], given.scale)
        if not decimal[1] <= decimal[0] <= _MOST_DIGITS:
            raise ValueError(
                f"column {told.name} is a decimal of {decimal[0]} digits, {decimal[1]} of them"
                f" after the point; there are at most {_MOST_DIGITS}"
            )
    return DestinationColumn(told.name, DataType(told.type), told.primary_key, decimal)
