"""The servers of one walk: each a fresh process, or one that runs elsewhere.

Rules of the room: whoever opens one closes it, by the context; a server that has died in between
has broken a rule. Where only an address is known there is no log to read and nothing to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fivetran_tester.client import Client
from fivetran_tester.findings import Findings
from fivetran_tester.server_process import (
    Log,
    NotStartedError,
    ServerProcess,
    answers,
)

__all__ = ["RemoteServer", "Server", "Servers"]

_ORIGINS: Final = {
    "SourceConnector": "sdk_connector",
    "DestinationConnector": "sdk_destination",
}


class RemoteServer:
    """A server that somebody else has started."""

    def __init__(self, address: str, service: str, seconds: float) -> None:
        host, _, port = address.rpartition(":")
        if not (port.isdigit() and answers(host.strip("[]"), int(port))):
            raise NotStartedError(f"nothing answers at {address}")
        self.client = Client(address, service, seconds)


Server: TypeAlias = "ServerProcess | RemoteServer"


@dataclass
class Servers:
    """Where servers come from: a command to start, or an address; what a call may take."""

    service: str
    findings: Findings
    command: Sequence[str] = ()
    address: str = ""
    seconds: float = 3600
    secrets: list[str] = field(default_factory=list)
    _running: list[ServerProcess] = field(default_factory=list)

    @property
    def are_fresh(self) -> bool:
        """Whether each one that is opened is a process of its own."""
        return not self.address

    @contextmanager
    def open(self) -> Iterator[Server]:
        """Give a server, and end it behind.

        Raises:
            NotStartedError: it does not start.
        """
        if self.address:
            elsewhere = RemoteServer(self.address, self.service, self.seconds)
            yield elsewhere
            elsewhere.client.close()
            return
        log = Log(self.findings, _ORIGINS[self.service], self.secrets)
        program = ServerProcess(self.command, log, self.service, self.seconds)
        self._running.append(program)
        try:
            program.await_start()
            yield program
        except BaseException:
            if not program.was_killed:
                program.ends()  # a JVM of its own ends with it, and would not if it were killed
            raise
        else:
            self._end(program)
        finally:
            self._running.remove(program)

    def leave(self) -> None:
        """End what runs, from within a handler of signals."""
        for program in self._running:
            program.leave()

    def _end(self, program: ServerProcess) -> None:
        if program.was_killed:
            return
        if not program.is_alive:
            self.findings.broke(4, "the server has died")
        elif not answers("::1", program.port):
            self.findings.missed(1, "the server does not listen on IPv6")
        if code := program.ends():
            self.findings.missed(4, f"asked to end, the server has the exit code {code}")
