"""Tables that a Fivetran connector has reported, and the user's selection among them.

A table is identified by its schema, which may be None, and its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.enums import DataType

__all__ = [
    "KnownColumn",
    "KnownTable",
    "Name",
    "TableSelection",
    "build_selection",
    "format_name",
    "iterate_tables",
    "parse_column",
    "select_all",
    "to_message",
]

Name: TypeAlias = "tuple[str | None, str]"
"""Schema of a table (None if the source has no schemas) and its name."""


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """Column of a table as a Fivetran server describes it.

    Attributes:
        name: Name of the column.
        type: Fivetran's data type.
        is_key: True if the column is part of the primary key.
        digits: Precision and scale of a DECIMAL column; None for other types.
    """

    name: str
    type: DataType
    is_key: bool
    digits: tuple[int, int] | None = None

    @property
    def type_name(self) -> str:
        """Name of the column's data type; a decimal type with its digits, as in "DECIMAL(10,2)"."""
        digits = f"({self.digits[0]},{self.digits[1]})" if self.digits else ""
        return f"{self.type.name}{digits}"


@dataclass(frozen=True, slots=True)
class KnownTable:
    """Table as a Fivetran connector reported it.

    Attributes:
        columns: Columns by name.
        repeated: Names of columns that the connector reported more than once.
    """

    columns: Mapping[str, KnownColumn]
    repeated: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the primary key columns."""
        return tuple(column.name for column in self.columns.values() if column.is_key)


@dataclass(frozen=True, slots=True)
class TableSelection:
    """Tables and columns that the user of a Fivetran connector has selected.

    Attributes:
        columns: Names of the selected columns of each selected table.
        takes_new: True if tables and columns added later are selected too.
    """

    columns: Mapping[Name, AbstractSet[str]]
    takes_new: bool = True

    def without(self, table: Name, column: str | None = None) -> TableSelection:
        """Return a copy of the selection without ``column`` of ``table``.

        If ``column`` is None, the table is deselected.
        """
        columns = dict(self.columns)
        remaining = columns.pop(table) - ({column} if column else set())
        return replace(self, columns={**columns, table: remaining} if column else columns)


def iterate_tables(message: Any) -> Iterator[tuple[Name, KnownTable]]:
    """Yield the tables that a SchemaResponse or SchemaChange of a connector lists.

    A table that is listed twice is yielded twice.
    """
    for schema in message.with_schema.schemas:
        for table in schema.tables:
            yield (schema.name, table.name), _parse_table(table)
    for table in message.without_schema.tables:
        yield (None, table.name), _parse_table(table)


def select_all(tables: Mapping[Name, KnownTable]) -> TableSelection:
    """Return the selection of all columns of ``tables``."""
    return TableSelection({name: frozenset(table.columns) for name, table in tables.items()})


def build_selection(tables: Mapping[Name, KnownTable], choice: TableSelection) -> Any:
    """Return the user's selection ``choice`` as the protobuf message that Fivetran sends.

    If ``choice.takes_new`` is True, the message also lists the tables and columns that are not
    selected. Otherwise it lists only the selected ones.
    """
    listed = [name for name in tables if choice.takes_new or name in choice.columns]
    selections = {name: _build_table_selection(name, tables[name], choice) for name in listed}
    if any(schema is None for schema, _ in tables):
        plain = proto_messages.TablesWithNoSchema(
            tables=selections.values(), include_new_tables=choice.takes_new
        )
        return proto_messages.Selection(without_schema=plain)
    schemas = [
        proto_messages.SchemaSelection(
            included=True,
            schema_name=schema,
            tables=[selections[name] for name in listed if name[0] == schema],
            include_new_tables=choice.takes_new,
        )
        for schema in dict.fromkeys(name[0] for name in listed)
    ]
    grouped = proto_messages.TablesWithSchema(schemas=schemas, include_new_schemas=choice.takes_new)
    return proto_messages.Selection(with_schema=grouped)


def format_name(name: Name) -> str:
    """Return the name of a table as ``schema.table``, or ``table`` if it has no schema."""
    return ".".join(part for part in name if part is not None)


def _build_table_selection(name: Name, table: KnownTable, choice: TableSelection) -> Any:
    """Return the user's selection for one table as Fivetran's protobuf message TableSelection."""
    selected = choice.columns.get(name)
    columns = {
        column: column in selected
        for column in table.columns
        if selected is not None and (choice.takes_new or column in selected)
    }
    return proto_messages.TableSelection(
        included=selected is not None,
        table_name=name[1],
        columns=columns,
        include_new_columns=choice.takes_new,
    )


def parse_column(message: Any) -> KnownColumn:
    """Return the column that Fivetran's protobuf message Column describes."""
    digits = None
    if message.HasField("params") and message.params.WhichOneof("params") == "decimal":
        digits = (message.params.decimal.precision, message.params.decimal.scale)
    return KnownColumn(message.name, DataType(message.type), message.primary_key, digits)


def to_message(name: str, columns: Iterable[KnownColumn]) -> Any:
    """Return a table as Fivetran's protobuf message Table, for requests to a destination."""
    return proto_messages.Table(name=name, columns=map(_to_proto_column, columns))


def _to_proto_column(column: KnownColumn) -> Any:
    """Convert a column to Fivetran's protobuf message Column."""
    message = proto_messages.Column(
        name=column.name, type=int(column.type), primary_key=column.is_key
    )
    if column.digits:
        message.params.decimal.precision, message.params.decimal.scale = column.digits
    return message


def _parse_table(message: Any) -> KnownTable:
    """Convert Fivetran's protobuf message Table to a `KnownTable`."""
    names = [column.name for column in message.columns]
    repeated = tuple(sorted({name for name in names if names.count(name) > 1}))
    return KnownTable({column.name: parse_column(column) for column in message.columns}, repeated)
