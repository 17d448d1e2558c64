"""MERGE statements as data classes, and the method that runs them.

Conditions and values are SQL expressions: `source_column` refers to a column of the batch,
`table_column` to a column of the table. A statement lists every column, since the table may have
more columns than the batch. The statement runs through `DataFrame.mergeInto`, because Spark 4.1
cannot plan a SQL MERGE whose source reads an Iceberg table twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from target_spark.tables.identifiers import quote
from target_spark.writers.base import MergeKeys
from target_spark.writers.deduplication import DELETE_ONLY_COLUMN

__all__ = [
    "BATCH_ALIAS",
    "Matched",
    "Merge",
    "build_upsert",
    "match_keys",
    "source_column",
    "table_column",
]

BATCH_ALIAS: Final = "__target_spark_batch"
"""Alias of the batch in conditions and values; no table has this name."""


@dataclass(frozen=True, slots=True)
class Matched:
    """One WHEN MATCHED clause of a MERGE, which updates or deletes a table row.

    Attributes:
        put: The SQL values to set, by column; None to delete the row.
        when: The SQL condition of the clause; None if the clause always applies.
    """

    put: Mapping[str, str] | None
    when: str | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """A MERGE statement that can be run with any batch of rows as its source.

    Attributes:
        target: The SQL name of the table.
        on: The SQL condition that matches a batch row with a table row.
        matched: The clauses for matched rows. Of these, the first clause with a true condition is
            applied.
        inserted: The columns to insert for batch rows without a match; empty to insert no rows.
        inserted_when: The SQL condition for inserting a row; None to insert each row without a
            match.
    """

    target: str
    on: str
    matched: Sequence[Matched] = ()
    inserted: Sequence[str] = ()
    inserted_when: str | None = None

    def run(self, batch: DataFrame) -> None:
        """Merge the rows of a batch into the table. Do nothing if the statement has no clauses."""
        if not self.matched and not self.inserted:
            return
        merge = batch.alias(BATCH_ALIAS).mergeInto(self.target, F.expr(self.on))
        for clause in self.matched:
            matched_rows = merge.whenMatched(None if clause.when is None else F.expr(clause.when))
            merge = (
                matched_rows.delete()
                if clause.put is None
                else matched_rows.update(
                    {quote(name): F.expr(value) for name, value in clause.put.items()}
                )
            )
        if self.inserted:
            row = {quote(name): F.expr(source_column(name)) for name in self.inserted}
            condition = None if self.inserted_when is None else F.expr(self.inserted_when)
            merge = merge.whenNotMatched(condition).insert(row)
        merge.merge()


def source_column(name: str) -> str:
    """Return the SQL expression for a batch column in a `Merge`: ``__target_spark_batch.`id```."""
    return f"{BATCH_ALIAS}.{quote(name)}"


def table_column(target: str, name: str) -> str:
    """Return the SQL expression for a column of the table in a `Merge`.

    ``target`` is the SQL name of the table. For ``"`db`.`t`"`` and ``"id"`` the result is
    ``"`db`.`t`.`id`"``.
    """
    return f"{target}.{quote(name)}"


def match_keys(target: str, keys: Sequence[str]) -> str:
    """Return a SQL condition, true if a batch row and a table row have equal, non-null keys.

    ``target`` is the SQL name of the table.
    """
    return " AND ".join(f"{table_column(target, key)} = {source_column(key)}" for key in keys)


def build_upsert(target: str, columns: Sequence[str], keys: MergeKeys) -> Merge:
    """Return the MERGE that updates table rows by key, and inserts batch rows with new keys.

    Table rows with the key of a delete record are removed, or marked as deleted, depending on
    ``keys.hard_delete``.

    Args:
        target: The SQL name of the table.
        columns: The columns to update and insert.
        keys: The key columns, and the rules for order and deletions.
    """
    is_newer = _build_newer_condition(target, keys)
    return Merge(
        target,
        match_keys(target, keys.columns),
        (
            *(
                Matched(None, _all(is_newer, f"{source_column(name)} IS NOT NULL"))
                for name in keys.removal_columns
            ),
            *_build_deletion_clauses(is_newer, keys),
            Matched({name: source_column(name) for name in columns}, is_newer),
        ),
        columns,
        _all(*(f"{source_column(name)} IS NULL" for name in keys.removal_columns)),
    )


def _build_newer_condition(target: str, keys: MergeKeys) -> str | None:
    """Return a SQL condition, true if a batch row may replace the table row with the same key.

    The batch row may do so if its replication key is not lower. It may also do so if the table row
    has no replication key or is of an earlier generation (see `MergeKeys.outdated`). Return None if
    every batch row replaces the table row.
    """
    if not keys.by_cursor or keys.cursor is None:
        return None
    stored = table_column(target, keys.cursor)
    conditions = [f"{stored} IS NULL", f"{stored} <= {source_column(keys.cursor)}"]
    if keys.outdated is not None:
        column, lowest = keys.outdated
        conditions.append(f"coalesce({table_column(target, column)}, 0) < CAST({lowest} AS BIGINT)")
    return f"({' OR '.join(conditions)})"


def _build_deletion_clauses(newer: str | None, keys: MergeKeys) -> list[Matched]:
    """Return the MERGE clause that sets the deletion time of table rows, as a list.

    The clause applies to keys for which the batch has only delete records. The list is empty if
    delete records remove rows, or if the stream has no delete records.

    Args:
        newer: A condition that must also be true; None for no condition.
        keys: The rules for deletions.
    """
    if keys.deleted is None or keys.hard_delete:
        return []
    condition = _all(newer, source_column(DELETE_ONLY_COLUMN))
    return [Matched({keys.deleted: source_column(keys.deleted)}, condition)]


def _all(*conditions: str | None) -> str | None:
    return " AND ".join(filter(None, conditions)) or None
