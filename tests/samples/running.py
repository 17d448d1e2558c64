"""Run a sample tap and its service as programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.samples.cut_flights import january

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Run:
    """The messages, log and exit code of one run of a tap."""

    code: int
    messages: list[dict[str, Any]]
    log: str

    def records(self, stream: str) -> list[dict[str, Any]]:
        record_messages = [m for m in self.messages if m["type"] == "RECORD"]
        return [m["record"] for m in record_messages if m["stream"] == stream]

    @property
    def schemas(self) -> dict[str, dict[str, Any]]:
        return {m["stream"]: m["schema"] for m in self.messages if m["type"] == "SCHEMA"}

    @property
    def state(self) -> dict[str, Any]:
        [*_, last] = [m["value"] for m in self.messages if m["type"] == "STATE"]
        return last


def environment(sample: str) -> dict[str, str]:
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("TAP_", "PYTEST"))}
    path = (ROOT / "samples" / sample, january())
    return {
        **keep,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the samples' tests need no plugins
    }


def run(
    sample: str,
    folder: Path,
    config: dict[str, Any],
    state: dict[str, Any] | None = None,
    program: str | None = None,
) -> Run:
    """Run a sample tap, or a program that modifies it, in a folder."""
    files = {"config": config} if state is None else {"config": config, "state": state}
    arguments = []
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
        arguments += [f"--{name}", f"{name}.json"]
    process = subprocess.run(
        [sys.executable, *([program] if program else ["-m", f"{sample}.tap"]), *arguments],
        cwd=folder,
        env=environment(sample),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    messages = [json.loads(line) for line in process.stdout.splitlines()]
    return Run(process.returncode, messages, process.stderr)


@contextmanager
def service(sample: str, *arguments: str) -> Iterator[str]:
    """Run a sample's service; yield the address that it prints."""
    with subprocess.Popen(
        [sys.executable, "-m", f"{sample}.service", *arguments],
        env=environment(sample),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
