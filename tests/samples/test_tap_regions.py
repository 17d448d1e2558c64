"""The cluster sample on one machine: the tap reads all records of its API."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "cluster"
sys.path.append(str(SAMPLE))  # it need not be installed

import server  # noqa: E402

KEYS = {"orders": ("region", "id"), "events": ("id",), "notes": ("customer_id", "id")}


def read(
    api: server.API, folder: Path, state: Any = None, **settings: Any
) -> tuple[list[dict[str, Any]], Any, int]:
    """Run the tap; return its RECORD messages, its last state and its exit code."""
    with server.serving(api) as address:
        config = {"api_url": address, "token": "t-1", "regions": api.regions, **settings}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "state.json").write_text(json.dumps(state or {}))
        command = [sys.executable, str(SAMPLE / "tap_regions.py"), "--config", "config.json"]
        process = subprocess.run(
            [*command, "--state", "state.json"], cwd=folder, capture_output=True, check=False
        )
    messages = [json.loads(line) for line in process.stdout.splitlines()]
    states = [message["value"] for message in messages if message["type"] == "STATE"]
    return [m for m in messages if m["type"] == "RECORD"], states[-1], process.returncode


def rows(records: list[dict[str, Any]], stream: str) -> list[dict[str, Any]]:
    stream_records = [message["record"] for message in records if message["stream"] == stream]
    return sorted(stream_records, key=lambda row: [row[key] for key in KEYS[stream]])


def test_first_run_reads_everything_and_second_run_only_new_records(tmp_path: Path) -> None:
    """The second run starts at the bookmark of each partition."""
    api = server.API(regions=4, records=60, customers=3, until="2024-01-02T12:00:00Z")
    records, state, code = read(api, tmp_path, page_size=7)
    assert code == 0
    assert rows(records, "orders") == [
        row for name in api.list_regions() for row in api.list_orders(name)
    ]
    assert rows(records, "notes") == [row for n in range(1, 4) for row in api.list_notes(n)]
    assert rows(records, "events") == sorted(api.list_events(), key=lambda row: row["id"])
    later = server.API(regions=4, records=60, customers=3, until="2024-01-20T00:00:00Z")
    second, _, code = read(later, tmp_path, state)
    assert code == 0
    assert rows(second, "orders") == sorted(
        (
            row
            for name in api.list_regions()
            for row in later.list_orders(name, "2024-01-02T12:00:00Z")
        ),
        key=lambda row: (row["region"], row["id"]),
    )
    assert 4 * len(later.list_orders("region-00")) > len(rows(second, "orders")) > 0


def test_no_record_is_lost_by_server_errors_and_rate_limits(tmp_path: Path) -> None:
    """Responses with status 429 and 500 are retried."""
    api = server.API(regions=2, records=20, customers=3, fails={"region-01": 1}, most=8)
    records, _, code = read(api, tmp_path, end_date="2024-01-05T00:00:00Z")
    assert code == 0
    assert {request.status for request in api.requests} == {200, 429, 500}
    assert len(rows(records, "orders")) == 40
