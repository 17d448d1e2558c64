"""Connector and stream of PostgreSQL: connections, discovery and queries."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa
from psycopg.adapt import Transformer
from psycopg.pq import Format
from sqlalchemy import event, exc
from sqlalchemy import types as sqltypes
from sqlalchemy.dialects import postgresql as pg

from tap_core.exceptions import ConfigValidationError
from tap_core.singerlib.catalog import REPLICATION_LOG_BASED, Metadata
from tap_core.singerlib.schema import Schema
from tap_core.sql import SQLConnector, SQLStream
from tap_core.sql.result_reader import get_processors
from tap_postgres.change_log import DELETED_AT, LSN, PostgresLog
from tap_postgres.schemas import PostgresSQLToJSONSchema
from tap_postgres.values import ReaderType, get_reader, prepare_connection

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import (
        ReflectedColumn,
        ReflectedIndex,
        ReflectedPrimaryKeyConstraint,
    )

    from tap_core.singerlib.catalog import Catalog, CatalogEntry
    from tap_core.sql.connector import FullyQualifiedName
    from tap_core.types import Context

__all__ = ["PostgresConnector", "PostgresStream"]

DRIVER = "postgresql+psycopg"

# Partitions are read with their parent table. A query of one of the other tables fails.
EXCLUDED_TABLES = """
    SELECT n.nspname || '-' || c.relname
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND (
        c.relispartition
        OR NOT c.relispopulated
        OR NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE')
        OR NOT pg_catalog.has_any_column_privilege(c.oid, 'SELECT')
    )
"""

# SQLAlchemy's reflection lacks the dimensions of arrays, and arrays of types that it does not know.
ARRAY_DIMENSIONS = """
    SELECT n.nspname, c.relname, a.attname, greatest(a.attndims, 1)
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE t.typcategory = 'A' AND a.attnum > 0 AND n.nspname !~ '^pg_'
"""

# Types of items whose arrays psycopg returns as one text. The same is true for domains.
UNKNOWN_ITEMS = (sqltypes.NullType, sqltypes.Enum, pg.CITEXT)

# Types whose order in the server is that of their JSON values; see `apply_query_filters`.
TYPES_WITH_JSON_ORDER = (
    *(sqltypes.Boolean, sqltypes.Integer, sqltypes.Numeric, sqltypes.Float, pg.OID),
    *(sqltypes.DateTime, sqltypes.Date, sqltypes.Uuid),
)


BOX_ARRAY = 1020
"""Type OID of ``box[]``, the only array type whose items are separated by semicolons."""

LOG_COLUMNS: Mapping[str, Mapping[str, Any]] = {
    LSN: {"type": ["integer", "null"]},
    DELETED_AT: {"type": ["string", "null"], "format": "date-time"},
}
"""Schemas of the additional columns of LOG_BASED streams."""


class PostgresConnector(SQLConnector):
    """Connector to a PostgreSQL database, with psycopg 3."""

    sql_to_jsonschema_converter = PostgresSQLToJSONSchema
    _dimensions: Mapping[tuple[str, str, str], int] = {}

    @cached_property
    def change_log(self) -> PostgresLog:
        """Log from which all LOG_BASED streams are read."""
        return PostgresLog(
            self, self.config["replication_slot_name"], self.config["publication_name"]
        )

    def connect(self) -> AbstractContextManager[sa.Connection]:
        """Return a connection for a ``with`` block, whose results are streamed."""
        return self._connect()

    def get_sqlalchemy_url(self, config: dict[str, Any]) -> str:
        """Return the URL of the database from `sqlalchemy_url`, or from `host`, `user` and others.

        Raises:
            ConfigValidationError: Neither `sqlalchemy_url` nor all of the required others are set.
        """
        if url := config.get("sqlalchemy_url"):
            return re.sub(r"^postgres(ql)?(\+\w+)?:", f"{DRIVER}:", url)
        if missing := [name for name in ("host", "user", "database") if not config.get(name)]:
            raise ConfigValidationError(
                f"Set 'sqlalchemy_url', or {', '.join(map(repr, missing))} too."
            )
        return sa.URL.create(
            DRIVER,
            username=config["user"],
            password=config.get("password"),
            host=config["host"],
            port=config.get("port"),
            database=config["database"],
        ).render_as_string(hide_password=False)

    def create_engine(self) -> sa.Engine:
        """Return an engine whose connections return values that match the schemas."""
        engine = super().create_engine()

        def on_connect(connection: Any, _record: Any) -> None:
            numbers_as_string = bool(self.config.get("use_singer_decimal"))
            prepare_connection(connection, numbers_as_string=numbers_as_string)

        event.listen(engine, "connect", on_connect)
        return engine

    def get_schema_names(self, engine: sa.Engine, inspected: sa.Inspector) -> list[str]:
        """Return the schemas in `filter_schemas`, by default all except the system's schemas."""
        if configured := self.config.get("filter_schemas"):
            return list(configured)
        names = super().get_schema_names(engine, inspected)
        return [name for name in names if name != "information_schema"]

    def discover_catalog_entries(
        self, *, exclude_schemas: Sequence[str] = (), reflect_indices: bool = True
    ) -> list[dict[str, Any]]:
        """Return the catalog entries of all readable tables and views, without partitions."""
        with self._engine.connect() as connection:
            excluded = set(connection.scalars(sa.text(EXCLUDED_TABLES)))
            rows = connection.execute(sa.text(ARRAY_DIMENSIONS))
            self._dimensions = {(schema, table, name): n for schema, table, name, n in rows}
        with _ignoring_unknown_types():
            entries = super().discover_catalog_entries(
                exclude_schemas=exclude_schemas, reflect_indices=reflect_indices
            )
        return [entry for entry in entries if entry["tap_stream_id"] not in excluded]

    def discover_catalog_entry(
        self,
        engine: sa.Engine,
        inspected: sa.Inspector,
        schema_name: str | None,
        table_name: str,
        is_view: bool,
        *,
        reflected_columns: list[ReflectedColumn] | None = None,
        reflected_pk: ReflectedPrimaryKeyConstraint | None = None,
        reflected_indices: list[ReflectedIndex] | None = None,
    ) -> CatalogEntry:
        """Return the catalog entry of a table or view.

        Its key properties are those of the primary key, else of a unique index that has neither
        nullable columns nor a condition.
        """
        columns = reflected_columns or []
        for column in columns:
            dimensions = self._dimensions.get((schema_name or "", table_name, column["name"]))
            if dimensions and not isinstance(column["type"], pg.DOMAIN):
                item = getattr(column["type"], "item_type", sa.types.NULLTYPE)
                column["type"] = pg.ARRAY(item, dimensions=dimensions)
        required = {column["name"] for column in columns if not column["nullable"]}
        has_key = reflected_pk is not None and reflected_pk["constrained_columns"]
        return super().discover_catalog_entry(
            engine,
            inspected,
            schema_name,
            table_name,
            is_view,
            reflected_columns=columns,
            reflected_pk=reflected_pk if has_key else None,
            reflected_indices=[
                index for index in reflected_indices or [] if _is_key(index, required)
            ],
        )

    def get_table_columns(
        self,
        full_table_name: str | FullyQualifiedName,
        column_names: Any = None,
    ) -> dict[str, sa.Column[Any]]:
        """Return a table's columns by name."""
        with _ignoring_unknown_types():
            return super().get_table_columns(full_table_name, column_names)


class PostgresStream(SQLStream):
    """Stream of a table or view."""

    connector_class = PostgresConnector
    supports_nulls_first = True

    def apply_catalog(self, catalog: Catalog) -> None:
        """Apply an input catalog; a LOG_BASED stream gets the additional `LOG_COLUMNS`."""
        entry = catalog.get_stream(self.tap_stream_id)
        if entry is not None and _is_log_based(entry):
            entry.replication_method = REPLICATION_LOG_BASED
            entry.replication_key = LSN
            properties = entry.schema.properties = entry.schema.properties or {}
            for name, schema in LOG_COLUMNS.items():
                properties[name] = Schema.from_dict(schema)
                entry.metadata["properties", name] = Metadata(
                    inclusion=Metadata.InclusionType.AUTOMATIC
                )
            log = self.database.change_log
            self.change_log, log.streams[self.name] = log, self
            vars(self).pop("schema", None)  # it is read from the catalog entry again
        super().apply_catalog(catalog)

    @property
    def database(self) -> PostgresConnector:
        """Connector to the database."""
        return cast("PostgresConnector", self.connector)

    @property
    def is_log_based(self) -> bool:
        """True if the stream is read from the log after its snapshot."""
        return self.replication_method == REPLICATION_LOG_BASED

    @property
    def table_name(self) -> tuple[str, str]:
        """Schema and name of the table."""
        return self.namespace or "public", self._singer_catalog_entry.table or self.name

    def build_query(self, *, context: Context | None = None) -> sa.Select[Any]:
        """Return the query of a context, whose values are read by the readers of `values`.

        The rows of a LOG_BASED stream have the position of the snapshot in the column `LSN`.
        """
        query = self._build_row_query(context)
        if not self.is_log_based:
            return query
        start = self.get_starting_replication_key_value(context)
        position = sa.literal(start, sa.BigInteger).label(LSN)
        return query.add_columns(position, sa.null().label(DELETED_AT))

    def _build_row_query(self, context: Context | None = None) -> sa.Select[Any]:
        query = super().build_query(context=context)
        columns = [self._select_column(column) for column in query.selected_columns]
        return query.with_only_columns(*columns, maintain_column_froms=True)

    def make_value_readers(self, types: Mapping[str, int]) -> dict[str, Callable[[bytes], Any]]:
        """Return the functions that convert the server's text of a value, by column name.

        Their results equal those of a SELECT: a text is loaded by psycopg's loader for the type of
        the query's column, and then converted by the column's reader.

        Args:
            types: Type OIDs of the table's columns, by name. They differ from the query's types for
                arrays of boxes, whose items have another separator than the query's array of text.
        """
        with self.database.connect() as connection:
            result = connection.execute(self._build_row_query().limit(0))
            transformer = Transformer(connection.connection.driver_connection)
            readers: dict[str, Callable[[bytes], Any]] = {}
            columns = cast("Any", result.cursor).description
            for column, process in zip(columns, get_processors(result), strict=True):
                loader = transformer.get_loader(_get_sent_type(column, types), Format.TEXT)
                readers[column.name] = _compose(loader.load, process)
            result.close()
        return readers

    def build_row_lookup(self) -> sa.Select[Any]:
        """Return the query of one row by its keys; parameter ``key0`` is the first key's text."""
        query = self._build_row_query()
        for number, name in enumerate(self.primary_keys):
            # The server takes a parameter without a type as a value of the column's type.
            parameter = sa.bindparam(f"key{number}", type_=sa.types.NullType())
            query = query.where(sa.column(name) == parameter)
        return query

    def add_columns(self, names: Iterable[str]) -> bool:
        """Add those columns of the table to the schema that it lacks.

        Args:
            names: Names of columns.

        Returns:
            True if a column was added.
        """
        known = self.effective_schema["properties"]
        if not (new := [name for name in names if name not in known]):
            return False
        entries = self.database.discover_catalog_entries()
        [schema] = [
            entry["schema"] for entry in entries if entry["tap_stream_id"] == self.tap_stream_id
        ]
        added = {name: entry for name, entry in schema["properties"].items() if name in new}
        known.update(added)
        self.schema["properties"].update(added)
        return bool(added)

    def _select_column(self, column: sa.ColumnElement[Any]) -> sa.Label[Any]:
        """Return the expression that selects a column, with the reader of its values."""
        declared = self.schema["properties"][column.name].get("type", ())
        kind = _get_known_type(column.type, "array" in declared)
        read = get_reader(
            kind,
            dates_as_string=bool(self.config.get("dates_as_string")),
            numbers_as_string=bool(self.config.get("use_singer_decimal")),
        )
        return sa.type_coerce(_cast_column(column, kind), ReaderType(read)).label(column.name)

    def apply_query_filters(
        self, query: sa.Select[Any], table: sa.Table, *, context: Context | None = None
    ) -> sa.Select[Any]:
        """Return the query with filter and order by the replication key.

        Text is ordered by code points, as states compare it. The database's default order may be
        that of a language, in which "a" precedes "B".
        """
        if self.is_log_based:
            return query
        column = table.c.get(self.replication_key or "")
        if column is None or isinstance(_resolve_domain(column.type), TYPES_WITH_JSON_ORDER):
            return super().apply_query_filters(query, table, context=context)
        text = sa.cast(column, sa.Text).collate("C")
        query = query.order_by(sa.nulls_first(text.asc()))
        start = self.get_starting_replication_key_value(context)
        if start is None:
            return query
        return query.where(text >= _to_server_text(str(start), column.type))


def _to_server_text(start: str, declared: sqltypes.TypeEngine[Any]) -> Any:
    """Return a bookmark as the text that the server writes for the column's value.

    A record has bytes without a prefix, offsets of times with minutes, and the blanks that fill a
    CHAR.
    """
    kind = _resolve_domain(declared)
    if isinstance(kind, sqltypes.LargeBinary):
        return rf"\x{start}"
    if isinstance(kind, (sqltypes.Time, sqltypes.CHAR)):
        return sa.cast(sa.cast(sa.literal(start, sa.Text), kind), sa.Text)
    return start


def _is_log_based(entry: CatalogEntry) -> bool:
    """Return True if a catalog entry or its metadata has the replication method LOG_BASED."""
    root = entry.metadata.root
    return REPLICATION_LOG_BASED in {entry.replication_method, root.forced_replication_method}


def _get_sent_type(column: Any, types: Mapping[str, int]) -> int:
    """Return the type OID whose loader reads the text of a query's column."""
    declared = types.get(column.name)
    return declared if declared == BOX_ARRAY else int(column.type_code)


def _compose(
    load: Callable[[bytes], Any], process: Callable[[Any], Any] | None
) -> Callable[[bytes], Any]:
    """Return a function that loads a text and processes the value."""
    return load if process is None else lambda text: process(load(text))


def _get_known_type(declared: sqltypes.TypeEngine[Any], is_array: bool) -> sqltypes.TypeEngine[Any]:
    """Return the type as which a column's values are read; arrays of unknown items are of text."""
    kind = _resolve_domain(declared)
    if not isinstance(kind, pg.ARRAY):
        return pg.ARRAY(sa.Text()) if is_array and isinstance(kind, sqltypes.NullType) else kind
    item = _resolve_domain(kind.item_type)
    return pg.ARRAY(sa.Text() if isinstance(item, UNKNOWN_ITEMS) else item)


def _cast_column(
    column: sa.ColumnElement[Any], kind: sqltypes.TypeEngine[Any]
) -> sa.ColumnElement[Any]:
    """Return a column, with a cast if psycopg would not return its text or the items of its array.

    Values of JSON are cast in the query, because psycopg's loader of JSON has to stay in place:
    SQLAlchemy needs it for its reflection of tables.
    """
    if isinstance(kind, sqltypes.JSON):
        return sa.cast(column, sa.Text)
    if isinstance(kind, pg.ARRAY):
        if isinstance(kind.item_type, sqltypes.JSON):
            return sa.cast(column, pg.ARRAY(sa.Text))
        if type(getattr(column.type, "item_type", None)) is not type(kind.item_type):
            return sa.cast(column, kind)
    return column


def _resolve_domain(kind: sqltypes.TypeEngine[Any]) -> sqltypes.TypeEngine[Any]:
    """Return the base type of a domain, also of nested domains; other types are unchanged."""
    while isinstance(kind, pg.DOMAIN):
        kind = kind.data_type
    return kind


def _is_key(index: ReflectedIndex, required: set[str]) -> bool:
    """Return True if an index identifies each row: unique, not partial, no nullable columns."""
    partial = "postgresql_where" in index.get("dialect_options", {})
    return index["unique"] and not partial and required.issuperset(index["column_names"])


@contextmanager
def _ignoring_unknown_types() -> Generator[None, None, None]:
    """Suppress SQLAlchemy's warnings of unknown types, whose values are read as text."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Did not recognize type", exc.SAWarning)
        yield
