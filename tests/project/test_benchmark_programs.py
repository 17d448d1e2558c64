"""The programs of the benchmarks that replace parts of target-spark still find these parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "bench" / "programs" / "spool_only.py"


def test_benchmark_of_the_spool_loads_records_without_spark(tmp_path: Path) -> None:
    """Both programs replace the function that makes the batch writer; the other one needs Spark."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"path": str(tmp_path / "tables"), "run_history": False}))
    schema = {"properties": {"id": {"type": "integer"}}}
    messages = [
        {"type": "SCHEMA", "stream": "a", "schema": schema, "key_properties": []},
        {"type": "RECORD", "stream": "a", "record": {"id": 1}},
        {"type": "STATE", "value": {"a": 1}},
    ]
    process = subprocess.run(
        [sys.executable, str(PROGRAM), "--config", str(config)],
        input="".join(json.dumps(message) + "\n" for message in messages),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stdout) == (0, '{"a": 1}\n'), process.stderr
    assert not (tmp_path / "tables" / "a").exists()
