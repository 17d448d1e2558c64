"""Bulk INSERT with minimal work per record.

Column names, column order and value conversions are determined once per table. Each record then
needs one function call that extracts its values. If SQLAlchemy would only pass the rows to the
database driver's ``executemany``, this module calls the driver directly, because that is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import BindTyping, Dialect

from tap_core.sql.parameter_binding import ConvertingType, ValueConverters
from tap_core.types import Record

__all__ = ["BulkInsert", "RowExtractor", "make_extractor", "prepare_insert"]

_Row: TypeAlias = list[Any]
RowExtractor: TypeAlias = Callable[[Record], _Row]
"""Function that returns the values of a record in column order; missing values are None."""


@dataclass(frozen=True)
class _DriverInsert:
    """INSERT statement that the database driver executes directly, without SQLAlchemy.

    Attributes:
        text: SQL text of the statement.
        keys: Parameter names of the driver; None if its parameters are positional.
        converters: Pairs of a column position and a dict of conversion functions by Python class;
            values of other classes stay unchanged.
        processors: Pairs of a column position and a function that converts every value.
    """

    text: str
    keys: tuple[str, ...] | None
    converters: tuple[tuple[int, ValueConverters], ...]
    processors: tuple[tuple[int, Callable[[Any], Any]], ...]


@dataclass(frozen=True)
class BulkInsert:
    """INSERT statement for a table. The method `run` inserts many rows at once."""

    statement: sa.Executable
    columns: tuple[str, ...]
    driver_insert: _DriverInsert | None

    def run(self, connection: sa.Connection, rows: list[_Row]) -> int:
        """Insert rows, and return the number of inserted rows that the driver reports.

        Args:
            connection: Open connection.
            rows: Lists of values in column order. They may be changed: values that the driver does
                not accept are converted in place.
        """
        if self.driver_insert is None:
            named = [dict(zip(self.columns, row, strict=True)) for row in rows]
            return connection.execute(self.statement, named).rowcount
        _convert_values(self.driver_insert, rows)
        return connection.exec_driver_sql(
            self.driver_insert.text, _make_parameters(self.driver_insert, rows)
        ).rowcount


def prepare_insert(
    statement: sa.Executable, columns: Sequence[str], dialect: Dialect
) -> BulkInsert:
    """Return a bulk insert for a statement and its columns.

    If SQLAlchemy would only pass the rows to the driver's ``executemany``, the bulk insert calls
    the driver directly. Otherwise, and for statements other than INSERT, SQLAlchemy executes it.
    """
    driver_insert = None
    if isinstance(statement, sa.Insert) and _uses_executemany(dialect):
        driver_insert = _compile_for_driver(statement, columns, dialect)
    return BulkInsert(statement, tuple(columns), driver_insert)


def make_extractor(
    properties: Sequence[str], columns: Sequence[str], conform: Callable[[Record], Record]
) -> RowExtractor:
    """Return a function that returns a record's values in column order, None for a missing one.

    Args:
        properties: Names of the declared properties, in the order of the columns.
        columns: Names of the columns.
        conform: Function that renames the properties of a record to column names. It is called only
            for records with undeclared properties, which may have the name of a column.
    """
    declared, ordered, names = frozenset(properties), tuple(properties), tuple(columns)

    def extract(record: Record) -> _Row:
        if declared.issuperset(record):
            return [*map(record.get, ordered)]
        return [*map(conform(record).get, names)]

    return extract


def _uses_executemany(dialect: Dialect) -> bool:
    """Return True if SQLAlchemy inserts many rows by calling the driver's ``executemany``."""
    many_at_once = getattr(dialect, "use_insertmanyvalues_wo_returning", False)
    return not many_at_once and dialect.bind_typing is not BindTyping.SETINPUTSIZES


def _compile_for_driver(
    statement: sa.Insert, columns: Sequence[str], dialect: Dialect
) -> _DriverInsert:
    """Compile an INSERT to SQL text and value conversions, for execution by the database driver."""
    compiled: Any = statement.compile(dialect=dialect, column_keys=list(columns))
    escaped: Mapping[str, str] = compiled.escaped_bind_names
    keys = None if compiled.positional else tuple(escaped.get(name, name) for name in columns)
    converters, processors = [], []
    for position, name in enumerate(columns):
        kind = statement.table.c[name].type
        if isinstance(kind, ConvertingType):
            converters.append((position, kind.converters))
        elif process := kind.dialect_impl(dialect).bind_processor(dialect):
            processors.append((position, process))
    return _DriverInsert(compiled.string, keys, tuple(converters), tuple(processors))


def _convert_values(driver_insert: _DriverInsert, rows: Iterable[_Row]) -> None:
    """Convert the values in ``rows`` that the driver does not accept, in place."""
    for position, converters in driver_insert.converters:
        get_converter = converters.get
        for row in rows:
            convert = get_converter(row[position].__class__)
            if convert is not None:
                row[position] = convert(row[position])
    for position, process in driver_insert.processors:
        for row in rows:
            row[position] = process(row[position])


def _make_parameters(driver_insert: _DriverInsert, rows: list[_Row]) -> Any:
    """Return rows as the driver's parameters: tuples, or dicts if the parameters have names."""
    if driver_insert.keys is None:
        return [*map(tuple, rows)]
    keys = driver_insert.keys
    return [dict(zip(keys, row, strict=True)) for row in rows]
