"""HTTP service with a part of the Petstore API of `swagger.json`. It does not depend on `tap_core`.

`python -m tap_petstore.service` prints its URL and serves until it is stopped. It requires the API
key `special-key`.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["KEY", "ORDERS", "PETS", "start"]

KEY = "special-key"
Rows = list[dict[str, Any]]


def _make_pet(number: int, name: str, kind: str, status: str, *tags: str) -> dict[str, Any]:
    """Return a pet. Without tags it has no property ``tags``, as in the real API."""
    pet: dict[str, Any] = {
        "id": number,
        "category": {"id": len(kind), "name": kind},
        "name": name,
        "photoUrls": [f"https://pets.example.com/{number}.jpg"],
        "status": status,
    }
    if tags:
        pet["tags"] = [{"id": place, "name": tag} for place, tag in enumerate(tags)]
    return pet


PETS: Rows = [
    _make_pet(1, "Argos", "Dogs", "sold", "loyal", "old"),
    _make_pet(2, "Bucephalus", "Horses", "sold"),
    _make_pet(3, "Felicette", "Cats", "pending", "has been to space"),
    _make_pet(4, "Laika", "Dogs", "available", "has been to space"),
    _make_pet(9_007_199_254_740_993, "Tiddles", "Cats", "available"),  # too large for a float
]
ORDERS: Rows = [
    {
        "id": number,
        "petId": pet,
        "quantity": 1,
        "shipDate": f"2026-01-0{number}T09:30:00.000+0000",
        "status": status,
        "complete": status == "delivered",
    }
    for number, pet, status in [(1, 1, "delivered"), (2, 2, "approved"), (7, 3, "placed")]
]


def _handle(target: str) -> tuple[int, Any]:
    """Return the status and the JSON body of a request for ``target``, a path with its query."""
    url = urlsplit(target)
    match url.path.strip("/").split("/"):
        case ["pet", "findByStatus"]:
            statuses = parse_qs(url.query).get("status", [])
            return 200, [pet for pet in PETS if pet["status"] in statuses]
        case ["store", "order", number] if number.isdigit():
            matching = [order for order in ORDERS if order["id"] == int(number)]
            return (200, matching[0]) if matching else (404, {"message": "Order not found"})
        case _:
            return 404, {"message": "null for uri"}


class Handler(BaseHTTPRequestHandler):
    """Handler of HTTP requests."""

    def do_GET(self) -> None:
        """Send the response of a GET request; status 401 if the API key is wrong."""
        allowed = self.headers["api_key"] == KEY
        status, body = _handle(self.path) if allowed else (401, {"message": "Invalid API key"})
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def start(port: int = 0) -> str:
    """Start the service in a background thread and return its URL. Port 0 takes any free port."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


if __name__ == "__main__":
    print(start(), flush=True)
    Event().wait()
