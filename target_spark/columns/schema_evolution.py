"""Schema evolution: changes of a stream's schema within a run, and changes of an existing table.

Columns are added, never removed. An existing column keeps its type if it can store the new values
(text stores any value, as JSON). Otherwise it is widened, if the table format can do so without
loss. If not, the values go to a new column ``<name>__<type>``. The result depends only on the
types, not on the batches written in between.

A column belongs to the property of the same name, unless the table stores another property name
for it (`TableSchema.sources`). If that property no longer exists, a property whose name differs
only in case may use the column. Tables of other programs store no property names, so their columns
match by name only.

The policy `OnSchemaChange` limits the changes of an existing table. It is applied when a schema is
compared with a table. Schemas of one run are merged as if every change were allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from target_spark.columns.ddl_parser import LIMITED_TEXT
from target_spark.columns.numeric_types import common_decimal, count_integer_digits
from target_spark.columns.table_json_schema import from_table
from target_spark.columns.table_schema import (
    AIRBYTE_COLUMNS,
    DELETED_AT,
    METADATA_COLUMNS,
    OnSchemaChange,
    SchemaChange,
    TableSchema,
)
from target_spark.columns.types import (
    Array,
    Boolean,
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
from target_spark.errors import SchemaChangeError
from target_spark.tables.identifiers import fold_case, is_internal

__all__ = ["CanWiden", "can_share_batch", "diff_with_table", "merge_table_schemas"]

CanWiden: TypeAlias = Callable[[str, str], bool]
"""Function that returns True if the table format can change a column from an old to a new DDL type,
such as ``int`` to ``bigint``, without rewriting values."""

_Path: TypeAlias = tuple[str, ...]

_MAX_NAMES = 10
"""Maximum number of columns that an error message lists."""


def merge_table_schemas(
    old: TableSchema, new: TableSchema, can_widen: CanWiden
) -> tuple[TableSchema, tuple[SchemaChange, ...]]:
    """Merge a stream's new schema, from a later SCHEMA message, into the schema of its table.

    All columns of ``old`` are kept. The keys of the merged schema are the keys of ``new``.

    Args:
        old: The table schema so far.
        new: The table schema of the message.
        can_widen: Function that returns True if the table format can change an old type (DDL) to a
            new one.

    Returns:
        The merged schema, and the changes that the table needs.
    """
    return _merge_columns(old.columns, new, _Rules(can_widen, has_sources=True))


def diff_with_table(
    table_schema: TableSchema,
    table: Mapping[str, str],
    can_widen: CanWiden,
    sources: Mapping[str, str] | None = None,
) -> tuple[TableSchema, tuple[SchemaChange, ...]]:
    """Compare a stream's table schema with its existing table, and merge both.

    Args:
        table_schema: The table schema of the stream. Its policy ``on_change`` limits the changes of
            the table.
        table: The type (DDL) of each of the table's columns. In the result these columns come
            first, in the same order.
        can_widen: Function that returns True if the table format can change an old type (DDL) to a
            new one.
        sources: The property names stored in the table, as `TableSchema.sources` returns them; None
            for a table of another program.

    Returns:
        The merged schema, and the changes that the table needs. Last are the changes that the
        policy `OnSchemaChange.IGNORE` prevents, which are only reported.

    Raises:
        SchemaChangeError: The policy forbids a change. The message lists the columns; the caller
            adds the stream and the table.
    """
    rules = _Rules(can_widen, sources is not None, table_schema.on_change, table_schema.must_fit)
    return _merge_columns(from_table(table, sources).columns, table_schema, rules)


def can_share_batch(old: TableSchema, new: TableSchema) -> bool:
    """Return True if rows received under the schema ``old`` can be written with the schema ``new``.

    Return False if the keys changed, or if a property is now written to another column. All rows of
    a batch are written with one schema.
    """
    targets = _map_paths(new.columns)
    moved = any(targets.get(path) != target for path, target in _map_paths(old.columns).items())
    same_keys = (old.keys, old.key_sources) == (new.keys, new.key_sources)
    return same_keys and not moved


def _map_paths(columns: Iterable[Column]) -> dict[_Path, _Path]:
    """Return the path in the table for each value of a record, by its path in the record.

    For example, ``user.id`` is stored in the field ``id`` of the column ``user``: ``{("property",
    "user", "property", "id"): ("user", "id")}``. Each name in a key follows the `ColumnSource` of
    its column or field.
    """
    targets: dict[_Path, _Path] = {}
    for column in columns:
        if not column.is_fed:
            continue
        source = (column.feed.value, column.source)
        targets[source] = (column.name,)
        for path, target in _map_paths(_get_fields(column.type)).items():
            targets[source + path] = (column.name, *target)
    return targets


def _get_fields(type_: ColumnType) -> tuple[Column, ...]:
    while isinstance(type_, Array):
        type_ = type_.element
    return type_.fields if isinstance(type_, Struct) else ()


def _merge_columns(
    columns: tuple[Column, ...], new: TableSchema, rules: _Rules
) -> tuple[TableSchema, tuple[SchemaChange, ...]]:
    merge = _Merge(columns, rules)
    merge.match_all(new.columns)
    _check_policy(merge, rules.policy)
    table_schema = replace(
        new, columns=_mark_unfed_columns(_drop_whole_record_source(merge.columns, new.key_sources))
    )
    names = {
        column.source: column.name
        for column in table_schema.columns
        if column.feed is ColumnSource.PROPERTY
    }
    keys = tuple(names[source] for source in new.key_sources)
    texts = {column.source for column in table_schema.columns if column.type == Text()}
    text_partitions = tuple(source for source in new.text_partitions if source in texts)
    changes = sorted(merge.changes, key=lambda change: not change.is_made)
    return replace(table_schema, keys=keys, text_partitions=text_partitions), tuple(changes)


def _check_policy(merge: _Merge, policy: OnSchemaChange) -> None:
    """Check that the policy ``on_schema_change`` allows the changes that a merge of schemas needs.

    Raises:
        SchemaChangeError: At least one change is forbidden, or a required property would have no
            column. The message lists the columns.
    """
    always_added = {column.name for column in merge.columns if _is_always_added(column)}
    forbidden = [
        change.refuse() for change in merge.changes if _is_forbidden(change, policy, always_added)
    ]
    if forbidden:
        named = [change.describe() for change in forbidden[:_MAX_NAMES]]
        unnamed = len(forbidden) - len(named)
        raise SchemaChangeError(
            "; ".join([*named, f"and {unnamed} more"] if unnamed else named),
            ((".".join(change.path), change.ddl, change.old) for change in forbidden),
        )


def _is_forbidden(
    change: SchemaChange, policy: OnSchemaChange, always_added: Collection[str]
) -> bool:
    if change.kind == "refuse":
        return True
    if change.path[0] in always_added or not change.is_made:
        return False
    is_second_column = change.instead_of is not None
    return policy is OnSchemaChange.FAIL or (policy is OnSchemaChange.WIDEN and is_second_column)


def _is_always_added(column: Column) -> bool:
    """Return True if target-spark adds a column even if the user forbids new columns.

    Such columns are the metadata columns, and the column of a tap's property `_sdc_deleted_at`.
    """
    return column.feed is ColumnSource.METADATA or column.source == DELETED_AT


def _drop_whole_record_source(columns: Sequence[Column], keys: Collection[str]) -> Sequence[Column]:
    """Stop writing whole records to a column if a non-key property has its own column.

    A stream that declares only keys, or no properties, has a column that stores each record as
    JSON. When the stream declares other properties later, the column stays in the table, but its
    ``feed`` becomes NOTHING, so that new rows have null in it.

    Returns:
        All columns, unchanged except for the column with whole records.
    """
    if not any(
        column.feed is ColumnSource.PROPERTY and column.source not in keys for column in columns
    ):
        return columns
    return [
        replace(column, feed=ColumnSource.NOTHING) if column.feed is ColumnSource.WHOLE else column
        for column in columns
    ]


def _mark_unfed_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Set the ``feed`` (source of values) of table columns that the stream does not fill.

    Null is written (feed EMPTIED) to metadata columns, and to columns whose property now fills
    another column. All other columns are left out of the written rows (feed NOTHING).

    Returns:
        All columns in the same order. Columns that the stream fills are unchanged.
    """
    filled = {column.source for column in columns if column.feed is ColumnSource.PROPERTY}
    return tuple(
        column
        if column.is_fed
        else replace(
            column,
            feed=ColumnSource.EMPTIED if _is_stale(column, filled) else ColumnSource.NOTHING,
        )
        for column in columns
    )


def _is_stale(column: Column, filled: Collection[str]) -> bool:
    moved = column.source in filled and not isinstance(column.type, UnmanagedType)
    return moved or column.name in METADATA_COLUMNS or column.name in AIRBYTE_COLUMNS


class _Rules(NamedTuple):
    """Rules for merging the schema of a stream into the columns of its table.

    Attributes:
        can_widen: Function that returns True if the table format can change an old type (DDL) to a
            new one.
        has_sources: True if the table stores the name of the property that fills each column. False
            for another program's table, whose columns are matched by name.
        policy: The policy for changes of the table. With IGNORE, the merge requires no change.
            Changes that the other policies forbid raise an error after the merge.
        required: The names of properties that must have a column, such as keys.
    """

    can_widen: CanWiden
    has_sources: bool
    policy: OnSchemaChange = OnSchemaChange.EVOLVE
    required: frozenset[str] = frozenset()


class _Merge:
    """Merge of a stream's columns into the columns of its table, or of fields into a struct.

    Args:
        columns: The existing columns of the table, or fields of the struct.
        rules: The rules of the merge.
        path: The path of the struct, such as ``("user",)``; empty for a table.

    Attributes:
        columns: The merged columns.
        changes: The changes of the table that the merge requires.
    """

    def __init__(self, columns: Iterable[Column], rules: _Rules, path: _Path = ()) -> None:
        self.columns = list(columns)
        self.changes: list[SchemaChange] = []
        self._rules = rules
        self._path = path
        self._claimed: set[int] = set()
        """Indexes of the columns that a column of the new schema fills."""
        self._new_properties: set[str] = set()
        # Indexes of the columns. `_by_source` also has columns that a property filled before.
        self._by_name = {fold_case(column.name): index for index, column in enumerate(self.columns)}
        self._by_feed = {_get_feed(column): index for index, column in enumerate(self.columns)}
        self._by_source = {  # of several columns of a property, the first one
            column.source: index
            for index, column in reversed([*enumerate(self.columns)])
            if column.feed in {ColumnSource.PROPERTY, ColumnSource.NOTHING, ColumnSource.EMPTIED}
        }

    def match_all(self, new_columns: Iterable[Column]) -> None:
        """Assign each column of the new schema to an existing column, or add it to the table.

        A column that the same property already fills is preferred to a column of the same name.
        """
        all_columns = list(new_columns)
        unmatched = [column for column in all_columns if column.is_fed]
        self._new_properties = {
            column.source for column in unmatched if column.feed is ColumnSource.PROPERTY
        }
        for find in (self._find_by_feed, self._find_by_source, self._find_by_name):
            unmatched = [
                column for column in unmatched if not self._try_match(find(column), column)
            ]
        names = {column.name for column in unmatched}
        for column in all_columns:
            if column.name in names:
                self._match_or_add(column)
            elif not column.is_fed:
                self._keep_unfilled(column)

    def _find_by_feed(self, column: Column) -> int | None:
        return self._by_feed.get(_get_feed(column))

    def _find_by_source(self, column: Column) -> int | None:
        return self._by_source.get(column.source) if column.feed is ColumnSource.PROPERTY else None

    def _find_by_name(self, column: Column) -> int | None:
        index = self._by_name.get(fold_case(column.name))
        return index if index is not None and self.columns[index].name == column.name else None

    def _match_or_add(self, new: Column) -> None:
        """Assign a column of the new schema to the table column of the same name, or add one.

        If that table column has another type and cannot be widened, ``<name>__<type>`` is used,
        such as ``amount__double``. If the name belongs to another property, a number is appended,
        such as ``amount_2``. Under the policy IGNORE, no column is added.
        """
        first = self._find_by_source(new)
        name = new.name if first is None else self.columns[first].name
        name = new.name if is_internal(name) else name
        number = 1
        mismatched: int | None = None
        while True:
            candidate = name if number == 1 else f"{name}_{number}"
            index = self._by_name.get(fold_case(candidate))
            if index is None and self._get_rules(new).policy is OnSchemaChange.IGNORE:
                self._keep_table(new, mismatched)
                return
            if index is None:
                self._add(replace(new, name=candidate), mismatched)
                return
            if self._try_match(index, new):
                return
            if mismatched is None and self._is_free(index, new):
                mismatched = index
                name, number = f"{self.columns[index].name}__{new.type.word}", 0
            number += 1

    def _keep_unfilled(self, new: Column) -> None:
        """Add a column that records do not fill to the table, or widen the one of the same name.

        Do nothing unless the policy is EVOLVE. A table column of another property is not changed.
        """
        if self._rules.policy is not OnSchemaChange.EVOLVE:
            return
        if fold_case(new.name) not in self._by_name:
            self._add(new, None)
            return
        index = self._find_by_name(new)
        if index is None or index in self._claimed:
            return
        if self._may_be_of_property(index, new):
            column = self.columns[index]
            path = (*self._path, column.name)
            joined = _join_types(column.type, new.type, self._rules, path)
            if joined is not None:
                type_, changes = joined
                self.columns[index] = replace(column, source=new.source, type=type_)
                self.changes.extend(changes)

    def _is_free(self, index: int, new: Column) -> bool:
        """Return True if the values of ``new`` may be written to the table column at ``index``.

        Return False if another property fills that column. Return False also if another property
        filled it before and is declared by a schema of this run.
        """
        column = self.columns[index]
        if index in self._claimed or (not self._path and is_internal(column.name)):
            return False
        if column.is_fed:
            return _get_feed(column) == _get_feed(new)
        if column.source == new.source or new.feed is not ColumnSource.PROPERTY:
            return True
        if column.source != column.name or self._is_declared(column.source):
            return False
        return self._may_be_of_property(index, new)

    def _is_declared(self, source: str) -> bool:
        """Return True if a schema of this run, the new or an earlier one, declares a property."""
        return source in self._new_properties or (ColumnSource.PROPERTY, source) in self._by_feed

    def _may_be_of_property(self, index: int, new: Column) -> bool:
        """Return True if the table column at ``index`` may store the property of ``new``.

        That is so if its property has the same name, ignoring case. A table of another program
        has no stored property names, so any of its columns may store the property.
        """
        has_same_name = fold_case(self.columns[index].source) == fold_case(new.source)
        return has_same_name or not self._rules.has_sources

    def _get_rules(self, new: Column) -> _Rules:
        """Return the rules for merging the column ``new``, which differ for metadata columns.

        The user's policy does not apply to metadata columns. Their policy is always EVOLVE.
        """
        if self._path or not _is_always_added(new):
            return self._rules
        return self._rules._replace(policy=OnSchemaChange.EVOLVE)

    def _keep_table(self, new: Column, mismatched: int | None) -> None:
        """Merge a column of the new schema under the policy IGNORE, which never changes the table.

        If the property has a table column of another type, its values are converted to that type.
        Otherwise the property is left out. If it must have a column, as a key must, a change of the
        kind ``refuse`` is recorded, which ends the run.

        Args:
            new: The column of the new schema.
            mismatched: The index of the table column of another type; None if there is none.
        """
        if mismatched is None:
            path = (*self._path, new.source or new.name)
            is_required = new.feed is ColumnSource.WHOLE or new.source in self._rules.required
            is_refused = is_required and not self._path
            self.changes.append(
                SchemaChange("refuse" if is_refused else "omit", path, new.type.ddl)
            )
            return
        column = self.columns[mismatched]
        type_ = _fill_fields(column.type, only_scalars=bool(new.path))
        path = (*self._path, column.name)
        change = SchemaChange("keep", path, new.type.ddl, old=column.type.ddl)
        if type_ is None:
            self.changes.append(change.refuse())
            return
        self.changes.append(change)
        self.columns[mismatched] = replace(new, name=column.name, type=type_)
        self._claim(mismatched)

    def _add(self, column: Column, mismatched: int | None) -> None:
        """Add a column to the table and record the change.

        Args:
            column: The new column.
            mismatched: The index of the property's existing column, which has another type; None
                for a new property.
        """
        if column.is_fed:
            self._release_property(column)
        index = len(self.columns)
        self.columns.append(column)
        self._by_name[fold_case(column.name)] = index
        self._claim(index)
        change = SchemaChange(
            "add", (*self._path, column.name), column.type.ddl, comment=column.comment
        )
        if mismatched is not None:
            existing = self.columns[mismatched]
            change = replace(change, instead_of=existing.name, old=existing.type.ddl)
        self.changes.append(change)

    def _try_match(self, index: int | None, new: Column) -> bool:
        """Assign a new column to a table column, and widen the table column if necessary.

        Args:
            index: The index of the table column; None if there is no such column.
            new: The column of the new schema.

        Returns:
            True if the new column was assigned. False if there is no table column, if it belongs to
            another property, or if no type can store the values of both columns.
        """
        if index is None or not self._is_free(index, new):
            return False
        column = self.columns[index]
        path = (*self._path, column.name)
        joined = _join_types(column.type, new.type, self._get_rules(new), path)
        if joined is None:
            return False
        type_, changes = joined
        self._release_property(new)
        self.columns[index] = replace(new, name=column.name, type=type_)
        self._claim(index)
        self.changes.extend(changes)
        return True

    def _claim(self, index: int) -> None:
        self._claimed.add(index)
        self._by_feed[_get_feed(self.columns[index])] = index

    def _release_property(self, new: Column) -> None:
        """Stop writing to the table column, if any, that has stored the property of ``new``.

        The caller then assigns another table column to the property.
        """
        index = self._by_feed.get(_get_feed(new))
        if index is not None:
            self.columns[index] = replace(self.columns[index], feed=ColumnSource.NOTHING)


def _get_feed(column: Column) -> tuple[ColumnSource, str]:
    return column.feed, column.source


_JoinedType: TypeAlias = tuple[ColumnType, list[SchemaChange]]
"""Type that can store the values of two types, and the changes of the table that it needs."""


def _join_types(old: ColumnType, new: ColumnType, rules: _Rules, path: _Path) -> _JoinedType | None:
    """Return a type that can store the values of two types, and the table changes that it needs.

    Return None if there is no such type, or if the policy or the table format forbids widening.
    """
    if old == new or isinstance(old, Text):
        return old, []
    if isinstance(old, Struct) and isinstance(new, Struct):
        return _join_structs(old, new, rules, path)
    if isinstance(old, Array) and isinstance(new, Array):
        inner = _join_types(old.element, new.element, rules, (*path, "element"))
        return None if inner is None else (Array(inner[0]), inner[1])
    wider = _wider_scalar(old, new)
    if wider == old:
        return old, []
    if (
        wider is None
        or rules.policy is OnSchemaChange.IGNORE
        or not rules.can_widen(old.ddl, wider.ddl)
    ):
        return None
    return wider, [SchemaChange("widen", path, wider.ddl, old=old.ddl, requested=new.ddl)]


def _join_structs(old: Struct, new: Struct, rules: _Rules, path: _Path) -> _JoinedType | None:
    merge = _Merge(old.fields, rules, path)
    merge.match_all(new.fields)
    if rules.policy is OnSchemaChange.IGNORE and not any(column.is_fed for column in merge.columns):
        filled = _fill_fields(old)  # Spark reads no struct without fields
        return None if filled is None else (filled, merge.changes)
    return Struct(tuple(merge.columns)), merge.changes


def _fill_fields(type_: ColumnType, *, only_scalars: bool = False) -> ColumnType | None:
    """Return the type of a table column, with all struct fields marked as filled from records.

    Each field of a struct gets the feed `ColumnSource.PROPERTY`. A type without structs is returned
    unchanged. Return None if target-spark cannot write values of the type, such as a map.

    Args:
        type_: The type of the column.
        only_scalars: True to return None also for booleans, structs and arrays. A nested key cannot
            be written to these.
    """
    if isinstance(type_, UnmanagedType) or (
        only_scalars and isinstance(type_, Boolean | Struct | Array)
    ):
        return None
    if isinstance(type_, Array):
        element = _fill_fields(type_.element)
        return None if element is None else Array(element)
    if not isinstance(type_, Struct):
        return type_
    fields: dict[str, Column] = {}
    for field in type_.fields:
        filled = _fill_fields(field.type)
        if filled is not None and field.source not in fields:
            fields[field.source] = replace(field, type=filled, feed=ColumnSource.PROPERTY)
    if not fields:
        return None
    by_name = {field.name: field for field in fields.values()}
    return Struct(tuple(by_name.get(field.name, field) for field in type_.fields))


def _wider_scalar(old: ColumnType, new: ColumnType) -> ColumnType | None:
    """Return a scalar type that can store the values of both types, or None if no type can.

    For ``int`` and ``bigint`` it is ``bigint``; for ``varchar(10)`` and any other type, ``string``.
    """
    if isinstance(old, UnmanagedType) and LIMITED_TEXT.fullmatch(old.written):
        return Text()
    if isinstance(old, LocalTimestamp) and isinstance(new, Timestamp):
        return old  # the values are written in UTC
    return _wider_number(old, new)


def _wider_number(old: ColumnType, new: ColumnType) -> ColumnType | None:
    if isinstance(old, Integer) and isinstance(new, Integer):
        return old if old.bits >= new.bits else new
    if isinstance(old, Double) and isinstance(new, Integer):
        return old  # documented: a `number` column rounds large integers
    if isinstance(new, Double):
        small = isinstance(old, Integer) and old.bits < 64  # noqa: PLR2004 - bits of a long
        return new if small or old == UnmanagedType("float") else None
    if not isinstance(old, Integer | Decimal) or not isinstance(new, Integer | Decimal):
        return None
    if isinstance(old, Decimal) and _can_hold(old, new):
        return old
    return common_decimal((old, new))


def _can_hold(old: Decimal, new: Integer | Decimal) -> bool:
    # A 64-bit integer has at most 19 digits. `count_integer_digits` returns 20, because Delta Lake
    # requires 20 digits to widen a column of such integers.
    needed = 19 if isinstance(new, Integer) else count_integer_digits(new)
    scale = new.scale if isinstance(new, Decimal) else 0
    return count_integer_digits(old) >= needed and old.scale >= scale
