"""A file of mutated rows, loaded by target-spark with the real Spark.

The readers of `tests/fuzz/loader_readers.py` end where Spark would start; this test does the rest.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tap_core.events import Rows
from tap_core.protocols.singer.reader import SingerReader
from tests.fuzz.mutations import Mutator
from tests.fuzz.running import CORPUS, save_input
from tests.fuzz.test_mutated import SEED
from tests.target.loader.test_unusual_input import run

LINES = (CORPUS / "singer_lines" / "plain.jsonl").read_bytes().splitlines(keepends=True)
SCHEMA, RECORD = LINES[0].replace(b'"key_properties": ["id"]', b'"key_properties": []'), LINES[1]
STATE = b'{"type": "STATE", "value": {"at": "the end"}}\n'
WANTED = 1500


def is_row(line: bytes) -> bool:
    """Return True if a line is a row of the stream; other lines end a run with an error."""
    decoder = SingerReader()
    try:
        events = [*decoder.feed(SCHEMA + line + b"\n"), *decoder.close()]
    except Exception:  # noqa: BLE001  test_corpus checks which errors are allowed
        return False
    rows = [event for event in events[1:] if isinstance(event, Rows)]
    return [(event.stream.name, len(event.rows)) for event in rows] == [("users", 1)]


def make_rows(seed: int) -> list[bytes]:
    """Return mutated lines that are rows of one stream."""
    mutator = Mutator([RECORD, RECORD.replace(b"1.25", b"null")], seed)
    rows: dict[bytes, None] = {}
    while len(rows) < WANTED:
        line = mutator.make().split(b"\n")[0]
        if is_row(line):
            rows[line] = None
    return list(rows)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.thorough
def test_mutated_rows_are_loaded_or_quarantined(tmp_path: Path) -> None:
    """SEC15, SEC21: each row is in the table or the quarantine, and the state is emitted.

    FUZZ_SEED gives the same rows again.
    """
    rows = make_rows(SEED)
    data = SCHEMA + b"".join(row + b"\n" for row in rows) + STATE
    process = run(tmp_path, data)
    description = (
        f"FUZZ_SEED={SEED}, input: {save_input('loading', data)}\n{process.stderr.decode()[-3000:]}"
    )
    assert process.returncode == 0, description
    assert b"Traceback" not in process.stderr, description
    assert json.loads(process.stdout.splitlines()[-1]) == {"at": "the end"}
    report = json.loads((tmp_path / "report.json").read_text())["streams"]["users"]
    assert report["written"] + report["quarantined"] == len(rows), report
    assert report["quarantined"] > 0
