"""What asks an API for jobs, and fetches their results: the requests, and what a status means.

Rules of the room: said here, done by `tap_core.manifest.async_jobs`. Each request of a job is
described
by a requester of its own, which sees the answers to those before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from tap_core.manifest.components.custom import CustomRequester
from tap_core.manifest.components.decoders import IterableDecoder
from tap_core.manifest.components.file_extractors import ResponseToFileExtractor
from tap_core.manifest.components.paginators import NoPagination
from tap_core.manifest.components.record_selector import DpathExtractor, RecordSelector
from tap_core.manifest.components.requester import HttpRequester
from tap_core.manifest.components.retrievers import SimpleRetriever
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Decoder,
    Extractor,
    Paginator,
    PartitionRouter,
    TemplateScope,
)

__all__ = ["AsyncJobStatusMap", "AsyncRetriever", "JobStatus"]

JobStatus: TypeAlias = Literal["running", "completed", "failed", "timeout", "skipped"]
"""What a job is: the words of `AsyncJobStatusMap`."""

_MINUTES: Final = 60
"""How long a job may take where the manifest does not say."""


@dataclass(frozen=True, kw_only=True)
class AsyncJobStatusMap:
    """Which words of an API say that a job runs, is done, has failed, or has nothing to give."""

    running: list[str]
    completed: list[str]
    failed: list[str]
    timeout: list[str]
    skipped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuse a word that means two things."""
        words = [word for kind in get_args(JobStatus) for word in getattr(self, kind)]
        for word in words:
            if words.count(word) > 1:
                raise ManifestError(f"The status '{word}' stands twice: it has one meaning.")

    def meaning(self, word: str) -> JobStatus | None:
        """Return what a word of the API means, None for an unknown one."""
        kinds = [kind for kind in get_args(JobStatus) if word in getattr(self, kind)]
        return cast("JobStatus", kinds[0]) if kinds else None


@dataclass(frozen=True)
class _Found:
    """Takes documents for records: they were found before."""

    def extract(self, document: Any, scope: TemplateScope) -> Iterable[Any]:  # noqa: ARG002  the Protocol's
        """Return the document."""
        return (document,)


@dataclass(frozen=True, kw_only=True)
class AsyncRetriever:
    """Asks for a job for each slice, waits until it is done, and fetches what it has made."""

    creation_requester: HttpRequester | CustomRequester
    polling_requester: HttpRequester | CustomRequester
    download_requester: HttpRequester | CustomRequester
    status_mapping: AsyncJobStatusMap
    status_extractor: Extractor
    record_selector: RecordSelector
    """Its filter and normalization count; records are found by ``download_extractor``."""
    download_target_requester: HttpRequester | CustomRequester | None = None
    download_target_extractor: Extractor | None = None
    download_extractor: Extractor | None = None
    download_paginator: Paginator = field(default_factory=NoPagination)
    download_decoder: Decoder | None = None
    abort_requester: HttpRequester | CustomRequester | None = None
    delete_requester: HttpRequester | CustomRequester | None = None
    polling_job_timeout: int | None = None
    """In minutes."""
    failed_retry_wait_time_in_seconds: int | None = None
    partition_router: PartitionRouter | list[PartitionRouter] | None = None
    decoder: Decoder | None = None

    # Words of older manifests
    url_requester: HttpRequester | CustomRequester | None = None
    urls_extractor: Extractor | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be waited for, and addresses that nobody finds."""
        if self._target_requester is not None and self.target_extractor is None:
            raise ManifestError(
                "download_target_requester needs a download_target_extractor, which says where"
                " its answer has the targets."
            )
        for name in ("polling_job_timeout", "failed_retry_wait_time_in_seconds"):
            given = getattr(self, name)
            if given is not None and given < 1:
                raise ManifestError(f"{name} is {given}, and must be at least 1.")

    @property
    def requester(self) -> HttpRequester | CustomRequester:
        """What asks first."""
        return self.creation_requester

    @cached_property
    def simple(self) -> SimpleRetriever:
        """What the stream knows of it: slices, and what becomes of records."""
        return SimpleRetriever(
            requester=self.creation_requester,
            record_selector=replace(self.record_selector, extractor=_Found()),
            partition_router=self.partition_router,
            decoder=self.decoder,
        )

    @property
    def target_extractor(self) -> Extractor | None:
        """What finds the targets of downloads; None: there is one, without a name."""
        return self.download_target_extractor or self.urls_extractor

    @property
    def is_older(self) -> bool:
        """Whether it is written in the words that airbyte-cdk had first."""
        return self.urls_extractor is not None

    @property
    def seconds(self) -> float:
        """How long a job may take."""
        return 60.0 * (self.polling_job_timeout or _MINUTES)

    @property
    def _target_requester(self) -> HttpRequester | CustomRequester | None:
        return self.download_target_requester or self.url_requester

    # How each request is asked

    @cached_property
    def creation(self) -> SimpleRetriever:
        """Creates a job."""
        return self._one(self.creation_requester)

    @cached_property
    def polling(self) -> SimpleRetriever:
        """Asks how far a job is."""
        return self._one(self.polling_requester)

    @cached_property
    def targets(self) -> SimpleRetriever | None:
        """Asks where the results of a job are; None: the last answer of `polling` says it."""
        asked = self._target_requester
        return None if asked is None else self._one(asked)

    @cached_property
    def abortion(self) -> SimpleRetriever | None:
        """Ends a job that nobody waits for any more."""
        return self._unread(self.abort_requester)

    @cached_property
    def deletion(self) -> SimpleRetriever | None:
        """Removes a job whose results were read."""
        return self._unread(self.delete_requester)

    @cached_property
    def download(self) -> SimpleRetriever:
        """Fetches results, page by page."""
        usual = ResponseToFileExtractor() if self.is_older else DpathExtractor(field_path=[])
        return SimpleRetriever(
            requester=self.download_requester,
            record_selector=RecordSelector(extractor=self.download_extractor or usual),
            paginator=self.download_paginator,
            decoder=self.download_decoder,
        )

    def _one(self, requester: HttpRequester | CustomRequester) -> SimpleRetriever:
        return SimpleRetriever(
            requester=requester,
            record_selector=RecordSelector(extractor=_Found()),
            decoder=self.decoder,
        )

    @staticmethod
    def _unread(requester: HttpRequester | CustomRequester | None) -> SimpleRetriever | None:
        """Return what asks for an answer that is no document."""
        if requester is None:
            return None
        selector = RecordSelector(extractor=_Found())
        return SimpleRetriever(
            requester=requester, record_selector=selector, decoder=IterableDecoder()
        )
