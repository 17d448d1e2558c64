"""`SQLConnector`: database access of a SQL tap or target.

- A connector has one SQLAlchemy engine, which `create_engine` creates on first use.
- Error messages contain no passwords: see `tap_core.sql.database_errors`.
- One query reads the metadata of all tables in a database schema. If it fails because one table
  cannot be read, each table is read separately, and unreadable tables are logged and skipped.
- Methods that a subclass overrides are called for every table or column, with singer_sdk's
  arguments.
- If a table already matches its stream, only its columns are read. A change of a column's type
  never loses values.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

try:
    import sqlalchemy as sa
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "SQL taps and targets need SQLAlchemy: pip install 'tap-core-sdk[sql]'", name=error.name
    ) from None
from sqlalchemy import exc
from sqlalchemy.engine.reflection import ObjectKind
from sqlalchemy.schema import CreateColumn, CreateSchema
from sqlalchemy.types import TypeEngine

from tap_core import typing as th
from tap_core.capabilities import TargetLoadMethods
from tap_core.compat.author_overrides import is_any_overridden
from tap_core.exceptions import ConfigValidationError, SingerSDKPendingDeprecationWarning
from tap_core.singerlib.catalog import CatalogEntry, MetadataMapping, Schema
from tap_core.singerlib.json import dump_json, load_json
from tap_core.sql.database_errors import (
    DatabaseUnreachableError,
    install_error_translation,
    parse_url,
    translate_url_errors,
)
from tap_core.sql.fully_qualified_name import FullyQualifiedName as FullyQualifiedName
from tap_core.sql.fully_qualified_name import split_name
from tap_core.sql.type_widening import adapt_type, is_text, is_wider, loses_precision, type_rank
from tap_core.sql.types import JSONSchemaToSQL as JSONSchemaToSQL
from tap_core.sql.types import JSONtoSQLHandler as JSONtoSQLHandler
from tap_core.sql.types import SQLToJSONSchema as SQLToJSONSchema
from tap_core.types import JsonSchema

if sys.version_info >= (3, 13):
    from warnings import deprecated
else:
    from typing_extensions import deprecated

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import (
        Dialect,
        ReflectedColumn,
        ReflectedIndex,
        ReflectedPrimaryKeyConstraint,
    )

__all__ = [
    "FullyQualifiedName",
    "JSONSchemaToSQL",
    "JSONtoSQLHandler",
    "SQLConnector",
    "SQLToJSONSchema",
]

_T = TypeVar("_T")
_TableKey: TypeAlias = tuple[str | None, str]
"""Key of a table: the names of the database schema (None for the default schema) and the table."""
_Type: TypeAlias = sa.types.TypeEngine[Any]
_Name: TypeAlias = str | FullyQualifiedName


class SQLConnector:
    """Connector to a database, which opens connections, discovers tables and alters columns.

    Override `get_sqlalchemy_url` to build the URL from other settings, `create_engine` to connect
    differently, and ``sql_to_jsonschema_converter`` or ``jsonschema_to_sql_converter`` to convert
    types differently.
    """

    max_varchar_length: int | None = None
    """Maximum declared length of text columns, in characters; None for no limit."""

    sql_to_jsonschema_converter: type[SQLToJSONSchema] = SQLToJSONSchema
    """Converter class from column types to JSON Schema; replace it by a subclass."""

    jsonschema_to_sql_converter: type[JSONSchemaToSQL] = JSONSchemaToSQL
    """Converter class from JSON Schema to column types; replace it by a subclass."""

    _cached_engine: sa.Engine | None = None

    allow_column_add: bool = True
    """True if columns may be added to an existing table."""

    allow_column_rename: bool = True
    """True if columns may be renamed."""

    allow_column_alter: bool = False
    """True if the type of a column may be changed."""

    allow_merge_upsert: bool = False
    """True if the sink can merge by key; not used by the SDK."""

    allow_overwrite: bool = False
    """True if the load method ``overwrite`` is supported; not used by the SDK."""

    allow_temp_tables: bool = True
    """True if the database supports temporary tables; not used by the SDK."""

    def __init__(
        self, config: dict[str, Any] | None = None, sqlalchemy_url: str | None = None
    ) -> None:
        """Create a connector without opening a connection.

        Args:
            config: Settings of the tap or target.
            sqlalchemy_url: Database URL; by default the result of `get_sqlalchemy_url`.
        """
        self._config: dict[str, Any] = config or {}
        self._sqlalchemy_url: str | None = sqlalchemy_url or None
        self._tables_prepared: dict[str, bool] = {}
        self._warned_of_views = False

    @property
    def config(self) -> dict[str, Any]:
        """Settings of the tap or target, as a dict."""
        return self._config

    @property
    def logger(self) -> logging.Logger:
        """Logger named ``sqlconnector``."""
        return logging.getLogger("sqlconnector")

    # The database

    @property
    def sqlalchemy_url(self) -> str:
        """Database URL, which includes the password and so must not be logged."""
        if not self._sqlalchemy_url:
            self._sqlalchemy_url = self.get_sqlalchemy_url(self.config)
        return self._sqlalchemy_url

    def get_sqlalchemy_url(self, config: dict[str, Any]) -> str:
        """Return the setting ``sqlalchemy_url``; override to build the URL from other settings.

        Raises:
            ConfigValidationError: The setting ``sqlalchemy_url`` is missing.
        """
        if "sqlalchemy_url" not in config:
            raise ConfigValidationError("Could not find or create 'sqlalchemy_url' for connection.")
        url: str = config["sqlalchemy_url"]
        return url

    def create_engine(self) -> sa.Engine:
        """Return a new SQLAlchemy engine; override to change the engine's options."""
        url = parse_url(self.sqlalchemy_url)
        options: dict[str, Any] = {"echo": False, "pool_pre_ping": True}
        if issubclass(cast("Any", url.get_dialect()).get_pool_class(url), sa.QueuePool):
            options["max_overflow"] = -1  # each thread that reads or writes has a connection
        try:
            return sa.create_engine(
                url,
                **options,
                json_serializer=self.serialize_json,
                json_deserializer=self.deserialize_json,
            )
        except TypeError:  # dialects without JSON refuse its arguments
            return sa.create_engine(url, **options)

    def close(self) -> None:
        """Close the idle connections. A later query opens new ones."""
        if isinstance(self._cached_engine, sa.Engine):
            self._cached_engine.dispose()

    @property
    def _engine(self) -> sa.Engine:
        """SQLAlchemy engine of the connector, created on first use."""
        if self._cached_engine is None:
            with translate_url_errors():
                self._cached_engine = install_error_translation(self.create_engine())
        return self._cached_engine

    @property
    def _dialect(self) -> Dialect:
        return self._engine.dialect

    @contextmanager
    def _connect(self) -> Iterator[sa.Connection]:
        """Context manager for a connection that streams query results if the driver supports it."""
        with self._engine.connect().execution_options(stream_results=True) as connection:
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Context manager for a connection with a transaction.

        The transaction is committed at the end of the block, or rolled back after an error.
        """
        with self._connect() as connection, connection.begin():
            connection.execution_options(stream_results=False)  # server-side cursors can only read
            yield connection

    def serialize_json(self, obj: object) -> str:
        """Return a value as JSON text, for a JSON column; override for another encoding."""
        return dump_json(obj)

    def deserialize_json(self, json_str: str) -> object:
        """Parse the text of a JSON column; override for another decoding."""
        return load_json(json_str)

    # Names

    def get_fully_qualified_name(
        self,
        table_name: str = "",
        schema_name: str | None = None,
        db_name: str | None = None,
        delimiter: str = ".",
    ) -> FullyQualifiedName:
        """Return the fully qualified name of a table, with quotes where the database needs them.

        Raises:
            ValueError: The names of the table, schema and database are all empty.
        """
        return FullyQualifiedName(
            table=table_name,
            schema=schema_name,
            database=db_name,
            delimiter=delimiter,
            dialect=self._dialect,
        )

    @deprecated(
        "This method is deprecated. Use or override `FullyQualifiedName` instead.",
        category=SingerSDKPendingDeprecationWarning,
    )
    def quote(self, name: str) -> str:
        """Return a dotted name with quotes around the parts that need them in this database."""
        return ".".join(map(self._dialect.identifier_preparer.quote, name.split(".")))

    # Types

    @cached_property
    def sql_to_jsonschema(self) -> SQLToJSONSchema:
        """Converter from column types to JSON Schema, created from the settings at first access."""
        return self.sql_to_jsonschema_converter.from_config(self.config)

    @cached_property
    def jsonschema_to_sql(self) -> JSONSchemaToSQL:
        """Converter from JSON Schema to column types, created from the settings at first access."""
        return self.jsonschema_to_sql_converter.from_config(
            self.config, max_varchar_length=self.max_varchar_length
        )

    def to_jsonschema_type(
        self, sql_type: str | TypeEngine[Any] | type[TypeEngine[Any]] | Any
    ) -> JsonSchema:
        """Return the JSON Schema for values of a column type; override to support further types.

        Passing the name or the class of a type, instead of an instance, is deprecated.

        Raises:
            ValueError: ``sql_type`` is not a SQL type.
        """
        if isinstance(sql_type, TypeEngine):
            schema: JsonSchema = self.sql_to_jsonschema.to_jsonschema(sql_type)
            return schema
        is_class = isinstance(sql_type, type)
        if not isinstance(sql_type, str) and not (is_class and issubclass(sql_type, TypeEngine)):
            name = sql_type.__name__ if is_class else type(sql_type).__name__
            raise ValueError(f"Unexpected type received: '{name}'")
        subject = "type classes" if is_class else "string types"
        warnings.warn(
            f"Passing {subject} to `to_jsonschema_type` is deprecated. Please pass a SQLAlchemy"
            " type object instead.",
            SingerSDKPendingDeprecationWarning,
            stacklevel=2,
        )
        return th.to_jsonschema_type(sql_type)

    def to_sql_type(self, jsonschema_type: JsonSchema) -> TypeEngine[Any]:
        """Return the column type for a property's JSON Schema; override to support more types."""
        return self.jsonschema_to_sql.to_sql_type(jsonschema_type)

    def _get_type_for_schema(self, definition: Any) -> _Type:
        """Return the column type for a property's schema, or a similar type that the database has.

        The schemas True and False are treated as ``{}``.
        """
        schema: JsonSchema = definition if isinstance(definition, dict) else {}
        return adapt_type(self.to_sql_type(schema), self._dialect)

    # Deprecated members

    @deprecated(
        "`SQLConnector.create_sqlalchemy_connection` is deprecated: make a child class of the"
        " connector and add the method that you need there.",
        category=SingerSDKPendingDeprecationWarning,
    )
    def create_sqlalchemy_connection(self) -> sa.Connection:
        """Return a new connection, which the caller must close (deprecated)."""
        return self._engine.connect().execution_options(stream_results=True)

    @deprecated(
        "`SQLConnector.create_sqlalchemy_engine` is deprecated. Override `_engine` or"
        " `sqlalchemy_url` instead.",
        category=SingerSDKPendingDeprecationWarning,
    )
    def create_sqlalchemy_engine(self) -> sa.Engine:
        """Return the SQLAlchemy engine of the connector (deprecated)."""
        return self._engine

    @property
    def connection(self) -> sa.Connection:
        """New connection, which the caller must close (deprecated)."""
        warnings.warn(
            "`SQLConnector.connection` is deprecated: make a child class of the connector and"
            " add the method that you need there.",
            SingerSDKPendingDeprecationWarning,
            stacklevel=2,
        )
        return self.create_sqlalchemy_connection()

    # Discovery

    def get_schema_names(self, engine: sa.Engine, inspected: sa.Inspector) -> list[str]:  # noqa: ARG002
        """Return the names of the database schemas to discover; override to restrict them."""
        return inspected.get_schema_names()

    @deprecated("This method is deprecated.", category=SingerSDKPendingDeprecationWarning)
    def get_object_names(
        self,
        engine: sa.Engine,  # noqa: ARG002
        inspected: sa.Inspector,
        schema_name: str,
    ) -> list[tuple[str, bool]]:
        """Return a (name, is_view) pair for each table and view of a database schema.

        Override it to restrict discovery to some tables and views.
        """
        tables = [(name, False) for name in inspected.get_table_names(schema=schema_name)]
        return tables + [(name, True) for name in self._get_view_names(inspected, schema_name)]

    def discover_catalog_entry(
        self,
        engine: sa.Engine,  # noqa: ARG002
        inspected: sa.Inspector,  # noqa: ARG002
        schema_name: str | None,
        table_name: str,
        is_view: bool,
        *,
        reflected_columns: list[ReflectedColumn] | None = None,
        reflected_pk: ReflectedPrimaryKeyConstraint | None = None,
        reflected_indices: list[ReflectedIndex] | None = None,
    ) -> CatalogEntry:
        """Return the catalog entry of one table or view.

        Columns and keys are passed as SQLAlchemy has reflected them. The key properties of the
        entry are the columns in ``reflected_pk``, an empty list for a table without a primary key.
        Without ``reflected_pk``, the key properties are the columns of the first unique index.
        The replication method is empty, because the user chooses it.
        """
        stream = f"{schema_name}-{table_name}" if schema_name else table_name
        keys = _find_keys(reflected_pk, reflected_indices or [])
        schema = self._build_schema(reflected_columns or [], keys)
        return CatalogEntry(
            tap_stream_id=stream,
            stream=stream,
            table=table_name,
            key_properties=keys,
            schema=Schema.from_dict(schema),
            is_view=is_view,
            replication_method="",
            metadata=MetadataMapping.get_standard_metadata(
                schema_name=schema_name,
                schema=schema,
                replication_method="",
                key_properties=keys,
            ),
        )

    def discover_catalog_entries(
        self, *, exclude_schemas: Sequence[str] = (), reflect_indices: bool = True
    ) -> list[dict[str, Any]]:
        """Return the catalog entries of all tables and views, as dicts.

        Args:
            exclude_schemas: Names of database schemas to skip.
            reflect_indices: True to query unique indexes too, for `discover_catalog_entry`.

        Raises:
            DatabaseUnreachableError: The database cannot be reached.
        """
        engine = self._engine
        inspected = sa.inspect(engine)
        schemas = [
            name for name in self.get_schema_names(engine, inspected) if name not in exclude_schemas
        ]
        entries = [
            entry.to_dict()
            for schema in schemas
            for entry in self._discover_entries(engine, inspected, schema, reflect_indices)
        ]
        if not entries:
            self.logger.warning(
                "Discovery found no tables and no views: %s. Check the name of the database, and"
                " the privileges of its user.",
                f"looked in {', '.join(map(repr, schemas))}" if schemas else "there is no schema",
            )
        return entries

    def _discover_entries(
        self, engine: sa.Engine, inspected: sa.Inspector, schema: str, reflect_indices: bool
    ) -> Iterator[CatalogEntry]:
        """Yield the catalog entries of all tables, then of all views, in one database schema."""
        reflection = _SchemaReflection(self, inspected, schema)
        primary_keys = reflection.inspect_all(
            inspected.get_multi_pk_constraint, inspected.get_pk_constraint
        )
        indices: Mapping[_TableKey, list[ReflectedIndex]] = (
            reflection.inspect_all(inspected.get_multi_indexes, inspected.get_indexes)
            if reflect_indices
            else {}
        )
        listed = self._get_listed_objects(engine, inspected, schema)
        for kind, is_view in ((ObjectKind.TABLE, False), (ObjectKind.ANY_VIEW, True)):
            columns = reflection.inspect_all(
                inspected.get_multi_columns, inspected.get_columns, kind
            )
            for (schema_name, table), reflected in columns.items():
                if listed is None or (table, is_view) in listed:
                    yield self.discover_catalog_entry(
                        engine,
                        inspected,
                        schema_name,
                        table,
                        is_view,
                        reflected_columns=reflected,
                        reflected_pk=primary_keys.get((schema_name, table)),
                        reflected_indices=indices.get((schema_name, table), []),
                    )

    def _get_listed_objects(
        self, engine: sa.Engine, inspected: sa.Inspector, schema: str
    ) -> Collection[tuple[str, bool]] | None:
        """Return the tables and views to discover, as (name, is_view) pairs.

        The pairs are the result of `get_object_names` if a subclass overrides that method. Return
        None otherwise, to discover all tables and views.
        """
        if not is_any_overridden(self, SQLConnector, "get_object_names"):
            return None
        return set(self.get_object_names(engine, inspected, schema))

    def _build_schema(
        self, columns: Sequence[ReflectedColumn], keys: Collection[str]
    ) -> JsonSchema:
        """Return the JSON Schema of a table's rows; the columns in ``keys`` are required."""
        return th.PropertiesList(
            *(
                th.Property(
                    column["name"],
                    th.CustomType(self.to_jsonschema_type(column["type"])),
                    nullable=column.get("nullable", False),
                    required=column["name"] in keys,
                    description=column.get("comment"),
                )
                for column in columns
            )
        ).to_dict()

    def _get_view_names(self, inspected: sa.Inspector, schema: str) -> list[str]:
        """Return the names of the views in a database schema.

        If the dialect cannot list views, log a warning and return an empty list.
        """
        try:
            return inspected.get_view_names(schema=schema)
        except NotImplementedError:
            self._warn_no_view_detection()
            return []

    def _warn_no_view_detection(self) -> None:
        """Log a warning, once per connector, that the dialect cannot list views."""
        if not self._warned_of_views:
            self._warned_of_views = True
            self.logger.warning(
                "Provider does not support get_view_names(). Streams list may be incomplete or"
                " `is_view` may be unpopulated."
            )

    # Existing tables

    def parse_full_table_name(
        self, full_table_name: str | FullyQualifiedName
    ) -> tuple[str | None, str | None, str]:
        """Split a table's full name into (database, schema, table), with None for a missing part.

        Override it for databases whose names have other parts.
        """
        return split_name(full_table_name)

    def table_exists(self, full_table_name: str | FullyQualifiedName) -> bool:
        """Return True if the database has a table with the name ``full_table_name``."""
        _, schema, table = self.parse_full_table_name(full_table_name)
        return sa.inspect(self._engine).has_table(table, schema)

    def get_table_columns(
        self,
        full_table_name: str | FullyQualifiedName,
        column_names: list[str] | None = None,
    ) -> dict[str, sa.Column[Any]]:
        """Return the columns of a table by name, in the order of the table.

        If ``column_names`` is passed, return only these columns. The names are compared without
        regard to upper and lower case.
        """
        _, schema, table = self.parse_full_table_name(full_table_name)
        requested = {name.casefold() for name in column_names or ()}
        return {
            column["name"]: sa.Column(
                column["name"], column["type"], nullable=column.get("nullable", False)
            )
            for column in sa.inspect(self._engine).get_columns(table, schema)
            if not requested or column["name"].casefold() in requested
        }

    def get_table(
        self,
        full_table_name: str | FullyQualifiedName,
        column_names: list[str] | None = None,
    ) -> sa.Table:
        """Return a SQLAlchemy table with all its columns, or only those in ``column_names``."""
        columns = self.get_table_columns(
            full_table_name=full_table_name,
            column_names=column_names,  # the names that overrides in singer_sdk taps use
        ).values()
        _, schema, table = self.parse_full_table_name(full_table_name)
        return sa.Table(table, sa.MetaData(), *columns, schema=schema)

    # Columns

    def column_exists(self, full_table_name: _Name, column_name: str) -> bool:
        """Return True if a table has the column ``column_name``, written in the same case."""
        return column_name in self.get_table_columns(full_table_name)

    def prepare_column(self, full_table_name: _Name, column_name: str, sql_type: _Type) -> None:
        """Add a column to a table, or alter its type so that it can store ``sql_type`` values."""
        if self.column_exists(full_table_name, column_name):
            self._adapt_column_type(full_table_name, column_name=column_name, sql_type=sql_type)
        else:
            self._create_empty_column(
                full_table_name=full_table_name, column_name=column_name, sql_type=sql_type
            )

    def _create_empty_column(
        self, full_table_name: _Name, column_name: str, sql_type: _Type
    ) -> None:
        """Add a column to a table by ALTER TABLE.

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
        """Rename a column of a table by ALTER TABLE.

        Raises:
            NotImplementedError: `allow_column_rename` is false.
        """
        if not self.allow_column_rename:
            raise NotImplementedError("Renaming columns is not supported.")
        # As in singer_sdk, an override receives the names without quotes.
        is_overridden = is_any_overridden(self, SQLConnector, "get_column_rename_ddl")
        quote = str if is_overridden else self._dialect.identifier_preparer.quote
        statement = self.get_column_rename_ddl(
            table_name=full_table_name,
            column_name=quote(old_name),
            new_column_name=quote(new_name),
        )
        with self._transaction() as connection:
            connection.execute(statement)

    def _adapt_column_type(self, full_table_name: _Name, column_name: str, sql_type: _Type) -> None:
        """Alter the type of a column if it cannot store values of ``sql_type``.

        The new type can store both the existing values and values of ``sql_type``.

        Raises:
            NotImplementedError: The column must be altered, and `allow_column_alter` is false.
            ValueError: No type can store the values of both types.
        """
        current = self._get_column_type(full_table_name, column_name)
        sql_type = adapt_type(sql_type, self._dialect)
        collation = self.remove_collation(current)
        if self._is_same_type(current, sql_type):
            return
        merged = self._merge_column_types(current, sql_type)
        if str(merged) == str(current):
            return
        if collation:
            self.update_collation(merged, collation)
        if not self.allow_column_alter:
            raise NotImplementedError(
                "Altering columns is not supported. Could not convert column"
                f" '{full_table_name}.{column_name}' from '{current}' to '{merged}'."
            )
        with self._transaction() as connection:
            connection.execute(self._build_alter_statement(full_table_name, column_name, merged))

    def _is_same_type(self, current: _Type, sql_type: _Type) -> bool:
        """Return True if two types have the same name in SQLAlchemy or in SQL of this database."""
        if str(current) == str(sql_type):
            return True
        return bool(self._compile_type_name(current) == self._compile_type_name(sql_type))

    def _compile_type_name(self, sql_type: _Type) -> str:
        """Return the SQL name of a type in this database, or else SQLAlchemy's name."""
        try:
            return sql_type.compile(dialect=self._dialect)
        except (sa.exc.CompileError, NotImplementedError):  # a reflected type without a name
            return str(sql_type)

    def _merge_column_types(self, current: _Type, new: _Type) -> _Type:
        """Return a column type that can store values of both ``current`` and ``new``.

        It is ``new`` if a column of type ``current`` would round or truncate values of ``new``, or
        if ``new`` is wider and columns may be altered. Otherwise, call `merge_sql_types`.
        """
        if self._dialect.name != "sqlite" and (  # SQLite's columns store any value unchanged
            loses_precision(current, new) or (self.allow_column_alter and is_wider(current, new))
        ):
            return new
        return self.merge_sql_types([current, new])

    def _build_alter_statement(
        self, table_name: _Name, column_name: str, column_type: _Type
    ) -> sa.DDL:
        """Return the ALTER TABLE statement that changes a column's type.

        `get_column_alter_ddl` builds it. For PostgreSQL, which needs another syntax, that method is
        called only if a subclass overrides it.
        """
        if is_any_overridden(self, SQLConnector, "get_column_alter_ddl"):
            return self.get_column_alter_ddl(
                table_name=table_name, column_name=column_name, column_type=column_type
            )
        quoted = self._dialect.identifier_preparer.quote(column_name)
        if self._dialect.name != "postgresql":
            return self.get_column_alter_ddl(
                table_name=table_name, column_name=quoted, column_type=column_type
            )
        return _make_ddl(
            "ALTER TABLE %(table_name)s ALTER COLUMN %(column_name)s TYPE %(column_type)s",
            {
                "table_name": table_name,
                "column_name": quoted,
                "column_type": self._compile_type_name(column_type),
            },
        )

    def _get_column_type(self, full_table_name: _Name, column_name: str) -> _Type:
        """Return the SQLAlchemy type of an existing column.

        Raises:
            KeyError: The column does not exist.
        """
        column = self.get_table_columns(full_table_name).get(column_name)
        if column is None:
            raise KeyError(f"Column `{column_name}` does not exist in table `{full_table_name}`.")
        return column.type

    # Merging of types

    def merge_sql_types(self, sql_types: Sequence[_Type]) -> _Type:
        """Return the most general of several column types.

        Args:
            sql_types: Types to merge; the first is the current type of the column.

        Raises:
            ValueError: ``sql_types`` is empty, or the column cannot be altered to the result.
        """
        if not sql_types:
            raise ValueError("Expected at least one member in `sql_types` argument.")
        current = sql_types[0]
        if len(sql_types) == 1:
            return current
        first, second, *other_types = self._sort_types(sql_types)
        if other_types:
            return self.merge_sql_types([self.merge_sql_types([first, second]), *other_types])
        for option in (first, second):
            if _keeps_values(option, current):
                return option
        raise ValueError(f"Unable to merge sql types: {', '.join(map(str, (first, second)))}")

    def _sort_types(self, sql_types: Iterable[_Type]) -> Sequence[_Type]:
        """Return types sorted from the most general to the most specific.

        The order is text, date-times, non-integer numbers, integers, others. Of two text types, the
        longer one comes first.
        """
        return sorted(sql_types, key=type_rank, reverse=True)

    @staticmethod
    def remove_collation(column_type: _Type) -> str | None:
        """Remove the collation of a column type, in place; return it, or None if there is none."""
        collation: str | None = getattr(column_type, "collation", None) or None
        if collation:
            column_type.collation = None  # type: ignore[attr-defined]
        return collation

    @staticmethod
    def update_collation(column_type: _Type, collation: str | None) -> None:
        """Set the collation of a column type, in place, if the type supports collations."""
        if collation and hasattr(column_type, "collation"):
            column_type.collation = collation

    # Statements whose syntax depends on the database

    def get_column_add_ddl(self, table_name: _Name, column_name: str, column_type: _Type) -> sa.DDL:
        """Return the ALTER TABLE statement that adds a column; override for another syntax."""
        clause = CreateColumn(sa.Column(column_name, column_type)).compile(dialect=self._dialect)
        return _make_ddl(
            "ALTER TABLE %(table_name)s ADD COLUMN %(create_column_clause)s",
            {"table_name": table_name, "create_column_clause": clause.string},
        )

    @staticmethod
    def get_column_rename_ddl(table_name: _Name, column_name: str, new_column_name: str) -> sa.DDL:
        """Return the ALTER TABLE statement that renames a column; override for another syntax."""
        return _make_ddl(
            "ALTER TABLE %(table_name)s RENAME COLUMN %(column_name)s to %(new_column_name)s",
            {
                "table_name": table_name,
                "column_name": column_name,
                "new_column_name": new_column_name,
            },
        )

    @staticmethod
    def get_column_alter_ddl(table_name: _Name, column_name: str, column_type: _Type) -> sa.DDL:
        """Return the ALTER TABLE statement that changes a column's type.

        Override this method for databases with another syntax; PostgreSQL needs no override.
        """
        return _make_ddl(
            "ALTER TABLE %(table_name)s ALTER COLUMN %(column_name)s (%(column_type)s)",
            {
                "table_name": table_name,
                "column_name": column_name,
                "column_type": column_type,
            },
        )

    # Schemas

    def schema_exists(self, schema_name: str) -> bool:
        """Return True if the database contains the schema ``schema_name``."""
        return schema_name in sa.inspect(self._engine).get_schema_names()

    def create_schema(self, schema_name: str) -> None:
        """Create a database schema by CREATE SCHEMA."""
        with self._transaction() as connection:
            connection.execute(CreateSchema(schema_name))

    def prepare_schema(self, schema_name: str) -> None:
        """Create a database schema if it does not exist."""
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
        """Create a table with a column for each property of a JSON Schema.

        Names in ``primary_keys`` that are not properties are ignored. So is ``partition_keys``.

        Raises:
            NotImplementedError: ``as_temp_table`` is true; override to support temporary tables.
            RuntimeError: The schema has no ``properties``.
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
            sa.Column(name, self._get_type_for_schema(definition), autoincrement=False)
            for name, definition in properties.items()
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
        """Create a table, or add and alter columns of the existing one to match a JSON Schema.

        With the load method ``overwrite``, the first call for a table drops and recreates it.
        """
        name = str(full_table_name)
        overwrites = self.config.get("load_method") == TargetLoadMethods.OVERWRITE
        is_first_overwrite = overwrites and not self._tables_prepared.get(name, False)
        if is_first_overwrite or not self.table_exists(full_table_name=full_table_name):
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
        """Call `prepare_column` for each property whose column must be added or altered.

        If a subclass overrides `prepare_column`, call it for every property.
        """
        is_overridden = is_any_overridden(
            self, SQLConnector, "prepare_column", "_adapt_column_type", "column_exists"
        )
        existing = {} if is_overridden else self.get_table_columns(full_table_name)
        for name, definition in properties.items():
            sql_type = self._get_type_for_schema(definition)
            if name in existing and self._is_same_type(existing[name].type, sql_type):
                continue
            self.prepare_column(full_table_name, name, sql_type)

    def prepare_primary_key(
        self,
        *,
        full_table_name: _Name,  # noqa: ARG002 - a hook
        primary_keys: Sequence[str],  # noqa: ARG002
    ) -> None:
        """Change the primary key of an existing table; does nothing unless overridden."""
        self.logger.debug("Primary key adaptation is not implemented")

    # Rows of old versions

    def delete_old_versions(
        self, *, full_table_name: _Name, version_column_name: str, current_version: int
    ) -> None:
        """Delete the rows whose table version is lower than ``current_version``.

        Rows without a version are kept.
        """
        column = self._dialect.identifier_preparer.quote(version_column_name)
        statement = sa.text(f"DELETE FROM {full_table_name} WHERE {column} < :version").bindparams(  # noqa: S608
            sa.bindparam("version", current_version, sa.BigInteger())
        )
        with self._transaction() as connection:
            connection.execute(statement)


class _SchemaReflection:
    """Reader of column and key metadata of all tables in one database schema.

    One query reads all tables. If it fails, each table is read separately.
    """

    def __init__(self, connector: SQLConnector, inspected: sa.Inspector, schema: str) -> None:
        self._connector = connector
        self._inspected = inspected
        self._schema = schema

    def inspect_all(
        self,
        inspect_many: Callable[..., Mapping[_TableKey, _T]],
        inspect_single: Callable[..., _T],
        kind: ObjectKind = ObjectKind.TABLE,
    ) -> Mapping[Any, _T]:
        """Return the metadata of all tables, by (schema, table); skip tables that cannot be read.

        Args:
            inspect_many: Method of the inspector that reads all tables, such as
                ``get_multi_columns``.
            inspect_single: Method of the inspector that reads one table, such as ``get_columns``.
            kind: Kind of object to read: tables or views.
        """
        try:
            return inspect_many(schema=self._schema, kind=kind)
        except DatabaseUnreachableError:
            raise
        except (exc.SQLAlchemyError, NotImplementedError) as error:
            self._connector.logger.warning(
                "Schema '%s' cannot be read at once (%s): its tables are read one by one.",
                self._schema,
                _first_line(error),
            )
        reflected = {
            (self._schema, name): self._inspect_one(inspect_single, name)
            for name in self._list_names(kind)
        }
        return {key: metadata for key, metadata in reflected.items() if metadata is not None}

    def _inspect_one(self, inspect_single: Callable[..., _T], name: str) -> _T | None:
        """Return metadata of the table ``name``; if it cannot be read, warn and return None."""
        try:
            return inspect_single(name, schema=self._schema)
        except DatabaseUnreachableError:
            raise
        except (exc.SQLAlchemyError, NotImplementedError) as error:
            self._connector.logger.warning(
                "'%s' in schema '%s' cannot be read and is left out: %s",
                name,
                self._schema,
                _first_line(error),
            )
            return None

    def _list_names(self, kind: ObjectKind) -> list[str]:
        """Return the names of all tables or, by ``kind``, of views and materialized views."""
        if kind is ObjectKind.TABLE:
            return self._inspected.get_table_names(schema=self._schema)
        names = self._connector._get_view_names(self._inspected, self._schema)  # noqa: SLF001
        try:
            return [*names, *self._inspected.get_materialized_view_names(schema=self._schema)]
        except NotImplementedError:
            return names


def _find_keys(
    primary: ReflectedPrimaryKeyConstraint | None, indices: Sequence[ReflectedIndex]
) -> list[str]:
    """Return the columns of the primary key or, if ``primary`` is None, of the first unique index.

    A table without a primary key has a ``primary`` without columns; the result is then empty, as in
    singer_sdk. Indexes on expressions are skipped.
    """
    if primary and "constrained_columns" in primary:
        return list(primary["constrained_columns"])
    unique = (index["column_names"] for index in indices if index.get("unique", False))
    named = ([name for name in names if name is not None] for names in unique if None not in names)
    return next(named, [])


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _make_ddl(statement: str, context: dict[str, object]) -> sa.DDL:
    make: Callable[[str, dict[str, object]], sa.DDL] = sa.DDL  # it has no type hints
    return make(statement, context)


def _keeps_values(option: _Type, current: _Type) -> bool:
    """Return True if a column of the type ``current`` can become ``option`` without loss."""
    if not is_text(option):
        return str(option) == str(current)
    length = getattr(option, "length", None) or 0  # no length means no limit
    before = getattr(current, "length", None) or 0
    return not length or bool(before and length >= before)
