"""What a running process and all below it have cost so far: CPU, and memory.

Read from the system (Linux) while they run, so that one call of a server can
be told from its start. A process that has ended counts for the one that waited for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from typing_extensions import Self

__all__ = ["Memory", "cpu_of", "tree_of"]

_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_SECONDS = 0.1


def tree_of(pid: int) -> list[int]:
    """Return a process and all that descend from it."""
    below: defaultdict[int, list[int]] = defaultdict(list)
    for number, fields in _processes():
        below[int(fields[1])].append(number)
    found = [pid]
    for one in found:
        found += below[one]
    return found


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process and of all below it, ended ones included."""
    tree = set(tree_of(pid))
    return sum(
        sum(map(int, fields[11:15])) / _TICKS for number, fields in _processes() if number in tree
    )


@dataclass
class Memory:
    """The most that the processes below one held at the same time, in bytes of RSS.

    ``python`` of those that run Python, all together; ``jvm`` of the largest that runs Java.
    """

    pid: int
    python: int = 0
    jvm: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            held: defaultdict[str, int] = defaultdict(int)
            for pid in tree_of(self.pid):
                name, rss = _held(pid)
                held[name] = max(held[name], rss) if name == "java" else held[name] + rss
            self.jvm = max(self.jvm, held.pop("java", 0))
            self.python = max(self.python, sum(held.values()))


def _held(pid: int) -> tuple[str, int]:
    with contextlib.suppress(OSError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text()
        rss = int(status.split("VmRSS:")[1].split()[0]) * 1024
        return status.split()[1], rss
    return "", 0


def _processes() -> Iterator[tuple[int, list[str]]]:
    """Yield the processes of the system, each with what follows its name."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(folder.name), (folder / "stat").read_text().rpartition(")")[2].split()
