"""The process that tries inputs: ``python -m tests.fuzz.child JOB.json``.

The job names readers and inputs. Each input is stored before it is tried, so that a dead process
can be explained. CPU time, elapsed time and memory of each input are limited; a failure is written
to the job's folder, and the next input is tried.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import logging
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.fuzz.guard import Breach, Guard
from tests.fuzz.mutations import Mutator
from tests.fuzz.readers import find_maker, typed_errors
from tests.process_memory import read_memory, read_peak_memory, reset_peak_memory

CLOCK_SECONDS: Final = 60
GROWTH_BYTES: Final = 600 << 20
_ROOM: Final = 3 << 30
"""Bytes of address space beyond those at the start, so that no input exhausts the machine."""

_SOURCE: Final = str(Path(__file__).resolve().parents[2])


class Trial:
    """Tries inputs on one reader."""

    def __init__(self, part: dict[str, Any], folder: Path, guard: Guard) -> None:
        self.name, self.folder, self._guard = part["reader"], folder, guard
        self._cpu_seconds: int = part["cpu_seconds"]
        self._place = folder / self.name
        self._place.mkdir(exist_ok=True)
        self._read: Callable[[bytes], None] = find_maker(part["place"])(self._place)
        self._typed = typed_errors()
        self._seen: set[str] = set()
        self._first = 0

    def run(self, inputs: Iterable[tuple[str, bytes]]) -> int:
        """Try inputs; return their number."""
        count = 0
        for label, data in inputs:
            current = {"reader": self.name, "label": label, "data": data.hex()}
            (self.folder / "current.json").write_text(json.dumps(current))
            if failure := self._try(data):
                self._note(failure, label, data)
            count += 1
        return count

    def _try(self, data: bytes) -> str:
        """Return a description of the failure, or an empty text."""
        self._guard.begin(data)
        _limit_time(self._cpu_seconds)
        reset_peak_memory()
        before = read_memory()
        self._first = self._first or before
        os.chdir(self._place)
        try:
            self._read(data)
        except self._typed:
            failure = ""
        except Breach as breach:
            failure = f"Breach: {breach}"
        except BaseException:  # noqa: BLE001  any other error is a failure
            failure = traceback.format_exc()
        else:
            failure = ""
        faulthandler.cancel_dump_traceback_later()
        if self._guard.breaches and not failure:
            failure = f"Breach: {self._guard.breaches[0]}"
        return failure or self._memory_failure(before)

    def _memory_failure(self, before: int) -> str:
        """Return a description of excessive memory, of one input or kept by all of them."""
        growth = read_peak_memory() - before
        if growth > GROWTH_BYTES:
            return f"Memory: {growth >> 20} MB more than before"
        if read_memory() - self._first > GROWTH_BYTES:
            gc.collect()
            grown, self._first = read_memory() - self._first, 0
            if grown > GROWTH_BYTES:
                return f"Memory: {grown >> 20} MB are kept by what was read so far"
        return ""

    def _note(self, failure: str, label: str, data: bytes) -> None:
        """Store a failure, once for each place in the code."""
        frames = [line for line in failure.splitlines() if f'File "{_SOURCE}' in line]
        own_frames = [line for line in frames if "/tests/fuzz/" not in line] or frames
        key = f"{failure.splitlines()[-1].partition(':')[0]} {own_frames[-1] if own_frames else ''}"
        if key in self._seen and not label.startswith("corpus"):
            return
        self._seen.add(key)
        fields = {"reader": self.name, "label": label, "failure": failure, "data": data.hex()}
        with (self.folder / "failures.jsonl").open("a") as file:
            file.write(json.dumps(fields) + "\n")


def _limit_time(cpu_seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + cpu_seconds
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    faulthandler.dump_traceback_later(CLOCK_SECONDS, exit=True)


def _limit_memory() -> None:
    limit = read_memory(field="VmSize") + _ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _inputs(part: dict[str, Any], seeds: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the seeds, or mutations of them until the time is over."""
    if not part["seconds"]:
        yield from ((f"corpus {name}", data) for name, data in seeds.items())
        return
    mutator = Mutator(list(seeds.values()), part["seed"])
    end = time.monotonic() + part["seconds"]
    number = 0
    while time.monotonic() < end:
        yield f"seed {part['seed']}, mutation {number}", mutator.make()
        number += 1


def main(path: str) -> None:
    """Run a job: for each part a reader, its inputs, the seconds of mutations and their seed."""
    job = json.loads(Path(path).read_text())
    folder = Path(path).parent
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    faulthandler.register(signal.SIGXCPU, chain=True)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    guard = Guard()
    guard.watch()
    counts = {}
    for part in job["parts"]:
        seeds = {name: Path(name).read_bytes() for name in part["inputs"]}
        trial = Trial(part, folder, guard)
        _limit_memory()
        counts[part["reader"]] = trial.run(_inputs(part, seeds))
    (folder / "counts.json").write_text(json.dumps(counts))
    sys.stderr.flush()
    os._exit(0)  # threads of a server may still run


if __name__ == "__main__":
    main(sys.argv[1])
