"""AsyncRetriever component: the requests of an asynchronous API job and the names of its statuses.

`tap_core.manifest.async_jobs` runs the jobs. Each step of a job (creation, polling, download and so
on) has a separate requester, whose templates can use the responses to the previous steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias, get_args

from tap_core.manifest.components.custom import CustomRequester
from tap_core.manifest.components.decoders import IterableDecoder
from tap_core.manifest.components.extractors import DpathExtractor, WholeDocumentExtractor
from tap_core.manifest.components.file_extractors import ResponseToFileExtractor
from tap_core.manifest.components.paginators import NoPagination, Paginator
from tap_core.manifest.components.record_selector import Extractor, RecordSelector
from tap_core.manifest.components.requester import HttpRequester
from tap_core.manifest.components.retrievers import SimpleRetriever
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import Decoder, PartitionRouter

__all__ = ["AsyncJobStatusMap", "AsyncRetriever", "JobStatus"]

JobStatus: TypeAlias = Literal["running", "completed", "failed", "timeout", "skipped"]
"""Status of a job; the values are the field names of `AsyncJobStatusMap`."""

_DEFAULT_TIMEOUT: Final = 60
"""Default of ``polling_job_timeout``, in minutes."""
_UNPARSED: Final = IterableDecoder()
"""Decoder for requests whose response need not be JSON, because nothing in it is used."""


@dataclass(frozen=True, kw_only=True)
class AsyncJobStatusMap:
    """Mapping from each job status of the SDK, such as completed, to the API's names for it."""

    running: list[str]
    completed: list[str]
    failed: list[str]
    timeout: list[str]
    skipped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raise ManifestError if the same API status is listed twice."""
        statuses = [word for kind in get_args(JobStatus) for word in getattr(self, kind)]
        for word in statuses:
            if statuses.count(word) > 1:
                raise ManifestError(f"The status '{word}' is listed twice: list it once.")

    def get_status(self, api_status: str) -> JobStatus | None:
        """Return the SDK's job status for a status name of the API; None if it is not listed."""
        statuses: tuple[JobStatus, ...] = get_args(JobStatus)
        return next((status for status in statuses if api_status in getattr(self, status)), None)


@dataclass(frozen=True, kw_only=True)
class AsyncRetriever:
    """Retriever that creates one asynchronous job per stream slice and downloads its results."""

    creation_requester: HttpRequester | CustomRequester
    polling_requester: HttpRequester | CustomRequester
    download_requester: HttpRequester | CustomRequester
    status_mapping: AsyncJobStatusMap
    status_extractor: Extractor
    record_selector: RecordSelector
    """Selector of the records; `download_extractor` replaces its extractor."""
    download_target_requester: HttpRequester | CustomRequester | None = None
    download_target_extractor: Extractor | None = None
    download_extractor: Extractor | None = None
    download_paginator: Paginator = field(default_factory=NoPagination)
    download_decoder: Decoder | None = None
    abort_requester: HttpRequester | CustomRequester | None = None
    delete_requester: HttpRequester | CustomRequester | None = None
    polling_job_timeout: int | None = None
    """Minutes after which a job is aborted and created again; None for 60."""
    failed_retry_wait_time_in_seconds: int | None = None
    partition_router: PartitionRouter | list[PartitionRouter] | None = None
    decoder: Decoder | None = None

    # Options of older manifests
    url_requester: HttpRequester | CustomRequester | None = None
    urls_extractor: Extractor | None = None

    def __post_init__(self) -> None:
        """Raise ManifestError if the options are invalid.

        A timeout or wait must be at least 1, and a download target requester needs a download
        target extractor.
        """
        if self._target_requester is not None and self.target_extractor is None:
            raise ManifestError(
                "download_target_requester needs a download_target_extractor, which finds the"
                " targets in its response."
            )
        for name in ("polling_job_timeout", "failed_retry_wait_time_in_seconds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ManifestError(f"{name} is {value}, and must be at least 1.")

    @property
    def requester(self) -> HttpRequester | CustomRequester:
        """Requester of the first request of a stream slice, which creates the job."""
        return self.creation_requester

    @cached_property
    def simple(self) -> SimpleRetriever:
        """Synchronous retriever with this one's requester, partition routers and record selector.

        It is used by code that works with any kind of retriever.
        """
        return SimpleRetriever(
            requester=self.creation_requester,
            record_selector=replace(self.record_selector, extractor=WholeDocumentExtractor()),
            partition_router=self.partition_router,
            decoder=self.decoder,
        )

    @property
    def target_extractor(self) -> Extractor | None:
        """Extractor of a job's download targets (URLs or ids); None if a job has one result."""
        return self.download_target_extractor or self.urls_extractor

    @property
    def is_legacy(self) -> bool:
        """True if the manifest uses the older option `urls_extractor`.

        Templates of such a manifest read the responses of a job from ``stream_slice``.
        """
        return self.urls_extractor is not None

    @property
    def timeout_seconds(self) -> float:
        """Time in seconds after which a running job is aborted; 3600 by default."""
        return 60.0 * (self.polling_job_timeout or _DEFAULT_TIMEOUT)

    @property
    def _target_requester(self) -> HttpRequester | CustomRequester | None:
        return self.download_target_requester or self.url_requester

    # Retrievers of the steps of a job

    @cached_property
    def creation(self) -> SimpleRetriever:
        """Retriever that sends the request that creates a job."""
        return self._make_retriever(self.creation_requester, self.decoder)

    @cached_property
    def polling(self) -> SimpleRetriever:
        """Retriever that sends the requests that poll a job's status."""
        return self._make_retriever(self.polling_requester, self.decoder)

    @cached_property
    def targets(self) -> SimpleRetriever | None:
        """Retriever that sends the request that lists the download targets of a job.

        None means that the last polling response contains the targets.
        """
        requester = self._target_requester
        return None if requester is None else self._make_retriever(requester, self.decoder)

    @cached_property
    def abortion(self) -> SimpleRetriever | None:
        """Retriever that sends the request that aborts a job; None if none is declared."""
        requester = self.abort_requester
        return None if requester is None else self._make_retriever(requester, _UNPARSED)

    @cached_property
    def deletion(self) -> SimpleRetriever | None:
        """Retriever that sends the request that deletes a job after its results are read.

        None means that the manifest declares no such request.
        """
        requester = self.delete_requester
        return None if requester is None else self._make_retriever(requester, _UNPARSED)

    @cached_property
    def download(self) -> SimpleRetriever:
        """Retriever that downloads the results of a completed job, page by page."""
        default = ResponseToFileExtractor() if self.is_legacy else DpathExtractor(field_path=[])
        return SimpleRetriever(
            requester=self.download_requester,
            record_selector=RecordSelector(extractor=self.download_extractor or default),
            paginator=self.download_paginator,
            decoder=self.download_decoder,
        )

    @staticmethod
    def _make_retriever(
        requester: HttpRequester | CustomRequester, decoder: Decoder | None
    ) -> SimpleRetriever:
        return SimpleRetriever(
            requester=requester,
            record_selector=RecordSelector(extractor=WholeDocumentExtractor()),
            decoder=decoder,
        )
