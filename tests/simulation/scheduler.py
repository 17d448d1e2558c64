"""A scheduler with a seed: of several simulated processes one runs at a time, and it decides which.

A simulated process is a thread. It calls `Scheduler.step` wherever a real one could be interrupted:
before and after each call that reads or changes what others see. There the scheduler may let
another process go on, let another tool act, fail the call (before it has an effect, after it, or
with an effect that comes late), or kill the process. The same seed makes the same schedule.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

__all__ = ["Killed", "Process", "Scheduler"]

_T = TypeVar("_T")

_SWITCH: Final = 0.25
"""How often a step lets another process go on."""


class Killed(BaseException):
    """A process ends here, without running what it would do on its way out."""


@dataclass
class Process:
    """A simulated process; ``outcome`` is the exception that ended it, if one did."""

    name: str
    main: Callable[[], None]
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    is_killed: bool = False
    is_done: bool = False
    outcome: BaseException | None = None


class Scheduler:
    """Runs processes; ``log`` tells what happened, in order; ``merges`` are under way."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.log: list[str] = []
        self.kills = self.failures = 0
        self.merges = 0
        self._processes: list[Process] = []
        self._control = threading.Semaphore(0)
        self._late: list[Callable[[], object]] = []
        self._others: list[Callable[[], object]] = []
        self._current: Process | None = None

    def allow(self, *, kills: int = 0, failures: int = 0) -> None:
        """Set how many kills, and failures of calls, may happen from now on; no other actions."""
        self.kills, self.failures = kills, failures
        self._others.clear()

    def add_action(self, action: Callable[[], object]) -> None:
        """Let another tool act once, at some step."""
        self._others.append(action)

    def run(self, *processes: Process) -> None:
        """Run processes until all of them have ended."""
        self._processes = list(processes)
        for process in processes:
            threading.Thread(target=self._main, args=(process,), daemon=True).start()
        while alive := [each for each in self._processes if not each.is_done]:
            self._current = self.chance.choice(alive)
            self._current.turn.release()
            self._control.acquire()
        self._current = None
        self.settle()

    def settle(self) -> None:
        """Let everything that is late happen now."""
        while self._late:
            self._late.pop(self.chance.randrange(len(self._late)))()

    def step(self, name: str) -> None:
        """Do what the schedule has here, in the process that runs."""
        process = self._current
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
            process.is_killed = True
            raise Killed
        if len(self._processes) > 1 and self.chance.random() < _SWITCH:
            self._control.release()
            process.turn.acquire()

    def call(self, name: str, effect: Callable[[], _T]) -> _T:
        """Make a call that others see, or fail it: before, after, or with a late effect."""
        self.step(f"before {name}")
        if self.failures and self._current is not None and self.chance.random() < 0.1:
            self.failures -= 1
            kind = self.chance.choice(("before", "after", "late"))
            self.log.append(f"{self._current.name}: {name} fails, effect: {kind}")
            if kind == "after":
                effect()
            if kind == "late":
                self._late.append(lambda: self._try(name, effect))
            raise TimeoutError(110, f"{name}: Connection timed out")
        found = effect()
        self.step(f"after {name}")
        return found

    def _try(self, name: str, effect: Callable[[], object]) -> None:
        try:
            effect()
        except Exception as error:  # noqa: BLE001  (its caller has gone on)
            self.log.append(f"late {name}: {type(error).__name__}")

    def _main(self, process: Process) -> None:
        process.turn.acquire()
        try:
            process.main()
        except BaseException as error:  # noqa: BLE001  (the schedule's check looks at it)
            process.outcome = error
        self.log.append(f"{process.name}: ended: {process.outcome!r}"[:300])
        process.is_done = True
        self._control.release()
