"""How columns change: within a run, and against a table that is there already.

Rules of the room: columns are added, never taken away. What a table has wins: a column
takes the values of a narrower type as it is (text takes anything, as its JSON), it
grows where the format can widen it without a loss, and everything else goes into a new
column ``<name>__<type>`` beside it. The outcome depends on the types alone and never on
whether a batch was written in between.

A column belongs to the property whose name it has, unless the table remembers another
one (`Layout.sources`), and no other property gets into it, except one that is the same
but for case where there is no such property any more. In a table that remembers nothing,
because others made it, a column is met by its name alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from target_spark.columns.layout import AIRBYTE_COLUMNS, METADATA_COLUMNS, SchemaChange, TableSchema
from target_spark.columns.numeric_types import common_decimal, count_integer_digits
from target_spark.columns.table_schema import from_table
from target_spark.columns.types import (
    Array,
    Column,
    ColumnSource,
    ColumnType,
    Decimal,
    Double,
    Integer,
    LocalTimestamp,
    Struct,
    Text,
    Timestamp,
    UnmanagedType,
)
from target_spark.tables.identifiers import fold_case, is_internal

__all__ = ["CanWiden", "any_widening", "can_share_batch", "diff_with_table", "merge_layouts"]

CanWiden: TypeAlias = Callable[[str, str], bool]
"""Whether a table format can change a column's type in place, both as DDL."""

_Path: TypeAlias = tuple[str, ...]

_LIMITED = re.compile(r"(var)?char\(\d+\)")
"""Text of a limited length."""


def any_widening(_old: str, _new: str) -> bool:
    """Say yes: each widening that loses nothing, as Delta Lake has them."""
    return True


def merge_layouts(
    old: TableSchema, new: TableSchema, can_widen: CanWiden = any_widening
) -> tuple[TableSchema, tuple[SchemaChange, ...]]:
    """Return the layout for a stream that is described again, and what its table needs.

    Every column of ``old`` stays. The keys are those of ``new``, whose names may be
    others than it had.
    """
    return _merged(old.columns, new, can_widen, remembers=True)


def diff_with_table(
    layout: TableSchema,
    table: Mapping[str, str],
    can_widen: CanWiden = any_widening,
    sources: Mapping[str, str] | None = None,
) -> tuple[TableSchema, tuple[SchemaChange, ...]]:
    """Return the layout in terms of a table (column name to DDL), and what that needs.

    The table's columns come first and in its order. ``sources`` is what the table remembers
    of `Layout.sources`; None where it is none of ours.
    """
    known = from_table(table, sources or {}).columns
    return _merged(known, layout, can_widen, remembers=sources is not None)


def can_share_batch(old: TableSchema, new: TableSchema) -> bool:
    """Tell whether rows spooled under ``old`` may be written under ``new``, its successor.

    They may not when the keys are others, or when a property goes to another column.
    """
    homes = _homes(new.columns)
    moved = any(homes.get(path) != home for path, home in _homes(old.columns).items())
    same_keys = (old.keys, old.key_sources) == (new.keys, new.key_sources)
    return same_keys and not moved


def _homes(columns: Iterable[Column]) -> dict[_Path, _Path]:
    """Return where each value goes: its path in the record to its path in the table."""
    homes: dict[_Path, _Path] = {}
    for column in columns:
        if not column.is_fed:
            continue
        source = (column.feed.value, column.source)
        homes[source] = (column.name,)
        for path, home in _homes(_get_fields(column.type)).items():
            homes[source + path] = (column.name, *home)
    return homes


def _get_fields(type_: ColumnType) -> tuple[Column, ...]:
    while isinstance(type_, Array):
        type_ = type_.element
    return type_.fields if isinstance(type_, Struct) else ()


def _merged(
    columns: tuple[Column, ...], new: TableSchema, can_widen: CanWiden, *, remembers: bool = False
) -> tuple[TableSchema, tuple[SchemaChange, ...]]:
    merge = _Merge(columns, _Rules(can_widen, remembers))
    merge.place_all(new.columns)
    layout = replace(new, columns=_settled(_without_whole(merge.columns, new.key_sources)))
    keys = tuple(_get_name(layout, source) for source in new.key_sources)
    return replace(layout, keys=keys), tuple(merge.changes)


def _without_whole(columns: Iterable[Column], keys: Collection[str]) -> tuple[Column, ...]:
    """Let the whole record feed a column only while no property but keys feeds another."""
    known = tuple(columns)
    if not any(
        column.feed is ColumnSource.PROPERTY and column.source not in keys for column in known
    ):
        return known
    return tuple(
        replace(column, feed=ColumnSource.NOTHING) if column.feed is ColumnSource.WHOLE else column
        for column in known
    )


def _settled(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Tell the columns that hold what is no longer so from those that are none of ours."""
    known = tuple(columns)
    elsewhere = {column.source for column in known if column.feed is ColumnSource.PROPERTY}
    return tuple(
        column
        if column.is_fed
        else replace(
            column,
            feed=ColumnSource.EMPTIED if _is_stale(column, elsewhere) else ColumnSource.NOTHING,
        )
        for column in known
    )


def _is_stale(column: Column, elsewhere: Collection[str]) -> bool:
    moved = column.source in elsewhere and not isinstance(column.type, UnmanagedType)
    return moved or column.name in METADATA_COLUMNS or column.name in AIRBYTE_COLUMNS


def _get_name(layout: TableSchema, source: str) -> str:
    column = layout.column_fed_by(source)
    if column is None:
        raise KeyError(source)
    return column.name


class _Rules(NamedTuple):
    """What the format can widen, and whether each column's source is known."""

    can_widen: CanWiden
    remembers: bool


class _Merge:
    """The columns of one table or struct while those of a schema are placed in them."""

    def __init__(self, columns: Iterable[Column], rules: _Rules, path: _Path = ()) -> None:
        self.columns = list(columns)
        self.changes: list[SchemaChange] = []
        self._rules = rules
        self._path = path
        self._claimed: set[int] = set()
        self._wanted: set[str] = set()
        self._by_name = {fold_case(column.name): at for at, column in enumerate(self.columns)}
        self._by_feed = {_feed(column): at for at, column in enumerate(self.columns)}
        self._by_source = {
            column.source: at
            for at, column in reversed([*enumerate(self.columns)])
            if column.feed in {ColumnSource.PROPERTY, ColumnSource.NOTHING, ColumnSource.EMPTIED}
        }

    def place_all(self, wanted: Iterable[Column]) -> None:
        """Give each wanted column its place; the better a name fits, the earlier."""
        known = list(wanted)
        rest = [column for column in known if column.is_fed]
        self._wanted = {column.source for column in rest if column.feed is ColumnSource.PROPERTY}
        for find in (self._fed_already, self._first_of_source, self._named_as_wanted):
            rest = [column for column in rest if not self._try(find(column), column)]
        waiting = {column.name for column in rest}
        for column in known:
            if column.name in waiting:
                self._place(column)
            elif not column.is_fed:
                self._keep(column)

    def _fed_already(self, wanted: Column) -> int | None:
        return self._by_feed.get(_feed(wanted))

    def _first_of_source(self, wanted: Column) -> int | None:
        # Columns of other types come after the one that a property had first.
        return self._by_source.get(wanted.source) if wanted.feed is ColumnSource.PROPERTY else None

    def _named_as_wanted(self, wanted: Column) -> int | None:
        at = self._by_name.get(fold_case(wanted.name))
        return at if at is not None and self.columns[at].name == wanted.name else None

    def _place(self, wanted: Column) -> None:
        """Find the first column of the wanted name, or its successors, that takes it."""
        first = self._first_of_source(wanted)
        name = wanted.name if first is None else self.columns[first].name
        name = wanted.name if is_internal(name) else name
        number, instead_of = 1, None
        while True:
            candidate = name if number == 1 else f"{name}_{number}"
            at = self._by_name.get(fold_case(candidate))
            if at is None:
                self._add(replace(wanted, name=candidate), instead_of)
                return
            if self._try(at, wanted):
                return
            if instead_of is None and self._is_free(at, wanted):
                instead_of = self.columns[at].name
                name, number = f"{instead_of}__{wanted.type.word}", 0
            number += 1

    def _keep(self, wanted: Column) -> None:
        """Let a column be there that nothing feeds any more, as wide as it was to be."""
        at = self._by_name.get(fold_case(wanted.name))
        if at is None:
            self._add(wanted, None)
        elif at not in self._claimed and self.columns[at].name == wanted.name:
            column = self.columns[at]
            path = (*self._path, column.name)
            joined = _joined(column.type, wanted.type, self._rules, path)
            if joined is not None:
                self.columns[at] = replace(column, source=wanted.source, type=joined[0])
                self.changes.extend(joined[1])

    def _is_free(self, at: int, wanted: Column) -> bool:
        """Tell whether nothing else feeds a column, or is known to have fed it."""
        column = self.columns[at]
        if at in self._claimed or (not self._path and is_internal(column.name)):
            return False
        if column.is_fed:
            return _feed(column) == _feed(wanted)
        if column.source == wanted.source or wanted.feed is not ColumnSource.PROPERTY:
            return True
        if column.source != column.name or column.source in self._wanted:
            return False
        return not self._rules.remembers or fold_case(column.source) == fold_case(wanted.source)

    def _add(self, column: Column, instead_of: str | None) -> None:
        if column.is_fed:
            self._release(column)
        at = len(self.columns)
        self.columns.append(column)
        self._by_name[fold_case(column.name)] = at
        self._feed_it(at)
        path = (*self._path, column.name)
        change = SchemaChange("add", path, column.type.ddl, instead_of, column.comment)
        self.changes.append(change)

    def _try(self, at: int | None, wanted: Column) -> bool:
        """Let the wanted column's values go into an existing one, if its type allows."""
        if at is None or not self._is_free(at, wanted):
            return False
        column = self.columns[at]
        path = (*self._path, column.name)
        joined = _joined(column.type, wanted.type, self._rules, path)
        if joined is None:
            return False
        type_, changes = joined
        self._release(wanted)
        self.columns[at] = replace(wanted, name=column.name, type=type_)
        self._feed_it(at)
        self.changes.extend(changes)
        return True

    def _feed_it(self, at: int) -> None:
        self._claimed.add(at)
        self._by_feed[_feed(self.columns[at])] = at

    def _release(self, wanted: Column) -> None:
        """Let no other column be fed with what now feeds this one."""
        at = self._by_feed.get(_feed(wanted))
        if at is not None:
            self.columns[at] = replace(self.columns[at], feed=ColumnSource.NOTHING)


def _feed(column: Column) -> tuple[ColumnSource, str]:
    return column.feed, column.source


_Joined: TypeAlias = tuple[ColumnType, list[SchemaChange]]


def _joined(old: ColumnType, new: ColumnType, rules: _Rules, path: _Path) -> _Joined | None:
    """Return what becomes of a column so that it takes the new type's values too."""
    if old == new or isinstance(old, Text):
        return old, []
    if isinstance(old, Struct) and isinstance(new, Struct):
        merge = _Merge(old.fields, rules, path)
        merge.place_all(new.fields)
        return Struct(tuple(merge.columns)), merge.changes
    if isinstance(old, Array) and isinstance(new, Array):
        inner = _joined(old.element, new.element, rules, (*path, "element"))
        return None if inner is None else (Array(inner[0]), inner[1])
    wider = _wider(old, new)
    if wider is None or wider == old:
        return None if wider is None else (old, [])
    if not rules.can_widen(old.ddl, wider.ddl):
        return None
    return wider, [SchemaChange("widen", path, wider.ddl)]


def _wider(old: ColumnType, new: ColumnType) -> ColumnType | None:
    """Return the scalar type that takes both without a loss that ``new`` does not have."""
    if isinstance(old, UnmanagedType) and _LIMITED.fullmatch(old.written):
        return Text()
    if isinstance(old, LocalTimestamp) and isinstance(new, Timestamp):
        return old  # what a clock shows in UTC
    return _wider_number(old, new)


def _wider_number(old: ColumnType, new: ColumnType) -> ColumnType | None:
    if isinstance(old, Integer) and isinstance(new, Integer):
        return old if old.bits >= new.bits else new
    if isinstance(old, Double) and isinstance(new, Integer):
        return old  # what a `number` is documented to do to integers
    if isinstance(new, Double):
        small = isinstance(old, Integer) and old.bits < 64  # noqa: PLR2004 - bits of a long
        return new if small or old == UnmanagedType("float") else None
    if not isinstance(old, Integer | Decimal) or not isinstance(new, Integer | Decimal):
        return None
    if isinstance(old, Decimal) and _takes(old, new):
        return old
    return common_decimal((old, new))


def _takes(old: Decimal, new: Integer | Decimal) -> bool:
    needed = 19 if isinstance(new, Integer) else count_integer_digits(new)
    scale = new.scale if isinstance(new, Decimal) else 0
    return count_integer_digits(old) >= needed and old.scale >= scale
