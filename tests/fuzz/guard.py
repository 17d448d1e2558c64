"""Actions that no input may cause: to open a file, reach a host or start a program.

An audit hook of Python detects the attempts. Those that only an input can have caused are recorded
as breaches; other connections are refused, so that no input leaves the machine.
"""

from __future__ import annotations

import sys
from typing import Any, Final

__all__ = ["FORBIDDEN", "Breach", "Guard"]

FORBIDDEN: Final = ("/etc/hostname", "/etc/passwd", "evil.example")
"""Paths and hosts that occur only in inputs."""

_PROGRAMS: Final = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"})
_CONNECTIONS: Final = frozenset({"socket.connect", "socket.getaddrinfo", "socket.sendto"})

_OWN_ADDRESSES: Final = ("127.0.0.1",)
"""Addresses that a server under test resolves before it listens on them."""


class Breach(Exception):  # noqa: N818  an effect of an input, not an error of the code
    """An input caused a forbidden action."""


class Guard:
    """Watches the process after `watch`; ``breaches`` are the attempts since `begin`."""

    def __init__(self) -> None:
        self.breaches: list[str] = []
        self._may_open = False

    def watch(self) -> None:
        """Install the hook, which stays until the process ends."""
        sys.addaudithook(self._hook)

    def begin(self, data: bytes) -> None:
        """Begin the next input; a message that lists files of rows may open files."""
        self.breaches.clear()
        self._may_open = b"BATCH" in data or b"Files" in data

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _PROGRAMS and "-version" not in str(arguments):  # the Java version check
            self._report(event, arguments)
        if event in _CONNECTIONS and arguments[0] not in _OWN_ADDRESSES:
            self._look_for_names(event, arguments)
            raise ConnectionRefusedError("no example may leave the machine")
        if event == "open" and not self._may_open:
            self._look_for_names(event, arguments)

    def _look_for_names(self, event: str, arguments: tuple[Any, ...]) -> None:
        text = str(arguments[:2])
        if any(name in text for name in FORBIDDEN):
            self._report(event, arguments)

    def _report(self, event: str, arguments: tuple[Any, ...]) -> None:
        self.breaches.append(f"{event}: {str(arguments)[:200]}")
        raise Breach(self.breaches[-1])
