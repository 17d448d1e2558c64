"""Fully qualified table names, joined and quoted for a database."""

from __future__ import annotations

from collections import UserString
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect

__all__ = ["FullyQualifiedName", "split_name"]


class FullyQualifiedName(UserString):
    """Full name of a table with database and schema, such as ``db.public.users``.

    Override `prepare_part` to quote or format a part differently.

    Args:
        table: Name of the table.
        schema: Name of the database schema.
        database: Name of the database.
        delimiter: Text between the parts.
        dialect: SQLAlchemy dialect that decides if a part needs quotes; None for no quotes.

    Raises:
        ValueError: All parts are empty.
    """

    def __init__(
        self,
        *,
        table: str = "",
        schema: str | None = None,
        database: str | None = None,
        delimiter: str = ".",
        dialect: Dialect | None = None,
    ) -> None:
        """Join the non-empty names to a full name, in the order database, schema, table."""
        self.table = table
        self.schema = schema
        self.database = database
        self.delimiter = delimiter
        self.dialect = dialect
        parts = [self.prepare_part(part) for part in (database, schema, table) if part]
        if not parts:
            raise ValueError(
                "Could not generate fully qualified name: "
                f"{database or '(unknown-db)'}:{schema or '(unknown-schema)'}:"
                f"{table or '(unknown-table-name)'}"
            )
        super().__init__(delimiter.join(parts))

    def prepare_part(self, part: str) -> str:
        """Return a part of a full name, such as the schema, quoted if the dialect requires it."""
        return self.dialect.identifier_preparer.quote(part) if self.dialect else part


def split_name(full_table_name: str | FullyQualifiedName) -> tuple[str | None, str | None, str]:
    """Split a table name into (database, schema, table), with None for a missing part.

    Text is split at dots: ``table``, ``schema.table`` or ``database.schema.table``.

    Raises:
        ValueError: The text has more than three parts.
    """
    if isinstance(full_table_name, FullyQualifiedName):
        return full_table_name.database, full_table_name.schema, full_table_name.table
    parts = full_table_name.split(".")
    if len(parts) > 3:  # noqa: PLR2004 - database, schema and table
        raise ValueError(
            f"The table name {full_table_name!r} has more than three parts: pass a"
            " FullyQualifiedName, which may hold dots."
        )
    table = parts.pop()
    schema = parts.pop() if parts else None
    return (parts.pop() if parts else None), schema, table
