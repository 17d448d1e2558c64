"""Comparison of batches with singer_sdk; each SDK reads the files of the other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.batch.files import batch_config, numbers, read_batch_rows
from tests.peers import missing_reason, peer_python
from tests.sync.syncing import parse_messages

PEER = peer_python("singer_sdk")
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("peer_batches.py")
SIDES = {"ours": ("tap_core", sys.executable), "theirs": ("singer_sdk", str(PEER))}
FORMS = [("jsonl", "gzip"), ("parquet", "gzip"), ("parquet", None)]

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]


def run(side, *args, stdin=b""):
    sdk, python = SIDES[side]
    process = subprocess.run(
        [python, str(PROGRAM), *args],
        input=stdin,
        capture_output=True,
        env={**os.environ, "BATCH_SDK": sdk, "PYTHONPATH": str(ROOT), "LOGLEVEL": "ERROR"},
        check=False,
    )
    assert process.returncode == 0, process.stderr.decode()
    return process


@pytest.fixture(scope="module")
def taps(tmp_path_factory):
    @cache
    def output(side, form, compression):
        folder = tmp_path_factory.mktemp("batches")
        config = folder / "config.json"
        config.write_text(json.dumps(batch_config(folder / "files", form, compression)))
        return run(side, "tap", str(config)).stdout

    return output


@pytest.mark.parametrize("form, compression", FORMS)
def test_files_and_file_names_are_those_of_singer_sdk(taps, form, compression):
    ours, theirs = (parse_messages(taps(side, form, compression)) for side in SIDES)
    batches = [
        [message for message in side if message["type"] == "BATCH"] for side in (ours, theirs)
    ]
    for our, their in zip(*batches, strict=True):
        assert our.keys() == their.keys()
        assert our["encoding"] == their["encoding"]
        assert numbers(read_batch_rows(our)) == numbers(read_batch_rows(their))
        [path], [other] = our["manifest"], their["manifest"]
        assert mask_random_part(path) == mask_random_part(other).replace("%3D", "-")


def mask_random_part(path):
    """Return a file's name without its random part."""
    return re.sub(r"[0-9a-f]{8}-[-0-9a-f]{27}", "ID", path.rpartition("/")[2])


def test_state_follows_each_batch_as_in_singer_sdk(taps):
    ours, theirs = (parse_messages(taps(side, "jsonl", "gzip")) for side in SIDES)
    assert [values(message) for message in ours if message["type"] in {"BATCH", "STATE"}] == [
        values(message) for message in theirs if message["type"] in {"BATCH", "STATE"}
    ]


def values(message):
    if message["type"] == "BATCH":
        return "BATCH"
    return message["value"]["bookmarks"]["rows"].get("replication_key_value")


@pytest.mark.parametrize("form, compression", FORMS)
@pytest.mark.parametrize("writer, reader", [("ours", "theirs"), ("theirs", "ours")])
def test_each_target_reads_the_batch_files_of_the_other_sdk(
    taps, tmp_path, writer, reader, form, compression
):
    config = tmp_path / "config.json"
    config.write_text("{}")
    process = run(reader, "target", str(config), stdin=taps(writer, form, compression))
    rows = [
        row
        for line in process.stderr.splitlines()
        if line.startswith(b"[")
        for row in json.loads(line)
    ]
    assert [row["id"] for row in rows] == list(range(8))
    assert [row["name"] for row in rows][1:3] == ["name 1 \u00e4", None]
    assert [row["deep"] for row in rows] == [{"a": n} for n in range(8)]
    assert [float(row["price"]) for row in rows] == [n * 1.25 for n in range(8)]
    assert parse_messages(b'{"value":' + process.stdout.splitlines()[-1] + b"}\n")
