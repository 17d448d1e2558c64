"""Unity Catalog's REST API on loopback, as far as external Delta tables need it.

This is not Unity Catalog's own server, which cannot be installed here. It follows the project's
specification, `api/all.yaml` of github.com/unitycatalog/unitycatalog: it accepts a request only
with the fields, types and enumerated values of the specification, and answers with its bodies and
error codes.
"""

from __future__ import annotations

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from jsonschema import Draft202012Validator
from typing_extensions import Self

from tests.cluster.s3_server import KEY, SECRET

__all__ = ["TOKEN", "UnityCatalogServer"]

TOKEN: Final = "the-token-of-tests"

_API: Final = "/api/2.1/unity-catalog/"
_TEXT: Final = {"type": "string"}
_COLUMN: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "type_text", "type_json", "type_name", "position", "nullable"],
    "properties": {
        "name": _TEXT,
        "type_text": _TEXT,
        "type_json": _TEXT,
        "type_name": {
            "enum": [
                "BOOLEAN",
                "BYTE",
                "SHORT",
                "INT",
                "LONG",
                "FLOAT",
                "DOUBLE",
                "DATE",
                "TIMESTAMP",
                "TIMESTAMP_NTZ",
                "STRING",
                "BINARY",
                "DECIMAL",
                "INTERVAL",
                "ARRAY",
                "STRUCT",
                "MAP",
                "VARIANT",
                "CHAR",
                "NULL",
                "USER_DEFINED_TYPE",
                "TABLE_TYPE",
            ]
        },
        "type_precision": {"type": "integer"},
        "type_scale": {"type": "integer"},
        "type_interval_type": _TEXT,
        "position": {"type": "integer", "minimum": 0},
        "comment": _TEXT,
        "nullable": {"type": "boolean"},
        "partition_index": {"type": "integer"},
    },
}
"""`ColumnInfo`. The specification requires no field; Databricks' documentation sends these."""

_NAME: Final = {"type": "string", "pattern": "^[a-zA-Z0-9_@-]{1,255}$"}
_BODIES: Final = {
    "schemas": {
        "type": "object",
        "additionalProperties": False,
        "required": ["name", "catalog_name"],
        "properties": {
            "name": _NAME,
            "catalog_name": _NAME,
            "comment": _TEXT,
            "properties": {"type": "object", "additionalProperties": _TEXT},
            "storage_root": _TEXT,
        },
    },
    "tables": {
        "type": "object",
        "additionalProperties": False,
        "required": [
            "name",
            "catalog_name",
            "schema_name",
            "table_type",
            "data_source_format",
            "columns",
            "storage_location",
        ],
        "properties": {
            "name": _NAME,
            "catalog_name": _NAME,
            "schema_name": _NAME,
            "table_type": {"const": "EXTERNAL"},
            "data_source_format": {"const": "DELTA"},
            "columns": {"type": "array", "items": _COLUMN},
            "storage_location": {"type": "string", "pattern": "^(s3|gs|abfss?|file)://"},
            "comment": _TEXT,
            "properties": {"type": "object", "additionalProperties": _TEXT},
        },
    },
    "temporary-table-credentials": {
        "type": "object",
        "additionalProperties": False,
        "required": ["table_id", "operation"],
        "properties": {"table_id": _TEXT, "operation": {"enum": ["READ", "READ_WRITE"]}},
    },
}
"""Bodies of POST requests by path. Tables have the requirements of external Delta tables."""


class UnityCatalogServer(ThreadingHTTPServer):
    """A server with one catalog, as a context manager.

    Attributes:
        catalog: The name of the catalog.
        schemas: The schemas by full name.
        tables: The tables by full name.
        created: The full names of what was created, in order.
        in_between: Tables by full name that another job creates before the next POST request.
    """

    def __init__(self, catalog: str = "CATALOG") -> None:
        self.catalog = catalog
        self.schemas: dict[str, dict[str, Any]] = {}
        self.tables: dict[str, dict[str, Any]] = {}
        self.created: list[str] = []
        self.in_between: dict[str, dict[str, Any]] = {}
        super().__init__(("127.0.0.1", 0), _Handler)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def get(self, kind: str, name: str | None, query: dict[str, list[str]]) -> Any:
        """Return the status and the body of the answer to a GET request."""
        entries = {"schemas": self.schemas, "tables": self.tables}.get(kind)
        if entries is None:
            return 404, _describe_error("NOT_FOUND", f"no such path: {kind}")
        if name is None:
            parent = ".".join(query[k][0] for k in ("catalog_name", "schema_name") if k in query)
            listed = [entry for full, entry in entries.items() if full.rpartition(".")[0] == parent]
            return 200, {kind: listed, "next_page_token": None}
        if name not in entries:
            return 404, _describe_error("NOT_FOUND", f"{kind} not found: {name}")
        return 200, entries[name]

    def post(self, kind: str, body: dict[str, Any]) -> Any:
        """Return the status and the body of the answer to a POST request."""
        faults = [error.message for error in Draft202012Validator(_BODIES[kind]).iter_errors(body)]
        if faults:
            return 400, _describe_error("INVALID_ARGUMENT", faults[0])
        if kind == "temporary-table-credentials":
            return self._vend(body["table_id"])
        self.tables |= self.in_between
        names = [body[key] for key in ("catalog_name", "schema_name") if key in body]
        if names[0] != self.catalog:
            return 404, _describe_error("NOT_FOUND", f"Catalog not found: {names[0]}")
        if kind == "tables" and ".".join(names) not in self.schemas:
            return 404, _describe_error("NOT_FOUND", f"Schema not found: {'.'.join(names)}")
        known, full = (self.tables if kind == "tables" else self.schemas), ".".join(names)
        full = f"{full}.{body['name']}"
        if full in known:
            code = "TABLE_ALREADY_EXISTS" if kind == "tables" else "SCHEMA_ALREADY_EXISTS"
            return 400, _describe_error(code, f"{full} already exists")
        return 200, self.add(kind, full, body)

    def add(self, kind: str, full: str, body: dict[str, Any]) -> dict[str, Any]:
        """Add a table or a schema, and return it as the server answers it."""
        times = {"created_at": 1, "updated_at": 1, "created_by": "a", "updated_by": "a"}
        identifier = {"table_id" if kind == "tables" else "schema_id": str(uuid.uuid4())}
        added = {"owner": "a", "properties": {}, "full_name": full, **body, **times, **identifier}
        (self.tables if kind == "tables" else self.schemas)[full] = added
        self.created.append(full)
        return added

    def _vend(self, table_id: str) -> Any:
        tables = [table for table in self.tables.values() if table["table_id"] == table_id]
        if not tables:
            return 404, _describe_error("NOT_FOUND", f"Table not found: {table_id}")
        keys = {"access_key_id": KEY, "secret_access_key": SECRET, "session_token": "session"}
        is_local = tables[0]["storage_location"].startswith("file:")
        answer = {"expiration_time": 4_102_444_800_000, "url": tables[0]["storage_location"]}
        return 200, answer if is_local else {"aws_temp_credentials": keys, **answer}


def _describe_error(code: str, message: str) -> dict[str, Any]:
    reason = {"@type": "google.rpc.ErrorInfo", "reason": code}
    return {"error_code": code, "message": message, "details": [reason]}


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"

    def _answer_any(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        assert isinstance(self.server, UnityCatalogServer)
        parts = urlsplit(self.path)
        kind, _, name = parts.path.removeprefix(_API).partition("/")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            answer = 401, _describe_error("UNAUTHENTICATED", "Invalid access token.")
        elif self.command == "GET":
            query = parse_qs(parts.query)
            answer = self.server.get(kind, unquote(name) or None, query)
        elif parts.path != f"{_API}{kind}" or kind not in _BODIES:
            answer = 404, _describe_error("NOT_FOUND", f"no such path: {parts.path}")
        else:
            answer = self.server.post(kind, json.loads(content))
        body = json.dumps(answer[1]).encode()
        self.send_response(answer[0])
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer_any  # noqa: N815  (names of http.server)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
