"""MERGE statements as data, and the one function that runs them.

Conditions and values are SQL: `source_column` is a column of the batch, `table_column` one of the
table, prefixed by the table's full name. Every column is named, since the table may have more. The
statement runs through `DataFrame.mergeInto`: Spark 4.1 cannot plan a SQL MERGE whose source reads
an Iceberg table twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from target_spark.tables.identifiers import quote
from target_spark.writers.base import DELETE_ONLY_COLUMN, MergeKeys

__all__ = ["Matched", "Merge", "build_upsert", "match_keys", "source_column", "table_column"]

_BATCH: Final = "__target_spark_batch"
"""Alias of the batch in conditions and values; no table has this name."""


@dataclass(frozen=True, slots=True)
class Matched:
    """WHEN MATCHED clause of a MERGE: the new SQL values by column, or None to delete the row."""

    put: Mapping[str, str] | None
    when: str | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """A MERGE of a batch into the table ``target``, with the condition ``on``.

    The first clause of ``matched`` whose condition holds applies. A row without a match is inserted
    with the columns ``inserted``, if there are any and ``inserted_when`` holds.
    """

    target: str
    on: str
    matched: Sequence[Matched] = ()
    inserted: Sequence[str] = ()
    inserted_when: str | None = None

    def run(self, batch: DataFrame) -> None:
        """Merge a batch into the table; do nothing if the statement has no clauses."""
        if not self.matched and not self.inserted:
            return
        into = batch.alias(_BATCH).mergeInto(self.target, F.expr(self.on))
        for each in self.matched:
            met = into.whenMatched(None if each.when is None else F.expr(each.when))
            into = (
                met.delete()
                if each.put is None
                else met.update({quote(name): F.expr(value) for name, value in each.put.items()})
            )
        if self.inserted:
            row = {quote(name): F.expr(source_column(name)) for name in self.inserted}
            condition = None if self.inserted_when is None else F.expr(self.inserted_when)
            into = into.whenNotMatched(condition).insert(row)
        into.merge()


def source_column(name: str) -> str:
    """Return the SQL name of a column of the batch."""
    return f"{_BATCH}.{quote(name)}"


def table_column(target: str, name: str) -> str:
    """Return the SQL name of a column of the table."""
    return f"{target}.{quote(name)}"


def match_keys(target: str, keys: Sequence[str]) -> str:
    """Return the SQL condition that a batch row and a table row have equal, non-null keys."""
    return " AND ".join(f"{table_column(target, key)} = {source_column(key)}" for key in keys)


def build_upsert(target: str, columns: Sequence[str], keys: MergeKeys) -> Merge:
    """Return the MERGE that replaces rows with equal keys and inserts the others."""
    newer = _newer_condition(target, keys)
    gone = [keys.removed] if keys.removed is not None else []
    gone += [keys.deleted] if keys.deleted is not None and keys.hard_delete else []
    return Merge(
        target,
        match_keys(target, keys.columns),
        (
            *(Matched(None, _all(newer, f"{source_column(name)} IS NOT NULL")) for name in gone),
            *_deletion_clause(newer, keys),
            Matched({name: source_column(name) for name in columns}, newer),
        ),
        columns,
        _all(*(f"{source_column(name)} IS NULL" for name in gone)),
    )


def _newer_condition(target: str, keys: MergeKeys) -> str | None:
    """Return the SQL condition under which a batch row may replace the table row with its key.

    Return None if it may always replace it.
    """
    if not keys.by_cursor or keys.cursor is None:
        return None
    before = table_column(target, keys.cursor)
    conditions = [f"{before} IS NULL", f"{before} <= {source_column(keys.cursor)}"]
    if keys.outdated is not None:
        column, least = keys.outdated
        conditions.append(f"coalesce({table_column(target, column)}, 0) < {least}L")
    return f"({' OR '.join(conditions)})"


def _deletion_clause(newer: str | None, keys: MergeKeys) -> Iterator[Matched]:
    """Yield the clause for keys that have only a delete record: set the deletion time."""
    if keys.deleted is not None and not keys.hard_delete:
        yield Matched(
            {keys.deleted: source_column(keys.deleted)},
            _all(newer, source_column(DELETE_ONLY_COLUMN)),
        )


def _all(*conditions: str | None) -> str | None:
    return " AND ".join(filter(None, conditions)) or None
