"""One MERGE that applies a batch of changes to a table with row versions (SCD2).

A change is a row of a DataFrame that has the columns of the table and the column `ACTION`:

  begin    insert a row version
  end      end a row version
  touch    update some columns of a row version, without ending it
  remove   delete a row version

No two changes apply to the same row version. `target_spark.writers.scd2` and
`target_spark.fivetran.history_versions` compute the changes; this module builds the MERGE.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from target_spark.tables.identifiers import sql_literal
from target_spark.writers.merge_statement import (
    Matched,
    Merge,
    match_keys,
    source_column,
    table_column,
)

__all__ = ["ACTION", "BEGIN", "END", "REMOVE", "TOUCH", "HistoryMerge"]

ACTION: Final = "__target_spark_action"
BEGIN: Final = "begin"
END: Final = "end"
TOUCH: Final = "touch"
REMOVE: Final = "remove"


@dataclass(frozen=True, slots=True)
class HistoryMerge:
    """Builder of the MERGE that applies changes to a table with row versions (SCD2).

    Each change has an action for one row version: ``begin`` (insert it), ``end`` (set its end
    time), ``touch`` (update other columns) or ``remove``.

    Attributes:
        columns: The columns of the table.
        keys: The columns that match a change with a row version.
        ended: The SQL values, by column, that the action ``end`` sets.
        touched: The SQL values, by column, that the action ``touch`` sets.
        current: The boolean column that is true in current row versions, or None. With this column,
            ``keys`` identify a row: a change applies to the row's current version, and ``begin``
            always inserts. With None, ``keys`` identify a row version, and ``begin`` replaces the
            row version with the same keys.
    """

    columns: Sequence[str]
    keys: Sequence[str]
    ended: Mapping[str, str]
    touched: Mapping[str, str] = field(default_factory=dict)
    current: str | None = None

    def merge(self, target: str, actions: Collection[str]) -> Merge:
        """Return the MERGE statement that applies a DataFrame of changes to a table.

        Args:
            target: The SQL name of the table.
            actions: The actions that may occur in the changes; the MERGE has clauses only for them.
        """
        on = match_keys(target, self.keys)
        if self.current is not None:
            current = table_column(target, self.current)
            on = f"{source_column(ACTION)} <> '{BEGIN}' AND {current} AND {on}"
        inserted = self.columns if BEGIN in actions else ()
        return Merge(target, on, tuple(self._matched(actions)), inserted, _is(BEGIN))

    def _matched(self, actions: Collection[str]) -> Iterator[Matched]:
        if REMOVE in actions:
            yield Matched(None, _is(REMOVE))
        if TOUCH in actions:
            yield Matched(self.touched, _is(TOUCH))
        if END in actions:
            yield Matched(self.ended, _is(END))
        if BEGIN in actions and self.current is None:
            non_keys = (name for name in self.columns if name not in self.keys)
            yield Matched({name: source_column(name) for name in non_keys}, _is(BEGIN))


def _is(action: str) -> str:
    return f"{source_column(ACTION)} = {sql_literal(action)}"
