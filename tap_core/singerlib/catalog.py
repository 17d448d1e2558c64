"""The Singer catalog: streams, their metadata and their selection.

A *breadcrumb* is the path to a stream or property: ``()`` is the stream, ``("properties", "a")``
the property ``a``. Without any metadata, everything is selected. Otherwise, the first rule that
applies decides:

1. If the parent is not selected, a property is not selected.
2. With the inclusion ``unsupported``, it is not selected; with ``automatic``, it is selected.
3. The metadata ``selected`` decides, else ``selected-by-default``, else the parent's selection.
4. Otherwise, a stream is not selected.

Source: the Singer specification, "Discovery mode" and its metadata section.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeAlias, TypeVar, cast

from tap_core.singerlib.schema import Schema as Schema
from tap_core.types import JsonSchema

__all__ = [
    "REPLICATION_FULL_TABLE",
    "REPLICATION_INCREMENTAL",
    "REPLICATION_LOG_BASED",
    "AnyMetadata",
    "Breadcrumb",
    "Catalog",
    "CatalogEntry",
    "Metadata",
    "MetadataMapping",
    "Schema",
    "SelectionMask",
    "StreamMetadata",
    "deselect_all_streams",
    "set_catalog_stream_selected",
]

REPLICATION_FULL_TABLE: Final = "FULL_TABLE"
REPLICATION_INCREMENTAL: Final = "INCREMENTAL"
REPLICATION_LOG_BASED: Final = "LOG_BASED"

Breadcrumb: TypeAlias = tuple[str, ...]
"""Path to a stream ``()`` or a property ``("properties", "a")``, as in Singer metadata."""

_PARENT_DEPTH: Final = 2

_M = TypeVar("_M", bound="Metadata")

_logger = logging.getLogger(__name__)


class SelectionMask(dict[Breadcrumb, bool]):
    """Selection of a stream and its properties: a dict from breadcrumb to True (selected) or False.

    A breadcrumb is a path in the schema, such as ``("properties", "a")``. A property without an
    entry has the selection of its parent.
    """

    def __missing__(self, breadcrumb: Breadcrumb) -> bool:
        """Return the parent's selection for a property without an entry; for a stream, True."""
        if len(breadcrumb) < _PARENT_DEPTH:
            return True
        return self[breadcrumb[:-_PARENT_DEPTH]]


@dataclass(slots=True)
class Metadata:
    """Catalog metadata of one property.

    Attributes:
        inclusion: ``available``, ``automatic`` or ``unsupported``.
        selected: Choice of the user: True, False, or None for no choice.
        selected_by_default: Choice of the tap, used without an explicit ``selected``.
    """

    class InclusionType(str, enum.Enum):
        """Rule for including a property in records: optional, always, or never (unsupported)."""

        AVAILABLE = "available"
        AUTOMATIC = "automatic"
        UNSUPPORTED = "unsupported"

    inclusion: InclusionType | None = None
    selected: bool | None = None
    selected_by_default: bool | None = None

    @classmethod
    def from_dict(cls: type[_M], value: Mapping[str, Any]) -> _M:  # noqa: PYI019 - 3.10
        """Create the metadata from a ``metadata`` object in a catalog. Drop unknown keys."""
        names = (attribute.name for attribute in fields(cls))
        return cls(**{name: value.get(name.replace("_", "-")) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Return the metadata as a dict for a catalog, without null values."""
        values = ((attribute.name, getattr(self, attribute.name)) for attribute in fields(self))
        return {name.replace("_", "-"): value for name, value in values if value is not None}


@dataclass(slots=True)
class StreamMetadata(Metadata):
    """Catalog metadata of a stream as a whole.

    Attributes:
        table_key_properties: Names of the properties in the primary key.
        replication_key: Name of the replication key.
        forced_replication_method: Replication method that users cannot change.
        valid_replication_keys: Names of properties that can be the replication key.
        schema_name: Database schema of the table.
    """

    table_key_properties: Sequence[str] | None = None
    replication_key: str | None = None
    forced_replication_method: str | None = None
    valid_replication_keys: list[str] | None = None
    schema_name: str | None = None


AnyMetadata: TypeAlias = Metadata | StreamMetadata


class MetadataMapping(dict[Breadcrumb, AnyMetadata]):
    """Metadata of a stream and its properties, by breadcrumb, such as ``("properties", "a")``.

    The stream has the breadcrumb ``()``. A missing entry is created when it is accessed.
    """

    @classmethod
    def from_iterable(cls, iterable: Iterable[Mapping[str, Any]]) -> MetadataMapping:
        """Create the mapping from the ``metadata`` list of a catalog entry."""
        mapping = cls()
        for item in iterable:
            breadcrumb = tuple(item["breadcrumb"])
            kind = Metadata if breadcrumb else StreamMetadata
            mapping[breadcrumb] = kind.from_dict(item["metadata"])
        return mapping

    def to_list(self) -> list[dict[str, Any]]:
        """Return the mapping as a list of dicts, for the ``metadata`` of a catalog entry."""
        return [
            {"breadcrumb": list(breadcrumb), "metadata": metadata.to_dict()}
            for breadcrumb, metadata in self.items()
        ]

    def __missing__(self, breadcrumb: Breadcrumb) -> AnyMetadata:
        """Store and return empty metadata for a breadcrumb that has no entry."""
        metadata = self[breadcrumb] = Metadata() if breadcrumb else StreamMetadata()
        return metadata

    @property
    def root(self) -> StreamMetadata:
        """Metadata of the stream as a whole, which has the breadcrumb ``()``."""
        return cast("StreamMetadata", self[()])

    @classmethod
    def get_standard_metadata(
        cls,
        *,
        schema: JsonSchema | None = None,
        schema_name: str | None = None,
        key_properties: Sequence[str] | None = None,
        valid_replication_keys: list[str] | None = None,
        replication_method: str | None = None,
        selected_by_default: bool | None = None,
    ) -> MetadataMapping:
        """Return the metadata that a tap publishes for one of its streams.

        The inclusion of primary keys and replication keys is ``automatic``. The inclusion of all
        other properties, also of nested properties, is ``available``.

        Args:
            schema: JSON Schema of the stream.
            schema_name: Database schema of the table.
            key_properties: Names of the properties in the primary key.
            valid_replication_keys: Names of possible replication keys. If there is only one, it
                also becomes the ``replication-key``.
            replication_method: Value of ``forced-replication-method``.
            selected_by_default: Value of ``selected-by-default`` of the stream.
        """
        candidates = valid_replication_keys or []
        root = StreamMetadata(
            table_key_properties=key_properties,
            forced_replication_method=replication_method,
            valid_replication_keys=valid_replication_keys,
            selected_by_default=selected_by_default,
            replication_key=candidates[0] if len(candidates) == 1 else None,
        )
        mapping = cls()
        if schema:
            root.inclusion = Metadata.InclusionType.AVAILABLE
            root.schema_name = schema_name or None
            automatic = {*(key_properties or ()), *candidates}
            mapping._describe((), schema, automatic)
        mapping[()] = root
        return mapping

    def _describe(
        self,
        parent: Breadcrumb,
        schema: JsonSchema,
        automatic: Iterable[str] = (),
    ) -> None:
        """Add the metadata of the properties in ``schema`` and of nested properties.

        Args:
            parent: Breadcrumb of the object to which the schema belongs.
            schema: JSON Schema of that object.
            automatic: Names of the properties that are always included, such as keys.
        """
        for name, definition in (schema.get("properties") or {}).items():
            breadcrumb = (*parent, "properties", name)
            self[breadcrumb] = Metadata(
                inclusion=Metadata.InclusionType.AUTOMATIC
                if name in automatic
                else Metadata.InclusionType.AVAILABLE,
            )
            if isinstance(definition, Mapping):
                self._describe(breadcrumb, cast("JsonSchema", definition))

    def resolve_selection(self) -> SelectionMask:
        """Return the selection as a mask: True or False for the stream and each property."""
        cache: dict[Breadcrumb, bool] = {}
        return SelectionMask(
            (breadcrumb, self._is_selected(breadcrumb, cache)) for breadcrumb in self
        )

    def _is_selected(self, breadcrumb: Breadcrumb, cache: dict[Breadcrumb, bool]) -> bool:
        """Return True if a stream or property is selected. ``cache`` stores known results."""
        if breadcrumb not in cache:
            parent = self._is_selected(breadcrumb[:-_PARENT_DEPTH], cache) if breadcrumb else None
            cache[breadcrumb] = _decide(breadcrumb, self.get(breadcrumb, Metadata()), parent)
        return cache[breadcrumb]


def _decide(breadcrumb: Breadcrumb, metadata: AnyMetadata, parent: bool | None) -> bool:
    """Return True if a stream or property with this metadata is selected.

    ``parent`` is True if the parent is selected, and None for a stream, which has no parent.
    """
    if parent is False:
        return False
    if metadata.inclusion == Metadata.InclusionType.UNSUPPORTED:
        if metadata.selected:
            _logger.debug("'%s' is selected but unsupported", ":".join(breadcrumb))
        return False
    if metadata.inclusion == Metadata.InclusionType.AUTOMATIC:
        if metadata.selected is False:
            _logger.debug("'%s' is automatic, so it remains selected", ":".join(breadcrumb))
        return True
    wishes = (metadata.selected, metadata.selected_by_default, parent)
    return next((wish for wish in wishes if wish is not None), False)


@dataclass(slots=True)
class CatalogEntry:
    """Catalog entry of one stream.

    Attributes:
        tap_stream_id: Identifier of the stream in the tap.
        metadata: Metadata of the stream and its properties, by breadcrumb.
        schema: JSON Schema of the stream.
        stream: Name of the stream.
        key_properties: Names of the properties in the primary key.
        replication_key: Name of the replication key.
        is_view: True for a database view.
        database: Database of the table.
        table: Name of the table.
        row_count: Number of rows in the table.
        stream_alias: Name of the stream in the messages that the tap writes.
        replication_method: ``FULL_TABLE``, ``INCREMENTAL`` or ``LOG_BASED``.
    """

    tap_stream_id: str
    metadata: MetadataMapping = field(default_factory=MetadataMapping)
    schema: Schema = field(default_factory=Schema)
    stream: str | None = None
    key_properties: Sequence[str] | None = None
    replication_key: str | None = None
    is_view: bool | None = None
    database: str | None = None
    table: str | None = None
    row_count: int | None = None
    stream_alias: str | None = None
    replication_method: str | None = None

    @classmethod
    def from_dict(cls, stream: Mapping[str, Any]) -> CatalogEntry:
        """Create the entry from an item of a catalog's ``streams`` list. Drop unknown keys."""
        return cls(
            tap_stream_id=stream["tap_stream_id"],
            stream=stream.get("stream"),
            replication_key=stream.get("replication_key"),
            key_properties=stream.get("key_properties"),
            database=stream.get("database_name"),
            table=stream.get("table_name"),
            schema=Schema.from_dict(stream.get("schema", {})),
            is_view=stream.get("is_view"),
            row_count=stream.get("row_count"),
            stream_alias=stream.get("stream_alias"),
            metadata=MetadataMapping.from_iterable(stream.get("metadata", [])),
            replication_method=stream.get("replication_method"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as a dict for a catalog's ``streams`` list, without null values."""
        values = {
            "tap_stream_id": self.tap_stream_id or None,
            "database_name": self.database or None,
            "table_name": self.table or None,
            "replication_key": self.replication_key,
            "replication_method": self.replication_method,
            "key_properties": self.key_properties,
            "schema": self.schema.to_dict(),
            "is_view": self.is_view,
            "stream": self.stream,
            "row_count": self.row_count,
            "stream_alias": self.stream_alias,
            "metadata": self.metadata.to_list(),
        }
        return {key: value for key, value in values.items() if value is not None}


class Catalog(dict[str, CatalogEntry]):
    """Singer catalog: a dict of its entries by ``tap_stream_id``, in catalog order."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Catalog:
        """Create the catalog from the parsed JSON of a catalog file."""
        return cls.from_entries(map(CatalogEntry.from_dict, data.get("streams", [])))

    @classmethod
    def from_entries(cls, entries: Iterable[CatalogEntry]) -> Catalog:
        """Create the catalog from entries. The last one of each ``tap_stream_id`` counts."""
        return cls((entry.tap_stream_id, entry) for entry in entries)

    def to_dict(self) -> dict[str, Any]:
        """Return the catalog as a dict, as in a catalog file: ``{"streams": [...]}``."""
        return {"streams": [entry.to_dict() for entry in self.values()]}

    @property
    def streams(self) -> Sequence[CatalogEntry]:
        """List of the catalog entries, in catalog order."""
        return list(self.values())

    def add_stream(self, entry: CatalogEntry) -> None:
        """Add an entry. It replaces an existing entry with the same ``tap_stream_id``."""
        self[entry.tap_stream_id] = entry

    def get_stream(self, stream_id: str) -> CatalogEntry | None:
        """Return the entry with this ``tap_stream_id``, or None if there is no such entry."""
        return self.get(stream_id)


def deselect_all_streams(catalog: Catalog) -> None:
    """Set ``selected`` to False in the metadata of every stream. Properties are unchanged."""
    for entry in catalog.values():
        entry.metadata.root.selected = False


def set_catalog_stream_selected(
    catalog: Catalog,
    stream_name: str,
    *,
    selected: bool,
    breadcrumb: Breadcrumb | None = None,
) -> None:
    """Select or deselect a stream or one of its properties, in the metadata of a catalog.

    Args:
        catalog: Catalog to change.
        stream_name: The ``tap_stream_id`` of the stream.
        selected: True to select, False to deselect.
        breadcrumb: Path of the property, such as ``("properties", "a")``; None for the stream.

    Raises:
        ValueError: The catalog has no such stream.
    """
    entry = catalog.get_stream(stream_name)
    if entry is None:
        msg = f"Catalog entry missing for {stream_name!r}: the catalog has no such stream"
        raise ValueError(msg)
    entry.metadata[breadcrumb or ()].selected = selected
