"""Discovery of tables, views, columns and keys as catalog entries.

All tables of a schema are reflected with one query. If that fails because one table cannot
be read, each table is reflected separately, and unreadable ones are logged and skipped.
Methods that an author overrides are called for every table, with singer_sdk's arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine.reflection import ObjectKind

from tap_core import typing as th
from tap_core.exceptions import SingerSDKPendingDeprecationWarning
from tap_core.singerlib.catalog import CatalogEntry, MetadataMapping, Schema
from tap_core.sql.connection import ConnectionManager
from tap_core.sql.connection_errors import DatabaseUnreachableError
from tap_core.sql.fully_qualified_name import FullyQualifiedName, split_name

if sys.version_info >= (3, 13):
    from warnings import deprecated
else:
    from typing_extensions import deprecated

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import (
        ReflectedColumn,
        ReflectedIndex,
        ReflectedPrimaryKeyConstraint,
    )

    from tap_core.types import JsonSchema

__all__ = ["CatalogDiscovery"]

_T = TypeVar("_T")
_Key: TypeAlias = tuple[str | None, str]
"""Schema (None for the default one) and table."""


class CatalogDiscovery(ConnectionManager):
    """Base class of `SQLConnector` that discovers tables and views."""

    # Sources of the catalog; each may be overridden

    def get_schema_names(self, engine: sa.Engine, inspected: sa.Inspector) -> list[str]:  # noqa: ARG002
        """Return the schemas to discover; override to restrict them."""
        return inspected.get_schema_names()

    @deprecated("This method is deprecated.", category=SingerSDKPendingDeprecationWarning)
    def get_object_names(
        self,
        engine: sa.Engine,  # noqa: ARG002
        inspected: sa.Inspector,
        schema_name: str,
    ) -> list[tuple[str, bool]]:
        """Return (name, is_view) for each table and view of a schema.

        If this method is overridden, discovery is restricted to its result.
        """
        tables = [(name, False) for name in inspected.get_table_names(schema=schema_name)]
        return tables + [(name, True) for name in self._view_names(inspected, schema_name)]

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
        """Return the catalog entry of one table or view from its reflected metadata.

        The key is the primary key, or the first unique index if the database reports no primary
        key. The replication method is left empty for the user to choose.
        """
        stream = f"{schema_name}-{table_name}" if schema_name else table_name
        keys = _keys(reflected_pk, reflected_indices or [])
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
                valid_replication_keys=None,
            ),
            database=None,
            row_count=None,
            stream_alias=None,
            replication_key=None,
        )

    def discover_catalog_entries(
        self, *, exclude_schemas: Sequence[str] = (), reflect_indices: bool = True
    ) -> list[dict[str, Any]]:
        """Return the catalog entries of all tables and views, as dicts.

        ``reflect_indices=False`` skips the query for unique indexes.

        Raises:
            DatabaseUnreachableError: the database cannot be reached.
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
                "Discovery found no tables and no views: %s. Check the database, and what its"
                " user may see.",
                f"looked in {', '.join(map(repr, schemas))}" if schemas else "there is no schema",
            )
        return entries

    # Names and tables

    def parse_full_table_name(
        self, full_table_name: str | FullyQualifiedName
    ) -> tuple[str | None, str | None, str]:
        """Return (database, schema, table); override for names with other parts."""
        return split_name(full_table_name)

    def table_exists(self, full_table_name: str | FullyQualifiedName) -> bool:
        """Return True if the table exists."""
        _, schema, table = self.parse_full_table_name(full_table_name)
        return sa.inspect(self._engine).has_table(table, schema)

    def get_table_columns(
        self,
        full_table_name: str | FullyQualifiedName,
        column_names: Collection[str] | None = None,
    ) -> dict[str, sa.Column[Any]]:
        """Return a table's columns by name, in table order; only ``column_names`` if passed.

        Names are compared without regard to case.
        """
        _, schema, table = self.parse_full_table_name(full_table_name)
        wanted = {name.casefold() for name in column_names or ()}
        return {
            column["name"]: sa.Column(
                column["name"], column["type"], nullable=column.get("nullable", False)
            )
            for column in sa.inspect(self._engine).get_columns(table, schema)
            if not wanted or column["name"].casefold() in wanted
        }

    def get_table(
        self,
        full_table_name: str | FullyQualifiedName,
        column_names: Collection[str] | None = None,
    ) -> sa.Table:
        """Return a table with all its columns, or only with ``column_names`` if passed."""
        columns = self.get_table_columns(
            full_table_name=full_table_name,
            column_names=column_names,  # the names that overrides in singer_sdk taps use
        ).values()
        _, schema, table = self.parse_full_table_name(full_table_name)
        return sa.Table(table, sa.MetaData(), *columns, schema=schema)

    # Reflection

    def _discover_entries(
        self, engine: sa.Engine, inspected: sa.Inspector, schema: str, reflect_indices: bool
    ) -> Iterator[CatalogEntry]:
        """Yield the catalog entries of one schema: its tables, then its views."""
        ask = _Question(self, inspected, schema)
        primary_keys = ask.inspect_all(
            inspected.get_multi_pk_constraint, inspected.get_pk_constraint
        )
        indices: Mapping[_Key, list[ReflectedIndex]] = (
            ask.inspect_all(inspected.get_multi_indexes, inspected.get_indexes)
            if reflect_indices
            else {}
        )
        listed = self._listed(engine, inspected, schema)
        for kind, is_view in ((ObjectKind.TABLE, False), (ObjectKind.ANY_VIEW, True)):
            columns = ask.inspect_all(inspected.get_multi_columns, inspected.get_columns, kind)
            for key, reflected in columns.items():
                if listed is None or (key[1], is_view) in listed:
                    yield self.discover_catalog_entry(
                        engine,
                        inspected,
                        key[0],
                        key[1],
                        is_view,
                        reflected_columns=reflected,
                        reflected_pk=primary_keys.get(key),
                        reflected_indices=indices.get(key, []),
                    )

    def _listed(
        self, engine: sa.Engine, inspected: sa.Inspector, schema: str
    ) -> Collection[tuple[str, bool]] | None:
        """Return the result of an overridden `get_object_names`, else None."""
        own = getattr(type(self), "get_object_names", None)
        if own is CatalogDiscovery.get_object_names:
            return None
        return set(self.get_object_names(engine, inspected, schema))

    def _build_schema(
        self, columns: Sequence[ReflectedColumn], keys: Collection[str]
    ) -> JsonSchema:
        """Return the JSON Schema of a row."""
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

    def _view_names(self, inspected: sa.Inspector, schema: str) -> list[str]:
        """Return the views of a schema; an empty list if the dialect cannot list views."""
        try:
            return inspected.get_view_names(schema=schema)
        except NotImplementedError:
            self._warn_no_view_detection()
            return []

    @cached_property
    def _view_warning(self) -> None:
        """Log once that the dialect cannot list views."""
        self.logger.warning(
            "Provider does not support get_view_names(). Streams list may be incomplete or"
            " `is_view` may be unpopulated."
        )

    def _warn_no_view_detection(self) -> None:
        """Log, on the first call only, that the dialect cannot list views."""
        _ = self._view_warning


class _Question:
    """Reflection of one schema: all tables at once, or one by one if that fails."""

    def __init__(self, connector: CatalogDiscovery, inspected: sa.Inspector, schema: str) -> None:
        self._connector = connector
        self._inspected = inspected
        self._schema = schema

    def inspect_all(
        self,
        of_all: Callable[..., Mapping[_Key, _T]],
        of_one: Callable[..., _T],
        kind: ObjectKind = ObjectKind.TABLE,
    ) -> Mapping[Any, _T]:
        """Return the reflected metadata of each readable table (or view, by ``kind``)."""
        try:
            return of_all(schema=self._schema, kind=kind)
        except DatabaseUnreachableError:
            raise
        except (exc.SQLAlchemyError, NotImplementedError) as error:
            self._connector.logger.warning(
                "Schema '%s' cannot be read at once (%s): its tables are read one by one.",
                self._schema,
                _first_line(error),
            )
        answers = {(self._schema, name): self._one(of_one, name) for name in self._names(kind)}
        return {key: answer for key, answer in answers.items() if answer is not None}

    def _one(self, of_one: Callable[..., _T], name: str) -> _T | None:
        """Return the reflected metadata of one table; log a warning and return None if it fails."""
        try:
            return of_one(name, schema=self._schema)
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

    def _names(self, kind: ObjectKind) -> list[str]:
        """Return the names of the tables, or of the views including materialized ones."""
        if kind is ObjectKind.TABLE:
            return self._inspected.get_table_names(schema=self._schema)
        names = self._connector._view_names(self._inspected, self._schema)  # noqa: SLF001
        try:
            return [*names, *self._inspected.get_materialized_view_names(schema=self._schema)]
        except NotImplementedError:
            return names


def _keys(
    primary: ReflectedPrimaryKeyConstraint | None, indices: Sequence[ReflectedIndex]
) -> list[str]:
    """Return the primary key's columns, else those of the first unique index."""
    if primary and "constrained_columns" in primary:
        return list(primary["constrained_columns"])
    unique = (index["column_names"] for index in indices if index.get("unique", False))
    named = ([name for name in names if name is not None] for names in unique if None not in names)
    return next(named, [])


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
