"""How a database is reached, and the words between its types and names and ours.

Rules of the room: one engine per connector, made late, by the one method that an author
overrides. Passwords are in no message: see `access`.
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
    """The half of a connector that knows the database and its words: see `SQLConnector`."""

    max_varchar_length: int | None = None
    """How long text columns may be declared; None for no limit."""

    sql_to_jsonschema_converter: type[SQLToJSONSchema] = SQLToJSONSchema
    """From column types to JSON Schema: say a subclass of your own."""

    jsonschema_to_sql_converter: type[JSONSchemaToSQL] = JSONSchemaToSQL
    """From JSON Schema to column types: say a subclass of your own."""

    _cached_engine: sa.Engine | None = None

    def __init__(
        self, config: dict[str, Any] | None = None, sqlalchemy_url: str | None = None
    ) -> None:
        """Take the settings of the tap or target; nothing is connected yet."""
        self._config: dict[str, Any] = config or {}
        self._sqlalchemy_url: str | None = sqlalchemy_url or None
        self._tables_prepared: dict[str, bool] = {}

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the tap or target."""
        return self._config

    @property
    def logger(self) -> logging.Logger:
        """Where the connector logs."""
        return logging.getLogger("sqlconnector")

    # The database

    @property
    def sqlalchemy_url(self) -> str:
        """The database's URL, with its password: not for logs."""
        if not self._sqlalchemy_url:
            self._sqlalchemy_url = self.get_sqlalchemy_url(self.config)
        return self._sqlalchemy_url

    def get_sqlalchemy_url(self, config: dict[str, Any]) -> str:
        """Return the database's URL; override to make it from settings of your own.

        Raises:
            ConfigValidationError: there is no setting ``sqlalchemy_url``.
        """
        if "sqlalchemy_url" not in config:
            raise ConfigValidationError("Could not find or create 'sqlalchemy_url' for connection.")
        url: str = config["sqlalchemy_url"]
        return url

    def create_engine(self) -> sa.Engine:
        """Make the engine; override to make it differently, call `_engine` to have it."""
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
        """The engine, made on first use."""
        if self._cached_engine is None:
            with translate_url_errors():
                self._cached_engine = install_error_translation(self.create_engine())
        return self._cached_engine

    @property
    def _dialect(self) -> Dialect:
        """The database's dialect."""
        return self._engine.dialect

    @contextmanager
    def _connect(self) -> Iterator[sa.Connection]:
        """Open a connection whose results stream from the server where it can do that."""
        with self._engine.connect().execution_options(stream_results=True) as connection:
            yield connection

    def serialize_json(self, obj: object) -> str:
        """Write a value of a JSON column; override for JSON of your own."""
        return dump_json(obj)

    def deserialize_json(self, json_str: str) -> object:
        """Read a value of a JSON column; override for JSON of your own."""
        return load_json(json_str)

    # Names

    def get_fully_qualified_name(
        self,
        table_name: str = "",
        schema_name: str | None = None,
        db_name: str | None = None,
        delimiter: str = ".",
    ) -> FullyQualifiedName:
        """Return a table's whole name, quoted where the database needs quotes.

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
        """Return a name with each of its parts quoted where the database needs quotes."""
        return ".".join(map(self._dialect.identifier_preparer.quote, name.split(".")))

    # Types

    @cached_property
    def sql_to_jsonschema(self) -> SQLToJSONSchema:
        """What makes JSON Schema of column types."""
        return self.sql_to_jsonschema_converter.from_config(self.config)

    @cached_property
    def jsonschema_to_sql(self) -> JSONSchemaToSQL:
        """What makes column types of JSON Schema."""
        return self.jsonschema_to_sql_converter.from_config(
            self.config, max_varchar_length=self.max_varchar_length
        )

    def to_jsonschema_type(
        self, sql_type: str | TypeEngine[Any] | type[TypeEngine[Any]] | Any
    ) -> JsonSchema:
        """Return the JSON Schema of a column type; override for types of your own.

        Names and classes of types are deprecated.

        Raises:
            ValueError: that is no type.
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
        """Return the column type of a property; override for types of your own."""
        return self.jsonschema_to_sql.to_sql_type(jsonschema_type)

    # What authors should no longer use

    @deprecated(
        "`SQLConnector.create_sqlalchemy_connection` is deprecated: make a child class of the"
        " connector and add the method that you need there.",
        category=SingerSDKPendingDeprecationWarning,
    )
    def create_sqlalchemy_connection(self) -> sa.Connection:
        """Open a connection (deprecated: `_connect` closes it too)."""
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
