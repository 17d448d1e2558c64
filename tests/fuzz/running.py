"""Run the process that tries inputs, and collect its failures.

A process that dies is one failure; the inputs after the one that killed it are tried in a new
process. Failed inputs are saved to a permanent folder, as files that can be added to the corpus.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from tests.fuzz.readers import READERS

__all__ = ["CORPUS", "Failure", "Outcome", "list_corpus", "mutate", "replay", "save_input"]

ROOT: Final = Path(__file__).resolve().parents[2]
CORPUS: Final = Path(__file__).with_name("corpus")
FAILED: Final = ROOT / ".fuzz-failures"
MODULES = ""
"""A folder with further reader modules, for tests of this module."""

CPU_SECONDS = 10
"""CPU seconds that one input may take."""

_MOST_DEATHS: Final = 30
_PATIENCE_SECONDS: Final = 900


@dataclass(frozen=True)
class Failure:
    """An input that broke a reader; ``path`` is where it was saved."""

    reader: str
    label: str
    text: str
    path: Path

    def __str__(self) -> str:
        return (
            f"{self.reader}, {self.label}\n  input: {self.path}"
            f" (add it to tests/fuzz/corpus/{READERS[self.reader].corpus})\n{self.text}"
        )


@dataclass
class Outcome:
    """The result of a run: the number of inputs per reader, and the failures."""

    counts: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def get_failures(self, reader: str) -> list[Failure]:
        """Return the failures of one reader."""
        return [failure for failure in self.failures if failure.reader == reader]


def list_corpus(reader: str) -> list[Path]:
    """Return the seeds of a reader."""
    return sorted(path for path in (CORPUS / READERS[reader].corpus).iterdir() if path.is_file())


def replay(readers: Sequence[str] = tuple(READERS)) -> Outcome:
    """Try every seed of the corpus once, all readers in one process."""
    remaining = {reader: list(map(str, list_corpus(reader))) for reader in readers}
    outcome = Outcome({reader: len(paths) for reader, paths in remaining.items()})
    for _ in range(_MOST_DEATHS):
        parts = [_part(reader, paths) for reader, paths in remaining.items() if paths]
        died_of = _run(parts, outcome) if parts else None
        if died_of is None:
            break
        _drop_tried(remaining, died_of)
    return outcome


def mutate(reader: str, seconds: float, seed: int) -> Outcome:
    """Try mutations of a reader's seeds for some time."""
    outcome = Outcome({reader: 0})
    inputs = list(map(str, list_corpus(reader)))
    for number in range(_MOST_DEATHS):
        # The same seed would generate the input that killed the last process.
        if _run([_part(reader, inputs, seconds, seed + number)], outcome) is None:
            break
    return outcome


def _part(reader: str, inputs: list[str], seconds: float = 0, seed: int = 0) -> dict[str, Any]:
    return {
        "reader": reader,
        "place": READERS[reader].place,
        "inputs": inputs,
        "seconds": seconds,
        "seed": seed,
        "cpu_seconds": CPU_SECONDS,
    }


def _drop_tried(remaining: dict[str, list[str]], died_of: Mapping[str, Any]) -> None:
    """Keep only the inputs after the one that killed a process."""
    for reader in list(remaining):
        if reader == died_of["reader"]:
            path = died_of["label"].partition(" ")[2]
            remaining[reader] = remaining[reader][remaining[reader].index(path) + 1 :]
            return
        remaining[reader] = []


def _run(parts: list[dict[str, Any]], outcome: Outcome) -> dict[str, Any] | None:
    """Run one process; return the input that killed it, if any."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        return _run_in(Path(name), parts, outcome)


def _run_in(folder: Path, parts: list[dict[str, Any]], outcome: Outcome) -> dict[str, Any] | None:
    job = folder / "job.json"
    job.write_text(json.dumps({"parts": parts}))
    errors = folder / "stderr.txt"
    with errors.open("wb") as stderr:
        process = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.child", str(job)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{MODULES}", "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    failures_file = folder / "failures.jsonl"
    for line in failures_file.read_text().splitlines() if failures_file.exists() else ():
        outcome.failures.append(_saved(**json.loads(line)))
    if process.returncode == 0:
        for reader, count in json.loads((folder / "counts.json").read_text()).items():
            outcome.counts[reader] = max(outcome.counts.get(reader, 0), count)
        return None
    current = folder / "current.json"
    last = errors.read_text("utf-8", "replace")[-6000:]
    assert current.exists(), f"the process did not begin: exit {process.returncode}\n{last}"
    died_of: dict[str, Any] = json.loads(current.read_text())
    reason = (
        f"the process died, exit {process.returncode} (-24: too long on the processor, 1: too long"
        f" by the clock, -9: too large)\n{last}"
    )
    outcome.failures.append(_saved(**died_of, failure=reason))
    return died_of


def _saved(reader: str, label: str, failure: str, data: str) -> Failure:
    return Failure(reader, label, failure, save_input(reader, bytes.fromhex(data)))


def save_input(reader: str, content: bytes) -> Path:
    """Save an input for inspection and for the corpus."""
    FAILED.mkdir(exist_ok=True)
    path = FAILED / f"{reader}-{sha256(content).hexdigest()[:12]}"
    path.write_bytes(content)
    return path
