"""Adding, renaming and altering columns so that a table matches a stream's schema.

The current columns are read before any change, and a column is altered only if necessary.
Each change runs in a separate transaction. A column never receives values that it would
silently round or truncate.
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
    """Base class of `SQLConnector` that adds and alters columns."""

    allow_column_add: bool = True
    """True if columns may be added to an existing table."""

    allow_column_rename: bool = True
    """True if columns may be renamed."""

    allow_column_alter: bool = False
    """True if the type of a column may be changed."""

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Open a connection whose statements are committed together or rolled back."""
        with self._connect() as connection, connection.begin():
            connection.execution_options(stream_results=False)  # server-side cursors can only read
            yield connection

    def _overrides(self, *names: str) -> bool:
        """Return True if an author overrides one of these methods."""
        return any(
            name in vars(self) or getattr(type(self), name) is not getattr(ColumnDDL, name)
            for name in names
        )

    def _fitting_type(self, known: Any) -> _Type:
        """Return the column type of a property; the schemas true and false count as empty."""
        schema: JsonSchema = known if isinstance(known, dict) else {}
        return adapt_type(self.to_sql_type(schema), self._dialect)

    def column_exists(self, full_table_name: _Name, column_name: str) -> bool:
        """Return True if a table has a column."""
        return column_name in self.get_table_columns(full_table_name)

    def prepare_column(self, full_table_name: _Name, column_name: str, sql_type: _Type) -> None:
        """Add a column, or alter the existing one so that it can hold ``sql_type``."""
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
        """Alter a column so that it holds a second type in addition to its current type.

        Raises:
            NotImplementedError: the column must be altered, and `allow_column_alter` is false.
            ValueError: no type can hold both.
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
        """Return True if two types have the same generic name or the same name in this database."""
        if str(current) == str(sql_type):
            return True
        return bool(self._spelled(current) == self._spelled(sql_type))

    def _spelled(self, sql_type: _Type) -> str:
        try:
            return sql_type.compile(dialect=self._dialect)
        except (sa.exc.CompileError, NotImplementedError):  # a reflected type without a name
            return str(sql_type)

    def _type_for_both(self, current: _Type, new: _Type) -> _Type:
        """Return the result of `merge_sql_types`, or ``new`` if the merged type would lose values.

        SQLite columns store any value unchanged, so SQLite is exempt.
        """
        if self._dialect.name != "sqlite" and (
            loses_precision(current, new) or (self.allow_column_alter and is_wider(current, new))
        ):
            return new
        return self.merge_sql_types([current, new])

    def _alter_statement(self, table_name: _Name, column_name: str, column_type: _Type) -> sa.DDL:
        """Return the author's ALTER statement, or PostgreSQL's, or the standard one."""
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
        """Return the type of a column.

        Raises:
            KeyError: the column does not exist.
        """
        column = self.get_table_columns(full_table_name).get(column_name)
        if column is None:
            raise KeyError(f"Column `{column_name}` does not exist in table `{full_table_name}`.")
        return column.type

    # Merging of types

    def merge_sql_types(self, sql_types: Sequence[_Type]) -> _Type:
        """Return a type that holds the values of several types.

        Args:
            sql_types: the types; the first is the current type of the column.

        Raises:
            ValueError: ``sql_types`` is empty, or no type holds all values.
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
        """Return types sorted from the most general to the most specific.

        The order is text, date-times, fractions, integers, others; longer types come first.
        """
        return sorted(sql_types, key=type_rank, reverse=True)

    @staticmethod
    def remove_collation(column_type: _Type) -> str | None:
        """Remove the collation from a type and return it; None if it has no collation."""
        collation: str | None = getattr(column_type, "collation", None) or None
        if collation:
            column_type.collation = None  # type: ignore[attr-defined]
        return collation

    @staticmethod
    def update_collation(column_type: _Type, collation: str | None) -> None:
        """Set the collation of a type that supports one."""
        if collation and hasattr(column_type, "collation"):
            column_type.collation = collation

    # Statements whose syntax depends on the database

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
    """Return True if a column of type ``current`` may become ``option``."""
    if not is_text(option):
        return str(option) == str(current)
    length = getattr(option, "length", None) or 0
    before = getattr(current, "length", None) or 0
    return not length or bool(before and length >= before)
