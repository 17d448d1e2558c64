"""CPU time and memory of a running process and its descendants.

They are read from ``/proc`` (Linux) while the processes run, so that one call of a server can be
measured without its start. The CPU time of an ended process is part of that of the process that
waited for it.
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

__all__ = ["PeakMemory", "list_tree", "tree_cpu_seconds"]

_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_SECONDS = 0.1


def list_tree(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for child, fields in _list_processes():
        children[int(fields[1])].append(child)
    tree = [pid]
    for parent in tree:
        tree += children[parent]
    return tree


def tree_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants, ended ones included."""
    tree = set(list_tree(pid))
    return sum(
        sum(map(int, fields[11:15])) / _TICKS
        for number, fields in _list_processes()
        if number in tree
    )


@dataclass
class PeakMemory:
    """A context manager that measures the peak memory of a process tree during its block.

    Attributes:
        pid: The root of the tree.
        python: The peak of all processes but JVMs together, in bytes of resident memory.
        jvm: The peak of the largest JVM.
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
            sizes: defaultdict[str, int] = defaultdict(int)
            for pid in list_tree(self.pid):
                name, rss = _read_memory(pid)
                sizes[name] = max(sizes[name], rss) if name == "java" else sizes[name] + rss
            self.jvm = max(self.jvm, sizes.pop("java", 0))
            self.python = max(self.python, sum(sizes.values()))


def _read_memory(pid: int) -> tuple[str, int]:
    """Return the name and the resident memory of a process, in bytes; 0 if it has ended."""
    with contextlib.suppress(OSError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text()
        rss = int(status.split("VmRSS:")[1].split()[0]) * 1024
        return status.split()[1], rss
    return "", 0


def _list_processes() -> Iterator[tuple[int, list[str]]]:
    """Yield the id of each process, and the fields of its ``stat`` file after the name."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(folder.name), (folder / "stat").read_text().rpartition(")")[2].split()
