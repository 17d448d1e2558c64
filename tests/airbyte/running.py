"""Run a command of the Airbyte protocol as a program.

Every argument is a file in the test's folder, as a platform passes it. The output is kept as bytes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["PROGRAMS", "ROOT", "TAP_SHOP", "TOKEN", "Run", "airbyte", "configured", "environment"]

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
TAP_SHOP = (sys.executable, str(PROGRAMS / "tap_shop.py"))
TOKEN = "t-secret-1"
"""The valid token of tap_shop.py."""


@dataclass(frozen=True)
class Run:
    """The output and the exit code of one command."""

    code: int
    output: bytes
    log: str

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.output.splitlines()]

    def of_type(self, kind: str) -> list[Any]:
        """Return the bodies of the messages of one type."""
        bodies = {"CONNECTION_STATUS": "connectionStatus"}
        body = bodies.get(kind, kind.lower())
        return [message[body] for message in self.messages if message["type"] == kind]

    def records(self, stream: str) -> list[dict[str, Any]]:
        return [record["data"] for record in self.of_type("RECORD") if record["stream"] == stream]

    def traces(self, kind: str) -> list[Any]:
        return [trace[kind.lower()] for trace in self.of_type("TRACE") if trace["type"] == kind]

    @property
    def states(self) -> list[dict[str, Any]]:
        return self.of_type("STATE")

    @property
    def state_of(self) -> dict[str, Any]:
        """The last state of each stream."""
        streams = [state["stream"] for state in self.states]
        return {stream["stream_descriptor"]["name"]: stream["stream_state"] for stream in streams}


def environment(**variables: str) -> dict[str, str]:
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("TAP_", "TARGET_", "PYTEST"))}
    return {**keep, "PYTHONPATH": str(ROOT), **variables}


def airbyte(
    program: Sequence[str],
    command: str,
    folder: Path,
    *,
    feed: bytes = b"",
    text: Mapping[str, str] | None = None,
    **files: Any,
) -> Run:
    """Run a command; each file is a JSON document, or in ``text`` written unchanged."""
    arguments = []
    for name, content in {**files, **(text or {})}.items():
        path = folder / f"{name}.json"
        path.write_text(content if name in (text or {}) else json.dumps(content), "utf-8")
        arguments += [f"--{name}", str(path)]
    result = subprocess.run(
        [*program, command, *arguments],
        input=feed,
        cwd=folder,
        env=environment(),
        capture_output=True,
        timeout=300,
        check=False,
    )
    return Run(result.returncode, result.stdout, result.stderr.decode(errors="replace"))


def configured(
    catalog: Mapping[str, Any],
    names: Iterable[str] = (),
    mode: str = "incremental",
    **overrides: Any,
) -> dict[str, Any]:
    """Return a configured catalog of a discovered one.

    ``mode`` is the sync mode of the streams that support it.
    """
    selected = set(names)
    streams = [
        stream for stream in catalog["streams"] if not selected or stream["name"] in selected
    ]
    return {"streams": [_configured(stream, mode, overrides) for stream in streams]}


def _configured(
    stream: Mapping[str, Any], mode: str, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    keys = stream.get("source_defined_primary_key") or []
    modes = stream["supported_sync_modes"]
    return {
        "stream": stream,
        "sync_mode": mode if mode in modes else "full_refresh",
        "cursor_field": stream.get("default_cursor_field") or [],
        "destination_sync_mode": "append_dedup" if keys else "append",
        "primary_key": keys,
        **overrides,
    }
