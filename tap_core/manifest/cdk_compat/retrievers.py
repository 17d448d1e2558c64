"""Base class for custom retrievers, with airbyte-cdk's name SimpleRetriever.

The stream requests the pages. A subclass may read additional slices and change their records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass
from typing import Any

from tap_core.manifest.cdk_compat.models import CdkStreamSlice

__all__ = ["CdkSimpleRetriever"]


@dataclass
class CdkSimpleRetriever:
    """Base class of custom retrievers; the stream itself requests the pages.

    The type name in manifests is SimpleRetriever.
    """

    requester: Any
    record_selector: Any
    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]
    name: str = ""
    primary_key: Any = None
    paginator: Any = None
    stream_slicer: Any = None
    request_option_provider: Any = None
    cursor: Any = None
    ignore_stream_slicer_parameters_on_paginated_requests: bool = False

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters or {}
        self.reads: Callable[[CdkStreamSlice | None], Iterable[Any]] | None = None

    def stream_slices(self) -> Iterable[Any]:
        """Return (), because the stream generates the slices itself."""
        return ()

    def _read_pages(self, *_args: Any) -> Iterable[Any]:
        raise NotImplementedError

    def _fetch_next_page(self, *_args: Any) -> Any:
        raise NotImplementedError

    def _parse_response(self, *_args: Any) -> Iterable[Any]:
        raise NotImplementedError

    def read_records(
        self,
        records_schema: Mapping[str, Any],  # noqa: ARG002  (airbyte-cdk's signature)
        stream_slice: CdkStreamSlice | None = None,
    ) -> Iterable[Any]:
        """Return the records of a slice; subclasses override this method and call ``super()``.

        Raises:
            RuntimeError: The method is called outside of a sync of the stream.
        """
        if self.reads is None:
            raise RuntimeError("Records can only be read while the stream is being read.")
        return self.reads(stream_slice)
