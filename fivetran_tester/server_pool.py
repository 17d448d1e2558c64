"""Servers of one Fivetran test: a new process for each step, or one server that already runs.

Each started process is stopped by a context manager, and the test fails if it crashed before. A
server that already runs is not stopped, and its log is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fivetran_tester.client import Client
from fivetran_tester.findings import Findings
from fivetran_tester.server_process import (
    LogChecker,
    NotStartedError,
    ServerProcess,
    accepts_connections,
)

__all__ = ["RemoteServer", "Server", "Servers"]

_LOG_ORIGINS: Final = {
    "SourceConnector": "sdk_connector",
    "DestinationConnector": "sdk_destination",
}


class RemoteServer:
    """Connector or destination that already runs at an address and is not stopped by the tester.

    Raises:
        NotStartedError: No server listens at the address.
    """

    def __init__(self, address: str, service: str, seconds: float) -> None:
        host, _, port = address.rpartition(":")
        if not (port.isdigit() and accepts_connections(host.strip("[]"), int(port))):
            raise NotStartedError(f"no server responds at {address}")
        self.client = Client(address, service, seconds)


Server: TypeAlias = "ServerProcess | RemoteServer"


@dataclass
class Servers:
    """Source of the servers that a test calls: a new process each time, or one running server.

    Attributes:
        service: Name of the gRPC service, such as "SourceConnector".
        findings: Broken rules that the test has found.
        command: Command that starts a server, without the port.
        address: ``host:port`` of a running server; then ``command`` is not used.
        seconds: Time limit of a call.
        secrets: Values that the server's log must not show.
    """

    service: str
    findings: Findings
    command: Sequence[str] = ()
    address: str = ""
    seconds: float = 3600
    secrets: list[str] = field(default_factory=list)
    _running: list[ServerProcess] = field(default_factory=list)

    @contextmanager
    def open(self) -> Iterator[Server]:
        """Context manager that yields a server; a server started for it is stopped at the end.

        Raises:
            NotStartedError: The server does not start.
        """
        if self.address:
            remote = RemoteServer(self.address, self.service, self.seconds)
            with closing(remote.client):
                yield remote
            return
        log = LogChecker(self.findings, _LOG_ORIGINS[self.service], self.secrets)
        process = ServerProcess(self.command, log, self.service, self.seconds)
        self._running.append(process)
        try:
            process.await_start()
            yield process
        except BaseException:
            if not process.was_killed:
                process.stop()  # SIGTERM also ends a JVM that the server has started
            raise
        else:
            self._end(process)
        finally:
            self._running.remove(process)

    def terminate(self) -> None:
        """End the server processes that were started; may be called from a signal handler."""
        for process in self._running:
            process.terminate()

    def _end(self, process: ServerProcess) -> None:
        """Stop a server process; record a finding if it crashed or its exit code is not 0."""
        if process.was_killed:
            return
        if not process.is_alive:
            self.findings.add_violation(4, "the server has crashed")
        elif not accepts_connections("::1", process.port):
            self.findings.add_warning(1, "the server does not listen on IPv6")
        if code := process.stop():
            self.findings.add_warning(4, f"after SIGTERM, the server has the exit code {code}")
