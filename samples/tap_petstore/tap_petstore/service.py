"""A small Petstore, for those who try the tap: it answers as `swagger.json` says.

`python -m tap_petstore.service` prints its address and serves until it is stopped. It wants the
key `special-key`. Nothing here knows about taps.
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


def _pet(number: int, name: str, kind: str, status: str, *tags: str) -> dict[str, Any]:
    """Make a pet; a pet without tags has none in its answer, as in the real store."""
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
    _pet(1, "Argos", "Dogs", "sold", "loyal", "old"),
    _pet(2, "Bucephalus", "Horses", "sold"),
    _pet(3, "Felicette", "Cats", "pending", "has been to space"),
    _pet(4, "Laika", "Dogs", "available", "has been to space"),
    _pet(9_007_199_254_740_993, "Tiddles", "Cats", "available"),  # too large for a float
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


def _answer(target: str) -> tuple[int, Any]:
    """Return the status and the document for a path with its query."""
    address = urlsplit(target)
    match address.path.strip("/").split("/"):
        case ["pet", "findByStatus"]:
            asked = parse_qs(address.query).get("status", [])
            return 200, [pet for pet in PETS if pet["status"] in asked]
        case ["store", "order", number] if number.isdigit():
            found = [order for order in ORDERS if order["id"] == int(number)]
            return (200, found[0]) if found else (404, {"message": "Order not found"})
        case _:
            return 404, {"message": "null for uri"}


class Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    def do_GET(self) -> None:
        """Send what the store says."""
        allowed = self.headers["api_key"] == KEY
        status, document = _answer(self.path) if allowed else (401, {"message": "no key"})
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def start(port: int = 0) -> str:
    """Serve in threads of their own; return the address."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


if __name__ == "__main__":
    print(start(), flush=True)
    Event().wait()
