"""An API that makes reports on loopback, streams that read them, and a clock that runs ahead."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from textwrap import dedent, indent
from types import SimpleNamespace
from typing import Any

from tests.http.server import Asked, Reply

__all__ = ["Reports", "ahead", "reports"]


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
    """The API: what a job is asked about says in turn ``words``, and then the last of them.

    ``said`` may say other words for a job, by what it is for; ``files`` what it has made.
    """

    def __init__(self, *words: str) -> None:
        self.words = list(words) or ["queued", "queued", "done"]
        self.said: dict[str, list[str]] = {}
        self.files: Callable[[str], Reply] = lambda _: Reply([{"id": 1}])
        self.under_way: set[str] = set()
        self.most = 0
        self.until = 0
        """How many jobs have to be under way at once before any is done."""
        self._made: dict[str, list[str]] = {}
        self._turn = threading.Lock()

    def __call__(self, asked: Asked) -> Reply:
        """Answer a request."""
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
        self._made[made] = list(self.said.get(of, self.words))
        self.under_way.add(made)
        self.most = max(self.most, len(self.under_way))
        return Reply({"id": made})

    def _asked(self, asked: Asked, rest: list[str]) -> Reply:
        if asked.method == "DELETE":
            return Reply(status=204)
        if rest[1:] == ["abort"]:
            self.under_way.discard(rest[0])
            return Reply("ended")
        if self.most < self.until:
            return Reply({"status": "queued"})
        left = self._made[rest[0]]
        word = left.pop(0) if len(left) > 1 else left[0]
        if word != "queued":
            self.under_way.discard(rest[0])
        return Reply({"status": word} if word else {})

    def _of(self, job: str) -> str:
        return job.partition("-")[2]


def ahead(waits: list[float]) -> SimpleNamespace:
    """Return a clock that notes waits, and is ahead by them at once."""
    turn = threading.Lock()

    def sleep(seconds: float) -> None:
        with turn:
            waits.append(seconds)
        time.sleep(0.001)  # others have their turn

    return SimpleNamespace(monotonic=lambda: time.monotonic() + sum(waits), sleep=sleep)
