"""The REST sample: a parent and child streams, a busy server, and a failing server."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.samples.cut_flights import read_table
from tests.samples.running import Run, run, service

SAMPLE = "tap_airlines"
UNTIL, LATER = "2013-01-03T00:00:00Z", "2013-01-04T00:00:00Z"


def read(
    folder: Path, *arguments: str, state: dict[str, Any] | None = None, **settings: Any
) -> Run:
    with service(SAMPLE, *arguments) as address:
        return run(SAMPLE, folder, {"api_url": address, "token": "t-1", **settings}, state)


def key(record: dict[str, Any]) -> tuple[str, int, str, str]:
    return record["carrier"], record["number"], record["origin"], record["updated_at"]


@cache
def flights() -> list[dict[str, str]]:
    return [row for row in read_table("flights") if row["month"] == "1"]


def expected(until: str, since: dict[str, str] | None = None) -> Counter[Any]:
    """Return the flights that the service should return, read from the files."""
    return Counter(
        (row["carrier"], int(row["flight"]), row["origin"], row["time_hour"])
        for row in flights()
        if (since or {}).get(row["carrier"], "") <= row["time_hour"] < until
    )


def bookmarks(state: dict[str, Any]) -> dict[str, str]:
    return {
        entry["context"]["carrier"]: entry["replication_key_value"]
        for entry in state["bookmarks"]["flights"].get("partitions", [])
        if "replication_key_value" in entry
    }


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read(tmp_path_factory.mktemp("first"))


def test_every_airline_and_its_flights_are_read_once(first: Run) -> None:
    assert first.code == 0, first.log
    assert [r["carrier"] for r in first.records("airlines")] == [
        row["carrier"] for row in read_table("airlines")
    ]
    assert Counter(map(key, first.records("flights"))) == expected(UNTIL)


def test_flights_of_an_airline_are_sorted(first: Run) -> None:
    times = defaultdict(list)
    for record in first.records("flights"):
        times[record["carrier"]].append(record["updated_at"])
    assert all(flight_times == sorted(flight_times) for flight_times in times.values())
    assert bookmarks(first.state) == {
        carrier: flight_times[-1] for carrier, flight_times in times.items()
    }


def test_retry_after_header_sets_the_waiting_time(first: Run) -> None:
    [waited] = [line for line in first.log.splitlines() if "Backing off 1.00 seconds" in line]
    assert "status 429" in waited


def test_token_is_not_logged(first: Run) -> None:
    assert "t-1" not in first.log


def test_next_run_reads_only_new_flights_of_each_airline(first: Run, tmp_path: Path) -> None:
    second = read(tmp_path, "--until", LATER, state=first.state)
    assert second.code == 0, second.log
    read_flights = Counter(map(key, second.records("flights")))
    assert read_flights == expected(LATER, since=bookmarks(first.state))
    assert 0 < read_flights.total() < len(first.records("flights"))


@pytest.mark.thorough
def test_next_run_resumes_after_a_server_failure(tmp_path: Path) -> None:
    broken = read(tmp_path, "--fail-after", "20")
    assert broken.code == 1
    assert "503" in broken.log
    flights_before_failure = Counter(map(key, broken.records("flights")))
    assert 0 < flights_before_failure.total() < expected(UNTIL).total()
    marks = bookmarks(broken.state)
    assert marks

    resumed = read(tmp_path, state=broken.state)
    assert resumed.code == 0, resumed.log
    resumed_flights = Counter(map(key, resumed.records("flights")))
    assert resumed_flights == expected(UNTIL, since=marks)
    assert set(flights_before_failure) | set(resumed_flights) == set(expected(UNTIL))
    assert resumed_flights.total() < expected(UNTIL).total()


def test_first_run_begins_at_the_start_date(tmp_path: Path) -> None:
    result = read(tmp_path, start_date="2013-01-02T12:00:00Z")
    assert min(r["updated_at"] for r in result.records("flights")) == "2013-01-02T12:00:00Z"


def test_wrong_token_fails_the_run_and_is_not_logged(tmp_path: Path) -> None:
    result = read(tmp_path, token="wr0ng-t0ken")
    assert result.code == 1
    assert "401" in result.log
    assert "wr0ng" not in result.log
