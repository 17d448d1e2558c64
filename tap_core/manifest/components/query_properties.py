"""Query properties: the record fields that a request asks the API for.

The list of properties is fixed or is read from an endpoint once per run. If an API limits the
properties per request, each page takes several requests, and their partial records are merged.

Source: Airbyte YAML reference, "QueryProperties".
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from tap_core.manifest.components.partition_routers import extend_stream_slice
from tap_core.manifest.dpath import MISSING, make_getter
from tap_core.manifest.interfaces import (
    DeclarativeStreamProtocol,
    Retriever,
    TemplateScope,
    Transformation,
)
from tap_core.types import Record

__all__ = [
    "GroupByKeyMergeStrategy",
    "JsonSchemaPropertySelector",
    "PropertiesFromEndpoint",
    "PropertyChunking",
    "QueryProperties",
    "get_properties",
    "inject_properties",
    "merge_objects",
]

_PROPERTIES_FIELD: Final = "query_properties"
"""Extra field of a slice that contains the property names to request, for templates."""
_SEPARATOR_LENGTH: Final = 3
"""Number of characters that separate two property names in a URL (``%2C``)."""
_request_lock: Final = threading.RLock()
"""Lock held while property names are requested, so that threads request them only once."""


@dataclass(frozen=True)
class PropertiesFromEndpoint:
    """Query properties whose names are read from the records of an API endpoint."""

    property_field_path: list[str]
    retriever: Retriever

    @cached_property
    def _cached_names(self) -> list[list[str]]:
        """Cache of the property names: an empty list or, after the request, [list of names]."""
        return []

    def read_names(self, stream: DeclarativeStreamProtocol) -> list[str]:
        """Request the endpoint, once per run, and return the property name in each record.

        Records without a name are skipped.
        """
        with _request_lock:
            if not self._cached_names:
                records = stream.iterate_records(self.retriever)
                names = map(make_getter(self.property_field_path), records)
                self._cached_names.append([str(name) for name in names if name is not MISSING])
            return self._cached_names[0]


@dataclass(frozen=True)
class GroupByKeyMergeStrategy:
    """Strategy that merges partial records from several requests by equal key fields."""

    key: str | list[str]

    def group(self, record: Record) -> tuple[str, ...] | None:
        """Return the key field values of a record as strings; None if a value is empty.

        The number 0 is not empty.
        """
        names = [self.key] if isinstance(self.key, str) else self.key
        values = [record.get(name) for name in names]
        is_complete = all(value or (value == 0 and value is not False) for value in values)
        return tuple(map(str, values)) if is_complete else None


_BY_ID: Final = GroupByKeyMergeStrategy("id")


@dataclass(frozen=True)
class PropertyChunking:
    """Limit of the record fields that one request may ask the API for.

    `property_limit_type` is the unit: the number of names, or the number of characters in them.
    """

    property_limit_type: Literal["characters", "property_count"]
    property_limit: int | None = None
    record_merge_strategy: GroupByKeyMergeStrategy | None = None

    @property
    def merging(self) -> GroupByKeyMergeStrategy:
        """Strategy that merges the partial records of several requests, by default by ``id``."""
        return self.record_merge_strategy or _BY_ID

    def make_chunks(
        self, names: Sequence[str], always: Sequence[str], chosen: Iterable[str] | None
    ) -> Iterator[list[str]]:
        """Divide the property names among several requests; yield the list of names for each.

        Args:
            names: All property names.
            always: Names that every request contains.
            chosen: The names selected in the catalog; None selects all names. Without a
                `property_limit`, ``chosen`` is ignored and one request contains all names.
        """
        if not self.property_limit:
            yield [*names, *always]
            return
        counts_names = self.property_limit_type == "property_count"
        chunk, size = list(always), 0
        for name in names:
            if chosen is not None and name not in chosen:
                continue
            length = 1 if counts_names else len(name) + _SEPARATOR_LENGTH
            if size and size + length > self.property_limit:
                yield chunk
                chunk, size = list(always), 0
            chunk.append(name)
            size += length
        yield chunk


@dataclass(frozen=True)
class JsonSchemaPropertySelector:
    """Selector that requests only the record fields that are selected in the catalog.

    `transformations` convert the property names of the stream's schema to the API's names.
    """

    transformations: list[Transformation] = field(default_factory=list)

    def select_names(self, stream: DeclarativeStreamProtocol) -> frozenset[str]:
        """Return the selected top-level properties of the stream, with the API's names for them."""
        properties: Mapping[str, Any] = stream.schema.get("properties") or {}
        mask = stream.mask
        selected: Record = {
            name: schema
            for name, schema in properties.items()
            if mask.get(("properties", name), True)
        }
        for change in self.transformations:
            change.transform(selected, {"config": {}, "record": selected, "stream_slice": {}})
        return frozenset(selected)


@dataclass(frozen=True)
class QueryProperties:
    """Record fields to request from the API: a fixed list, or names read from an endpoint."""

    property_list: list[str] | PropertiesFromEndpoint
    always_include_properties: list[str] = field(default_factory=list)
    property_chunking: PropertyChunking | None = None
    property_selector: JsonSchemaPropertySelector | None = None

    @property
    def merging(self) -> GroupByKeyMergeStrategy | None:
        """Strategy that merges the partial records of several requests; None without chunking."""
        return None if self.property_chunking is None else self.property_chunking.merging

    def make_chunks(self, stream: DeclarativeStreamProtocol) -> list[list[str]]:
        """Return the property names to request, as one list per request.

        Several requests read one page if the API limits the properties per request.
        """
        names_or_source, always = self.property_list, self.always_include_properties
        names = (
            names_or_source.read_names(stream)
            if isinstance(names_or_source, PropertiesFromEndpoint)
            else names_or_source
        )
        select = self.property_selector
        chosen = None if select is None else select.select_names(stream)
        if self.property_chunking is not None:
            return list(self.property_chunking.make_chunks(names, always, chosen))
        return [[*always, *(name for name in names if chosen is None or name in chosen)]]


def inject_properties(scope: TemplateScope, names: Sequence[str]) -> TemplateScope:
    """Return the template variables of a request, extended by the record fields to request.

    The names become the extra field ``query_properties`` of ``stream_slice``.
    """
    return extend_stream_slice(scope, {_PROPERTIES_FIELD: list(names)})


def get_properties(stream_slice: Any) -> list[str]:
    """Return the property names to request, from a stream slice's extra field ``query_properties``.

    Return [] if the slice has no such field.
    """
    extra_fields: Mapping[str, list[str]] = getattr(stream_slice, "extra_fields", None) or {}
    return extra_fields.get(_PROPERTIES_FIELD, [])


def merge_objects(first: Mapping[Any, Any], second: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a copy of ``first`` with the members of ``second``; nested objects are merged."""
    merged = dict(first)
    for name, value in second.items():
        old = merged.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[name] = merge_objects(old, value)
        else:
            merged[name] = value
    return merged
