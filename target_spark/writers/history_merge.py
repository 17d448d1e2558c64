"""Steps: what a batch does to the versions of rows, and the one MERGE that carries them out.

A frame of steps has the columns of the table and `ACTION`, which says what a row of it does:

    begin    a version begins
    end      a version ends
    touch    something is noted on a version, which stays as it is
    remove   a version goes

No two steps of a frame meet the same version. Which steps a batch makes is for the history that it
is of (`target_spark.writers.scd2`, `target_spark.fivetran.history_versions`); what a step puts
into the
table is here.
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
    """A table that keeps the versions of its rows, and how steps find them.

    A step meets the version that has its ``keys``. Where a column ``current`` is named, these are
    the keys of a row, its current version is met, and one that begins meets none; otherwise they
    are those of a version, and one that begins anew is replaced. ``ended`` and ``touched`` are what
    such steps put into columns, as SQL.
    """

    columns: Sequence[str]
    keys: Sequence[str]
    ended: Mapping[str, str]
    touched: Mapping[str, str] = field(default_factory=dict)
    current: str | None = None

    def merge(self, target: str, actions: Collection[str]) -> Merge:
        """Return the MERGE of steps into a table; ``actions`` are those that they may have."""
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
            others = (name for name in self.columns if name not in self.keys)
            yield Matched({name: source_column(name) for name in others}, _is(BEGIN))


def _is(action: str) -> str:
    return f"{source_column(ACTION)} = {sql_literal(action)}"
