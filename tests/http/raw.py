"""A server on loopback that writes any bytes, also invalid HTTP."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["HEAD", "RawServer", "raw_server"]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class RawServer:
    """The URL of the server and the requests that it received."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[bytes] = []
        self.closing = threading.Event()

    def drip(self, connection: socket.socket, piece: bytes, seconds: float) -> None:
        """Send ``piece`` every ``seconds`` until the client or test ends, at most for a minute."""
        end = time.monotonic() + 60
        while not self.closing.wait(seconds) and time.monotonic() < end:
            connection.sendall(piece)


@contextmanager
def raw_server(write: Callable[[RawServer, socket.socket], None]) -> Iterator[RawServer]:
    """Serve on a free port; ``write`` is called once per connection, which is then closed."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = RawServer(f"http://127.0.0.1:{listening.getsockname()[1]}")

        def answer(connection: socket.socket) -> None:
            with connection:
                try:
                    server.requests.append(connection.recv(65_536))
                    write(server, connection)
                except OSError:
                    return

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)
