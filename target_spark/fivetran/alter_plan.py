"""Planning of the changes to a table that an AlterTable request of Fivetran requires.

Existing and requested columns are matched by their Fivetran names. A column that is missing in the
request becomes a non-key column, or is dropped if Fivetran sets ``drop_columns``.

Source: Fivetran's Partner SDK development guide, "AlterTable"; destination_sdk.proto.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tap_core.protocols.fivetran.enums import DataType
from target_spark.columns.schema_evolution import CanWiden
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from target_spark.fivetran.type_mapping import to_ddl, to_fivetran_type
from target_spark.tables.identifiers import sanitize_names

__all__ = ["AlterPlan", "plan_changes"]


@dataclass(frozen=True, slots=True)
class AlterPlan:
    """Changes to a table that an AlterTable request of Fivetran requires.

    Attributes:
        now: The table's columns before the change.
        after: The table's columns after the change.
        added: New columns.
        widened: Columns with a new type, if the table format can change the type without rewriting
            values.
        converted: Columns with a new type, if their values must be rewritten.
        narrowed: Columns that keep their type in the table, although their new Fivetran type allows
            fewer values.
        dropped: Columns to remove.
    """

    now: FivetranSchema
    after: FivetranSchema
    added: tuple[DestinationColumn, ...] = ()
    widened: tuple[DestinationColumn, ...] = ()
    converted: tuple[DestinationColumn, ...] = ()
    narrowed: tuple[DestinationColumn, ...] = ()
    dropped: tuple[DestinationColumn, ...] = ()

    @property
    def changes_columns(self) -> bool:
        """True if the plan adds, drops or retypes columns of the table.

        False if it changes only the key or Fivetran types, which are stored in a table property.
        """
        return bool(self.added or self.widened or self.converted or self.dropped)

    @property
    def keys_to_check(self) -> tuple[DestinationColumn, ...]:
        """Key columns whose values must be checked for duplicates and nulls before the change.

        These are all key columns if the key changes or values of a key column are converted.
        Otherwise the result is empty, because no check is needed.
        """
        keys, before = _keys(self.after), {column.column for column in _keys(self.now)}
        same = {column.column for column in keys} == before
        return () if same and not set(keys) & set(self.converted) else keys

    def describe(self) -> list[str]:
        """Return a log message for each change of the table, such as ``column a is new, INT``."""
        return list(self._sentences())

    def _sentences(self) -> Iterator[str]:
        before = {column.column: column for column in self.now.columns}
        for column in self.after.columns:
            old = before.get(column.column)
            if old is None:
                yield f"column {column.name} is new, {to_fivetran_type(column)}"
            elif to_fivetran_type(old) != to_fivetran_type(column):
                types = to_fivetran_type(column), to_fivetran_type(old)
                yield f"column {column.name} is {types[0]}, it was {types[1]}"
        yield from (f"column {column.name} is dropped" for column in self.dropped)
        keys, old_keys = (
            [c.name for c in _keys(fivetran_schema)] for fivetran_schema in (self.after, self.now)
        )
        if keys != old_keys:
            yield f"the key is {_listed(keys)}, it was {_listed(old_keys)}"


def plan_changes(
    now: FivetranSchema,
    types: Mapping[str, str],
    requested_schema: FivetranSchema,
    table_format: str,
    widens: CanWiden,
    *,
    drops: bool,
    reserved: Collection[str] = (),
) -> AlterPlan:
    """Compare a table's columns with the requested columns; return the necessary changes.

    Args:
        now: The table's current columns.
        types: The DDL type of each of the table's columns, by name.
        requested_schema: The requested columns.
        table_format: The format of the table.
        widens: Function that takes an old and a new DDL type and returns True if the format can
            change the type without rewriting values.
        drops: True to drop columns that are not requested, False to keep them as non-key columns.
        reserved: Column names that new columns must not have in the table.
    """
    requested, current = requested_schema.by_name, now.by_name
    kept = [
        _apply_request(column, requested.get(column.name))
        for column in now.columns
        if column.name in requested or not drops
    ]
    added = _sanitize_columns(
        [column for column in requested_schema.columns if column.name not in current], reserved
    )
    changed = [
        column
        for column in kept
        if to_fivetran_type(column) != to_fivetran_type(current[column.name])
    ]
    retyped = [c for c in changed if to_ddl(c, table_format) != types[c.column]]
    widened = tuple(c for c in retyped if widens(types[c.column], to_ddl(c, table_format)))
    return AlterPlan(
        now,
        FivetranSchema((*kept, *added)),
        added,
        widened,
        tuple(column for column in retyped if column not in widened),
        tuple(c for c in changed if c not in retyped and to_ddl(c) != types[c.column]),
        tuple(column for column in now.columns if drops and column.name not in requested),
    )


def _apply_request(
    old: DestinationColumn, requested: DestinationColumn | None
) -> DestinationColumn:
    """Return an existing column with the changes that an AlterTable request makes to it.

    A DECIMAL that is requested without precision and scale keeps its current precision and scale.

    Args:
        old: The column before the request.
        requested: The column in the request. None if the request lacks the column, which then
            stays as a non-key column.
    """
    if requested is None:
        return replace(old, is_key=False)
    is_open = requested.type is old.type is DataType.DECIMAL and requested.decimal is None
    return replace(
        requested,
        column=old.column,
        decimal=old.decimal if is_open else requested.decimal,
    )


def _sanitize_columns(
    columns: Sequence[DestinationColumn], reserved: Collection[str]
) -> tuple[DestinationColumn, ...]:
    names = sanitize_names([column.name for column in columns], reserved)
    return tuple(replace(column, column=names[column.name]) for column in columns)


def _keys(fivetran_schema: FivetranSchema) -> tuple[DestinationColumn, ...]:
    return tuple(column for column in fivetran_schema.columns if column.is_key)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
