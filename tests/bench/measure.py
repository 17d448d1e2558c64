"""Run programs and measure the CPU time of the process tree, the elapsed time and the memory.

This process reads a program's output from a pipe and is not counted. A child process that outlives
its parent, such as a JVM, becomes a child of this process and is counted. Programs run in turns,
and each figure is the median of all rounds, because single runs differ by a fifth and more on a
machine with other work.
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

from tests.process_memory import read_peak_memory

__all__ = ["Cost", "Program", "Runs", "run", "run_in_turns"]

_POLL_SECONDS = 0.02
_ORPHAN_SECONDS = 60.0
_PR_SET_CHILD_SUBREAPER = 36
_REMOVED_VARIABLES = frozenset({"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUNBUFFERED"})
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Program:
    """A program to run.

    Attributes:
        command: The command line.
        environment: Variables that are added to those of this process.
        feed: A file for the standard input; None for an empty input.
        before: A function that is called before each run and is not measured.
    """

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    feed: Path | None = None
    before: Callable[[], None] | None = None


@dataclass(frozen=True)
class Cost:
    """The measured cost of one run.

    Attributes:
        cpu: CPU seconds of the process tree.
        own_cpu: CPU seconds of the first process, without its children.
        rss: Peak resident memory of the first process, in bytes.
        nbytes: Bytes that the program wrote to its standard output.
        wall: Seconds from the start of the program to the end of the last process of its tree.
    """

    cpu: float
    own_cpu: float
    rss: int
    nbytes: int
    wall: float


@dataclass(frozen=True)
class Runs:
    """The rounds of one program, and the median of each figure."""

    costs: tuple[Cost, ...]

    @property
    def cpu(self) -> float:
        """CPU seconds of the process tree."""
        return median(cost.cpu for cost in self.costs)

    @property
    def own_cpu(self) -> float:
        """CPU seconds of the first process."""
        return median(cost.own_cpu for cost in self.costs)

    @property
    def wall(self) -> float:
        """Seconds from start to end."""
        return median(cost.wall for cost in self.costs)

    @property
    def rss(self) -> float:
        """Peak resident memory of the first process, in bytes."""
        return median(cost.rss for cost in self.costs)


class ProgramFailedError(Exception):
    """A program failed, so that its figures would mean nothing."""


def run_in_turns(programs: Mapping[str, Program], rounds: int) -> dict[str, Runs]:
    """Run each program ``rounds`` times, one after the other in every round."""
    costs: dict[str, list[Cost]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            costs[name].append(run(program))
            print(".", end="", flush=True, file=sys.stderr)
    return {name: Runs(tuple(program_costs)) for name, program_costs in costs.items()}


def run(program: Program, output: Path | None = None) -> Cost:
    """Run a program to its end, and write its standard output to a file or discard it.

    Raises:
        ProgramFailedError: The exit code is not 0.
    """
    if program.before is not None:
        program.before()
    _adopt_orphans()
    other_children = _list_children()
    with contextlib.ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile())
        feeder = _start_feeder(stack, program.feed)
        process = subprocess.Popen(
            program.command,
            env=_environment(program),
            stdin=feeder.stdout if feeder else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        if feeder and feeder.stdout:
            feeder.stdout.close()
        cost = _measure(process, feeder, output, other_children)
        if process.returncode:
            errors.seek(0)
            log = errors.read().decode(errors="replace")[-3000:]
            message = f"{' '.join(program.command)} exited with {process.returncode}:\n{log}"
            raise ProgramFailedError(message)
    return cost


def _environment(program: Program) -> dict[str, str]:
    """Return the variables of a program. Python writes compiled modules, as when installed."""
    inherited = {key: value for key, value in os.environ.items() if key not in _REMOVED_VARIABLES}
    return {**inherited, **program.environment}


def _start_feeder(stack: contextlib.ExitStack, feed: Path | None) -> subprocess.Popen[bytes] | None:
    """Start ``cat``, which writes a file to a pipe as a tap would and is not counted."""
    if feed is None:
        return None
    return stack.enter_context(subprocess.Popen(["cat", str(feed)], stdout=subprocess.PIPE))


def _measure(
    process: subprocess.Popen[bytes],
    feeder: subprocess.Popen[bytes] | None,
    output: Path | None,
    other_children: frozenset[int],
) -> Cost:
    """Read the output of a process until it ends, and return its cost."""
    assert process.stdout is not None
    started = time.monotonic()
    peak, ended = [0], threading.Event()
    watcher = threading.Thread(target=_watch_memory, args=(process.pid, peak, ended))
    watcher.start()
    nbytes = 0
    with process.stdout as pipe, Path(output or os.devnull).open("wb", buffering=0) as sink:
        while block := os.read(pipe.fileno(), 1 << 16):
            nbytes += len(block)
            sink.write(block)
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    own_cpu = _read_own_cpu(process.pid)
    ended.set()
    watcher.join()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    rss = peak[0] or usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    if feeder:
        feeder.wait()
    cpu += _reap_orphans(other_children)
    return Cost(cpu, own_cpu or cpu, rss, nbytes, time.monotonic() - started)


def _watch_memory(pid: int, peak: list[int], ended: threading.Event) -> None:
    """Read the peak memory of a process until it ends; 0 on systems that do not report it."""
    while not ended.wait(_POLL_SECONDS):
        peak[0] = max(peak[0], read_peak_memory(pid))


def _read_own_cpu(pid: int) -> float:
    """Return the CPU seconds of a process that ended and was not waited for, without children."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    return 0.0


def _adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _list_children() -> frozenset[int]:
    """Return the children of this process; empty on systems that do not report them."""
    pids: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            pids.update(map(int, (task / "children").read_text().split()))
    return frozenset(pids)


def _reap_orphans(other_children: frozenset[int]) -> float:
    """Wait for orphaned processes of a program, and return their CPU seconds.

    Children that were started before the program, such as servers, are not waited for.

    Raises:
        ProgramFailedError: An orphaned process does not end.
    """
    total, deadline = 0.0, time.monotonic() + _ORPHAN_SECONDS
    while orphans := _list_children() - other_children:
        if time.monotonic() > deadline:
            message = f"A process of the program did not end within {_ORPHAN_SECONDS:.0f} seconds."
            raise ProgramFailedError(message)
        for child in orphans:
            pid, _, usage = os.wait4(child, os.WNOHANG)
            if pid:
                total += usage.ru_utime + usage.ru_stime
        time.sleep(_POLL_SECONDS)
    return total
