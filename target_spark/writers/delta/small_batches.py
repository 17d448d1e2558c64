"""Rows of small batches as Arrow tables: selection of each key's newest row, without Spark.

The functions have the same results as those of `target_spark.writers.deduplication`, which process
DataFrames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from target_spark.columns import Array, Struct, TableSchema
from target_spark.writers.base import MergeKeys
from target_spark.writers.deduplication import DELETE_ONLY_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "SmallBatch",
    "has_rounded_decimals",
    "keep_initial_rows",
    "latest_rows_by_key",
    "may_round_decimals",
    "sort_rows",
]

_DOUBLE_DIGITS: Final = 15
"""Number of digits that every decimal keeps when it is converted to a double and back."""


@dataclass(frozen=True, slots=True)
class SmallBatch:
    """The rows of a batch as an Arrow table, to be committed without Spark.

    Attributes:
        rows: The rows, with the columns to write and the ordinal (the position in the input).
        types: The type (DDL) of each column to write.
        has_nested_keys: True if a key column is a struct or an array. deltalake does not compare
            such values.
    """

    rows: pa.Table
    types: Mapping[str, str]
    has_nested_keys: bool = False

    @classmethod
    def of(cls, rows: pa.Table, table_schema: TableSchema) -> SmallBatch:
        """Return a batch of ``rows``, with the column types of ``table_schema``.

        Columns of ``rows`` that the schema does not have, such as the ordinal (position in the
        input), are not written.
        """
        names = set(rows.column_names)
        types = {name: ddl for name, ddl in table_schema.types.items() if name in names}
        nested = {
            column.name
            for column in table_schema.columns
            if isinstance(column.type, Array | Struct)
        }
        return cls(rows, types, has_nested_keys=not nested.isdisjoint(table_schema.keys))


def latest_rows_by_key(rows: pa.Table, keys: MergeKeys) -> pa.Table:
    """Return the newest row of each key of an Arrow table, without the column ``keys.order``.

    The rules for delete records are those of `latest_by_key`, which takes a DataFrame.
    """
    import pyarrow as pa

    oldest_first = _sort_indices(rows, keys.order_columns)
    identities = list(zip(*(_get_values(rows[key]) for key in keys.columns), strict=True))
    newest = {identities[index]: index for index in oldest_first}
    if keys.deleted is None:
        return rows.take(list(newest.values())).drop_columns([keys.order])
    deleted = rows[keys.deleted]
    is_deleted = deleted.is_valid().to_pylist()
    # A delete record has only keys and a deletion time: other values are those of a full row.
    newest_full = {identities[index]: index for index in oldest_first if not is_deleted[index]}
    indices = [newest_full.get(identity, index) for identity, index in newest.items()]
    position = rows.column_names.index(keys.deleted)
    latest = rows.take(indices).set_column(
        position, rows.schema.field(position), deleted.take(list(newest.values()))
    )
    is_delete_only = pa.array([is_deleted[index] for index in indices], pa.bool_())
    return latest.append_column(DELETE_ONLY_COLUMN, is_delete_only).drop_columns([keys.order])


def keep_initial_rows(newest: pa.Table, keys: MergeKeys) -> pa.Table:
    """Return the rows to insert into an empty table: the newest row of each key, unless deleted.

    ``newest`` is a result of `latest_rows_by_key`. `as_initial_rows` does this for a DataFrame.
    """
    for name in keys.removal_columns:
        newest = newest.filter(newest[name].is_null())
    columns = [name for name in newest.column_names if name != DELETE_ONLY_COLUMN]
    return sort_rows(newest.select(columns), keys)


def sort_rows(rows: pa.Table, keys: MergeKeys) -> pa.Table:
    """Return rows sorted by the columns ``keys.sort_by``, nulls first.

    Columns with structs or lists are not used for sorting.
    """
    columns = [name for name in keys.sort_by if rows.schema.field(name).type.num_fields == 0]
    return rows.take(_sort_indices(rows, columns)) if columns else rows


def may_round_decimals(type_: pa.DataType) -> bool:
    """Return True if values of a type, or their fields, are decimals that a double may round."""
    import pyarrow as pa

    if pa.types.is_struct(type_):
        return any(may_round_decimals(field.type) for field in type_)
    return bool(pa.types.is_decimal(type_) and type_.precision > _DOUBLE_DIGITS)


def has_rounded_decimals(rows: pa.Table) -> bool:
    """Return True if a double would round one of the decimals, such as 12345678901234567.89.

    deltalake converts the minimum and maximum of a file that a MERGE, DELETE or UPDATE writes to
    doubles. With rounded bounds, readers skip files that have the rows they look for. Lists have no
    bounds.
    """
    return any(map(_is_rounded, rows.columns))


def _is_rounded(column: pa.ChunkedArray) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not may_round_decimals(column.type):
        return False
    if pa.types.is_struct(column.type):
        return any(map(_is_rounded, column.flatten()))
    limit = float(Decimal(1).scaleb(_DOUBLE_DIGITS - column.type.scale))
    long = pc.greater_equal(pc.abs(column.cast(pa.float64())), limit)
    values = column.filter(long).unique().to_pylist()
    return any(Decimal(repr(float(value))) != value for value in values)


def _sort_indices(rows: pa.Table, columns: Sequence[str]) -> list[int]:
    """Return the row indices that sort the rows by ``columns``, ascending with nulls first."""
    values = [[(value is not None, value) for value in _get_values(rows[name])] for name in columns]
    return sorted(range(rows.num_rows), key=list(zip(*values, strict=True)).__getitem__)


def _get_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as Python objects that can be compared.

    Timestamps become integers in the unit of their column.
    """
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values
