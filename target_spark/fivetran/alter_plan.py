"""Planning of the changes to a table that an AlterTable request of Fivetran requires.

Existing and requested columns are matched by their Fivetran names. A column that is missing in the
request becomes a non-key column, or is dropped if Fivetran sets ``drop_columns``.

Source: Fivetran's Partner SDK development guide, "AlterTable"; destination_sdk.proto.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tap_core.protocols.fivetran.enums import DataType
from target_spark.columns.schema_evolution import CanWiden
from target_spark.fivetran.table_schema import (
    DestinationColumn,
    FivetranSchema,
    sanitize_columns,
)
from target_spark.fivetran.type_mapping import to_ddl, to_fivetran_type

__all__ = ["AlterPlan", "plan_changes"]


@dataclass(frozen=True, slots=True)
class AlterPlan:
    """Changes to a table that an AlterTable request of Fivetran requires.

    Attributes:
        before: The table's columns before the change.
        after: The table's columns after the change.
        added: New columns.
        widened: Columns whose type changes in place, without rewriting their values.
        converted: Columns whose type changes by rewriting their values.
        narrowed: Columns that keep their type in the table, although their new Fivetran type allows
            fewer values.
        dropped: Columns to remove.
    """

    before: FivetranSchema
    after: FivetranSchema
    added: tuple[DestinationColumn, ...] = ()
    widened: tuple[DestinationColumn, ...] = ()
    converted: tuple[DestinationColumn, ...] = ()
    narrowed: tuple[DestinationColumn, ...] = ()
    dropped: tuple[DestinationColumn, ...] = ()

    @property
    def changes_columns(self) -> bool:
        """True if the plan adds or drops columns of the table, or changes their types.

        False if it changes only keys or Fivetran types, because these are stored in a table
        property.
        """
        return bool(self.added or self.widened or self.converted or self.dropped)

    @property
    def keys_to_check(self) -> tuple[DestinationColumn, ...]:
        """Key columns to check for duplicates and nulls before the table is changed.

        All key columns are checked if the key changes or if values of a key column are converted.
        Otherwise, the result is empty.
        """
        keys, old_keys = _marked_keys(self.after), _marked_keys(self.before)
        is_same_key = {key.column for key in keys} == {key.column for key in old_keys}
        return () if is_same_key and not set(keys) & set(self.converted) else keys

    def describe(self) -> list[str]:
        """Return a log message for each change of the table, such as ``column a is new, INT``."""
        changes = []
        old_columns = {column.column: column for column in self.before.columns}
        for column in self.after.columns:
            old, new_type = old_columns.get(column.column), to_fivetran_type(column)
            if old is None:
                changes.append(f"column {column.name} is new, {new_type}")
            elif to_fivetran_type(old) != new_type:
                changes.append(
                    f"column {column.name} is {new_type}, it was {to_fivetran_type(old)}"
                )
        changes += [f"column {column.name} is dropped" for column in self.dropped]
        keys = [key.name for key in _marked_keys(self.after)]
        old_keys = [key.name for key in _marked_keys(self.before)]
        if keys != old_keys:
            listed, old_listed = ", ".join(keys) or "none", ", ".join(old_keys) or "none"
            changes.append(f"the key is {listed}, it was {old_listed}")
        return changes


def plan_changes(
    before: FivetranSchema,
    types: Mapping[str, str],
    requested_schema: FivetranSchema,
    table_format: str,
    can_widen: CanWiden,
    *,
    drops: bool,
    reserved: Collection[str] = (),
) -> AlterPlan:
    """Compare a table's columns with the requested columns; return the necessary changes.

    Args:
        before: The table's current columns.
        types: The DDL type of each of the table's columns, by name.
        requested_schema: The requested columns.
        table_format: The format of the table.
        can_widen: Function that returns True if the format can change an old DDL type to a new one
            without rewriting values.
        drops: True to drop columns that are not requested, False to keep them as non-key columns.
        reserved: Column names that new columns must not have in the table.
    """
    requested, current = requested_schema.by_name, before.by_name
    remaining = [
        _apply_request(column, requested.get(column.name))
        for column in before.columns
        if column.name in requested or not drops
    ]
    added = sanitize_columns(
        [column for column in requested_schema.columns if column.name not in current], reserved
    )
    changed = [
        column
        for column in remaining
        if to_fivetran_type(column) != to_fivetran_type(current[column.name])
    ]
    new_types = {column.name: to_ddl(column, table_format) for column in changed}
    retyped = [column for column in changed if new_types[column.name] != types[column.column]]
    widened = tuple(each for each in retyped if can_widen(types[each.column], new_types[each.name]))
    same_type = [column for column in changed if column not in retyped]
    return AlterPlan(
        before,
        FivetranSchema((*remaining, *added)),
        added,
        widened,
        converted=tuple(column for column in retyped if column not in widened),
        narrowed=tuple(each for each in same_type if to_ddl(each) != types[each.column]),
        dropped=tuple(each for each in before.columns if drops and each.name not in requested),
    )


def _apply_request(
    old: DestinationColumn, requested: DestinationColumn | None
) -> DestinationColumn:
    """Return an existing column with the changes that an AlterTable request makes to it.

    A DECIMAL that is requested without precision and scale keeps its current precision and scale.
    A column that the request lacks stays, as a non-key column.
    """
    if requested is None:
        return replace(old, is_key=False)
    keeps_digits = requested.type is old.type is DataType.DECIMAL and requested.decimal is None
    return replace(
        requested,
        column=old.column,
        decimal=old.decimal if keeps_digits else requested.decimal,
    )


def _marked_keys(fivetran_schema: FivetranSchema) -> tuple[DestinationColumn, ...]:
    """Return the columns that are marked as keys; empty if no column is marked.

    Unlike `FivetranSchema.keys`, it never adds the column ``_fivetran_id``.
    """
    return tuple(column for column in fivetran_schema.columns if column.is_key)
