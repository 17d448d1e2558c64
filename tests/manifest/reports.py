"""An API of asynchronous report jobs on loopback, streams that read it, and a fake clock."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from textwrap import dedent, indent
from types import SimpleNamespace
from typing import Any

from tests.http.server import ReceivedRequest, Reply

__all__ = ["ReportsApi", "make_fake_clock", "report_stream"]


def report_stream(
    name: str = "items", retriever: str = "", options: str = "", body: str = ""
) -> str:
    """Return a declared stream of jobs.

    ``retriever`` and ``options`` are further lines of the retriever and of the stream, ``body`` of
    the request that creates a job.
    """
    return f"""\
  - type: DeclarativeStream
    name: {name}
    retriever:
      type: AsyncRetriever
      status_mapping:
        running: [queued]
        completed: [done]
        failed: [broken]
        timeout: [late]
        skipped: [empty]
      status_extractor: {{type: DpathExtractor, field_path: [status]}}
      record_selector:
        type: RecordSelector
        extractor: {{type: DpathExtractor, field_path: []}}
      creation_requester:
        $ref: "#/definitions/requester"
        path: jobs
        http_method: POST
        request_body_json:
          name: {name}
          slice: "{{{{ stream_partition.get('part', '') }}}}"
          since: "{{{{ stream_interval.get('start_time', '') }}}}"
{indent(dedent(body), " " * 8)}
      polling_requester:
        $ref: "#/definitions/requester"
        path: "jobs/{{{{ creation_response['id'] }}}}"
      download_requester:
        $ref: "#/definitions/requester"
        path: "files/{{{{ creation_response.id }}}}"
      abort_requester:
        $ref: "#/definitions/requester"
        path: "jobs/{{{{ creation_response['id'] }}}}/abort"
        http_method: POST
      delete_requester:
        $ref: "#/definitions/requester"
        path: "jobs/{{{{ creation_response['id'] }}}}"
        http_method: DELETE
{indent(dedent(retriever), " " * 6)}
{indent(dedent(options), " " * 4)}
    schema_loader:
      type: InlineSchemaLoader
      schema: {{type: object, properties: {{id: {{type: integer}}, at: {{type: string}}}}}}
"""


class ReportsApi:
    """The API: polls of a job return ``statuses`` in turn, then repeat the last one.

    ``statuses_by_slice`` has other statuses for the jobs of a slice; ``files`` returns the results.
    """

    def __init__(self, *statuses: str) -> None:
        self.statuses = list(statuses) or ["queued", "queued", "done"]
        self.statuses_by_slice: dict[str, list[str]] = {}
        self.files: Callable[[str], Reply] = lambda _: Reply([{"id": 1}])
        self.running_jobs: set[str] = set()
        self.max_running = 0
        self.wait_for = 0
        """The number of concurrent jobs that must be reached before any is completed."""
        self._jobs: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def __call__(self, request: ReceivedRequest) -> Reply:
        """Return the response to a request."""
        _, kind, *segments = request.path.split("/")
        with self._lock:
            if kind == "files":
                return self.files(self._slice_of(segments[0]))
            if not segments:
                return self._create_job(json.loads(request.body))
            return self._reply_to_job(request, segments)

    def _create_job(self, body: dict[str, Any]) -> Reply:
        of = body.get("since") or body.get("slice") or body["name"]
        job_id = f"{len(self._jobs)}-{of}"
        self._jobs[job_id] = list(self.statuses_by_slice.get(of, self.statuses))
        self.running_jobs.add(job_id)
        self.max_running = max(self.max_running, len(self.running_jobs))
        return Reply({"id": job_id})

    def _reply_to_job(self, request: ReceivedRequest, segments: list[str]) -> Reply:
        if request.method == "DELETE":
            return Reply(status=204)
        if segments[1:] == ["abort"]:
            self.running_jobs.discard(segments[0])
            return Reply("ended")
        if self.max_running < self.wait_for:
            return Reply({"status": "queued"})
        statuses = self._jobs[segments[0]]
        status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
        if status != "queued":
            self.running_jobs.discard(segments[0])
        return Reply({"status": status} if status else {})

    def _slice_of(self, job: str) -> str:
        return job.partition("-")[2]


def make_fake_clock(waits: list[float]) -> SimpleNamespace:
    """Return a clock whose sleep records the seconds and advances the time by them."""
    lock = threading.Lock()

    def sleep(seconds: float) -> None:
        with lock:
            waits.append(seconds)
        time.sleep(0.001)  # lets other threads run

    return SimpleNamespace(monotonic=lambda: sum(waits), sleep=sleep)
