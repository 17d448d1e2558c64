"""Asynchronous jobs of an API: create, poll, download the results, delete or abort.

A job reads one slice of a stream, and one thread creates and polls it. As in airbyte-cdk, a job
that fails or times out is created again, up to three times in total; in addition, the error handler
retries each single request. The limit on running jobs applies to all threads of a tap; a completed
job whose result is still being downloaded does not count. Waiting ends as soon as the run ends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, cast

import requests

from tap_core.exceptions import FatalAPIError, FatalSyncError, SyncError
from tap_core.http.fail_fast import fail_fast, limit_wait
from tap_core.http.transport import ANNOTATED_ERRORS
from tap_core.manifest.components.async_retriever import AsyncRetriever, JobStatus
from tap_core.manifest.components.extractors import SKIPPED_RECORD, extract_records
from tap_core.manifest.components.partition_routers import extend_stream_slice
from tap_core.manifest.interfaces import DeclarativeStreamProtocol, TemplateScope
from tap_core.sync.thread_stop_signal import WorkerStopped

if TYPE_CHECKING:
    from tap_core.manifest.components.record_selector import Extractor
    from tap_core.manifest.components.retrievers import SimpleRetriever
    from tap_core.sync.sync_run import SyncRun
    from tap_core.types import Record

__all__ = ["AsyncJobReader", "JobLimiter", "poll_sleep"]

_TRIES: Final = 3
"""Number of times that a job is created for a slice before the slice fails."""

_CHECK_SECONDS: Final = 0.1
"""Seconds between two checks during a wait, each of which tests if the sync has ended."""
_FIRST_WAITS: Final = (0.5, 1.0, 2.0, 3.0)
"""Seconds to wait before the second to fifth polling request; the first one is sent at once."""
_WAIT: Final = 5.0
"""Seconds to wait before each later polling request, and before a job is created again."""


class JobLimiter:
    """Limit for the number of asynchronous API jobs that run at the same time.

    All threads of a tap share one limiter.
    """

    def __init__(self, max_jobs: int) -> None:
        self.max_jobs: int = max_jobs
        self._free: threading.Semaphore = threading.Semaphore(max_jobs)

    @contextmanager
    def hold_slot(self, check: Callable[[], object]) -> Iterator[None]:
        """Wait until a job may be started, and count it as running during the ``with`` block.

        During the wait, ``check`` is called every 0.1 seconds. To end the wait, ``check`` raises an
        exception, for example because the run has failed.
        """
        while not self._free.acquire(timeout=_CHECK_SECONDS):
            check()
        try:
            yield
        finally:
            self._free.release()


def poll_sleep(run: SyncRun, seconds: float) -> None:
    """Sleep for ``seconds``; if the sync ends meanwhile, stop sleeping and raise an error.

    Raises:
        BaseException: The sync cannot write its output any longer; this is the reason.
        WorkerStopped: Another thread has ended the work of this one.
    """
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _CHECK_SECONDS))
        _raise_if_ended(run)


def _raise_if_ended(run: SyncRun) -> None:
    if run.stop_signal is not None and run.stop_signal.is_set:
        raise WorkerStopped  # not the error of the other thread, after which a request is retried
    if run.outbox.failure is not None:
        raise run.outbox.failure


@dataclass(slots=True)
class _JobResponses:
    """API responses about one asynchronous job: its creation and its last poll.

    The templates of the job's later requests, such as the download, can use the responses.
    """

    variables: dict[str, Any]
    """Responses by variable name, such as ``creation_response``."""
    legacy_fields: dict[str, Any] = field(default_factory=dict)
    """Responses that templates of older manifests read from ``stream_slice``, by key."""
    polled: requests.Response | None = None
    """Last response to a polling request; None until the job has ended."""


@dataclass(frozen=True, slots=True)
class AsyncJobReader:
    """Reader of one stream slice from an API with asynchronous jobs.

    It creates a job for the slice, polls it until it ends, and downloads the results. The type name
    in manifests is AsyncRetriever.
    """

    stream: DeclarativeStreamProtocol
    retriever: AsyncRetriever
    scope: TemplateScope
    """Template variables of the slice."""
    limiter: JobLimiter
    run: SyncRun
    place: str
    """Stream and slice as text for messages; contains no secrets."""

    def records(self) -> Iterator[Record]:
        """Create a job for the slice, poll it until it ends, and yield the records in its results.

        Raises:
            FatalSyncError: The job failed in all attempts, or its status is not in
                ``status_mapping``.
        """
        with self.limiter.hold_slot(lambda: _raise_if_ended(self.run)):
            job = self._run_job()
        if job is None:
            return
        for target in self._find_targets(job):
            scope = self._make_scope(job, {"download_target": target}, {"url": target})
            download = self.stream.with_request_only(self.retriever.download, scope, into_file=True)
            yield from download.request_records(None)
        self._send_optional(self.retriever.deletion, job, "removed")

    # Creation and polling

    def _run_job(self) -> _JobResponses | None:
        """Create a job, wait until it is completed, and return the API's responses about the job.

        A job that fails or times out is created again. If the manifest maps the job's status to
        ``skipped``, return None: the stream slice has no records.

        Raises:
            FatalSyncError: All attempts ended with a failure or a timeout.
        """
        for retries_left in reversed(range(_TRIES)):
            job = self._create_job(is_last=not retries_left)
            status: JobStatus = "failed" if job is None else self._follow_job(job)
            if status == "completed":
                return job
            if status == "skipped":
                return None
            if retries_left:
                self._wait_for_retry(job, status)
        raise self._make_error(f"its job ended {_TRIES} times with status '{status}'")

    def _wait_for_retry(self, job: _JobResponses | None, status: JobStatus) -> None:
        """Wait before a job that failed or timed out is created again, and log a warning.

        ``job`` is None if the job could not be created; `_create_job` has then logged the warning.
        """
        wait = None
        if job is not None:
            message = "%s: its job ended with status '%s' and is created again."
            self.stream.log(message, self.place, status, level=logging.WARNING)
            if status == "failed":
                wait = self.retriever.failed_retry_wait_time_in_seconds
        poll_sleep(self.run, limit_wait(wait or _WAIT))

    def _create_job(self, *, is_last: bool) -> _JobResponses | None:
        """Send the request that creates a job; return the API's response, or None on failure.

        Raises:
            FatalSyncError: The last attempt failed (``is_last``), or the error is a configuration
                error.
        """
        try:
            response = self.stream.with_request_only(
                self.retriever.creation, self.scope
            ).send_request()
            if not response.ok:
                raise FatalAPIError(
                    f"status {response.status_code}, ignored by the error handler",
                    response=response,
                )
        except ANNOTATED_ERRORS as error:
            failure_type = getattr(error, "failure_type", None)
            if is_last or failure_type == "config_error":
                raise self._make_error(f"no job could be created: {error}", failure_type) from error
            message = "%s: no job could be created; trying again: %s"
            self.stream.log(message, self.place, error, level=logging.WARNING)
            return None
        context = _build_template_context(response, self.retriever.creation)
        return _JobResponses({"creation_response": context}, {"create_job_response": response})

    def _follow_job(self, job: _JobResponses) -> JobStatus:
        """Poll a job until it ends, and return its status, or ``timeout`` if it takes too long.

        After a timeout, send the request that aborts the job. If polling raises an error, send this
        request too, and raise the error again.
        """
        try:
            status = self._poll_job(job)
        except BaseException:
            with fail_fast():
                self._send_optional(self.retriever.abortion, job, "aborted")
            raise
        if status == "timeout":
            self._send_optional(self.retriever.abortion, job, "aborted")
        return status

    def _poll_job(self, job: _JobResponses) -> JobStatus:
        until = time.monotonic() + self.retriever.timeout_seconds
        for wait in chain(_FIRST_WAITS, repeat(_WAIT)):
            response = self.stream.with_request_only(
                self.retriever.polling, self._make_scope(job)
            ).send_request()
            status = self._read_status(response)
            if status != "running":
                job.polled = response
                job.variables["polling_response"] = _build_template_context(
                    response, self.retriever.polling
                )
                return status
            left = until - time.monotonic()
            if left <= 0:
                break
            poll_sleep(self.run, limit_wait(min(wait, left)))
        return "timeout"

    def _read_status(self, response: requests.Response) -> JobStatus:
        retriever = self.retriever
        values = _extract_values(retriever.status_extractor, response, retriever.polling)
        value = next(values, None)
        if value is None:
            raise self._make_error(
                "the polling response has no status at the path of status_extractor"
            )
        status = retriever.status_mapping.get_status(str(value))
        if status is None:
            raise self._make_error(
                f"its job has the status '{value}', which is not in status_mapping"
            )
        return status

    # Download targets

    def _find_targets(self, job: _JobResponses) -> Iterable[Any]:
        """Return the download targets (URLs or ids) of a completed job, one per result.

        Without a ``download_target_extractor`` the job has a single result, whose target is "".
        """
        retriever, response = self.retriever, cast("requests.Response", job.polled)
        extractor, targets = retriever.target_extractor, retriever.targets
        if extractor is None:
            return ("",)
        if targets is not None:
            response = self.stream.with_request_only(targets, self._make_scope(job)).send_request()
        return _extract_values(extractor, response, targets or retriever.polling)

    # Interpolation and errors

    def _make_scope(
        self,
        job: _JobResponses,
        variables: Mapping[str, Any] | None = None,
        legacy_fields: Mapping[str, Any] | None = None,
    ) -> TemplateScope:
        """Return the template variables for a request about a job, such as the polling request.

        They are the variables of the stream slice, the API's responses about the job so far, and
        ``variables``, such as ``download_target``. The variable ``stream_slice`` also gets
        ``legacy_fields`` if the manifest has the older option ``urls_extractor``.
        """
        responses = {**job.variables, **(variables or {})}
        fields = {**job.legacy_fields, **(legacy_fields or {})} if self.retriever.is_legacy else {}
        return {**extend_stream_slice(self.scope, responses, fields), **responses}

    def _send_optional(
        self, retriever: SimpleRetriever | None, job: _JobResponses, done: str
    ) -> None:
        """Send the request that aborts or deletes a job; if it fails, log a warning.

        Nothing is sent without a ``retriever``. ``done`` is the action in the warning, for example
        "aborted".
        """
        if retriever is None:
            return
        try:
            self.stream.with_request_only(retriever, self._make_scope(job)).send_request()
        except Exception as error:  # noqa: BLE001  the records have been read in any case
            message = "%s: its job could not be %s: %s"
            self.stream.log(message, self.place, done, error, level=logging.WARNING)

    def _make_error(self, problem: str, failure_type: str | None = None) -> SyncError:
        error = FatalSyncError(f"{self.place}: {problem}.")
        error.failure_type = failure_type or "system_error"
        return error


def _build_template_context(
    response: requests.Response, retriever: SimpleRetriever
) -> dict[str, Any]:
    """Return a response as template variables: ``headers``, ``request``, and the body's members.

    The decoder of ``retriever`` parses the body.
    """
    document = next(retriever.response_decoder.decode(response), None)
    members: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
    return {"headers": response.headers, "request": response.request, **members}


def _extract_values(
    extractor: Extractor, response: requests.Response, retriever: SimpleRetriever
) -> Iterator[Any]:
    """Decode an API response and yield the values that an extractor finds in it.

    The values are a job's status, for example, or the URLs of its results. The decoder of
    ``retriever`` parses the body.
    """
    values = extract_records(extractor, response, retriever.response_decoder)
    return (value for value in values if value is not SKIPPED_RECORD)
