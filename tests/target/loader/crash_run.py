"""One process of the target that can be killed, and the thread that feeds it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["TARGET", "Run", "left_behind"]

ROOT = Path(__file__).parents[3]
TARGET = "from target_spark.target import TargetSpark; TargetSpark.cli()"
PATIENCE = 300


class Run:
    """One process of the target, and a thread that feeds it."""

    def __init__(
        self, folder: Path, lines: Iterator[bytes], pause: float, program: str = TARGET
    ) -> None:
        self.folder = folder
        self._tables = Path(json.loads((folder / "config.json").read_bytes())["path"])
        self._jvm: int | None = None
        with (folder / "errors.log").open("ab") as errors, (folder / "states").open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program, "--config", "config.json"],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=errors,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        self._feeder = threading.Thread(target=self._feed, args=(lines, pause), daemon=True)
        self._feeder.start()

    @property
    def alive(self) -> bool:
        """Return True if the target's own process runs."""
        return self.process.poll() is None

    def _feed(self, lines: Iterator[bytes], pause: float) -> None:
        assert self.process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                for line in lines:
                    self.process.stdin.write(line)
                    if pause or not line:  # an empty line requests it
                        self.process.stdin.flush()
                        time.sleep(pause)
        finally:  # otherwise the process would wait for input if ``lines`` fails
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def jvm(self) -> int | None:
        """Return the JVM's process id, once it is known."""
        if self._jvm is None:
            for lease in (self._tables / "_target_spark").glob("*.lease"):
                with contextlib.suppress(ValueError):
                    owner = json.loads(lease.read_bytes())
                    if owner.get("pid") == self.process.pid and "jvm" in owner:
                        self._jvm = int(owner["jvm"])
        return self._jvm

    def kill(self, victim: str, chance: random.Random) -> str:
        """Kill processes; return the victim, which is Python if there is no JVM yet."""
        jvm = self.jvm()
        if victim == "python" or jvm is None:
            self.process.kill()
            return "python"
        if victim == "jvm":
            _signal(jvm, signal.SIGKILL)
            return "jvm"
        steps = [self.process.kill, lambda: _signal(jvm, signal.SIGKILL)]
        chance.shuffle(steps)
        steps[0]()
        time.sleep(chance.choice((0, 0.1)) * chance.random())
        steps[1]()
        return "both"

    def send_signals(self, times: int, chance: random.Random) -> None:
        """Send one or two signals."""
        self.process.send_signal(signal.SIGTERM)
        if times > 1:
            time.sleep(chance.random() ** 2)
            self.process.send_signal(chance.choice((signal.SIGTERM, signal.SIGINT)))

    @contextlib.contextmanager
    def halted(self) -> Iterator[None]:
        """Stop all processes of the target during the context."""
        jvm = self.jvm()
        pids = [self.process.pid, *([] if jvm is None else [jvm])]
        try:
            for pid in pids:
                _signal(pid, signal.SIGSTOP)
            until = time.monotonic() + PATIENCE
            while any(map(_is_running, pids)):
                assert time.monotonic() < until
                time.sleep(0.001)
            yield
        finally:
            for pid in pids:
                _signal(pid, signal.SIGCONT)

    def end(self) -> int:
        """Wait for the process, the feeder and all processes that the target started."""
        code = self.process.wait(PATIENCE)
        self._feeder.join(PATIENCE)
        until = time.monotonic() + PATIENCE
        while processes := left_behind(self.folder):
            assert time.monotonic() < until, f"still there: {processes}"
            time.sleep(0.05)
        return code


def left_behind(folder: Path) -> list[str]:
    """Return the processes whose working directory is below a folder."""
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder.resolve()):
                processes.append(f"{process.name} {(process / 'cmdline').read_bytes()[:100]!r}")
    return processes


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_running(pid: int) -> bool:
    """Return True if any thread of a process may still run."""
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            if (task / "stat").read_text().rpartition(")")[2].split()[0] not in "TtZX":
                return True
    return False
