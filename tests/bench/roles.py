"""What each kind of process of a Spark application costs, and how much memory it had at most.

Processes are looked at in /proc again and again while they live, since those
of a cluster end with no one here to wait for them; what a process used between the last look and
its end is lost, a fifth of a second at most. Who is not below the given processes counts for
nobody.
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

__all__ = ["Roles", "Usage"]

_LOOK_SECONDS = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
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
    """CPU seconds by role, and bytes: the most that all processes of a role had at a time."""

    cpu: Mapping[str, float]
    memory: Mapping[str, int]

    def seconds(self, *roles: str) -> float:
        """Return the CPU seconds of some roles; of all where none is named."""
        return sum(self.cpu.get(role, 0.0) for role in roles or self.cpu)


@dataclass
class Roles:
    """Looks at processes while a block runs; ``usage`` says what they used in it.

    ``roots`` gives the processes whose trees are looked at. The roles are ``driver`` (Python),
    ``driver's JVM``, ``executor`` (a JVM), ``worker`` (Python of an executor) and ``cluster``
    (master and workers themselves).
    """

    roots: Callable[[], Iterable[int]]
    _used: dict[tuple[int, str], float] = field(default_factory=dict)
    _before: dict[tuple[int, str], float] = field(default_factory=dict)
    _roles: dict[int, tuple[str, str]] = field(default_factory=dict)
    _memory: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _looking: float = 0.0
    """CPU seconds that looking itself took, which are no one's."""

    def __enter__(self) -> Roles:  # noqa: PYI034  Self is of 3.11
        self._look()
        self._before = dict(self._used)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._look()
        self._ended.set()
        assert self._thread is not None
        self._thread.join()

    def usage(self) -> Usage:
        """Return what was used since the block began."""
        cpu: defaultdict[str, float] = defaultdict(float)
        for key, seconds in self._used.items():
            looking = self._looking if key[0] == os.getpid() else 0.0
            cpu[self._role(*key)] += seconds - self._before.get(key, 0.0) - looking
        return Usage(dict(cpu), dict(self._memory))

    def _follow(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        """Read the processes below the roots: a process is its id and when it began."""
        began = time.thread_time()
        memory: defaultdict[str, int] = defaultdict(int)
        for pid, fields in _below(set(self.roots())):
            key = (pid, fields[19])
            self._used[key] = (int(fields[11]) + int(fields[12])) / _TICKS
            memory[self._role(*key)] += int(fields[21]) * _PAGE
        for role, nbytes in memory.items():
            self._memory[role] = max(self._memory[role], nbytes)
        self._looking += time.thread_time() - began

    def _role(self, pid: int, born: str) -> str:
        """Return a process's role; one that is still the shell before its JVM is asked again."""
        known = self._roles.get(pid)
        if known is None or known[0] != born or known[1] == "driver":
            before = "driver" if known is None else known[1]
            known = self._roles[pid] = (born, _role_of(pid, before))
        return known[1]


def _role_of(pid: int, otherwise: str) -> str:
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return next((role for word, role in _ROLES if word in command), "driver")
    return otherwise


def _below(roots: set[int]) -> list[tuple[int, list[str]]]:
    """Return the processes of some trees, each with the fields of its stat behind the name."""
    stats: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    found = roots & stats.keys()
    while more := {pid for pid, fields in stats.items() if int(fields[1]) in found} - found:
        found |= more
    return [(pid, stats[pid]) for pid in sorted(found)]
