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

__all__ = ["Reports", "make_fake_clock", "reports"]


def reports(name: str = "items", retriever: str = "", more: str = "", body: str = "") -> str:
    """Return a declared stream of jobs.

    ``retriever`` and ``more`` are further lines of the retriever and of the stream, ``body`` of
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
{indent(dedent(more), " " * 4)}
    schema_loader:
      type: InlineSchemaLoader
      schema: {{type: object, properties: {{id: {{type: integer}}, at: {{type: string}}}}}}
"""


class Reports:
    """The API: polls of a job return ``statuses`` in turn, then repeat the last one.

    ``statuses_by_slice`` has other statuses for the jobs of a slice; ``files`` returns the results.
    """

    def __init__(self, *statuses: str) -> None:
        self.statuses = list(statuses) or ["queued", "queued", "done"]
        self.statuses_by_slice: dict[str, list[str]] = {}
        self.files: Callable[[str], Reply] = lambda _: Reply([{"id": 1}])
        self.running_jobs: set[str] = set()
        self.most = 0
        self.until = 0
        """The number of concurrent jobs that must be reached before any is completed."""
        self._made: dict[str, list[str]] = {}
        self._turn = threading.Lock()

    def __call__(self, asked: ReceivedRequest) -> Reply:
        """Return the response to a request."""
        _, kind, *rest = asked.path.split("/")
        with self._turn:
            if kind == "files":
                return self.files(self._of(rest[0]))
            if not rest:
                return self._created(json.loads(asked.body))
            return self._asked(asked, rest)

    def _created(self, body: dict[str, Any]) -> Reply:
        of = body.get("since") or body.get("slice") or body["name"]
        made = f"{len(self._made)}-{of}"
        self._made[made] = list(self.statuses_by_slice.get(of, self.statuses))
        self.running_jobs.add(made)
        self.most = max(self.most, len(self.running_jobs))
        return Reply({"id": made})

    def _asked(self, asked: ReceivedRequest, rest: list[str]) -> Reply:
        if asked.method == "DELETE":
            return Reply(status=204)
        if rest[1:] == ["abort"]:
            self.running_jobs.discard(rest[0])
            return Reply("ended")
        if self.most < self.until:
            return Reply({"status": "queued"})
        left = self._made[rest[0]]
        word = left.pop(0) if len(left) > 1 else left[0]
        if word != "queued":
            self.running_jobs.discard(rest[0])
        return Reply({"status": word} if word else {})

    def _of(self, job: str) -> str:
        return job.partition("-")[2]


def make_fake_clock(waits: list[float]) -> SimpleNamespace:
    """Return a clock whose sleep records the seconds and advances the time by them."""
    turn = threading.Lock()

    def sleep(seconds: float) -> None:
        with turn:
            waits.append(seconds)
        time.sleep(0.001)  # lets other threads run

    return SimpleNamespace(monotonic=lambda: sum(waits), sleep=sleep)
