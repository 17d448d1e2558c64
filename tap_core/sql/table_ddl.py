"""Creation of schemas and tables that match a stream.

For a table that already matches, only its columns are read. The module does not read or
write rows, except that it deletes old versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy.schema import CreateSchema

from tap_core.capabilities import TargetLoadMethods
from tap_core.sql.column_ddl import ColumnDDL
from tap_core.sql.fully_qualified_name import FullyQualifiedName
from tap_core.types import JsonSchema

__all__ = ["TableDDL"]

_Name: TypeAlias = str | FullyQualifiedName


class TableDDL(ColumnDDL):
    """Base class of `SQLConnector` that creates and adapts schemas and tables."""

    allow_merge_upsert: bool = False
    """True if the sink can merge by key; not used by the SDK."""

    allow_overwrite: bool = False
    """True if the load method ``overwrite`` is supported; not used by the SDK."""

    allow_temp_tables: bool = True
    """True if the database supports temporary tables; not used by the SDK."""

    # Schemas

    def schema_exists(self, schema_name: str) -> bool:
        """Return True if the database has a schema."""
        return schema_name in sa.inspect(self._engine).get_schema_names()

    def create_schema(self, schema_name: str) -> None:
        """Create a schema."""
        with self._transaction() as connection:
            connection.execute(CreateSchema(schema_name))

    def prepare_schema(self, schema_name: str) -> None:
        """Create a schema unless it exists."""
        if not self.schema_exists(schema_name):
            self.create_schema(schema_name)

    # Tables

    def create_empty_table(
        self,
        full_table_name: _Name,
        schema: JsonSchema,
        primary_keys: Sequence[str] | None = None,
        partition_keys: list[str] | None = None,  # noqa: ARG002 - for overrides
        as_temp_table: bool = False,
    ) -> None:
        """Create a table with a column for each property.

        Keys that are not properties are omitted from the primary key.

        Raises:
            NotImplementedError: ``as_temp_table`` is true; override to support temporary tables.
            RuntimeError: the schema has no ``properties``.
        """
        if as_temp_table:
            raise NotImplementedError("Temporary tables are not supported.")
        if "properties" not in schema:
            raise RuntimeError(
                f"Schema for '{full_table_name}' does not define properties: {schema}"
            )
        properties = schema["properties"]
        _, schema_name, table_name = self.parse_full_table_name(full_table_name)
        # An autoincrement column would generate keys for rows without a key.
        columns = [
            sa.Column(name, self._fitting_type(known), autoincrement=False)
            for name, known in properties.items()
        ]
        keys = [key for key in primary_keys or () if key in properties]
        constraints = [sa.PrimaryKeyConstraint(*keys)] if keys else []
        metadata = sa.MetaData(schema=schema_name)
        sa.Table(table_name, metadata, *columns, *constraints)
        metadata.create_all(self._engine)

    def prepare_table(
        self,
        full_table_name: _Name,
        schema: JsonSchema,
        primary_keys: Sequence[str],
        partition_keys: list[str] | None = None,
        as_temp_table: bool = False,
    ) -> None:
        """Create a table, or adapt the existing one.

        With the load method ``overwrite`` the table is dropped and recreated once per connector.
        """
        name = str(full_table_name)
        overwrites = self.config.get("load_method") == TargetLoadMethods.OVERWRITE
        starts_anew = overwrites and not self._tables_prepared.get(name, False)
        if starts_anew or not self.table_exists(full_table_name=full_table_name):
            self._drop_table(full_table_name)
            self.logger.info("Creating empty table %s", full_table_name)
            self.create_empty_table(
                full_table_name=full_table_name,
                schema=schema,
                primary_keys=primary_keys,
                partition_keys=partition_keys,
                as_temp_table=as_temp_table,
            )
        else:
            self._prepare_columns(full_table_name, schema["properties"])
            self.prepare_primary_key(full_table_name=full_table_name, primary_keys=primary_keys)
        self._tables_prepared[name] = True

    def _drop_table(self, full_table_name: _Name) -> None:
        _, schema_name, table_name = self.parse_full_table_name(full_table_name)
        table = sa.Table(table_name, sa.MetaData(), schema=schema_name)
        table.drop(self._engine, checkfirst=True)

    def _prepare_columns(self, full_table_name: _Name, properties: JsonSchema) -> None:
        """Call `prepare_column` for each column that must change.

        If an author overrides `prepare_column`, it is called for every column.
        """
        asks_always = self._overrides("prepare_column", "_adapt_column_type", "column_exists")
        there = {} if asks_always else self.get_table_columns(full_table_name)
        for name, known in properties.items():
            sql_type = self._fitting_type(known)
            if name in there and self._is_same(there[name].type, sql_type):
                continue
            self.prepare_column(full_table_name, name, sql_type)

    def prepare_primary_key(
        self,
        *,
        full_table_name: _Name,  # noqa: ARG002 - a hook
        primary_keys: Sequence[str],  # noqa: ARG002
    ) -> None:
        """Adapt the primary key of a table; does nothing unless overridden."""
        self.logger.debug("Primary key adaptation is not implemented")

    # Rows of old versions

    def delete_old_versions(
        self, *, full_table_name: _Name, version_column_name: str, current_version: int
    ) -> None:
        """Delete rows with a smaller version; rows without a version are kept."""
        column = self._dialect.identifier_preparer.quote(version_column_name)
        statement = sa.text(f"DELETE FROM {full_table_name} WHERE {column} < :version").bindparams(  # noqa: S608
            sa.bindparam("version", current_version, sa.BigInteger())
        )
        with self._transaction() as connection:
            connection.execute(statement)
