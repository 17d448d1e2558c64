"""Database connections, and the conversion of types and names between database and Singer.

A connector has one engine, created on first use by `create_engine`, which authors override.
Passwords appear in no message: see `tap_core.sql.connection_errors`.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

from tap_core import typing as th
from tap_core.exceptions import ConfigValidationError, SingerSDKPendingDeprecationWarning
from tap_core.singerlib.json import dump_json, load_json
from tap_core.sql.connection_errors import (
    install_error_translation,
    parse_url,
    translate_url_errors,
)
from tap_core.sql.fully_qualified_name import FullyQualifiedName
from tap_core.sql.types import JSONSchemaToSQL, SQLToJSONSchema

if sys.version_info >= (3, 13):
    from warnings import deprecated
else:
    from typing_extensions import deprecated

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import Dialect

    from tap_core.types import JsonSchema

__all__ = ["ConnectionManager"]


class ConnectionManager:
    """Base class of `SQLConnector` that provides the engine, names and types."""

    max_varchar_length: int | None = None
    """The maximum declared length of text columns; None for no limit."""

    sql_to_jsonschema_converter: type[SQLToJSONSchema] = SQLToJSONSchema
    """The converter class from column types to JSON Schema; replace it by a subclass."""

    jsonschema_to_sql_converter: type[JSONSchemaToSQL] = JSONSchemaToSQL
    """The converter class from JSON Schema to column types; replace it by a subclass."""

    _cached_engine: sa.Engine | None = None

    def __init__(
        self, config: dict[str, Any] | None = None, sqlalchemy_url: str | None = None
    ) -> None:
        """Store the settings of the tap or target; no connection is opened."""
        self._config: dict[str, Any] = config or {}
        self._sqlalchemy_url: str | None = sqlalchemy_url or None
        self._tables_prepared: dict[str, bool] = {}

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the tap or target."""
        return self._config

    @property
    def logger(self) -> logging.Logger:
        """The logger of the connector."""
        return logging.getLogger("sqlconnector")

    # The database

    @property
    def sqlalchemy_url(self) -> str:
        """The database URL including its password; it must not be logged."""
        if not self._sqlalchemy_url:
            self._sqlalchemy_url = self.get_sqlalchemy_url(self.config)
        return self._sqlalchemy_url

    def get_sqlalchemy_url(self, config: dict[str, Any]) -> str:
        """Return the database URL; override to build it from other settings.

        Raises:
            ConfigValidationError: the setting ``sqlalchemy_url`` is missing.
        """
        if "sqlalchemy_url" not in config:
            raise ConfigValidationError("Could not find or create 'sqlalchemy_url' for connection.")
        url: str = config["sqlalchemy_url"]
        return url

    def create_engine(self) -> sa.Engine:
        """Create the engine; override to change its options, use `_engine` to get the instance."""
        url = parse_url(self.sqlalchemy_url)
        try:
            return sa.create_engine(
                url,
                echo=False,
                pool_pre_ping=True,
                json_serializer=self.serialize_json,
                json_deserializer=self.deserialize_json,
            )
        except TypeError:  # dialects without JSON refuse its arguments
            return sa.create_engine(url, echo=False, pool_pre_ping=True)

    @property
    def _engine(self) -> sa.Engine:
        """The engine, created on first use."""
        if self._cached_engine is None:
            with translate_url_errors():
                self._cached_engine = install_error_translation(self.create_engine())
        return self._cached_engine

    @property
    def _dialect(self) -> Dialect:
        """The SQLAlchemy dialect of the database."""
        return self._engine.dialect

    @contextmanager
    def _connect(self) -> Iterator[sa.Connection]:
        """Open a connection that streams results from the server if the driver supports it."""
        with self._engine.connect().execution_options(stream_results=True) as connection:
            yield connection

    def serialize_json(self, obj: object) -> str:
        """Return the JSON text of a JSON column's value; override for another encoding."""
        return dump_json(obj)

    def deserialize_json(self, json_str: str) -> object:
        """Return the value of a JSON column's text; override for another decoding."""
        return load_json(json_str)

    # Names

    def get_fully_qualified_name(
        self,
        table_name: str = "",
        schema_name: str | None = None,
        db_name: str | None = None,
        delimiter: str = ".",
    ) -> FullyQualifiedName:
        """Return the fully qualified name of a table, quoted where the database requires it.

        Raises:
            ValueError: all parts are empty.
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
        """Return a name with each of its parts quoted where the database requires it."""
        return ".".join(map(self._dialect.identifier_preparer.quote, name.split(".")))

    # Types

    @cached_property
    def sql_to_jsonschema(self) -> SQLToJSONSchema:
        """The converter from column types to JSON Schema."""
        return self.sql_to_jsonschema_converter.from_config(self.config)

    @cached_property
    def jsonschema_to_sql(self) -> JSONSchemaToSQL:
        """The converter from JSON Schema to column types."""
        return self.jsonschema_to_sql_converter.from_config(
            self.config, max_varchar_length=self.max_varchar_length
        )

    def to_jsonschema_type(
        self, sql_type: str | TypeEngine[Any] | type[TypeEngine[Any]] | Any
    ) -> JsonSchema:
        """Return the JSON Schema of a column type; override to support further types.

        Passing a type's name or class instead of an instance is deprecated.

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
        what = "type classes" if is_class else "string types"
        warnings.warn(
            f"Passing {what} to `to_jsonschema_type` is deprecated. Please pass a SQLAlchemy"
            " type object instead.",
            SingerSDKPendingDeprecationWarning,
            stacklevel=2,
        )
        return th.to_jsonschema_type(sql_type)

    def to_sql_type(self, jsonschema_type: JsonSchema) -> TypeEngine[Any]:
        """Return the column type of a property; override to support further types."""
        return self.jsonschema_to_sql.to_sql_type(jsonschema_type)

    # Deprecated members

    @deprecated(
        "`SQLConnector.create_sqlalchemy_connection` is deprecated: make a child class of the"
        " connector and add the method that you need there.",
        category=SingerSDKPendingDeprecationWarning,
    )
    def create_sqlalchemy_connection(self) -> sa.Connection:
        """Open a connection (deprecated; unlike `_connect` it must be closed by the caller)."""
        return self._engine.connect().execution_options(stream_results=True)

    @deprecated(
        "`SQLConnector.create_sqlalchemy_engine` is deprecated. Override `_engine` or"
        " `sqlalchemy_url` instead.",
        category=SingerSDKPendingDeprecationWarning,
    )
    def create_sqlalchemy_engine(self) -> sa.Engine:
        """Return the engine (deprecated)."""
        return self._engine

    @property
    def connection(self) -> sa.Connection:
        """A new connection (deprecated)."""
        warnings.warn(
            "`SQLConnector.connection` is deprecated: make a child class of the connector and"
            " add the method that you need there.",
            SingerSDKPendingDeprecationWarning,
            stacklevel=2,
        )
        return self.create_sqlalchemy_connection()
