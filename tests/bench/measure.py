"""Run a program and say what it cost: CPU seconds of its whole tree, and memory.

A program's output goes through a pipe that a thread here drains, so nobody
waits and the reader's own CPU counts for nobody. A child that outlives its parent (a JVM) is
adopted and counted. Programs are run in turns, and of each figure the median is taken: on a
machine with other work single runs differ by a fifth and more.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

__all__ = ["Cost", "Program", "Runs", "in_turns", "run"]

_POLL_SECONDS = 0.02
_ORPHAN_SECONDS = 60.0
_PR_SET_CHILD_SUBREAPER = 36
_UNWANTED = frozenset({"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUNBUFFERED"})
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Program:
    """What to run: ``feed`` is a file for its standard input, ``before`` makes its place."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    feed: Path | None = None
    before: Callable[[], None] | None = None


@dataclass(frozen=True)
class Cost:
    """What one run cost: CPU seconds of the tree and of its first process; its peak RSS.

    ``rss`` is of the first process alone, in bytes; ``wall`` in seconds, from its start to
    the end of the last of its tree.
    """

    cpu: float
    own_cpu: float
    rss: int
    nbytes: int
    wall: float


@dataclass(frozen=True)
class Runs:
    """All rounds of one program."""

    costs: tuple[Cost, ...]

    @property
    def cpu(self) -> float:
        """CPU seconds of the whole tree, median."""
        return median(cost.cpu for cost in self.costs)

    @property
    def own_cpu(self) -> float:
        """CPU seconds of the first process, median."""
        return median(cost.own_cpu for cost in self.costs)

    @property
    def wall(self) -> float:
        """Seconds from start to end, median."""
        return median(cost.wall for cost in self.costs)

    @property
    def rss(self) -> float:
        """Peak memory of the first process, median."""
        return median(cost.rss for cost in self.costs)


class ProgramFailedError(Exception):
    """A program ended with an error: its numbers would mean nothing."""


def in_turns(programs: Mapping[str, Program], rounds: int) -> dict[str, Runs]:
    """Run each program ``rounds`` times, one after the other in every round."""
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            costs[name].append(run(program))
            print(".", end="", flush=True, file=sys.stderr)
    return {name: Runs(tuple(of_one)) for name, of_one in costs.items()}


def run(program: Program, output: Path | None = None) -> Cost:
    """Run a program to its end; its standard output is kept in ``output`` or thrown away.

    Raises:
        ProgramFailedError: it ended with an exit code that is not 0.
    """
    if program.before is not None:
        program.before()
    _adopt_orphans()
    before = _children()
    with contextlib.ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile())
        feeder = _feeder(stack, program.feed)
        process = subprocess.Popen(
            program.command,
            env=_environment(program),
            stdin=feeder.stdout if feeder else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        if feeder and feeder.stdout:
            feeder.stdout.close()
        cost = _watched(process, feeder, output, before)
        if process.returncode:
            errors.seek(0)
            told = errors.read().decode(errors="replace")[-3000:]
            message = f"{' '.join(program.command)} ended with {process.returncode}:\n{told}"
            raise ProgramFailedError(message)
    return cost


def _environment(program: Program) -> dict[str, str]:
    """Return a program's variables; compiled modules are kept, as those of installed ones are."""
    inherited = {key: value for key, value in os.environ.items() if key not in _UNWANTED}
    return {**inherited, **program.environment}


def _feeder(stack: contextlib.ExitStack, feed: Path | None) -> subprocess.Popen[bytes] | None:
    """Start what pours a file into a pipe; a tap before a target, that costs nothing."""
    if feed is None:
        return None
    return stack.enter_context(subprocess.Popen(["cat", str(feed)], stdout=subprocess.PIPE))


def _watched(
    process: subprocess.Popen[bytes],
    feeder: subprocess.Popen[bytes] | None,
    output: Path | None,
    before: frozenset[int],
) -> Cost:
    """Drain a process, follow its memory, and reap it and what it left behind."""
    assert process.stdout is not None
    started = time.monotonic()
    peak, ended = [0], threading.Event()
    watch = threading.Thread(target=_follow_memory, args=(process.pid, peak, ended))
    watch.start()
    nbytes = 0
    with process.stdout as pipe, Path(output or os.devnull).open("wb", buffering=0) as sink:
        while block := os.read(pipe.fileno(), 1 << 16):
            nbytes += len(block)
            sink.write(block)
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    own = _own_cpu(process.pid)
    ended.set()
    watch.join()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    rss = peak[0] or usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    if feeder:
        feeder.wait()
    cpu += _orphans_cpu(before)
    return Cost(cpu, own or cpu, rss, nbytes, time.monotonic() - started)


def _follow_memory(pid: int, peak: list[int], ended: threading.Event) -> None:
    """Read a process's high-water mark until it is gone; 0 where the system has none."""
    status = Path(f"/proc/{pid}/status")
    while not ended.wait(_POLL_SECONDS):
        with contextlib.suppress(OSError, IndexError, ValueError):
            peak[0] = int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024


def _own_cpu(pid: int) -> float:
    """Return the CPU seconds of a dead but unreaped process without its children's."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    return 0.0


def _adopt_orphans() -> None:
    """Become the parent of what our children leave behind, where the system can (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children() -> frozenset[int]:
    """Return this process's children; on systems that do not say so, none are known."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            found.update(map(int, (task / "children").read_text().split()))
    return frozenset(found)


def _orphans_cpu(before: frozenset[int]) -> float:
    """Wait for what a program left behind, and return its CPU seconds.

    Children that were there ``before`` are others' business: a server that is read from.

    Raises:
        ProgramFailedError: something it left behind does not end.
    """
    total, deadline = 0.0, time.monotonic() + _ORPHAN_SECONDS
    while left := _children() - before:
        if time.monotonic() > deadline:
            message = "The program left a process behind that does not end."
            raise ProgramFailedError(message)
        for child in left:
            pid, _, usage = os.wait4(child, os.WNOHANG)
            if pid:
                total += usage.ru_utime + usage.ru_stime
        time.sleep(_POLL_SECONDS)
    return total
