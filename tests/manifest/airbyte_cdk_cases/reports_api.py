"""An API of asynchronous jobs for the manifest ``reports.yaml``."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

from tests.http.server import ReceivedRequest, Reply

__all__ = ["reports"]

TABLE = 'id,name,name,\n1,"a, b",x,NA\n\n2,,null,7\n3\n'


def reports(url: str) -> Callable[[ReceivedRequest], Reply]:
    """Return the API: a job is queued at its first poll and completed at the second."""
    return _Reports(url).answer


class _Reports:
    def __init__(self, url: str) -> None:
        self._url = url
        self._polls: dict[str, Any] = {}

    def answer(self, request: ReceivedRequest) -> Reply:
        """Return the response for the first step of the path."""
        kind, *ids = request.path.strip("/").split("/")
        if kind == "reports":
            return self._report(request, ids[0])
        if kind == "results":
            page = int(request.query.get("page", ["1"])[0])
            rows = [{"id": number, "deep": {"page": page}} for number in (1, 2, 3)]
            return Reply({"data": rows[2 * page - 2 : 2 * page]})
        if kind == "files":
            named = [f"{self._url}/sales/{ids[0]}/{number}" for number in (1, 2)]
            return Reply({"files": [{"href": name} for name in named]})
        return Reply({"sales": _sales, "links": _links, "table": _table}[kind](ids))

    def _report(self, request: ReceivedRequest, name: str) -> Reply:
        if request.path.endswith("/removal"):
            return Reply("removed", headers={"Content-Type": "text/plain"})
        if request.method == "POST":
            body = json.loads(request.body)
            report_id = "_".join([name, *(body.get(key, "") for key in ("region", "from", "to"))])
            return Reply({"id": report_id}, headers={"X-Place": "here"})
        self._polls[name] = self._polls.get(name, 0) + 1
        return Reply({"state": self._state(name), "links": self._links(name)})

    def _state(self, name: str) -> Any:
        status = "queued" if self._polls[name] % 2 else "done"
        if "_broken_" in name and self._polls[name] == 2:
            status = "broken"
        if "_empty_" in name and status == "done":
            status = "empty"
        return {"word": status, "of": name}

    def _links(self, name: str) -> list[str]:
        kind = name.partition("_")[0]
        numbers = (1,) if kind == "table" else (1, 2)
        return [f"{kind}/{name}/{number}" for number in numbers]


def _sales(ids: list[str]) -> bytes:
    _, region, since, _ = ids[0].split("_")
    number = int(ids[1])
    day = f"{since[:8]}{int(since[8:]) + number:02}"
    rows = [f"{number};{day};{number}.50;{region}", f"9;{day};0;{region}"]
    return gzip.compress("\n".join(["id;day;net;of", *rows, ""]).encode())


def _links(ids: list[str]) -> str:
    named = {"of": ids[0], "none": None}
    lines = [{"rows": [{"id": int(ids[1]), **named}, {"id": 8, **named}]}, {"rows": []}]
    return "\n".join(map(json.dumps, lines))


def _table(_rest: list[str]) -> bytes:
    return gzip.compress(TABLE.encode())
