"""The writing half of a SQL connector: schemas and tables made to fit a stream.

Rules of the room: a table that fits costs one look at its columns. Nothing here reads or
writes rows, but for the removal of old versions.
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
    """The half of a connector that makes and changes: see `SQLConnector`."""

    allow_merge_upsert: bool = False
    """Whether the sink can merge by key; for the author's own use."""

    allow_overwrite: bool = False
    """Whether the load method ``overwrite`` is supported; for the author's own use."""

    allow_temp_tables: bool = True
    """Whether there are temporary tables; for the author's own use."""

    # Schemas

    def schema_exists(self, schema_name: str) -> bool:
        """Tell whether the database has a schema."""
        return schema_name in sa.inspect(self._engine).get_schema_names()

    def create_schema(self, schema_name: str) -> None:
        """Make a schema."""
        with self._transaction() as connection:
            connection.execute(CreateSchema(schema_name))

    def prepare_schema(self, schema_name: str) -> None:
        """Make a schema unless it is there."""
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
        """Make a table with a column for each property.

        Keys that are no properties are left out of its primary key.

        Raises:
            NotImplementedError: a temporary table is asked for: override to make one.
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
        # A column that counts by itself would give rows without a key one of their own.
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
        """Make a table, or make the one that is there fit.

        With the load method ``overwrite`` it is made anew, once per connector.
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
        """Call `prepare_column` for each column; the SDK's own only where one must change."""
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
        """Make the key of a table fit; override to do it."""
        self.logger.debug("Primary key adaptation is not implemented")

    # Rows of other versions

    def delete_old_versions(
        self, *, full_table_name: _Name, version_column_name: str, current_version: int
    ) -> None:
        """Delete the rows whose version is smaller; rows without a version stay."""
        column = self._dialect.identifier_preparer.quote(version_column_name)
        statement = sa.text(f"DELETE FROM {full_table_name} WHERE {column} < :version").bindparams(  # noqa: S608
            sa.bindparam("version", current_version, sa.BigInteger())
        )
        with self._transaction() as connection:
            connection.execute(statement)
