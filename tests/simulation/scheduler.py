"""A seeded scheduler that runs one of several simulated processes at a time.

A simulated process is a thread. It calls `Scheduler.step` wherever a real one could be interrupted:
before and after each call that reads or changes shared data. At a step the scheduler may switch to
another process, let another tool act, fail the call (before it has an effect, after it, or with a
late effect), or kill the process. Where something is written, the disk may be full for a while. The
same seed gives the same schedule.
"""

from __future__ import annotations

import fcntl
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Final, TypeVar

__all__ = ["Killed", "Locks", "Process", "Scheduler"]

_T = TypeVar("_T")

_SWITCH: Final = 0.25
"""The probability that a step switches to another process."""

_WAITS: Final = 10_000
"""Number of waits that indicates a deadlock."""


class Killed(BaseException):
    """Raised in a killed process when its schedule is over."""


@dataclass
class Process:
    """A simulated process; ``outcome`` is the exception that ended it, if any.

    ``locks`` are the descriptors of files that the process has locked. Processes of one machine
    share the lock files of jobs.
    """

    name: str
    main: Callable[[], None]
    machine: str = ""
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    is_killed: bool = False
    is_done: bool = False
    outcome: BaseException | None = None
    locks: set[int] = field(default_factory=set)
    thread: threading.Thread | None = None

    def release_locks(self) -> None:
        """Release the locks as the kernel does when a process ends."""
        for file in self.locks:
            with suppress(OSError):  # closed since
                fcntl.flock(file, fcntl.LOCK_UN)
        self.locks.clear()


class Scheduler:
    """Runs processes; ``log`` lists the events in order."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.log: list[str] = []
        self.kills = self.failures = self.full = 0
        self._full_for = 0
        self._processes: list[Process] = []
        self._killed: list[Process] = []
        self._control = threading.Semaphore(0)
        self._late: list[Callable[[], object]] = []
        self._others: list[Callable[[], object]] = []
        self._waits = 0
        self.current: Process | None = None

    def allow(self, *, kills: int = 0, failures: int = 0, full: int = 0) -> None:
        """Set the numbers of kills, call failures and full disks; remove all other actions."""
        self.kills, self.failures, self.full = kills, failures, full
        self._full_for = 0
        self._others.clear()

    def add_action(self, action: Callable[[], object]) -> None:
        """Let another tool act once, at some step."""
        self._others.append(action)

    def run(self, *processes: Process) -> None:
        """Run processes until all of them have ended."""
        self._processes = list(processes)
        self._go_on()
        self._control.acquire()
        self.current = None
        self.settle()

    def close(self) -> None:
        """End the threads of processes that were killed."""
        for process in self._killed:
            self.current = process
            process.turn.release()
            if process.thread is not None:
                process.thread.join()
        self.current = None

    def settle(self) -> None:
        """Let all late effects happen now."""
        while self._late:
            self._late.pop(self.chance.randrange(len(self._late)))()

    def step(self, name: str) -> None:
        """Let the scheduled events of this step happen in the current process."""
        process = self.current
        if process is None:
            return
        if process.is_killed:
            raise Killed
        if self._late and self.chance.random() < 0.3:
            self.log.append(f"{process.name}: {name}: what was late happens")
            self._late.pop(self.chance.randrange(len(self._late)))()
        if self._others and self.chance.random() < 0.1:
            self.log.append(f"{process.name}: {name}: another tool acts")
            self._others.pop(self.chance.randrange(len(self._others)))()
        if self.kills and self.chance.random() < 0.02:
            self.kills -= 1
            self.log.append(f"{process.name}: {name}: killed")
            self._kill(process)
        if len(self._processes) > 1 and self.chance.random() < _SWITCH:
            self._switch(process)

    def wait(self) -> None:
        """Switch to other processes, since the current one waits for them."""
        self._waits += 1
        if self._waits > _WAITS:
            raise AssertionError("processes wait for each other")
        if self.current is not None:
            self._switch(self.current)

    def call(self, name: str, effect: Callable[[], _T]) -> _T:
        """Make a call with an external effect, or fail it: before, after, or with a late effect."""
        self.step(f"before {name}")
        if self.failures and self.current is not None and self.chance.random() < 0.1:
            self.failures -= 1
            kind = self.chance.choice(("before", "after", "late"))
            self.log.append(f"{self.current.name}: {name} fails, effect: {kind}")
            if kind == "after":
                effect()
            if kind == "late":
                self._late.append(lambda: self._try(name, effect))
            raise TimeoutError(110, f"{name}: Connection timed out")
        result = effect()
        self.step(f"after {name}")
        return result

    def is_full(self, name: str) -> bool:
        """Return True if the disk is full at a write; it stays full for a while."""
        self.step(f"before {name} is written")
        if self._full_for:
            self._full_for -= 1
            return True
        if self.full and self.current is not None and self.chance.random() < 0.05:
            self.full -= 1
            self._full_for = self.chance.choice((0, 1, 50))
            self.log.append(f"{self.current.name}: the disk is full when {name} is written")
            return True
        return False

    def _switch(self, process: Process) -> None:
        if self._go_on() is not process:
            process.turn.acquire()

    def _go_on(self) -> Process | None:
        """Resume one of the processes, and return it; once all have ended, `run` returns."""
        alive = [process for process in self._processes if not process.is_done]
        if not alive:
            self._control.release()
            return None
        before, next_process = self.current, self.chance.choice(alive)
        self.current = next_process
        if next_process.thread is None:
            next_process.thread = threading.Thread(
                target=self._main, args=(next_process,), daemon=True
            )
            next_process.thread.start()  # it is the current process from now on
        elif next_process is not before:
            next_process.turn.release()
        return next_process

    def _kill(self, process: Process) -> None:
        """End a process without running its cleanup code."""
        process.is_killed = process.is_done = True
        process.outcome = Killed()
        process.release_locks()
        self._killed.append(process)
        self._go_on()
        process.turn.acquire()
        raise Killed

    def _try(self, name: str, effect: Callable[[], object]) -> None:
        try:
            effect()
        except Exception as error:  # noqa: BLE001  (its caller has continued)
            self.log.append(f"late {name}: {type(error).__name__}")

    def _main(self, process: Process) -> None:
        try:
            process.main()
        except BaseException as error:  # noqa: BLE001  (the schedule checks it)
            if process.is_killed:
                return
            process.outcome = error
        self.log.append(f"{process.name}: ended: {process.outcome!r}"[:300])
        process.release_locks()
        process.is_done = True
        self._go_on()


class Locks:
    """The functions of `fcntl` that the project calls, with locks per simulated process."""

    LOCK_EX, LOCK_NB, LOCK_UN = fcntl.LOCK_EX, fcntl.LOCK_NB, fcntl.LOCK_UN

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._holders: dict[int, Process] = {}

    def flock(self, file: int | IO[bytes], operation: int) -> None:
        """Lock or unlock a file; a process that waits for a lock lets others continue."""
        number = file if isinstance(file, int) else file.fileno()
        if operation & self.LOCK_UN:
            fcntl.flock(number, operation)
            return
        while not _locked(number):
            if operation & self.LOCK_NB:
                raise BlockingIOError
            self._scheduler.wait()
        if number in self._holders:  # it was closed: the number is another file's now
            self._holders.pop(number).locks.discard(number)
        if self._scheduler.current is not None:
            self._holders[number] = self._scheduler.current
            self._scheduler.current.locks.add(number)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
