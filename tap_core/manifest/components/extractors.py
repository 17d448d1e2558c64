"""Extractors of the records at a path in a response, and expansion of lists inside records."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, cast

import requests

from tap_core.manifest.dpath import (
    MISSING,
    find_all,
    has_wildcard,
    make_getter,
    make_remover,
    set_at,
)
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import Decoder
from tap_core.types import Record

__all__ = [
    "SKIPPED_RECORD",
    "DpathExtractor",
    "ParentFieldPath",
    "RecordExpander",
    "WholeDocumentExtractor",
    "extract_records",
]

SKIPPED_RECORD: Final = object()
"""Marker that a CombinedExtractor yields for an empty record, which paginators count."""


def extract_records(extractor: Any, response: requests.Response, decoder: Decoder) -> Iterator[Any]:
    """Decode a response, and yield the records and markers that an extractor finds in it.

    An extractor with a method ``replace_decoder`` decodes the response itself.
    """
    replace_decoder = getattr(extractor, "replace_decoder", None)
    decode = decoder.decode if replace_decoder is None else replace_decoder(decoder)
    for document in decode(response):
        yield from extractor.extract(document)


@dataclass(frozen=True)
class ParentFieldPath:
    """Option of RecordExpander: a field to copy from the parent record to each new record."""

    parent_path: list[str]
    record_path: list[str]

    def __post_init__(self) -> None:
        """Raise ManifestError if a path is empty or contains wildcards."""
        for name, path in (("parent_path", self.parent_path), ("record_path", self.record_path)):
            if not path or has_wildcard(path):
                raise ManifestError(f"{name} is {path}: it must name exactly one field.")

    @cached_property
    def _get_value(self) -> Callable[[Any], Any]:
        return make_getter(self.parent_path)

    def read(self, parent: Record) -> Any:
        """Return a copy of the field's value in ``parent``; None if ``parent`` lacks it."""
        value = self._get_value(parent)
        return None if value is MISSING else copy.deepcopy(value)


@dataclass(frozen=True)
class RecordExpander:
    """Option of DpathExtractor: turn a list inside a record into one record per list element."""

    expand_records_from_field: list[str]
    remain_original_record: bool = False
    parent_fields: list[ParentFieldPath] = field(default_factory=list)
    merge_parent: bool = False
    on_no_records: Literal["skip", "emit_parent"] = "skip"

    # In airbyte-cdk this option only logs a warning that the list may be incomplete.
    IGNORED: ClassVar[frozenset[str]] = frozenset({"truncation_indicator_path"})

    @cached_property
    def _find_lists(self) -> Callable[[Any], list[Any]]:
        return find_all(self.expand_records_from_field)

    @cached_property
    def _remove_lists(self) -> Callable[[Any], None]:
        return make_remover(self.expand_records_from_field)

    def expand(self, parent: Any) -> Iterator[Any]:
        """Yield a record for each element of the list in the record ``parent``.

        If the list is empty or missing, yield ``parent`` itself if `on_no_records` is
        ``emit_parent``, else nothing. If ``parent`` is not an object, yield it unchanged.
        """
        if not isinstance(parent, dict) or not self.expand_records_from_field:
            yield parent
            return
        parent = cast(Record, parent)
        items = [
            item for value in self._find_lists(parent) if isinstance(value, list) for item in value
        ]
        if items and (self.merge_parent or self.parent_fields or self.remain_original_record):
            yield from self._add_parent_fields(parent, items)
        else:
            yield from items
        if not items and self.on_no_records == "emit_parent":
            yield parent

    def _add_parent_fields(self, parent: Record, items: list[Any]) -> Iterator[Record]:
        """Yield the list elements ``items`` as records, with the declared fields of ``parent``.

        All fields are copied before the first record is yielded, because the caller may change a
        record, and thereby the parts of ``parent`` that the record contains.
        """
        copied = [(path.record_path, path.read(parent)) for path in self.parent_fields]
        original = copy.deepcopy(parent) if self.remain_original_record else {}
        rest: Record = {}
        if self.merge_parent:
            rest = copy.deepcopy(parent)
            self._remove_lists(rest)
        for item in items:
            record: Record = copy.deepcopy(rest)
            record.update(item if isinstance(item, dict) else {"value": item})
            for path, value in copied:
                _set_parent_field(record, path, copy.deepcopy(value))
            if self.remain_original_record:
                record["original_record"] = copy.deepcopy(original)
            yield record


def _set_parent_field(record: Record, path: list[str], value: Any) -> None:
    """Set a field of an expanded record; raise ManifestError if it is below a scalar value."""
    try:
        set_at(record, path, value)
    except (TypeError, ValueError) as error:
        raise ManifestError(
            f"parent_fields cannot set the record_path {path} of an expanded record: {error}."
        ) from None


@dataclass(frozen=True)
class DpathExtractor:
    """Extractor of the records at a path in a document, such as ``[data, items]``.

    The value at the path is a list of records or a single record.
    """

    field_path: list[str]
    record_expander: RecordExpander | None = None

    # airbyte-cdk ignores this option and uses the retriever's decoder.
    IGNORED: ClassVar[frozenset[str]] = frozenset({"decoder"})

    @cached_property
    def _find(self) -> Callable[[Any], Any]:
        path = self.field_path
        return find_all(path) if "*" in path else make_getter(path)

    def extract(self, document: Any) -> Iterable[Any]:
        """Return a document's records at `field_path`; no records if it is missing or empty."""
        records = self._find(document)
        if not isinstance(records, list):
            records = [records] if records is not MISSING and records else []
        if self.record_expander is None:
            return records
        expand = self.record_expander.expand
        return (expanded for record in records for expanded in expand(record))


@dataclass(frozen=True)
class WholeDocumentExtractor:
    """Extractor that returns each decoded document as one record.

    It has no type name in manifests; the SDK uses it internally.
    """

    def extract(self, document: Any) -> Iterable[Any]:
        """Return a tuple with the document as the only record."""
        return (document,)
