"""A target in a process, for tests that send messages and signals to it.

Its sink writes each batch into a file. While the file ``hold`` exists, a drain does not end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["TargetProcess", "run_pausing_target"]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60
PROGRAM = """
import json, time
from pathlib import Path
from tap_core import BatchSink, Target

class HoldSink(BatchSink):
    max_size = 3
    inside = 0
    stores_in_clean_up = False

    def process_batch(self, context):
        HoldSink.inside += 1
        assert HoldSink.inside == 1, "entered again"
        out = Path(self.config["out"])
        (out / "draining").touch()
        while (out / "hold").exists():
            time.sleep(0.01)
        with (out / "rows").open("a") as rows:
            rows.writelines(json.dumps([self.stream_name, r["id"]]) + "\\n"
                            for r in context["records"])
        (out / "draining").unlink()
        HoldSink.inside -= 1

    def clean_up(self):
        super().clean_up()
        with (Path(self.config["out"]) / "rows").open("a") as rows:
            rows.write('"clean"\\n')

class HoldTarget(Target):
    name = "target-hold"
    config_jsonschema = {"properties": {"out": {"type": "string"}, "age": {"type": "number"}}}
    default_sink_class = HoldSink
    max_parallelism = 1

    def __init__(self, **given):
        super().__init__(**given)
        self._MAX_RECORD_AGE_IN_MINUTES = float(self.config.get("age", 5))

HoldTarget.cli()
"""


class TargetProcess:
    """A running target process; ``states`` are the states that it has written."""

    def __init__(self, process: subprocess.Popen[str], out: Path) -> None:
        self.process = process
        self.out = out
        self.states: list[Any] = []
        self.errors = ""
        self._pumps = [threading.Thread(target=pump) for pump in (self._listen, self._read_log)]
        for pump in self._pumps:
            pump.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.states.append(json.loads(text))

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for text in self.process.stderr:
            self.errors += text

    def send(self, *lines: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(lines))
        self.process.stdin.flush()

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition is true; fail after a timeout or if the process ends."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, self.errors
            assert time.monotonic() < end, self.errors
            time.sleep(0.01)

    @property
    def is_draining(self) -> bool:
        return (self.out / "draining").exists()

    def rows(self) -> list[Any]:
        path = self.out / "rows"
        return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []

    def end(self) -> int:
        self.process.wait(PATIENCE)
        for pump in self._pumps:
            pump.join()
        return self.process.returncode


@contextmanager
def run_pausing_target(out: Path, program: str = PROGRAM, **config: Any) -> Iterator[TargetProcess]:
    """Run a target that waits in each drain or commit while the file ``hold`` exists."""
    path = out / "config.json"
    path.write_text(json.dumps({"out": str(out), **config}))
    process = subprocess.Popen(
        [sys.executable, "-c", program, "--config", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    target = TargetProcess(process, out)
    try:
        yield target
    finally:
        process.kill()
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        target.end()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
