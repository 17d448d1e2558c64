"""Record selector: extracts, filters, transforms and normalizes the records of a response.

The steps are composed once per stream (`RecordSelector.make_selection`), so that steps which a
manifest does not declare have no cost per record. Records are changed in place, since no other code
holds them. The stream passes its transformations.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, cast

from tap_core.exceptions import FatalAPIError
from tap_core.manifest import interfaces
from tap_core.manifest.dpath import (
    MISSING,
    find_all,
    has_wildcard,
    make_getter,
    make_remover,
    set_at,
)
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Condition,
    Extractor,
    TemplateScope,
    Transformation,
    resolve,
)
from tap_core.manifest.type_normalization import make_normalizer
from tap_core.types import JsonSchema, Record

__all__ = [
    "CombinedExtractor",
    "DpathExtractor",
    "Normalization",
    "OnFailure",
    "ParentFieldPath",
    "RecordExpander",
    "RecordFilter",
    "RecordSelection",
    "RecordSelector",
]

OnFailure: TypeAlias = Callable[[Record, ManifestError, int], None]
"""Callback with a record that is skipped because a template fails on it, the error, and the
1-based number of the record in the response."""


class RecordSelection(Protocol):
    """Function from the documents of a response to records."""

    def __call__(
        self,
        documents: Iterable[Any],
        scope: TemplateScope,
        extracted: Callable[[], None],
        failed: OnFailure | None = None,
    ) -> Iterator[Record]:
        """Yield the records.

        ``extracted`` is called for each record that the extractor finds, before the filter.
        ``failed`` is called for a record on which a template fails, and the record is skipped;
        without ``failed`` the error is raised.

        Raises:
            ManifestError: a template fails.
        """


_Changes: TypeAlias = list[Callable[[Record, TemplateScope], None]]


class Normalization(Protocol):
    """Interface of a conversion of record values to the types of a schema."""

    def transform(self, record: Record, schema: Mapping[str, Any]) -> None:
        """Convert the values of a record in place."""


@dataclass(frozen=True)
class ParentFieldPath:
    """Field of the parent record to copy into each expanded record."""

    parent_path: list[str]
    record_path: list[str]

    def __post_init__(self) -> None:
        """Raise ManifestError for a path that is empty or contains wildcards."""
        for name, path in (("parent_path", self.parent_path), ("record_path", self.record_path)):
            if not path or has_wildcard(path):
                raise ManifestError(f"{name} is {path}: it must name exactly one field.")

    @cached_property
    def _value(self) -> Callable[[Any], Any]:
        return make_getter(self.parent_path)

    def copy(self, parent: Record, record: Record) -> None:
        """Set the field in a record to the parent's value, or to None if the parent lacks it."""
        found = self._value(parent)
        set_at(record, self.record_path, None if found is MISSING else copy.deepcopy(found))


@dataclass(frozen=True)
class RecordExpander:
    """Expander that makes one record of each element of a list within a record."""

    expand_records_from_field: list[str]
    remain_original_record: bool = False
    parent_fields: list[ParentFieldPath] = field(default_factory=list)
    merge_parent: bool = False
    on_no_records: Literal["skip", "emit_parent"] = "skip"

    # In airbyte-cdk this option only logs a warning that the list may be incomplete.
    IGNORED: ClassVar[frozenset[str]] = frozenset({"truncation_indicator_path"})

    @cached_property
    def _lists(self) -> Callable[[Any], list[Any]]:
        return find_all(self.expand_records_from_field)

    @cached_property
    def _without(self) -> Callable[[Any], None]:
        return make_remover(self.expand_records_from_field)

    def expand(self, parent: Any) -> Iterator[Any]:
        """Yield a record for each element of the list; a value that is not an object as it is.

        With ``on_no_records: emit_parent`` the parent is yielded if there are no elements.
        """
        if not isinstance(parent, dict) or not self.expand_records_from_field:
            yield parent
            return
        parent = cast(Record, parent)
        items = [one for found in self._lists(parent) if isinstance(found, list) for one in found]
        yield from (self._add_parent_fields(parent, item) for item in items)
        if not items and self.on_no_records == "emit_parent":
            yield parent

    def _add_parent_fields(self, parent: Record, item: Any) -> Any:
        """Return a list element as a record, with the fields of its parent that are declared."""
        if not (self.merge_parent or self.parent_fields or self.remain_original_record):
            return item
        record: Record = dict(item) if isinstance(item, dict) else {"value": item}
        if self.merge_parent:
            rest = copy.deepcopy(parent)
            self._without(rest)
            record = {**rest, **record}
        for parent_field in self.parent_fields:
            parent_field.copy(parent, record)
        if self.remain_original_record:
            record["original_record"] = copy.deepcopy(parent)
        return record


@dataclass(frozen=True)
class DpathExtractor:
    """Extractor of the records at a path: the elements of a list, or one object."""

    field_path: list[str]
    record_expander: RecordExpander | None = None

    # airbyte-cdk ignores this option and uses the retriever's decoder.
    IGNORED: ClassVar[frozenset[str]] = frozenset({"decoder"})

    @cached_property
    def _found(self) -> Callable[[Any], Any]:
        path = self.field_path
        return find_all(path) if "*" in path else make_getter(path)

    def extract(self, document: Any, scope: TemplateScope) -> Iterable[Any]:  # noqa: ARG002  the Protocol's
        """Return the records of a document; none if the path does not exist or leads to null."""
        found = self._found(document)
        if not isinstance(found, list):
            found = [found] if found is not MISSING and found else []
        if self.record_expander is None:
            return found
        expand = self.record_expander.expand
        return (record for one in found for record in expand(one))


@dataclass(frozen=True)
class CombinedExtractor:
    """Extractor that combines several: all their records, or those of the first with any."""

    extractors: list[Extractor]
    mode: Literal["union", "first_match"] = "union"
    skip_empty_records: bool = False

    def extract(self, document: Any, scope: TemplateScope) -> Iterable[Any]:
        """Yield the records that the extractors find in a document."""
        for extractor in self.extractors:
            is_found = False
            for record in extractor.extract(document, scope):
                if record or not self.skip_empty_records:
                    is_found = True
                    yield record
            if is_found and self.mode == "first_match":
                return


@dataclass(frozen=True)
class RecordFilter:
    """Filter that keeps the records for which a condition is true."""

    condition: Condition = False

    def keeps(self, record: Record, scope: TemplateScope) -> bool:
        """Return True if the condition is true; without a condition, False as in airbyte-cdk."""
        if scope.get("record") is not record:
            scope = {**scope, "record": record}
        return bool(resolve(self.condition, scope))


@dataclass(frozen=True)
class _Steps:
    """Steps that are applied to each record, in the order of the fields."""

    before: _Changes = field(default_factory=list)
    keeps: Callable[[Record, TemplateScope], bool] | None = None
    after: _Changes = field(default_factory=list)
    normalized: Callable[[Record], None] | None = None

    def apply(self, record: Record, scope: TemplateScope) -> bool:
        """Change a record in place; return True if the filter keeps it."""
        for change in self.before:
            change(record, scope)
        if self.keeps is not None and not self.keeps(record, scope):
            return False
        for change in self.after:
            change(record, scope)
        if self.normalized is not None:
            self.normalized(record)
        return True


@dataclass(frozen=True)
class RecordSelector:
    """Selector that extracts, filters, transforms and normalizes the records of a response."""

    extractor: Extractor
    record_filter: interfaces.RecordPredicate | None = None
    schema_normalization: Literal["Default", "None"] | Normalization = "None"
    transform_before_filtering: bool | None = None

    IGNORED: ClassVar[frozenset[str]] = frozenset({"file_uploader"})

    def make_selection(
        self,
        transformations: Sequence[Transformation] = (),
        schema: Callable[[], JsonSchema] = dict,
        *,
        transform_first: bool = False,
    ) -> RecordSelection:
        """Return the function from documents to records, with all steps composed.

        Args:
            transformations: The transformations of the stream.
            schema: Function that returns the JSON schema; called only if values are normalized.
            transform_first: True to transform before the filter, if the manifest does not say so.
        """
        changes: _Changes = [one.transform for one in transformations]
        nothing: _Changes = []
        asked = self.transform_before_filtering
        is_first = transform_first if asked is None else asked
        steps = _Steps(
            before=changes if is_first else nothing,
            keeps=self.record_filter.keeps if self.record_filter else None,
            after=nothing if is_first else changes,
            normalized=self._make_normalization(schema),
        )
        extract = self.extractor.extract
        if steps == _Steps():
            return _make_extraction(extract)

        def select(
            documents: Iterable[Any],
            scope: TemplateScope,
            extracted: Callable[[], None],
            failed: OnFailure | None = None,
        ) -> Iterator[Record]:
            seen = dict(scope)
            is_kept = steps.apply if failed is None else _skip_failures(steps.apply, failed)
            for document in documents:
                for record in extract(document, scope):
                    if not isinstance(record, dict):
                        _check_object(record)
                    extracted()
                    seen["record"] = record
                    if is_kept(record, seen):
                        yield record

        return select

    def _make_normalization(
        self, schema: Callable[[], JsonSchema]
    ) -> Callable[[Record], None] | None:
        """Return the function that normalizes a record in place; None without normalization."""
        asked = self.schema_normalization
        if asked == "None":
            return None
        known = schema()
        if isinstance(asked, str):
            return make_normalizer(known) if known else None
        return lambda record: asked.transform(record, known)


def _skip_failures(
    apply: Callable[[Record, TemplateScope], bool], failed: OnFailure
) -> Callable[[Record, TemplateScope], bool]:
    """Return the steps as a function that skips a record on which a template fails.

    ``failed`` is called with the record, the error and the record's number in the response.
    """
    numbers = itertools.count(1)

    def tried(record: Record, scope: TemplateScope) -> bool:
        number = next(numbers)
        try:
            return apply(record, scope)
        except ManifestError as error:
            failed(record, error, number)
            return False

    return tried


def _make_extraction(extract: Callable[[Any, TemplateScope], Iterable[Any]]) -> RecordSelection:
    """Return a selection that only extracts: no step is applied to a record."""

    def select(
        documents: Iterable[Any],
        scope: TemplateScope,
        extracted: Callable[[], None],
        failed: OnFailure | None = None,  # noqa: ARG001  nothing can fail
    ) -> Iterator[Record]:
        for document in documents:
            for record in extract(document, scope):
                if not isinstance(record, dict):
                    _check_object(record)
                extracted()
                yield record

    return select


def _check_object(record: Any) -> None:
    """Raise FatalAPIError if a record is not a mapping.

    Custom extractors may return mappings that are not dicts.
    """
    if not isinstance(record, Mapping):
        raise FatalAPIError(
            f"The extractor found a record that is not an object (its Python type is"
            f" {type(record).__name__}): its path leads to scalar values, or the API returned"
            " an unexpected response."
        )
