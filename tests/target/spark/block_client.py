"""A client of Spark's network protocol that has no secret: any user gets what it gets.

It reads a JSON object with `ports`, `blocks` and `streams` from standard input, requests each of
them from each port, and prints the data as JSON (in base64), by name. If root starts it, it drops
root's rights first. Source: Spark's `network-common` and `network-shuffle`, as seen on the wire.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import struct
import sys
from collections.abc import Callable

__all__: list[str] = []

NOBODY = 65534
SECONDS = 2.0
LARGEST = 1 << 26

CHUNK_REQUEST, CHUNK, RPC_REQUEST, RPC_ANSWER, STREAM_REQUEST, STREAM = 0, 1, 3, 4, 6, 7
"""Types of frames."""


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


class Connection:
    """One connection to a port of Spark."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)

    def send(self, kind: int, head: bytes, body: bytes = b"") -> None:
        size = 9 + len(head) + len(body)
        self.socket.sendall(struct.pack(">qb", size, kind) + head + body)

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            received = self.socket.recv(size - len(data))
            if not received:
                raise EOFError
            data += received
        return data

    def receive(self) -> tuple[int, bytes]:
        size, kind = struct.unpack(">qb", self.read(9))
        if not 9 <= size <= LARGEST:  # a port with another protocol
            raise EOFError
        return kind, self.read(size - 9)

    def block(self, name: str) -> bytes:
        """Return a block of the block manager; empty if the request is rejected."""
        opening = b"\0" + text("app") + text("driver") + struct.pack(">i", 1) + text(name)
        self.send(RPC_REQUEST, struct.pack(">qi", 1, len(opening)), opening)
        kind, answer = self.receive()
        if kind != RPC_ANSWER:
            return b""
        stream, _count = struct.unpack(">qi", answer[13:25])
        self.send(CHUNK_REQUEST, struct.pack(">qi", stream, 0))
        kind, answer = self.receive()
        return answer[12:] if kind == CHUNK else b""

    def stream(self, name: str) -> bytes:
        """Return the beginning of a file of the driver; empty if the request is rejected."""
        self.send(STREAM_REQUEST, text(name))
        kind, _answer = self.receive()
        return self.read(64) if kind == STREAM else b""


def request(port: int, take: Callable[[Connection, str], bytes], name: str) -> bytes:
    """Return the data that a port returns for a name; empty if it rejects the request."""
    try:
        connection = Connection(port)
        with connection.socket:
            return take(connection, name)
    except TimeoutError:
        raise
    except (OSError, EOFError, struct.error):
        return b""


def main() -> None:
    instructions = json.load(sys.stdin)
    base64.b64encode(b"").hex().encode("idna")  # import the codecs before root's rights are dropped
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    contents: dict[str, str] = {}
    reads = [(Connection.block, name) for name in instructions["blocks"]]
    reads += [(Connection.stream, name) for name in instructions["streams"]]
    for port in instructions["ports"]:
        with contextlib.suppress(TimeoutError):  # a port that does not reply
            for take, name in reads:
                data = request(port, take, name)
                if data:
                    contents[name] = base64.b64encode(data).decode()
    print(json.dumps({"uid": os.getuid(), "got": contents}))


if __name__ == "__main__":
    main()
