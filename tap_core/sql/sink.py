"""`SQLSink`: writes the records of one stream into one table.

Public members, signatures and overridable methods are those of singer_sdk (version 0.54). A batch
is written in one transaction, and `process_batch` returns after the commit. Property names are
converted to column names once per stream. If a subclass overrides `conform_record`, it is called
for each record instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import sqlalchemy as sa

from tap_core.compat.author_overrides import (
    is_any_overridden,
    overridable_cached_property,
    overridable_property,
)
from tap_core.redaction.row_values import are_rows_shown
from tap_core.sinks.batch import BatchSink
from tap_core.sinks.datetime_parsing import date_fields
from tap_core.sql.connector import SQLConnector
from tap_core.sql.fully_qualified_name import FullyQualifiedName
from tap_core.sql.identifiers import check_name_clashes, conform_name
from tap_core.sql.insert import BulkInsert, RowExtractor, make_extractor, prepare_insert
from tap_core.sql.parameter_binding import make_binder
from tap_core.sql.unstorable_values import (
    UnstorableValueError,
    find_cell,
    find_driver_error,
    make_constraint_error,
    make_unstorable_error,
)
from tap_core.types import JsonSchema, Record

if TYPE_CHECKING:
    from tap_core.plugin_base import PluginBase

__all__ = ["SQLSink"]

_C = TypeVar("_C", bound=SQLConnector)
_Name: TypeAlias = str | FullyQualifiedName

_VERSION = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""Type of the version column; versions are often milliseconds since 1970."""


@dataclass(frozen=True)
class _Plan:
    """Prepared INSERT for one table and schema.

    Attributes:
        table: Full name of the table.
        schema: JSON Schema of the stream.
        insertion: INSERT statement.
        extract: Function that returns a record's values in the order of the columns.
    """

    table: str
    schema: JsonSchema
    insertion: BulkInsert
    extract: RowExtractor


class SQLSink(BatchSink, Generic[_C]):
    """Base class of sinks that insert the records of a stream into a table.

    Subclasses set ``connector_class``. Override `process_batch` to merge rows by their keys.
    """

    connector_class: type[_C]
    """Class of the connector that is created if none is passed."""

    soft_delete_column_name = "_sdc_deleted_at"
    """Column with the time at which a row was marked as deleted."""

    version_column_name = "_sdc_table_version"
    """Column with the table version of a row."""

    def __init__(
        self,
        target: PluginBase,
        stream_name: str,
        schema: JsonSchema,
        key_properties: Sequence[str] | None,
        connector: _C | None = None,
    ) -> None:
        """Create the sink of a stream.

        Args:
            target: Target to which the sink belongs.
            stream_name: Name of the stream.
            schema: JSON Schema of the stream.
            key_properties: Names of the stream's primary key properties.
            connector: Connector to the database; by default the one shared by the target's sinks.
        """
        self._connector: _C = connector or self._get_shared_connector(target)
        self._plan: _Plan | None = None
        super().__init__(target, stream_name, schema, key_properties)

    def _get_shared_connector(self, target: PluginBase) -> _C:
        """Return the target's connector, or a new one if the target is not a `SQLTarget`."""
        get_connector = getattr(target, "_connector_for", None)
        if get_connector is None:
            return self.connector_class(dict(target.config))
        connector: _C = get_connector(self.connector_class)
        return connector

    # The database

    @property
    def connector(self) -> _C:
        """Connector to the database, by default shared by all sinks of the target."""
        return self._connector

    @property
    def connection(self) -> sa.Connection:
        """New connection, which the caller must close (deprecated)."""
        return self.connector.connection

    # Names

    @overridable_cached_property
    def default_target_schema(self) -> str | None:
        """Database schema from the setting ``default_target_schema``, or None."""
        schema_name: str | None = self.config.get("default_target_schema")
        return schema_name

    @overridable_property
    def table_name(self) -> str:
        """Table name: the stream's name after its last dash, so ``users`` for ``app-users``."""
        return self.conform_name(self.stream_name.rpartition("-")[2], "table")

    @overridable_property
    def schema_name(self) -> str | None:
        """Database schema of the table, or None for the default schema.

        This is the setting ``default_target_schema``. If it is not set, the schema is taken from a
        stream name of the form ``schema-table`` or ``db-schema-table``.
        """
        if self.default_target_schema:
            return self.default_target_schema
        parts = self.stream_name.split("-")
        return self.conform_name(parts[-2], "schema") if len(parts) in {2, 3} else None

    @overridable_property
    def database_name(self) -> str | None:
        """Database name, for targets that write to several databases; None by default."""
        return None

    @property
    def full_table_name(self) -> FullyQualifiedName:
        """Full table name with database and schema, quoted as the database requires."""
        return self.connector.get_fully_qualified_name(
            table_name=self.table_name, schema_name=self.schema_name, db_name=self.database_name
        )

    @property
    def full_schema_name(self) -> FullyQualifiedName:
        """Full name of the database schema, such as ``db.public``."""
        return self.connector.get_fully_qualified_name(
            schema_name=self.schema_name, db_name=self.database_name
        )

    @overridable_property
    def key_properties(self) -> Sequence[str]:
        """Column names of the primary key."""
        return [self.conform_name(key, "column") for key in super().key_properties]

    def conform_name(self, name: str, object_type: str | None = None) -> str:  # noqa: ARG002
        """Convert a name to a database identifier: lower-case letters, digits and underscores.

        Override it for other naming rules.

        Args:
            name: Name of a property, or part of a stream's name.
            object_type: ``database``, ``schema``, ``table`` or ``column``; None if the name is a
                property in a JSON Schema.
        """
        return conform_name(name)

    @staticmethod
    def _check_conformed_names_not_duplicated(conformed_property_names: dict[str, str]) -> None:
        check_name_clashes(conformed_property_names)

    def _conform_names(self, names: Iterable[str]) -> dict[str, str]:
        """Return a dict from each name to its database identifier.

        Raises:
            ConformedNameClashException: Two names have the same identifier.
        """
        conformed = {name: self.conform_name(name) for name in names}
        self._check_conformed_names_not_duplicated(conformed)
        return conformed

    def conform_schema(self, schema: JsonSchema) -> JsonSchema:
        """Return a schema whose properties are renamed to column names.

        Raises:
            ConformedNameClashException: Two properties have the same column name.
        """
        properties = schema["properties"]
        renamed = {new: properties[name] for name, new in self._conform_names(properties).items()}
        return {**schema, "properties": renamed}

    def conform_record(self, record: Record) -> Record:
        """Return a record whose properties are renamed to column names.

        Raises:
            ConformedNameClashException: Two properties have the same column name.
        """
        return {new: record[name] for name, new in self._conform_names(record).items()}

    # Writing

    def setup(self) -> None:
        """Create the database schema and the table; alter an existing table to fit the stream."""
        if self.schema_name:
            self.connector.prepare_schema(self.schema_name)
        self.connector.prepare_table(
            full_table_name=self.full_table_name,
            schema=self.conform_schema(self.schema),
            primary_keys=self.key_properties,
            as_temp_table=False,
        )

    def process_batch(self, context: dict[str, Any]) -> None:
        """Insert the records of a batch; override to load them differently, or to merge them.

        Args:
            context: Context of the batch, with the records under the key ``records``.
        """
        self.bulk_insert_records(
            full_table_name=self.full_table_name,
            schema=self.schema,
            records=context["records"],
        )

    def generate_insert_statement(
        self, full_table_name: _Name, schema: JsonSchema
    ) -> str | sa.Executable:
        """Return the INSERT statement. Its parameters have the names of the columns.

        Override it to return another statement, such as one that updates existing rows. Returning
        text is deprecated.

        Args:
            full_table_name: Name of the table.
            schema: JSON Schema of the stream.
        """
        properties = self.conform_schema(schema)["properties"]
        types = self._column_types(full_table_name, properties)
        dialect, dump = self.connector._dialect, self.connector.serialize_json  # noqa: SLF001
        columns: list[sa.Column[Any]] = [
            sa.Column(name, make_binder(definition, types[name], dialect, dump))
            for name, definition in properties.items()
        ]
        _, schema_name, table_name = self.connector.parse_full_table_name(full_table_name)
        return sa.insert(sa.Table(table_name, sa.MetaData(), *columns, schema=schema_name))

    def _column_types(
        self, full_table_name: _Name, properties: JsonSchema
    ) -> dict[str, sa.types.TypeEngine[Any]]:
        """Return the SQLAlchemy type of each column, by column name.

        The types of datetime columns are read from the table if it exists, except for SQLite.
        """
        types = {
            name: self.connector.to_sql_type(definition) for name, definition in properties.items()
        }
        instants = [field.name for field in date_fields({"properties": properties})]
        if instants and self.connector._dialect.name != "sqlite":  # noqa: SLF001
            try:
                columns = self.connector.get_table_columns(full_table_name, instants)
            except sa.exc.NoSuchTableError:
                return types
            types |= {name: column.type for name, column in columns.items() if name in types}
        return types

    def bulk_insert_records(
        self, full_table_name: _Name, schema: JsonSchema, records: Iterable[Record]
    ) -> int | None:
        """Insert records into a table in one transaction.

        A missing property becomes null. Properties that are not in the schema are dropped.

        Args:
            full_table_name: Name of the table.
            schema: JSON Schema of the stream.
            records: Records to insert.

        Returns:
            The number of inserted rows that the driver reports. An override may return None.

        Raises:
            UnstorableValueError: The database cannot store a value; no row is inserted.
            ConstraintViolationError: A record violates a constraint; no row is inserted.
        """
        plan = self._get_plan(full_table_name, schema)
        records = [*records]
        rows = [*map(plan.extract, records)]
        self.logger.info("Inserting with SQL: %s", plan.insertion.statement)
        if not rows:
            return 0
        try:
            with self.connector._transaction() as connection:  # noqa: SLF001
                return plan.insertion.run(connection, rows)
        except sa.exc.IntegrityError as error:
            raise make_constraint_error(
                stream=self.stream_name,
                table=str(full_table_name),
                dialect=self.connector._dialect.name,  # noqa: SLF001
                reason=error.orig or error,
            ) from error
        except Exception as error:
            reason = find_driver_error(error)
            if reason is None:
                raise
            unstorable_error = self._find_unstorable_value(reason, plan, records)
            raise unstorable_error from (error if are_rows_shown() else None)

    def _find_unstorable_value(
        self, reason: BaseException, plan: _Plan, records: list[Record]
    ) -> UnstorableValueError:
        """Return the error for a batch that the database rejects because of a value.

        The message shows this value if it is found. To find it, rows are inserted again in a
        transaction; errors of this search are ignored. ``reason`` is the driver's error.
        """
        cell = None
        with (
            suppress(Exception),  # the first error is the one to report
            self.connector._transaction() as connection,  # noqa: SLF001
        ):
            cell = find_cell(connection, plan.insertion, [*map(plan.extract, records)])
        return make_unstorable_error(self.stream_name, self.connector._dialect.name, reason, cell)  # noqa: SLF001

    def _get_plan(self, full_table_name: _Name, schema: JsonSchema) -> _Plan:
        """Return the prepared INSERT for a table and a schema. The last result is cached."""
        table, plan = str(full_table_name), self._plan
        if plan is None or plan.table != table or plan.schema is not schema:
            plan = self._plan = self._make_plan(full_table_name, schema)
        return plan

    def _make_plan(self, full_table_name: _Name, schema: JsonSchema) -> _Plan:
        """Prepare an INSERT statement, and a function that extracts the values from a record."""
        statement = self.generate_insert_statement(full_table_name, schema)
        if isinstance(statement, str):
            warnings.warn(
                "Generating a SQL insert statement as a string is deprecated. "
                "Please return an SQLAlchemy Executable object instead.",
                DeprecationWarning,
                stacklevel=2,
            )
            statement = sa.text(statement)
        columns = tuple(self.conform_schema(schema)["properties"])
        if is_any_overridden(self, SQLSink, "generate_insert_statement"):
            insertion = BulkInsert(statement, columns, driver_insert=None)
        else:
            insertion = prepare_insert(statement, columns, self.connector._dialect)  # noqa: SLF001
        return _Plan(str(full_table_name), schema, insertion, self._make_extractor(schema, columns))

    def _make_extractor(self, schema: JsonSchema, columns: tuple[str, ...]) -> RowExtractor:
        conform = self.conform_record
        if is_any_overridden(self, SQLSink, "conform_record", "conform_schema"):
            return lambda record: [*map(conform(record).get, columns)]
        return make_extractor(tuple(schema["properties"]), columns, conform)

    def merge_upsert_from_table(
        self, target_table_name: str, from_table_name: str, join_keys: list[str]
    ) -> int | None:
        """Merge the rows of one table into another by key columns; not implemented by default.

        The SDK never calls this method. A sink may implement it and call it in `process_batch`.

        Args:
            target_table_name: Name of the table to change.
            from_table_name: Name of the table with the new rows.
            join_keys: Columns that identify a row.

        Returns:
            The number of changed rows, or None if it is not known.

        Raises:
            NotImplementedError: The method is not overridden.
        """
        raise NotImplementedError

    # Versions

    def activate_version(self, new_version: int) -> None:
        """Delete the rows of older table versions, or mark them as deleted (see ``hard_delete``).

        Rows are marked by a time in the column ``_sdc_deleted_at``. If the stream has no version
        column, nothing changes, because old and new rows cannot be distinguished.

        Args:
            new_version: Table version of the current rows.
        """
        if not self.connector.table_exists(self.full_table_name):
            return
        self._require_column(self.version_column_name, _VERSION)
        hard = self.config.get("hard_delete", False)
        if not hard:
            self._require_column(self.soft_delete_column_name, sa.DateTime())
        if self.version_column_name not in self.conform_schema(self.schema)["properties"]:
            return
        if hard:
            self.connector.delete_old_versions(
                full_table_name=self.full_table_name,
                version_column_name=self.version_column_name,
                current_version=new_version,
            )
        else:
            self._mark_old_versions(new_version)

    def _require_column(self, name: str, sql_type: sa.types.TypeEngine[Any]) -> None:
        """Add the column ``name`` to the table, unless the table already has it."""
        table = self.full_table_name
        if not self.connector.column_exists(full_table_name=table, column_name=name):
            self.connector.prepare_column(table, name, sql_type=sql_type)

    def _mark_old_versions(self, new_version: int) -> None:
        """Set the deletion time in rows of versions older than ``new_version``.

        Rows that are already marked as deleted keep their time.
        """
        connector, table = self.connector, self.full_table_name
        quote = connector._dialect.identifier_preparer.quote  # noqa: SLF001
        version, deleted = quote(self.version_column_name), quote(self.soft_delete_column_name)
        deleted_type = connector._get_column_type(table, self.soft_delete_column_name)  # noqa: SLF001
        zoned = isinstance(deleted_type, sa.DateTime) and deleted_type.timezone
        now = datetime.now(timezone.utc)
        statement = sa.text(
            f"UPDATE {table} SET {deleted} = :now"  # noqa: S608 - only quoted names
            f" WHERE {version} < :version AND {deleted} IS NULL"
        ).bindparams(
            sa.bindparam(
                "now", now if zoned else now.replace(tzinfo=None), sa.DateTime(timezone=zoned)
            ),
            sa.bindparam("version", new_version, sa.BigInteger()),
        )
        with connector._transaction() as connection:  # noqa: SLF001
            connection.execute(statement)
