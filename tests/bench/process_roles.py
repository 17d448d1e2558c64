"""CPU time and peak memory of a Spark application by the role of its processes.

The processes are read from ``/proc`` at intervals while they run, because those of a cluster are
not children of the benchmark. The CPU time that a process uses after the last reading is lost: a
fifth of a second at most. Only the trees of the given processes are counted.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["RoleWatcher", "Usage"]

_POLL_SECONDS = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ROLES = (
    (b"CoarseGrainedExecutorBackend", "executor"),
    (b"pyspark.daemon", "worker"),
    (b"deploy.master.Master", "cluster"),
    (b"deploy.worker.Worker", "cluster"),
    (b"SparkSubmit", "driver's JVM"),
    (b"java", "driver's JVM"),
)


@dataclass(frozen=True)
class Usage:
    """CPU seconds by role, and the peak memory of all processes of a role together, in bytes."""

    cpu: Mapping[str, float]
    memory: Mapping[str, int]

    def seconds(self, *roles: str) -> float:
        """Return the CPU seconds of these roles, or of all roles if none is given."""
        return sum(self.cpu.get(role, 0.0) for role in roles or self.cpu)


@dataclass
class RoleWatcher:
    """A context manager that measures the processes of a Spark application during its block.

    The roles are ``driver`` (Python), ``driver's JVM``, ``executor`` (a JVM), ``worker`` (the
    Python processes of executors) and ``cluster`` (the master and the workers of the cluster).

    Attributes:
        roots: A function that returns the processes whose trees are measured.
    """

    roots: Callable[[], Iterable[int]]
    _cpu: dict[tuple[int, str], float] = field(default_factory=dict)
    _cpu_before: dict[tuple[int, str], float] = field(default_factory=dict)
    _roles: dict[int, tuple[str, str]] = field(default_factory=dict)
    _memory: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _polling: float = 0.0
    """CPU seconds of the polling itself, which are not counted."""

    def __enter__(self) -> RoleWatcher:  # noqa: PYI034  Python 3.10 has no Self
        self._poll()
        self._cpu_before = dict(self._cpu)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._poll()
        self._ended.set()
        assert self._thread is not None
        self._thread.join()

    def usage(self) -> Usage:
        """Return the usage since the block began."""
        cpu: defaultdict[str, float] = defaultdict(float)
        for key, seconds in self._cpu.items():
            polling = self._polling if key[0] == os.getpid() else 0.0
            cpu[self._get_role(*key)] += seconds - self._cpu_before.get(key, 0.0) - polling
        return Usage(dict(cpu), dict(self._memory))

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            self._poll()

    def _poll(self) -> None:
        """Read the processes of the trees. A process is identified by its id and start time."""
        started = time.thread_time()
        memory: defaultdict[str, int] = defaultdict(int)
        for pid, fields in _list_trees(set(self.roots())):
            key = (pid, fields[19])
            self._cpu[key] = (int(fields[11]) + int(fields[12])) / _TICKS
            memory[self._get_role(*key)] += int(fields[21]) * _PAGE_BYTES
        for role, nbytes in memory.items():
            self._memory[role] = max(self._memory[role], nbytes)
        self._polling += time.thread_time() - started

    def _get_role(self, pid: int, start_time: str) -> str:
        """Return the role of a process.

        A driver is looked up again each time: the shell that starts a JVM becomes the JVM.
        """
        known = self._roles.get(pid)
        if known is None or known[0] != start_time or known[1] == "driver":
            before = "driver" if known is None else known[1]
            known = self._roles[pid] = (start_time, _find_role(pid, before))
        return known[1]


def _find_role(pid: int, default: str) -> str:
    """Return the role that a process has by its command line; the default if it has ended."""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return next((role for word, role in _ROLES if word in command), "driver")
    return default


def _list_trees(roots: set[int]) -> list[tuple[int, list[str]]]:
    """Return the processes of these trees, with the fields of ``stat`` after the name."""
    stats: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    pids = roots & stats.keys()
    while children := {pid for pid, fields in stats.items() if int(fields[1]) in pids} - pids:
        pids |= children
    return [(pid, stats[pid]) for pid in sorted(pids)]
