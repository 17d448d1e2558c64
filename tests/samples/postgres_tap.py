"""Run the PostgreSQL sample tap: discovery in this process, each sync as a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.postgres import Database

__all__ = ["SAMPLE", "TAP", "Source", "Sync", "environment", "parse_lines"]

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "tap_postgres"
sys.path.append(str(SAMPLE))  # it need not be installed

from tap_postgres.tap import TapPostgres  # noqa: E402

TAP = [sys.executable, "-m", "tap_postgres.tap"]


@dataclass(frozen=True)
class Sync:
    """The exit code, messages and log of a run."""

    messages: list[dict[str, Any]]
    code: int
    log: str

    def schema(self, stream: str) -> dict[str, Any]:
        """The schema of a stream."""
        [schema_message, *_] = [
            m for m in self.messages if m["type"] == "SCHEMA" and m["stream"] == stream
        ]
        schema: dict[str, Any] = schema_message["schema"]
        return schema

    def records(self, stream: str) -> list[dict[str, Any]]:
        """The records of a stream in order."""
        records = [m for m in self.messages if m["type"] == "RECORD" and m["stream"] == stream]
        return [message["record"] for message in records]

    @property
    def state(self) -> dict[str, Any]:
        """The last state."""
        [*_, last] = [m["value"] for m in self.messages if m["type"] == "STATE"]
        return last


@dataclass(frozen=True)
class Source:
    """A database and a folder for the tap's files."""

    database: Database
    folder: Path

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements in the database."""
        return self.database.run(*statements)

    def discover(self, **settings: Any) -> dict[str, dict[str, Any]]:
        """Return the catalog's entries by stream."""
        tap = TapPostgres(config={**self.database.settings, **settings})
        try:
            entries = tap.catalog_dict["streams"]
        finally:
            tap.tap_connector._engine.dispose()
        return {entry["tap_stream_id"]: entry for entry in entries}

    def sync(
        self,
        streams: Mapping[str, str | None] | None = None,
        *,
        state: dict[str, Any] | None = None,
        without: Collection[str] = (),
        method: str = "INCREMENTAL",
        **settings: Any,
    ) -> Sync:
        """Sync streams, each with its replication key or None; by default all streams."""
        command = self.command(streams, state=state, without=without, method=method, **settings)
        process = subprocess.run(
            command, cwd=self.folder, env=environment(), capture_output=True, check=False
        )
        return Sync(parse_lines(process.stdout), process.returncode, process.stderr.decode())

    def command(
        self,
        streams: Mapping[str, str | None] | None = None,
        *,
        state: dict[str, Any] | None = None,
        without: Collection[str] = (),
        method: str = "INCREMENTAL",
        **settings: Any,
    ) -> list[str]:
        """Return the command of a sync after writing its files.

        Columns in ``without`` are deselected. ``method`` is the replication method of the streams
        with a key, and of all streams if it is LOG_BASED.
        """
        entries = self.discover(**settings)
        keys_by_stream = dict.fromkeys(entries) if streams is None else streams
        for stream, key in keys_by_stream.items():
            _select(entries[stream]["metadata"], key, without)
            if method == "LOG_BASED":
                entries[stream]["replication_method"] = method
        catalog = self._written("catalog.json", {"streams": list(entries.values())})
        command = [*TAP, "--config", self.config(settings), "--catalog", catalog]
        return command if state is None else [*command, "--state", self._written("s.json", state)]

    def config(self, settings: Mapping[str, Any]) -> str:
        """Write the settings; those of the database are included unless overridden."""
        return self._written("config.json", {**self.database.settings, **settings})

    def _written(self, name: str, document: Mapping[str, Any]) -> str:
        path = self.folder / name
        path.write_text(json.dumps(document, default=float))
        return str(path)


def _select(metadata: Iterable[dict[str, Any]], key: str | None, without: Collection[str]) -> None:
    for entry in metadata:
        if not entry["breadcrumb"]:
            entry["metadata"]["selected"] = True
            if key:
                entry["metadata"]["replication-key"] = key
                entry["metadata"]["replication-method"] = "INCREMENTAL"
        elif entry["breadcrumb"][-1] in without:
            entry["metadata"]["selected"] = False


def environment() -> dict[str, str]:
    """Return the environment of a tap's process, in which the sample need not be installed."""
    paths = (str(ROOT), str(SAMPLE), *filter(None, [os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def parse_lines(output: bytes) -> list[dict[str, Any]]:
    """Parse messages with exact numbers; a truncated last line is skipped."""
    complete_lines = output[: output.rfind(b"\n") + 1]
    return [json.loads(line, parse_float=Decimal) for line in complete_lines.splitlines()]
