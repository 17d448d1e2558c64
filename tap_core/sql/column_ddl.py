"""Columns made to fit a stream: added, renamed, widened.

Rules of the room: what is there is looked at before anything is changed, and what need not
change is left alone. Each change is a transaction of its own. A column is never fed values
that it would round or cut without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn

from tap_core.sql.discovery import CatalogDiscovery
from tap_core.sql.fully_qualified_name import FullyQualifiedName
from tap_core.sql.type_widening import adapt_type, is_text, is_wider, loses_precision, type_rank
from tap_core.types import JsonSchema

__all__ = ["ColumnDDL"]

_Type: TypeAlias = sa.types.TypeEngine[Any]
_Name: TypeAlias = str | FullyQualifiedName


class ColumnDDL(CatalogDiscovery):
    """The part of a connector that makes and changes columns: see `SQLConnector`."""

    allow_column_add: bool = True
    """Whether columns may be added to a table that is there."""

    allow_column_rename: bool = True
    """Whether columns may be renamed."""

    allow_column_alter: bool = False
    """Whether the type of a column may be changed."""

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Open a connection whose statements are committed together, or not at all."""
        with self._connect() as connection, connection.begin():
            connection.execution_options(stream_results=False)  # such cursors only read
            yield connection

    def _overrides(self, *names: str) -> bool:
        """Whether an author has one of these methods of their own."""
        return any(
            name in vars(self) or getattr(type(self), name) is not getattr(ColumnDDL, name)
            for name in names
        )

    def _fitting_type(self, known: Any) -> _Type:
        """Return the column's type; the schemas true and false say nothing of it."""
        schema: JsonSchema = known if isinstance(known, dict) else {}
        return adapt_type(self.to_sql_type(schema), self._dialect)

    def column_exists(self, full_table_name: _Name, column_name: str) -> bool:
        """Tell whether a table has a column."""
        return column_name in self.get_table_columns(full_table_name)

    def prepare_column(self, full_table_name: _Name, column_name: str, sql_type: _Type) -> None:
        """Add a column, or make the one that is there fit."""
        if self.column_exists(full_table_name, column_name):
            self._adapt_column_type(full_table_name, column_name=column_name, sql_type=sql_type)
        else:
            self._create_empty_column(
                full_table_name=full_table_name, column_name=column_name, sql_type=sql_type
            )

    def _create_empty_column(
        self, full_table_name: _Name, column_name: str, sql_type: _Type
    ) -> None:
        """Add a column.

        Raises:
            NotImplementedError: `allow_column_add` is false.
        """
        if not self.allow_column_add:
            raise NotImplementedError("Adding columns is not supported.")
        statement = self.get_column_add_ddl(
            table_name=full_table_name,
            column_name=column_name,
            column_type=adapt_type(sql_type, self._dialect),
        )
        with self._transaction() as connection:
            connection.execute(statement)

    def rename_column(self, full_table_name: _Name, old_name: str, new_name: str) -> None:
        """Rename a column.

        Raises:
            NotImplementedError: `allow_column_rename` is false.
        """
        if not self.allow_column_rename:
            raise NotImplementedError("Renaming columns is not supported.")
        own = self._overrides("get_column_rename_ddl")
        quote = str if own else self._dialect.identifier_preparer.quote
        statement = self.get_column_rename_ddl(
            table_name=full_table_name,
            column_name=quote(old_name),
            new_column_name=quote(new_name),
        )
        with self._transaction() as connection:
            connection.execute(statement)

    def _adapt_column_type(self, full_table_name: _Name, column_name: str, sql_type: _Type) -> None:
        """Make a column hold a further type beside its own.

        Raises:
            NotImplementedError: it must change, and `allow_column_alter` is false.
            ValueError: no type holds both.
        """
        current = self._get_column_type(full_table_name, column_name)
        sql_type = adapt_type(sql_type, self._dialect)
        collation = self.remove_collation(current)
        if self._is_same(current, sql_type):
            return
        wanted = self._type_for_both(current, sql_type)
        if str(wanted) == str(current):
            return
        if collation:
            self.update_collation(wanted, collation)
        if not self.allow_column_alter:
            raise NotImplementedError(
                "Altering columns is not supported. Could not convert column"
                f" '{full_table_name}.{column_name}' from '{current}' to '{wanted}'."
            )
        with self._transaction() as connection:
            connection.execute(self._alter_statement(full_table_name, column_name, wanted))

    def _is_same(self, current: _Type, sql_type: _Type) -> bool:
        """Whether two types have the same name, in general or in this database."""
        if str(current) == str(sql_type):
            return True
        return bool(self._spelled(current) == self._spelled(sql_type))

    def _spelled(self, sql_type: _Type) -> str:
        try:
            return sql_type.compile(dialect=self._dialect)
        except (sa.exc.CompileError, NotImplementedError):  # what was reflected has no name
            return str(sql_type)

    def _type_for_both(self, current: _Type, new: _Type) -> _Type:
        """Return what `merge_sql_types` says, unless values would be lost by it.

        SQLite's columns take any value as it is, so nothing is lost there.
        """
        if self._dialect.name != "sqlite" and (
            loses_precision(current, new) or (self.allow_column_alter and is_wider(current, new))
        ):
            return new
        return self.merge_sql_types([current, new])

    def _alter_statement(self, table_name: _Name, column_name: str, column_type: _Type) -> sa.DDL:
        """Return the author's statement, or what standard and database know."""
        if self._overrides("get_column_alter_ddl"):
            return self.get_column_alter_ddl(
                table_name=table_name, column_name=column_name, column_type=column_type
            )
        quoted = self._dialect.identifier_preparer.quote(column_name)
        if self._dialect.name != "postgresql":
            return self.get_column_alter_ddl(
                table_name=table_name, column_name=quoted, column_type=column_type
            )
        return _ddl(
            "ALTER TABLE %(table_name)s ALTER COLUMN %(column_name)s TYPE %(column_type)s",
            {
                "table_name": table_name,
                "column_name": quoted,
                "column_type": self._spelled(column_type),
            },
        )

    def _get_column_type(self, full_table_name: _Name, column_name: str) -> _Type:
        """Return the type that a column has.

        Raises:
            KeyError: there is no such column.
        """
        column = self.get_table_columns(full_table_name).get(column_name)
        if column is None:
            raise KeyError(f"Column `{column_name}` does not exist in table `{full_table_name}`.")
        return column.type

    # Types that meet

    def merge_sql_types(self, sql_types: Sequence[_Type]) -> _Type:
        """Return the type for values of several; the first is the one that a column has.

        Raises:
            ValueError: there are no types, or none of them will do.
        """
        if not sql_types:
            raise ValueError("Expected at least one member in `sql_types` argument.")
        current = sql_types[0]
        if len(sql_types) == 1:
            return current
        first, second, *others = self._sort_types(sql_types)
        if others:
            return self.merge_sql_types([self.merge_sql_types([first, second]), *others])
        for option in (first, second):
            if _will_do(option, current):
                return option
        raise ValueError(f"Unable to merge sql types: {', '.join(map(str, (first, second)))}")

    def _sort_types(self, sql_types: Iterable[_Type]) -> Sequence[_Type]:
        """Return types from the one that holds most to the one that holds least.

        Text first, then date-times, fractions, whole numbers and the others; longer ones
        before shorter ones.
        """
        return sorted(sql_types, key=type_rank, reverse=True)

    @staticmethod
    def remove_collation(column_type: _Type) -> str | None:
        """Take the collation out of a type and return it, None where there is none."""
        collation: str | None = getattr(column_type, "collation", None) or None
        if collation:
            column_type.collation = None  # type: ignore[attr-defined]
        return collation

    @staticmethod
    def update_collation(column_type: _Type, collation: str | None) -> None:
        """Put a collation into a type that can have one."""
        if collation and hasattr(column_type, "collation"):
            column_type.collation = collation

    # Statements that databases spell differently

    def get_column_add_ddl(self, table_name: _Name, column_name: str, column_type: _Type) -> sa.DDL:
        """Return the statement that adds a column; override it for another syntax."""
        clause = CreateColumn(sa.Column(column_name, column_type)).compile(dialect=self._dialect)
        return _ddl(
            "ALTER TABLE %(table_name)s ADD COLUMN %(create_column_clause)s",
            {"table_name": table_name, "create_column_clause": clause.string},
        )

    @staticmethod
    def get_column_rename_ddl(table_name: _Name, column_name: str, new_column_name: str) -> sa.DDL:
        """Return the statement that renames a column; override it for another syntax."""
        return _ddl(
            "ALTER TABLE %(table_name)s RENAME COLUMN %(column_name)s to %(new_column_name)s",
            {
                "table_name": table_name,
                "column_name": column_name,
                "new_column_name": new_column_name,
            },
        )

    @staticmethod
    def get_column_alter_ddl(table_name: _Name, column_name: str, column_type: _Type) -> sa.DDL:
        """Return the statement that changes a column's type; override it for another syntax.

        PostgreSQL's needs no override.
        """
        return _ddl(
            "ALTER TABLE %(table_name)s ALTER COLUMN %(column_name)s (%(column_type)s)",
            {
                "table_name": table_name,
                "column_name": column_name,
                "column_type": column_type,
            },
        )


def _ddl(statement: str, context: dict[str, object]) -> sa.DDL:
    make: Callable[[str, dict[str, object]], sa.DDL] = sa.DDL
    return make(statement, context)


def _will_do(option: _Type, current: _Type) -> bool:
    """Whether a column of type ``current`` may become an ``option``."""
    if not is_text(option):
        return str(option) == str(current)
    length = getattr(option, "length", None) or 0
    before = getattr(current, "length", None) or 0
    return not length or bool(before and length >= before)
