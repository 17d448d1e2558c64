"""Start a test server as a program, read its log, and call it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from tap_core.protocols.fivetran import proto_messages

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("wire_server.py")
PATIENCE = 120


class Running:
    """A running server, with its client and the lines of its log."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._new: queue.Queue[dict[str, str] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.channel: Any = None

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append(line)
            self._new.put(json.loads(line))
        self._new.put(None)

    def await_line(self, start: str) -> dict[str, str]:
        """Return the next line of the log whose message begins with ``start``."""
        while (line := self._new.get(timeout=PATIENCE)) is not None:
            if line["message"].startswith(start):
                return line
        raise AssertionError(f"no line begins with {start!r}: {self.lines}")

    def connect(self, host: str = "127.0.0.1") -> None:
        self.port = int(self.await_line("Listening on port")["message"].split()[3])
        self.channel = grpc.insecure_channel(f"{host}:{self.port}")

    def call(self, rpc: str, request: Any) -> Any:
        """Return a future of the answer as bytes."""
        data = request if isinstance(request, bytes) else request.SerializeToString()
        path = f"/fivetran_sdk.v2.SourceConnector/{rpc}"
        return self.channel.unary_unary(path).future(data, timeout=PATIENCE)

    def test(self, name: str) -> Any:
        response = self.call("Test", proto_messages.TestRequest(name=name)).result()
        return proto_messages.TestResponse.FromString(response)

    def update(self, state: str) -> Any:
        """Return an iterator of the answers of an Update."""
        read = proto_messages.UpdateResponse.FromString
        method = self.channel.unary_stream(
            "/fivetran_sdk.v2.SourceConnector/Update", response_deserializer=read
        )
        request = proto_messages.UpdateRequest(state_json=state)
        return method(request.SerializeToString(), timeout=PATIENCE)

    def failure(self, rpc: str, request: Any) -> tuple[grpc.StatusCode, str]:
        """Return the status code and details of a call that fails."""
        error = self.call(rpc, request).exception()
        return error.code(), error.details()

    def await_exit(self) -> int:
        """Return the exit code after all output has been read."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def close(self) -> None:
        if self.channel is not None:
            self.channel.close()
        if self.process.poll() is None:
            self.process.kill()
        self.await_exit()


@contextmanager
def running(port: int = 0, python: str = sys.executable, *options: str) -> Iterator[Running]:
    """Run the test server; its standard error is that of the test."""
    process = subprocess.Popen(
        [python, str(PROGRAM), str(port), *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    server = Running(process)
    try:
        yield server
    finally:
        server.close()
        if process.stdout:
            process.stdout.close()
