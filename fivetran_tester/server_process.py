"""Fivetran connector or destination as a child process: start, end, and checks of its log.

An environment variable makes the server listen on the loopback addresses of IPv4 and IPv6; a server
that ignores the variable listens on its default. Each line of its standard output is checked
against the protocol's rules for logs, and the last lines are kept for error messages. Its standard
error is that of the tester.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from fivetran_tester.client import Client
from fivetran_tester.findings import Findings
from tap_core.protocols.fivetran.port_option import HOST_VARIABLE

__all__ = ["LogChecker", "NotStartedError", "ServerProcess", "accepts_connections"]

_START_SECONDS: Final = 60
_END_SECONDS: Final = 60
_TERMINATE_SECONDS: Final = 10
_PAUSE_SECONDS: Final = 0.05
_LOG_LEVELS: Final = {"INFO", "WARNING", "SEVERE"}
_LOG_KEYS: Final = {"level", "message", "message-origin"}
_MIN_SECRET_LENGTH: Final = 4


class NotStartedError(Exception):
    """Error for a Fivetran server that cannot be started, or does not listen on its port."""


class LogChecker:
    """Checker of the log lines that a Fivetran server writes to standard output.

    Args:
        findings: Object to which broken rules are added.
        origin: Value that ``message-origin`` must have in each line.
        secrets: Values that no line may contain.
    """

    def __init__(self, findings: Findings, origin: str, secrets: Iterable[str] = ()) -> None:
        self._findings = findings
        self._origin = origin
        self._secrets = [text for text in secrets if len(text) >= _MIN_SECRET_LENGTH]
        self.last_lines: deque[str] = deque(maxlen=20)

    def check_line(self, line: bytes) -> None:
        """Check one line of the server's log, and record the broken rules."""
        text = line.decode(errors="replace").rstrip("\n")
        self.last_lines.append(text)
        for rule, fault in self._find_faults(text):
            self._findings.add_violation(rule, fault)

    def _find_faults(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield a number and a description for each protocol rule that a log line breaks."""
        if any(secret in text for secret in self._secrets):
            yield 3, "a line of the log shows a secret of the configuration"
        try:
            entry: Any = json.loads(text)
        except ValueError:
            yield 2, "a line of standard output is not JSON"
            return
        if not isinstance(entry, dict) or set(entry) != _LOG_KEYS:
            yield 2, "a line of the log has other keys than level, message and message-origin"
            return
        if entry["level"] not in _LOG_LEVELS:
            yield 2, "a line of the log has another level than INFO, WARNING and SEVERE"
        if entry["message-origin"] != self._origin:
            yield 2, f"a line of the log has another message-origin than {self._origin}"
        if not isinstance(entry["message"], str) or not entry["message"]:
            yield 2, "a line of the log has no message"


class ServerProcess:
    """Fivetran connector or destination that runs in a child process on a free port.

    Args:
        command: Command that starts the server, without the port.
        log: Checker of the lines of the server's standard output.
        service: Name of the gRPC service, such as "SourceConnector".
        seconds: Time limit of a call.

    Raises:
        NotStartedError: The command cannot be started.
    """

    def __init__(
        self, command: Sequence[str], log: LogChecker, service: str, seconds: float
    ) -> None:
        port = _find_free_port()
        try:
            self._process = subprocess.Popen(  # noqa: S603  (the author's own program)
                [*command, "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                env={HOST_VARIABLE: "localhost", **os.environ},
                start_new_session=True,
            )
        except OSError as error:
            raise NotStartedError(f"{command[0]} cannot be started: {error.strerror}") from None
        self.log = log
        self.port = port
        self.was_killed = False
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        self.client = Client(f"127.0.0.1:{port}", service, seconds)

    def terminate(self) -> None:
        """Send SIGTERM to the server, and kill it if it does not end soon.

        Unlike `stop`, this may be called from a signal handler, because it does not use gRPC.
        """
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TERMINATE_SECONDS)
        self._process.kill()

    def stop(self) -> int:
        """Send SIGTERM to the server, as Fivetran does, and return its exit code.

        If the process still runs after 60 seconds, it is killed.
        """
        self.client.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL
        self._reader.join(_END_SECONDS)
        return code

    def kill(self) -> None:
        """Kill the server and its child processes."""
        self.was_killed = True
        self.client.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(_END_SECONDS)

    @property
    def is_alive(self) -> bool:
        """True if the server's process is running."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process ID of the server."""
        return self._process.pid

    def await_start(self) -> None:
        """Wait until the server, which is starting, accepts connections.

        Raises:
            NotStartedError: The process ends, or does not listen within 60 seconds.
        """
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if accepts_connections("127.0.0.1", self.port):
                return
            if not self.is_alive:
                self._reader.join(_END_SECONDS)
                raise NotStartedError(
                    f"it ended with exit code {self._process.returncode}{self._format_last_lines()}"
                )
            time.sleep(_PAUSE_SECONDS)
        self.kill()
        raise NotStartedError(
            f"it does not listen after {_START_SECONDS} seconds{self._format_last_lines()}"
        )

    def _format_last_lines(self) -> str:
        """Return the last lines of the server's log as text for an error message."""
        return "".join(f"\n  {line}" for line in self.log.last_lines)

    def _read_log(self) -> None:
        """Check the lines that the server writes to standard output, until it is closed."""
        assert self._process.stdout is not None  # noqa: S101  (it is a pipe)
        with self._process.stdout as lines:
            for line in lines:
                self.log.check_line(line)


def accepts_connections(host: str, port: int) -> bool:
    """Return True if a server accepts TCP connections on this host and port."""
    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False


def _find_free_port() -> int:
    """Return a TCP port of the loopback address that no process uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
