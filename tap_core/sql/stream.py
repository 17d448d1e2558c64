"""`SQLStream`: a table or a view as a stream.

Name, schema and keys of the stream are read from its catalog entry, which may change until the sync
begins. The database filters, sorts and limits the rows. They are read in pages through a
server-side cursor.
"""

from __future__ import annotations

import abc
import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import sqlalchemy as sa

from tap_core.compat.author_overrides import (
    is_any_overridden,
    overridable_cached_property,
    overridable_property,
)
from tap_core.exceptions import DataError, InvalidReplicationKeyException, StreamSetupError
from tap_core.parsing.datetimes import time_fromisoformat
from tap_core.parsing.iso8601 import parse_instant
from tap_core.records.conform import is_conversion_replaced
from tap_core.records.prune import get_selected_schema
from tap_core.records.serializer import TypedRecordSerializer
from tap_core.singerlib.catalog import (
    REPLICATION_INCREMENTAL,
    REPLICATION_LOG_BASED,
    Catalog,
    CatalogEntry,
)
from tap_core.sql.connector import SQLConnector
from tap_core.sql.result_reader import (
    MAX_PAGE_ROWS,
    compile_row_reader,
    get_processors,
    get_text_columns,
    iterate_pages,
)
from tap_core.sql.type_widening import infer_value_type
from tap_core.state.replication_key_comparator import ValueKind, parse_number
from tap_core.streams.core import Stream
from tap_core.streams.state import ISO_8601, make_start_error
from tap_core.sync.plan import get_plan
from tap_core.typing.inspect import TypeConformanceLevel

if TYPE_CHECKING:
    from tap_core.singerlib.catalog import MetadataMapping
    from tap_core.sql.fully_qualified_name import FullyQualifiedName
    from tap_core.sync.interfaces import SyncTap
    from tap_core.types import Context, JsonSchema, Record

__all__ = ["NULLS_LAST_DIALECTS", "SQLStream"]

NULLS_LAST_DIALECTS = frozenset(("postgresql", "oracle", "redshift", "snowflake", "duckdb"))
"""SQLAlchemy's names of databases that sort nulls last and support ``NULLS FIRST``."""

_LONGEST_OFFSET = timedelta(days=1)
"""Upper limit of the difference between UTC and any local time."""

_AFTER_MINUTES = len("2024-01-05 10:00") + 1
"""Position in the text of a date-time after its minutes, counted from 1 as in SQL."""

_MOST_DIGITS = 1000
"""Upper limit of the digits of an integer in a database."""


class SQLStream(Stream, abc.ABC):
    """Base class of streams that read a database table or view.

    Subclasses set ``connector_class``. Override `apply_query_filters` to filter or sort
    differently, `build_query` for another query, and `get_records` to read rows without SQLAlchemy.
    """

    connector_class: type[SQLConnector] = SQLConnector
    """Class of the connector that is created if none is passed."""

    allow_any_replication_key: bool = True
    """True, because the user may choose any column as the replication key."""

    estimates_by_count: bool = True
    """True to count the rows of a sync by ``COUNT(*)`` for messages like Airbyte's ESTIMATE."""

    supports_nulls_first: bool = False
    """True if the database supports ``NULLS FIRST``. Not needed for `NULLS_LAST_DIALECTS`."""

    def __init__(
        self,
        tap: SyncTap,
        catalog_entry: dict[str, Any],
        connector: SQLConnector | None = None,
    ) -> None:
        """Create the stream of a catalog entry.

        Args:
            tap: Tap to which the stream belongs.
            catalog_entry: Catalog entry of the table or view, as a dict.
            connector: Connector to the database; by default a new one is created.
        """
        self._connector: SQLConnector = connector or self.connector_class(dict(tap.config))
        self.catalog_entry = catalog_entry
        self._parsed_entry: tuple[dict[str, Any], CatalogEntry] | None = None
        super().__init__(tap=tap, schema=self.schema, name=self.tap_stream_id)

    # Properties from the catalog entry

    @property
    def _singer_catalog_entry(self) -> CatalogEntry:
        """Catalog entry of the stream as an object, parsed again when `catalog_entry` changes."""
        if self._parsed_entry is None or self._parsed_entry[0] != self.catalog_entry:
            entry = copy.deepcopy(self.catalog_entry)
            self._parsed_entry = entry, CatalogEntry.from_dict(entry)
        return self._parsed_entry[1]

    @property
    def connector(self) -> SQLConnector:
        """Connector to the database, by default shared by all streams of the tap."""
        return self._connector

    @property
    def metadata(self) -> MetadataMapping:
        """Singer metadata of the catalog entry, by breadcrumb."""
        return self._singer_catalog_entry.metadata

    @overridable_cached_property
    def schema(self) -> JsonSchema:
        """JSON Schema of a row, from the catalog entry."""
        return self._singer_catalog_entry.schema.to_dict()

    @overridable_property
    def tap_stream_id(self) -> str:
        """Identifier of the stream in the catalog and state, such as ``public-users``."""
        return self._singer_catalog_entry.tap_stream_id

    @overridable_property
    def primary_keys(self) -> Sequence[str]:
        """Column names of the primary key: ``table-key-properties`` in the catalog entry."""
        return self._singer_catalog_entry.metadata.root.table_key_properties or []

    @primary_keys.setter
    def primary_keys(self, new_value: Sequence[str]) -> None:
        self._singer_catalog_entry.metadata.root.table_key_properties = new_value
        self._sync_plan = None

    @overridable_property
    def namespace(self) -> str | None:
        """Database schema of the table, such as ``public``, or None."""
        return self._singer_catalog_entry.metadata.root.schema_name

    @overridable_property
    def name_in_namespace(self) -> str:
        """Name of the table, if its database schema is the stream's `namespace`.

        The stream's own name if its catalog entry has a database, or has no schema or table.
        """
        entry = self._singer_catalog_entry
        return entry.table if self.namespace and entry.table and not entry.database else self.name

    @property
    def fully_qualified_name(self) -> FullyQualifiedName:
        """Full table name with database and schema, quoted as the database requires.

        Raises:
            ValueError: The catalog entry has no ``table_name``.
        """
        entry = self._singer_catalog_entry
        if not entry.table:
            raise ValueError(
                f"Missing table name in catalog entry: stream '{entry.tap_stream_id}' needs"
                " 'table_name'."
            )
        return self.connector.get_fully_qualified_name(
            table_name=entry.table,
            schema_name=entry.metadata.root.schema_name,
            db_name=entry.database,
        )

    @overridable_property
    def is_sorted(self) -> bool:
        """True if the stream is incremental. Its query then sorts the rows by replication key."""
        return self.replication_method == REPLICATION_INCREMENTAL

    @overridable_property
    def check_sorted(self) -> bool:
        """True if rows must be sorted; False for a text key, whose order depends on a collation."""
        return not _sorts_by_collation(self)

    def apply_catalog(self, catalog: Catalog) -> None:
        """Use the catalog entry in an input catalog; deselect the stream if it has no entry there.

        Raises:
            InvalidReplicationKeyException: The replication key is not a column.
        """
        entry = catalog.get_stream(self.tap_stream_id)
        if entry is not None:
            self.catalog_entry = entry.to_dict()
        super().apply_catalog(catalog)
        if entry is not None and len(self.replication_path) > 1:
            raise InvalidReplicationKeyException(
                f"Table '{self.name}' cannot be sorted by '{self.replication_key}', which is inside"
                " a column: choose a column as the cursor."
            )

    def get_selected_schema(self) -> JsonSchema:
        """Return the JSON Schema without the columns that are not selected in the catalog."""
        return get_selected_schema(stream_name=self.name, schema=self.schema, mask=self.mask)

    # The query

    def apply_query_filters(
        self, query: sa.Select[Any], table: sa.Table, *, context: Context | None = None
    ) -> sa.Select[Any]:
        """Return the query sorted by the replication key and filtered to start at the bookmark.

        Rows whose key equals the bookmark, or the end of a backfill, are included. If the stream
        has no replication key, the query is returned unchanged.

        Args:
            query: Query to filter.
            table: Table of the query.
            context: Values that identify the partition to sync, or None.

        Raises:
            StreamSetupError: The replication key is no column, or the start does not fit its type.
        """
        if self.replication_key:
            column = _get_key_column(table, self.replication_key, self)
            query = query.order_by(_build_order(column, self))
            query = _limit_rows(query, column, _read_start(column, self, context), self)
        return query

    def apply_query_limit(self, query: sa.Select[Any]) -> sa.Select[Any]:
        """Return the query limited to `ABORT_AT_RECORD_COUNT` + 1 rows, if that limit is set.

        The additional row shows that the limit is exceeded.
        """
        if self.ABORT_AT_RECORD_COUNT is not None:
            return query.limit(self.ABORT_AT_RECORD_COUNT + 1)
        return query

    def build_query(self, *, context: Context | None = None) -> sa.Select[Any]:
        """Return the SELECT of a sync: the selected columns, filtered, sorted and limited."""
        names = self.get_selected_schema()["properties"]
        if names and self.replication_key:  # the query sorts by it even if it is not selected
            names = {**names, self.replication_key: {}}
        table = _get_table(self, names)
        query = self.apply_query_filters(table.select(), table, context=context)
        return self.apply_query_limit(query)

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the rows as records, sorted by the replication key if there is one.

        Raises:
            NotImplementedError: ``context`` is not None, but tables have no partitions.
            DataError: A value cannot be converted to the type of its column, or compared with it.
            StreamSetupError: The database rejects the query, for example for lack of a privilege.
        """
        if context:
            raise NotImplementedError(f"Stream '{self.name}' does not support partitioning.")
        _warn_without_log(self)
        query = self.build_query(context=context)
        texts = get_text_columns(_get_query_columns(query), self._conformed_properties())
        with self.connector._connect() as connection, _translate_query_errors(self):  # noqa: SLF001
            result = connection.execute(query, execution_options=_get_streaming_options(connection))
            with result:  # closes the cursor if the consumer stops early
                read = compile_row_reader(list(result.keys()), texts, get_processors(result))
                for page in iterate_pages(result):
                    yield from read(page)

    def estimate_sync(self) -> tuple[int | None, int | None] | None:
        """Return the number of rows that this sync will read, and None for the number of bytes.

        The database counts the rows. Return None instead of the pair if `estimates_by_count` is
        False or if a subclass overrides `get_records`.
        """
        if not self.estimates_by_count or is_any_overridden(self, SQLStream, "get_records"):
            return None
        self._write_starting_replication_value(None)  # the query starts at this value
        rows = self.build_query().order_by(None).subquery()
        with self.connector._connect() as connection:  # noqa: SLF001 - plugins override it
            return connection.execute(sa.select(sa.func.count()).select_from(rows)).scalar(), None

    def _conformed_properties(self) -> Mapping[str, JsonSchema]:
        """Return the schemas of the properties whose values are converted to JSON types on reading.

        The mapping is empty if other code needs the values as the database returns them: a method
        that the tap overrides, a stream map, a child stream, or a caller outside of a sync.
        """
        plan = get_plan(self)
        if (
            is_any_overridden(self, SQLStream, "get_records")
            or is_conversion_replaced()
            or self.TYPE_CONFORMANCE_LEVEL == TypeConformanceLevel.NONE
            or self._tap.run._source is not plan  # noqa: SLF001 - the stream that the engine reads
            or not plan.uses_fast_path
            or plan.mapped is not None
            or isinstance(plan.serializer, TypedRecordSerializer)
            or plan.post_processes
            or plan.syncs_children
        ):
            return {}
        properties: Mapping[str, JsonSchema] = self.effective_schema.get("properties", {})
        return properties


def _get_table(stream: SQLStream, names: Mapping[str, object]) -> sa.Table:
    """Return the table of a stream with the columns in ``names``.

    Raises:
        StreamSetupError: The table does not exist.
    """
    name = stream.fully_qualified_name
    try:
        table = stream.connector.get_table(full_table_name=name, column_names=list(names))
    except sa.exc.NoSuchTableError as error:
        raise StreamSetupError(
            f"Stream '{stream.name}': the database has no table {name}, or the user may not see"
            " it: discover the catalog again, or deselect the stream."
        ) from error
    for column in table.columns:
        column.type = _get_read_type(column.type)
    return table


def _get_read_type(declared: sa.types.TypeEngine[Any]) -> sa.types.TypeEngine[Any]:
    """Return the type as which a column is read: the base type of a domain, and text for a SET.

    SQLAlchemy compares a domain only with text, and returns a SET as a Python set, without order.
    """
    kind: Any = declared
    while kind.__visit_name__ == "DOMAIN":
        kind = kind.data_type
    return sa.String() if kind.__visit_name__ == "SET" else kind


def _get_key_column(table: sa.Table, replication_key: str, stream: SQLStream) -> sa.Column[Any]:
    """Return the column of the replication key.

    Raises:
        StreamSetupError: The table has no such column.
    """
    column = table.columns.get(replication_key)
    if column is None:
        raise StreamSetupError(
            f"Stream '{stream.name}': its replication key '{replication_key}' is no column of the"
            " table: discover the catalog again, and choose another one."
        )
    return column


def _warn_without_log(stream: SQLStream) -> None:
    """Log a warning if a stream is LOG_BASED but has no change log to read."""
    if stream.replication_method == REPLICATION_LOG_BASED and stream.change_log is None:
        stream.log(
            "Stream '%s' has no log to read: LOG_BASED reads all its rows in each sync, and no"
            " deletions.",
            stream.name,
            level=logging.WARNING,
        )


_CONVERSION_ERRORS: Final = (ArithmeticError, LookupError, TypeError, ValueError)
"""Errors that Python or a driver raises for a value that does not fit a type."""


@contextmanager
def _translate_query_errors(stream: SQLStream) -> Iterator[None]:
    """Context manager that adds the stream and a remedy to the errors of the stream's query.

    Raises:
        DataError: SQLAlchemy, the driver or the database could not convert a value to the type of
            its column. The value is that of a row, the bookmark or the start date.
        StreamSetupError: The database rejects the query.
    """
    try:
        yield
    except (*_CONVERSION_ERRORS, sa.exc.StatementError) as error:
        reason = error.orig if isinstance(error, sa.exc.StatementError) else error
        first_line = next(iter(str(reason).splitlines()), "")
        if isinstance(error, sa.exc.ProgrammingError):
            raise StreamSetupError(
                f"Stream '{stream.name}': the database rejects its query"
                f" ({type(reason).__name__}: {first_line}). If the user may not read the table,"
                " grant the privilege; if the table has changed, discover the catalog again; or"
                " deselect the stream."
            ) from error
        if not (isinstance(error, sa.exc.DataError) or isinstance(reason, _CONVERSION_ERRORS)):
            raise  # such as a lost connection
        raise DataError(
            f"Stream '{stream.name}': a value does not fit the type of its column"
            f" ({type(reason).__name__}: {first_line}). It is the value of a row, the bookmark or"
            " the start date. Correct it, deselect its column, or override get_table_columns to"
            " give the column another type."
        ) from error


def _build_order(column: sa.Column[Any], stream: SQLStream) -> sa.ColumnElement[Any]:
    """Return the ORDER BY expression for the replication key: ascending, nulls first if possible.

    Rows with null must come first, because an interrupted sync continues from its bookmark and
    would never read nulls at the end.
    """
    order, dialect = column.asc(), stream.connector._dialect.name  # noqa: SLF001
    may_be_last = column.nullable and dialect in NULLS_LAST_DIALECTS
    return sa.nulls_first(order) if stream.supports_nulls_first or may_be_last else order


def _sorts_by_collation(stream: SQLStream) -> bool:
    """Return True if the query of a stream sorts its rows by a replication key of text.

    The database then sorts by a collation, but Python sorts text by code points. Return False if a
    subclass overrides the query, because it may not sort.
    """
    if is_any_overridden(stream, SQLStream, "apply_query_filters", "build_query", "get_records"):
        return False
    return stream._context_reader.make_comparator().kind is ValueKind.TEXT  # noqa: SLF001


def _get_streaming_options(connection: sa.Connection) -> dict[str, Any]:
    """Return SQLAlchemy's execution options for reading a query through a server-side cursor.

    Options that are set on the connection take precedence.
    """
    user_options = connection.get_execution_options()
    return {"stream_results": True, "max_row_buffer": MAX_PAGE_ROWS, **user_options}


def _get_query_columns(query: sa.Select[Any]) -> dict[str, Any]:
    """Return the columns of a query, by their names in its result."""
    return {str(column.key): column for column in getattr(query, "selected_columns", ())}


def _read_start(column: sa.Column[Any], stream: SQLStream, context: Context | None) -> Any:
    """Return the replication key value at which a sync starts, or None for the beginning.

    Raises:
        StreamSetupError: The value does not fit the type of its column. SQLite would compare them
            nevertheless: each text is greater than all numbers.
    """
    start = stream.get_starting_replication_key_value(context)
    expected = None if start is None else _find_mismatch(start, column, stream)
    if expected is not None:
        raise make_start_error(stream, start, expected)
    return start


def _find_mismatch(start: Any, column: sa.Column[Any], stream: SQLStream) -> str | None:
    """Return a description of a column's valid values, or None if ``start`` is one of them.

    Dates and times are checked only for SQLite, which stores them as text. Other databases reject
    an invalid text, and may accept some that Python cannot parse, such as "infinity".
    """
    kind = infer_value_type(column.type)
    if isinstance(start, (dict, list)):
        return None if kind in {dict, list} else "a single value"
    if issubclass(kind, (int, float, Decimal)) and kind is not bool:
        return "a number" if parse_number(start) is None else None
    if stream.connector._dialect.name != "sqlite" or not issubclass(kind, (date, time)):  # noqa: SLF001
        return None
    if parse_instant(start) or (kind is time and _to_sqlite_time(start)):
        return None
    return "a time, such as 08:00:00" if kind is time else ISO_8601


def _limit_rows(
    query: sa.Select[Any], column: sa.Column[Any], start: Any, stream: SQLStream
) -> sa.Select[Any]:
    """Add a WHERE clause to a query, for rows from ``start`` to the end of a backfill, if any.

    The end itself is included, because the column's type may be less precise than the value. The
    sync later drops rows outside the range of the backfill.
    """
    limits = stream._read_range  # noqa: SLF001
    last = None if limits is None else limits.last
    is_sqlite = stream.connector._dialect.name == "sqlite"  # noqa: SLF001
    if is_sqlite and infer_value_type(column.type) in {datetime, time}:
        # Rows with any offset may be in the range of a backfill.
        margin = timedelta() if limits is None else _LONGEST_OFFSET
        return _limit_sqlite_rows(
            query,
            column,
            None if start is None else _to_sqlite_texts(start, -margin),
            None if last is None else _to_sqlite_texts(last, margin),
        )
    if start is not None:
        query = query.where(column >= _to_column_type(start, column))
    if last is not None:
        query = query.where(column <= _to_column_type(last, column))
    return query


def _limit_sqlite_rows(
    query: sa.Select[Any],
    column: sa.Column[Any],
    first: tuple[str, str] | None,
    last: tuple[str, str] | None,
) -> sa.Select[Any]:
    """Add a WHERE clause to a query that compares SQLite's texts of dates and times.

    Programs store such texts with a blank or a T, with or without seconds, fraction and offset.
    ``first`` and ``last`` are limits from `_to_sqlite_texts`: a text for rows with an offset, and
    one for rows in UTC. Each limit becomes a coarse condition, which can use an index, and an
    exact one.
    """
    text = sa.type_coerce(column, sa.String)
    normal = sa.func.replace(text, "T", " ")
    has_offset = sa.func.substr(text, _AFTER_MINUTES).op("GLOB")("*[+-]*")

    def choose_limit(as_written: str, in_utc: str) -> sa.Case[str]:
        return sa.case((has_offset, as_written), else_=in_utc)

    if first:
        limits = [_shorten(limit) for limit in first]
        query = query.where(text >= min(limits), normal >= choose_limit(*limits))
    if last:
        limits = [f"{limit}~" for limit in last]  # greater than the same text with a fraction
        latest = max(limits).replace(" ", "T")  # T is greater than a blank
        query = query.where(text <= latest, normal <= choose_limit(*limits))
    return query


def _to_column_type(value: Any, column: sa.Column[Any]) -> Any:
    """Convert a bookmark to the type of a column, such as text to a datetime.

    A value that is not text, or cannot be parsed, is returned unchanged.
    """
    if isinstance(column.type, sa.REAL):  # 0.7 in double precision is greater than 0.7 in REAL
        return sa.cast(value, column.type)
    if isinstance(value, bool):
        return sa.literal(value)  # SQLAlchemy compares a constant only for equality
    read = _READERS.get(infer_value_type(column.type))
    if read is None or not isinstance(value, str):
        return value
    try:
        return read(value, column)
    except ValueError:  # the database may still be able to interpret it
        return value


def _to_sqlite_texts(value: Any, shift: timedelta) -> tuple[str, str]:
    """Add ``shift`` to a date-time, and return it as two texts: local time and UTC, without offset.

    For a value that is no date-time, such as a time, both texts are equal.
    """
    instant = parse_instant(value)
    if instant is None:
        return (_to_sqlite_time(value),) * 2
    written, _ = instant
    with suppress(OverflowError):  # the first or the last day that Python knows
        written += shift
    in_utc = written
    with suppress(OverflowError):
        in_utc = written.astimezone(timezone.utc)
    return _to_local_text(written), _to_local_text(in_utc)


def _to_local_text(instant: datetime) -> str:
    return instant.replace(tzinfo=None).isoformat(sep=" ")


def _to_sqlite_time(value: Any) -> str:
    """Return a time as text without its offset; "" for a value that is not a time."""
    try:
        return time_fromisoformat(value).replace(tzinfo=None).isoformat()
    except (TypeError, ValueError):
        return ""


def _shorten(text: str) -> str:
    """Return the shortest text that SQLite may store for a date-time or a time.

    Trailing zeros of the fraction are removed; so are seconds and a time of day that are zero.
    """
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.removesuffix(":00").removesuffix(" 00:00")


def _read_instant(value: str, column: sa.Column[Any]) -> datetime:
    """Parse a date-time. For a column without time zone, convert it to UTC and remove the offset.

    Raises:
        ValueError: The text is not a date-time.
    """
    instant = parse_instant(value)
    if instant is None:
        raise ValueError(value)
    moment, _ = instant
    if getattr(column.type, "timezone", False):
        return moment
    return moment.astimezone(timezone.utc).replace(tzinfo=None)


def _read_date(value: str, column: sa.Column[Any]) -> date:
    return _read_instant(value, column).date()


def _read_bytes(value: str, _column: sa.Column[Any]) -> bytes:
    return bytes.fromhex(value)


def _read_uuid(value: str, _column: sa.Column[Any]) -> UUID:
    return UUID(value)


def _read_number(value: str, _column: sa.Column[Any]) -> Decimal:
    """Parse the text of a number.

    Raises:
        ValueError: The text is not a number.
    """
    number = parse_number(value)
    if number is None:
        raise ValueError(value)
    return Decimal(number)


def _read_integer(value: str, column: sa.Column[Any]) -> int | float:
    number = _read_number(value, column)
    is_integer = number == number.to_integral_value() and number.adjusted() < _MOST_DIGITS
    return int(number) if is_integer else float(number)


_READERS: dict[type, Callable[[str, sa.Column[Any]], Any]] = {
    datetime: _read_instant,
    date: _read_date,
    UUID: _read_uuid,
    bytes: _read_bytes,
    int: _read_integer,
    float: _read_number,
    Decimal: _read_number,
}
"""Parsers of bookmark text by the type of the column's values."""
