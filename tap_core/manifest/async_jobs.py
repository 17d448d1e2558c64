"""Jobs at an API: asked for, waited for, fetched, and not left behind.

Rules of the room: a job belongs to one slice, and one thread sees it through. What counts as a
try, and how many there are, is as in airbyte-cdk; each request has the retries of its own error
handler besides. No more jobs are under way than the manifest allows, over all threads of a tap;
one that is done, and still to be fetched, is not under way. A wait ends when the run does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import requests

from tap_core.exceptions import FatalAPIError, FatalSyncError, SyncError
from tap_core.http.fail_fast import fail_fast, limit_wait
from tap_core.http.transport import ANNOTATED_ERRORS
from tap_core.manifest.components.async_retriever import AsyncRetriever, JobStatus
from tap_core.manifest.components.decoders import JsonDecoder
from tap_core.manifest.components.partition_routers import PartitionSlice
from tap_core.manifest.interfaces import Decoder, Extractor, TemplateScope

if TYPE_CHECKING:
    from tap_core.manifest.components.retrievers import SimpleRetriever
    from tap_core.sync.sync_run import SyncRun
    from tap_core.types import Record

__all__ = ["AsyncJobReader", "JobLimiter", "poll_sleep"]

_TRIES: Final = 3
"""How often a job is asked for before its failure counts."""

_LOOK_SECONDS: Final = 0.1
_WAITS: Final = (0.5, 1.0, 2.0, 3.0)
_USUAL_WAIT: Final = 5.0
"""Seconds between two questions after how far a job is, behind the first ones."""


class JobLimiter:
    """How many jobs may be under way at once."""

    def __init__(self, most: int) -> None:
        self.most: int = most
        self._free: threading.Semaphore = threading.Semaphore(most)

    @contextmanager
    def one(self, check: Callable[[], object]) -> Iterator[None]:
        """Have one job under way, as soon as there may be one more.

        ``check`` is called while that is waited for, and may raise an error.
        """
        while not self._free.acquire(timeout=_LOOK_SECONDS):
            check()
        try:
            yield
        finally:
            self._free.release()


def poll_sleep(run: SyncRun, seconds: float) -> None:
    """Wait, unless the run ends meanwhile.

    Raises:
        Exception: the first error of the run.
        Stopped: it has ended elsewhere.
    """
    until = time.monotonic() + limit_wait(seconds)
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _LOOK_SECONDS))
        _check(run)


def _check(run: SyncRun) -> None:
    if run.leader is not None:
        run.leader.check()
    if run.outbox.failure is not None:
        raise run.outbox.failure


class _Asking(Protocol):
    """A stream that asks with one requester."""

    def answer(self) -> requests.Response:
        """Send the request, and return its answer."""

    def request_records(self, context: None, /) -> Iterable[Record]:
        """Send the requests for all pages, and yield the records."""


class _Asks(Protocol):
    """A stream whose requests those of a job are."""

    def log(self, message: str, *args: Any, level: int = ..., **kwargs: Any) -> None:
        """Log under the stream's name."""

    def asking(
        self, retriever: SimpleRetriever, scope: TemplateScope, *, into_file: bool = False
    ) -> _Asking:
        """Return a copy that asks as a retriever says, whatever else the stream would add."""


@dataclass(slots=True)
class _Job:
    """What templates know of a job: the answers of the API about it."""

    known: dict[str, Any]
    in_slice: dict[str, Any] = field(default_factory=dict)
    """The same for older manifests, which look into the slice."""
    polled: requests.Response | None = None


@dataclass(frozen=True, slots=True)
class AsyncJobReader:
    """Reads one slice of a stream by a job."""

    stream: _Asks
    retriever: AsyncRetriever
    scope: TemplateScope
    """What templates see of the slice."""
    count: JobLimiter
    run: SyncRun
    place: str
    """Stream and slice, for messages; without secrets."""

    def records(self) -> Iterator[Record]:
        """Yield what the job of the slice has made.

        Raises:
            FatalSyncError: it failed as often as it may be tried, or has an unknown status.
        """
        with self.count.one(lambda: _check(self.run)):
            job = self._done()
        if job is None:
            return
        for target in self._targets(job):
            scope = self._seen(job, {"download_target": target}, {"url": target})
            asked = self.stream.asking(self.retriever.download, scope, into_file=True)
            yield from asked.request_records(None)
        self._ask_kindly(self.retriever.deletion, job, "removed")

    # Until it is done

    def _done(self) -> _Job | None:
        """Return the job when it is done, None where it has nothing to give."""
        for left in reversed(range(_TRIES)):
            job = self._created(is_last=not left)
            status: JobStatus = "failed" if job is None else self._followed(job)
            if status == "completed":
                return job
            if status == "skipped":
                return None
            if left:
                self._before_the_next(job, status)
        raise self._failed(f"its job has ended {_TRIES} times as '{status}'")

    def _before_the_next(self, job: _Job | None, status: JobStatus) -> None:
        """Wait before a job is asked for again."""
        wait = None
        if job is not None:
            message = "%s: its job has ended as '%s', and is asked for again."
            self.stream.log(message, self.place, status, level=logging.WARNING)
            if status == "failed":
                wait = self.retriever.failed_retry_wait_time_in_seconds
        poll_sleep(self.run, wait or _USUAL_WAIT)

    def _created(self, *, is_last: bool) -> _Job | None:
        """Ask for a job; None where that failed, and is to be tried again."""
        try:
            response = self.stream.asking(self.retriever.creation, self.scope).answer()
            if not response.ok:
                raise FatalAPIError(
                    f"status {response.status_code}, which is ignored elsewhere", response=response
                )
        except ANNOTATED_ERRORS as error:
            kind = getattr(error, "failure_type", None)
            if is_last or kind == "config_error":
                raise self._failed(f"no job could be created: {error}", kind) from error
            message = "%s: no job could be created, and one is asked for again: %s"
            self.stream.log(message, self.place, error, level=logging.WARNING)
            return None
        context = _build_template_context(response, self.retriever.creation)
        return _Job({"creation_response": context}, {"create_job_response": response})

    def _followed(self, job: _Job) -> JobStatus:
        """Wait until a job has ended, and return how; where nobody waits any more, end it."""
        try:
            status = self._polled(job)
        except BaseException:
            with fail_fast():
                self._ask_kindly(self.retriever.abortion, job, "aborted")
            raise
        if status == "timeout":
            self._ask_kindly(self.retriever.abortion, job, "aborted")
        return status

    def _polled(self, job: _Job) -> JobStatus:
        until = time.monotonic() + self.retriever.seconds
        for wait in chain(_WAITS, repeat(_USUAL_WAIT)):
            response = self.stream.asking(self.retriever.polling, self._seen(job)).answer()
            status = self._status(response)
            if status != "running":
                job.polled = response
                job.known["polling_response"] = _build_template_context(
                    response, self.retriever.polling
                )
                return status
            left = until - time.monotonic()
            if left <= 0:
                break
            poll_sleep(self.run, min(wait, left))
        return "timeout"

    def _status(self, response: requests.Response) -> JobStatus:
        asked = self.retriever
        found = _found(asked.status_extractor, response, asked.polling, self.scope)
        word = next(found, None)
        if word is None:
            raise self._failed(
                "the answer about its job has no status where status_extractor looks"
            )
        status = asked.status_mapping.meaning(str(word))
        if status is None:
            raise self._failed(
                f"its job has the status '{word}', which status_mapping does not have"
            )
        return status

    # What it has made

    def _targets(self, job: _Job) -> Iterable[Any]:
        """Return what each download is asked with."""
        asked, response = self.retriever, cast("requests.Response", job.polled)
        extractor, said = asked.target_extractor, asked.targets
        if extractor is None:
            return ("",)
        if said is not None:
            response = self.stream.asking(said, self._seen(job)).answer()
        return _found(extractor, response, said or asked.polling, self.scope)

    # What is said

    def _seen(
        self,
        job: _Job,
        more: Mapping[str, Any] | None = None,
        in_slice: Mapping[str, Any] | None = None,
    ) -> TemplateScope:
        """Return what templates see of a slice and its job."""
        known = {**job.known, **(more or {})}
        given = self.scope["stream_slice"]
        older = {**job.in_slice, **(in_slice or {})} if self.retriever.is_older else {}
        extras = {**getattr(given, "extra_fields", {}), **known}
        whole = PartitionSlice({**given, **older}, extra_fields=extras)
        slices = dict.fromkeys(["stream_slice", "stream_partition", "stream_interval"], whole)
        return {**self.scope, **known, **slices}

    def _ask_kindly(self, retriever: SimpleRetriever | None, job: _Job, done: str) -> None:
        """Ask for something that no record depends on."""
        if retriever is None:
            return
        try:
            self.stream.asking(retriever, self._seen(job)).answer()
        except Exception as error:  # noqa: BLE001  whatever it is, the records are there
            message = "%s: its job could not be %s: %s"
            self.stream.log(message, self.place, done, error, level=logging.WARNING)

    def _failed(self, what: str, kind: str | None = None) -> SyncError:
        error = FatalSyncError(f"{self.place}: {what}.")
        error.failure_type = kind or "system_error"
        return error


def _decoder(retriever: SimpleRetriever) -> Decoder:
    return retriever.decoder or JsonDecoder()


def _build_template_context(
    response: requests.Response, retriever: SimpleRetriever
) -> dict[str, Any]:
    """Return an answer as templates see it: its document, with its headers and its request."""
    document = next(_decoder(retriever).decode(response), None)
    known: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
    return {"headers": response.headers, "request": response.request, **known}


def _found(
    extractor: Extractor,
    response: requests.Response,
    retriever: SimpleRetriever,
    scope: TemplateScope,
) -> Iterator[Any]:
    """Yield what an extractor finds in an answer."""
    decoder = _decoder(retriever)
    whole = getattr(extractor, "whole", None)
    documents = decoder.decode(response) if whole is None else whole(decoder)(response)
    for document in documents:
        yield from extractor.extract(document, scope)
