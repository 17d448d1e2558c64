"""Record selector: extracts, filters, transforms and normalizes the records of a response.

`RecordSelector.make_selection` combines the steps into one function per stream, so that steps which
a manifest does not declare cost nothing per record. Records are changed in place. The
transformations are an option of the stream, which passes them to the selector.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import requests

from tap_core.exceptions import FatalAPIError
from tap_core.manifest.components.custom import (
    CustomRecordExtractor,
    CustomRecordFilter,
    CustomSchemaNormalization,
)
from tap_core.manifest.components.extractors import (
    SKIPPED_RECORD,
    DpathExtractor,
    WholeDocumentExtractor,
    extract_records,
)
from tap_core.manifest.components.file_extractors import ResponseToFileExtractor
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Condition,
    Decoder,
    TemplateScope,
    Transformation,
    resolve,
)
from tap_core.manifest.type_normalization import make_normalizer
from tap_core.types import JsonSchema, Record

__all__ = [
    "CombinedExtractor",
    "Extractor",
    "OnFailure",
    "RecordFilter",
    "RecordPredicate",
    "RecordSelection",
    "RecordSelector",
    "drop_nulls",
]

OnFailure: TypeAlias = Callable[[Record, ManifestError, int], None]
"""Callback for a record that is skipped because a template fails on it.

Its arguments are the record, the error, and the number of the record in the response, from 1.
"""


RecordSelection: TypeAlias = Callable[
    [Iterable[Any], TemplateScope, Callable[[], None], OnFailure | None], Iterator[Record]
]
"""Function that yields the records in the documents of a response.

Its arguments are the documents, the template variables, a function that is called for each
extracted record before the filter, and the callback for a record on which a template fails. Such a
record is skipped. If the callback is None, the ManifestError is raised instead.
"""

_Changes: TypeAlias = list[Callable[[Record, TemplateScope], None]]


class _UndecodedResponse(NamedTuple):
    """Response that each extractor inside a CombinedExtractor decodes separately."""

    response: requests.Response
    decoder: Decoder


@dataclass(frozen=True)
class CombinedExtractor:
    """Extractor that combines several extractors.

    With `mode` ``union`` it yields the records of all extractors. With ``first_match`` it yields
    only the records of the first extractor that finds records.

    Raises:
        ManifestError: `extractors` is empty.
    """

    extractors: list[Extractor]
    mode: Literal["union", "first_match"] = "union"
    skip_empty_records: bool = False

    def __post_init__(self) -> None:
        if not self.extractors:
            raise ManifestError("A CombinedExtractor needs at least one of `extractors`.")

    @property
    def has_union(self) -> bool:
        """True if this extractor, or one inside it, yields the records of several extractors."""
        return self.mode == "union" or any(
            isinstance(inner, CombinedExtractor) and inner.has_union for inner in self.extractors
        )

    @property
    def replace_decoder(
        self,
    ) -> Callable[[Decoder], Callable[[requests.Response], Iterator[Any]]] | None:
        """Function that replaces a decoder by one that passes on the undecoded response.

        Each extractor then decodes the response itself. None if all take decoded documents.
        """
        if not any(getattr(inner, "replace_decoder", None) for inner in self.extractors):
            return None
        return lambda decoder: lambda response: iter((_UndecodedResponse(response, decoder),))

    def extract(self, document: Any) -> Iterator[Any]:
        """Yield the records that the extractors find in a document, according to `mode`.

        An empty record is replaced by `SKIPPED_RECORD` if `skip_empty_records` is set. For
        ``first_match``, such a marker does not count as a record.
        """
        for extractor in self.extractors:
            if isinstance(document, _UndecodedResponse):
                records = extract_records(extractor, *document)
            else:
                records = iter(extractor.extract(document))
            if self.skip_empty_records:
                records = (record or SKIPPED_RECORD for record in records)
            if self.mode == "union":
                yield from records
                continue
            first_records: list[Any] = []
            for record in records:
                first_records.append(record)
                if record is not SKIPPED_RECORD:
                    yield from itertools.chain(first_records, records)
                    return


Extractor: TypeAlias = (
    DpathExtractor
    | CombinedExtractor
    | ResponseToFileExtractor
    | WholeDocumentExtractor
    | CustomRecordExtractor
)
"""Component that finds the records in a decoded document."""


@dataclass(frozen=True)
class RecordFilter:
    """Filter that keeps the records for which the template `condition` is true."""

    condition: Condition = False

    def keeps(self, record: Record, scope: TemplateScope) -> bool:
        """Return True if the filter's template `condition` is true for a record.

        Without a condition, return False, as in airbyte-cdk.
        """
        if scope.get("record") is not record:
            scope = {**scope, "record": record}
        return bool(resolve(self.condition, scope))


RecordPredicate: TypeAlias = RecordFilter | CustomRecordFilter
"""Component that keeps or drops each record."""


@dataclass(frozen=True)
class _RecordSteps:
    """Processing steps for each record: transformations, filter, normalization of the values.

    ``before`` contains the transformations that run before the filter, ``after`` those that run
    after it.
    """

    before: _Changes = field(default_factory=list)
    keeps: Callable[[Record, TemplateScope], bool] | None = None
    after: _Changes = field(default_factory=list)
    normalize: Callable[[Record], None] | None = None

    def apply(self, record: Record, scope: TemplateScope) -> bool:
        """Filter and transform a record in place; return False if the filter drops the record."""
        for change in self.before:
            change(record, scope)
        if self.keeps is not None and not self.keeps(record, scope):
            return False
        for change in self.after:
            change(record, scope)
        if self.normalize is not None:
            self.normalize(record)
        return True


@dataclass(frozen=True)
class RecordSelector:
    """Selector that extracts, filters, transforms and normalizes the records of a response."""

    extractor: Extractor
    record_filter: RecordPredicate | None = None
    schema_normalization: Literal["Default", "None"] | CustomSchemaNormalization = "None"
    transform_before_filtering: bool | None = None

    def make_selection(
        self,
        transformations: Sequence[Transformation] = (),
        schema: Callable[[], JsonSchema] = dict,
        *,
        transform_first: bool = False,
    ) -> RecordSelection:
        """Return a function that yields the records of decoded responses, selected and processed.

        Args:
            transformations: The transformations of the stream.
            schema: Function that returns the JSON schema; called only if values are normalized.
            transform_first: True if the transformations run before the filter. It is ignored if the
                manifest sets `transform_before_filtering`.
        """
        changes: _Changes = [transformation.transform for transformation in transformations]
        if self.transform_before_filtering is not None:
            transform_first = self.transform_before_filtering
        steps = _RecordSteps(
            before=changes if transform_first else [],
            keeps=self.record_filter.keeps if self.record_filter else None,
            after=[] if transform_first else changes,
            normalize=self._make_normalization(schema),
        )
        extract = self.extractor.extract
        has_steps = steps != _RecordSteps()

        def select(
            documents: Iterable[Any],
            scope: TemplateScope,
            count_extracted: Callable[[], None],
            on_failure: OnFailure | None = None,
        ) -> Iterator[Record]:
            variables = dict(scope)
            apply = steps.apply if on_failure is None else _skip_failures(steps.apply, on_failure)
            for document in documents:
                for record in extract(document):
                    count_extracted()
                    if not isinstance(record, dict) and _is_skipped(record):
                        continue
                    variables["record"] = record
                    if not has_steps or apply(record, variables):
                        yield record

        return select

    def _make_normalization(
        self, schema: Callable[[], JsonSchema]
    ) -> Callable[[Record], None] | None:
        """Return a function that converts a record's values to the schema's types, in place.

        Return None if the manifest declares no normalization, or if the schema is empty and the
        normalization is ``Default``.
        """
        normalization = self.schema_normalization
        if normalization == "None":
            return None
        json_schema = schema()
        if isinstance(normalization, str):
            return make_normalizer(json_schema) if json_schema else None
        return lambda record: normalization.transform(record, json_schema)


def _skip_failures(
    apply: Callable[[Record, TemplateScope], bool], on_failure: OnFailure
) -> Callable[[Record, TemplateScope], bool]:
    """Return a function that calls ``apply``, and returns False if a template fails on a record.

    ``apply`` processes a record and returns False to drop it. ``on_failure`` is called with each
    failed record, the error, and the number of the record in the response.
    """
    numbers = itertools.count(1)

    def apply_or_skip(record: Record, scope: TemplateScope) -> bool:
        number = next(numbers)
        try:
            return apply(record, scope)
        except ManifestError as error:
            on_failure(record, error, number)
            return False

    return apply_or_skip


def drop_nulls(select: RecordSelection) -> RecordSelection:
    """Return a function that yields the records of ``select`` without their top-level nulls."""

    def select_without_nulls(
        documents: Iterable[Any],
        scope: TemplateScope,
        count_extracted: Callable[[], None],
        on_failure: OnFailure | None = None,
    ) -> Iterator[Record]:
        for record in select(documents, scope, count_extracted, on_failure):
            if None in record.values():
                yield {name: value for name, value in record.items() if value is not None}
            else:
                yield record

    return select_without_nulls


def _is_skipped(record: Any) -> bool:
    """Return True if an extracted record is the marker of a skipped one.

    Raises:
        FatalAPIError: The record is not a mapping, such as a JSON object.
    """
    if record is not SKIPPED_RECORD and not isinstance(record, Mapping):
        raise FatalAPIError(
            f"The extractor found a record that is not an object (its Python type is"
            f" {type(record).__name__}): its path leads to scalar values, or the API returned"
            " an unexpected response."
        )
    return record is SKIPPED_RECORD
