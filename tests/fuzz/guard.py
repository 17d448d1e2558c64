"""What no input may do: open a file, reach a host or start a program because it says so.

An audit hook of Python's sees the attempts. Those that an input alone can have caused are
collected as breaches; other connections are refused, so that no example leaves the machine.
"""

from __future__ import annotations

import sys
from typing import Any, Final

__all__ = ["FORBIDDEN", "Breach", "Guard"]

FORBIDDEN: Final = ("/etc/hostname", "/etc/passwd", "evil.example")
"""Paths and hosts that stand in inputs and nowhere else."""

_PROGRAMS: Final = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"})
_CONNECTIONS: Final = frozenset({"socket.connect", "socket.getaddrinfo", "socket.sendto"})


class Breach(Exception):  # noqa: N818  what an input achieved, not an error of the code
    """An input did what no input may do."""


class Guard:
    """Watches the process from `watch` on; ``breaches`` are the attempts since `begin`."""

    def __init__(self) -> None:
        self.breaches: list[str] = []
        self._may_open = False

    def watch(self) -> None:
        """Begin; a hook stays as long as the process."""
        sys.addaudithook(self._hook)

    def begin(self, data: bytes) -> None:
        """Begin the next example. A message that names files of rows may have them opened."""
        self.breaches.clear()
        self._may_open = b"BATCH" in data or b"Files" in data

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _PROGRAMS and "-version" not in str(arguments):  # Java is asked for its own
            self._report(event, arguments)
        if event in _CONNECTIONS:
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
