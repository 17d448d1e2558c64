"""Which properties of records are asked for, and in how many requests.

Rules of the room: a list of names, cut into chunks; what becomes of the records of several chunks
is for who reads them. An endpoint that says which properties there are is asked once in a run.
Names, sizes of chunks and their order are Airbyte's (its YAML reference, "QueryProperties").
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, Protocol

from tap_core.manifest.components.partition_routers import PartitionSlice
from tap_core.manifest.dpath import MISSING, make_getter
from tap_core.manifest.interfaces import Retriever, TemplateScope, Transformation
from tap_core.types import JsonSchema, Record

__all__ = [
    "GroupByKeyMergeStrategy",
    "JsonSchemaPropertySelector",
    "PropertiesFromEndpoint",
    "PropertyChunking",
    "QueryProperties",
    "get_properties",
    "inject_properties",
]

_NAME: Final = "query_properties"
"""The extra field of a slice by which templates name the properties of a request."""
_BETWEEN: Final = 3
"""Characters that a URL spends on what stands between two names."""
_turn: Final = threading.RLock()


class _AskingStream(Protocol):
    """What is asked of the stream whose properties these are."""

    @property
    def schema(self) -> JsonSchema:
        """The schema of its records."""

    @property
    def mask(self) -> Mapping[tuple[str, ...], bool]:
        """Whether each of them is selected."""

    def iterate_records(self, retriever: Any) -> Iterable[Record]:
        """Yield the records of a retriever's only slice."""


@dataclass(frozen=True)
class PropertiesFromEndpoint:
    """The names that an endpoint's records have in one of their fields."""

    property_field_path: list[str]
    retriever: Retriever

    @cached_property
    def _known(self) -> list[list[str]]:
        return []

    def names(self, stream: _AskingStream) -> list[str]:
        """Return the names, those of records without the field left out."""
        with _turn:
            if not self._known:
                found = map(
                    make_getter(self.property_field_path), stream.iterate_records(self.retriever)
                )
                self._known.append([str(one) for one in found if one is not MISSING])
            return self._known[0]


@dataclass(frozen=True)
class GroupByKeyMergeStrategy:
    """Records of several chunks are one where they have the same values under these keys."""

    key: str | list[str]

    def group(self, record: Record) -> tuple[str, ...] | None:
        """Return what a record has in common with others; None where a key is empty."""
        names = [self.key] if isinstance(self.key, str) else self.key
        values = [record.get(name) for name in names]
        return tuple(map(str, values)) if all(values) else None


_BY_ID: Final = GroupByKeyMergeStrategy("id")


@dataclass(frozen=True)
class PropertyChunking:
    """How many properties one request may ask for."""

    property_limit_type: Literal["characters", "property_count"]
    property_limit: int | None = None
    record_merge_strategy: GroupByKeyMergeStrategy | None = None

    @property
    def merging(self) -> GroupByKeyMergeStrategy:
        """What makes one record of those of several chunks."""
        return self.record_merge_strategy or _BY_ID

    def chunks(
        self, names: Sequence[str], always: Sequence[str], chosen: Iterable[str] | None
    ) -> Iterator[list[str]]:
        """Yield the names of each request; without a limit those of a single one, chosen or not."""
        if not self.property_limit:
            yield [*names, *always]
            return
        chunk, size = list(always), 0
        for name in names if chosen is None else [one for one in names if one in chosen]:
            more = len(name) + _BETWEEN if self.property_limit_type == "characters" else 1
            if size and size + more > self.property_limit:
                yield chunk
                chunk, size = list(always), 0
            chunk.append(name)
            size += more
        yield chunk


@dataclass(frozen=True)
class JsonSchemaPropertySelector:
    """Leaves out properties that are not selected; changes bring them to the API's names."""

    transformations: list[Transformation] = field(default_factory=list)

    def chosen(self, stream: _AskingStream) -> frozenset[str]:
        """Return the names of what is selected at the top of a stream's records."""
        known: Mapping[str, Any] = stream.schema.get("properties") or {}
        mask = stream.mask
        selected: Record = {
            name: schema for name, schema in known.items() if mask.get(("properties", name), True)
        }
        for change in self.transformations:
            change.transform(selected, {"config": {}, "record": selected, "stream_slice": {}})
        return frozenset(selected)


@dataclass(frozen=True)
class QueryProperties:
    """The properties that requests ask for: a list, or what an endpoint says."""

    property_list: list[str] | PropertiesFromEndpoint
    always_include_properties: list[str] = field(default_factory=list)
    property_chunking: PropertyChunking | None = None
    property_selector: JsonSchemaPropertySelector | None = None

    @property
    def merging(self) -> GroupByKeyMergeStrategy | None:
        """What makes one record of those of several chunks, None where there is one chunk."""
        return None if self.property_chunking is None else self.property_chunking.merging

    def chunks(self, stream: _AskingStream) -> list[list[str]]:
        """Return the names of each request that a page takes."""
        given, always = self.property_list, self.always_include_properties
        names = given.names(stream) if isinstance(given, PropertiesFromEndpoint) else given
        select = self.property_selector
        chosen = None if select is None else select.chosen(stream)
        if self.property_chunking is not None:
            return list(self.property_chunking.chunks(names, always, chosen))
        return [[*always, *(one for one in names if chosen is None or one in chosen)]]


def inject_properties(scope: TemplateScope, names: Sequence[str]) -> TemplateScope:
    """Return what templates of a request see that asks for these properties."""
    known: Mapping[str, Any] = scope.get("stream_slice") or {}
    more: Mapping[str, Any] = getattr(known, "extra_fields", {})
    whole = PartitionSlice(known, extra_fields={**more, _NAME: list(names)})
    return {
        **scope,
        **dict.fromkeys(["stream_slice", "stream_partition", "stream_interval"], whole),
    }


def get_properties(stream_slice: Any) -> list[str]:
    """Return the properties that a request for a slice asks for."""
    more: Mapping[str, list[str]] = getattr(stream_slice, "extra_fields", None) or {}
    return more.get(_NAME, [])
