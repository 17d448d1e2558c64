"""Retrievers: the requester, paginator, record selector and partition routers of a stream.

The stream itself sends the requests. A custom retriever may read additional slices and change
records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Final

from tap_core.manifest.cdk_compat.adapters import to_stream_slice
from tap_core.manifest.cdk_compat.custom_code_import import load_class
from tap_core.manifest.cdk_compat.models import CdkStreamSlice
from tap_core.manifest.cdk_compat.models import Record as CdkRecord
from tap_core.manifest.cdk_compat.retrievers import CdkSimpleRetriever
from tap_core.manifest.components.custom import Custom, CustomRequester, to_context
from tap_core.manifest.components.decoders import JsonDecoder
from tap_core.manifest.components.page_size_reduction import PageSizeReduction, validate_reduction
from tap_core.manifest.components.pagination_reset import PaginationReset
from tap_core.manifest.components.paginators import NoPagination, OffsetIncrement, Paginator
from tap_core.manifest.components.record_selector import CombinedExtractor, RecordSelector
from tap_core.manifest.components.requester import HttpRequester
from tap_core.manifest.components.window_splitting import RequestWindowSplitting
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import Decoder, PartitionRouter, TemplateScope
from tap_core.types import Context, JsonSchema, Record

__all__ = ["CustomRetriever", "SimpleRetriever"]

_READING_METHODS: Final = ("stream_slices", "_read_pages", "_fetch_next_page", "_parse_response")
"""Methods of airbyte-cdk's SimpleRetriever that the stream replaces."""


@dataclass(frozen=True, kw_only=True)
class SimpleRetriever:
    """Retriever that requests the pages of a stream slice one after the other."""

    requester: HttpRequester | CustomRequester
    record_selector: RecordSelector
    paginator: Paginator = field(default_factory=NoPagination)
    partition_router: PartitionRouter | list[PartitionRouter] | None = None
    decoder: Decoder | None = None
    pagination_reset: PaginationReset | None = None
    page_size_reduction: PageSizeReduction | None = None
    request_window_splitting: RequestWindowSplitting | None = None
    ignore_stream_slicer_parameters_on_paginated_requests: bool = False

    def __post_init__(self) -> None:
        """Raise ManifestError for combinations of options that are not supported.

        They are: a page size reduction that the requester or the paginator does not support; a
        pagination reset with a record limit and a record filter; an OffsetIncrement and an
        extractor that yields the union of several extractors.
        """
        validate_reduction(self.page_size_reduction, self.requester, self.paginator)
        reset = self.pagination_reset
        if reset and reset.limit and self.record_selector.record_filter:
            raise ManifestError(
                "`limits` of a pagination_reset count the emitted records: they cannot be"
                " combined with a record_filter."
            )
        extractor = self.record_selector.extractor
        has_union = isinstance(extractor, CombinedExtractor) and extractor.has_union
        strategy = getattr(self.paginator, "pagination_strategy", None)
        if has_union and isinstance(strategy, OffsetIncrement):
            raise ManifestError(
                "An OffsetIncrement would skip records: a CombinedExtractor with the mode `union`"
                " finds more of them in a page than the API counts. Set `mode: first_match`, or use"
                " another pagination strategy."
            )

    @cached_property
    def response_decoder(self) -> Decoder:
        """Decoder of the responses; a JsonDecoder if the manifest declares none."""
        return self.decoder or JsonDecoder()

    @property
    def routers(self) -> list[PartitionRouter]:
        """Partition routers of the stream; [] if the manifest declares none.

        If there are several, each stream slice combines one slice of each router.
        """
        routers = self.partition_router
        if routers is None:
            return []
        return list(routers) if isinstance(routers, list) else [routers]


@dataclass(frozen=True, kw_only=True)
class CustomRetriever(Custom):
    """Retriever that calls ``read_records`` of a connector's Python subclass of SimpleRetriever.

    Raises:
        ManifestError: The class sends requests or generates stream slices itself.
    """

    METHODS: ClassVar[tuple[str, ...]] = ("read_records",)

    def __post_init__(self) -> None:
        super().__post_init__()
        cls = load_class(self.class_name, self.folder)
        overridden = [
            name
            for name in _READING_METHODS
            if getattr(cls, name, None) is not getattr(CdkSimpleRetriever, name)
        ]
        if not issubclass(cls, CdkSimpleRetriever) or overridden:
            problem = f"overrides {overridden[0]}" if overridden else "is not a SimpleRetriever"
            raise ManifestError(
                f"{self.class_name} {problem}: the stream reads slices and pages. A retriever"
                " may override read_records(), and call super() for the records of slices."
            )
        _ = self.simple

    @cached_property
    def simple(self) -> SimpleRetriever:
        """This retriever's requester, record selector and other options as a SimpleRetriever.

        Raises:
            ManifestError: `requester` or `record_selector` is missing.
        """
        names = {option.name for option in fields(SimpleRetriever)}
        options = {name: value for name, value in self.fields.items() if name in names}
        missing = sorted({"requester", "record_selector"} - options.keys())
        if missing:
            raise ManifestError(f"A CustomRetriever needs {', '.join(missing)}.")
        return SimpleRetriever(**options)

    @cached_property
    def _slice_class(self) -> Any:
        """Subclass of the connector's retriever class, of which each slice gets an instance.

        An instance has its own ``reads``, the function that reads the slice's records. It shares
        all other attributes (``__dict__``) with `instance`.
        """
        cls = load_class(self.class_name, self.folder)
        members = {"__slots__": ("reads",), "__module__": cls.__module__}
        return type(cls.__name__, (cls,), members)

    def _get_extra_fields(self) -> Mapping[str, Any]:
        return {"name": self._name}

    def records(
        self,
        scope: TemplateScope,
        schema: JsonSchema,
        read_pages: Callable[[Context | None], Iterable[Record]],
    ) -> Iterator[Record]:
        """Yield the records of a slice, as ``read_records`` of the connector's class returns them.

        Args:
            scope: The template variables, which include the slice.
            schema: The JSON Schema of the stream.
            read_pages: Function that requests the pages of a slice and returns their records. The
                connector's class calls it through ``super().read_records``.
        """
        self.remember_stream(scope)

        def read(stream_slice: CdkStreamSlice | None) -> Iterator[CdkRecord]:
            stream_slice = stream_slice or CdkStreamSlice(partition={}, cursor_slice={})
            for record in read_pages(to_context(stream_slice.partition) or None):
                yield CdkRecord(record, self.instance.name, stream_slice)

        retriever = object.__new__(self._slice_class)
        retriever.__dict__ = self.instance.__dict__  # all slices share the attributes
        retriever.reads = read
        for record in retriever.read_records(schema, to_stream_slice(scope)):
            data: Mapping[str, Any] = getattr(record, "data", record)
            yield dict(data)
