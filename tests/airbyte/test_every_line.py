"""Every line that some taps write under this protocol, checked against models and rules.

Each command of a tap runs once; the lines of all of them are validated in one process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.airbyte.models import model_faults, needs_models
from tests.airbyte.rules import read_faults, single_faults
from tests.airbyte.running import TAP_SHOP, TOKEN, Run, airbyte, configured
from tests.samples.running import service

FLIGHTS = (sys.executable, "-m", "tap_flights.tap")
PLANES_AND_WEATHER = ("airlines", "airports", "weather", "planes")


@dataclass(frozen=True)
class Connector:
    """A tap, its settings, its settings of a later day, and the streams to read."""

    program: Sequence[str]
    config: dict[str, Any]
    later: dict[str, Any]
    streams: Sequence[str] = ()


CONNECTORS = {
    "shop": Connector(TAP_SHOP, {"token": TOKEN}, {"token": TOKEN, "days": 12}),
    "flights": Connector(
        FLIGHTS,
        {"until": "2013-01-01T12:00:00Z"},
        {"until": "2013-01-02T00:00:00Z"},
        PLANES_AND_WEATHER,
    ),
}


@dataclass(frozen=True)
class CommandRuns:
    """The runs of all commands of a tap: three reads, of which the last resumes the second."""

    spec: Run
    check: Run
    discover: Run
    full: Run
    first: Run
    second: Run
    catalogs: dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=list(CONNECTORS))
def command_runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> CommandRuns:
    connector, folder = CONNECTORS[request.param], tmp_path_factory.mktemp("airbyte")
    discovered = airbyte(connector.program, "discover", folder, config=connector.config)
    assert discovered.code == 0, discovered.output.decode() + discovered.log
    [catalog] = discovered.of_type("CATALOG")
    modes = ("full_refresh", "incremental")
    catalogs = {mode: configured(catalog, connector.streams, mode) for mode in modes}
    runs = {
        mode: airbyte(
            connector.program, "read", folder, config=connector.config, catalog=catalogs[mode]
        )
        for mode in modes
    }
    first = runs["incremental"]
    return CommandRuns(
        spec=airbyte(connector.program, "spec", folder),
        check=airbyte(connector.program, "check", folder, config=connector.config),
        discover=discovered,
        full=runs["full_refresh"],
        first=first,
        second=airbyte(
            connector.program,
            "read",
            folder,
            config=connector.later,
            catalog=catalogs["incremental"],
            state=first.states,
        ),
        catalogs=catalogs,
    )


def all_runs(command_runs: CommandRuns) -> Iterator[Run]:
    yield from (
        command_runs.spec,
        command_runs.check,
        command_runs.discover,
        command_runs.full,
        command_runs.first,
        command_runs.second,
    )


def test_all_commands_succeed(command_runs: CommandRuns) -> None:
    """E9, CK7: all commands exit with 0, after a successful `check`."""
    for run in all_runs(command_runs):
        assert run.code == 0, run.output.decode()[-3000:] + run.log


@needs_models
@pytest.mark.peer
def test_every_line_is_valid_by_the_published_models(command_runs: CommandRuns) -> None:
    """E2, E3, E4, E12: each line is one envelope with one body of its type."""
    assert model_faults(b"".join(run.output for run in all_runs(command_runs))) == []


def test_spec_check_and_discover_write_one_message_each(command_runs: CommandRuns) -> None:
    """SP1, CK1, DI1, E14: one message of the requested type, and none of another."""
    assert single_faults(command_runs.spec.output, "SPEC") == []
    assert single_faults(command_runs.check.output, "CONNECTION_STATUS") == []
    assert single_faults(command_runs.discover.output, "CATALOG") == []


def test_read_keeps_the_rules_of_order_and_count(command_runs: CommandRuns) -> None:
    """RD2 to RD5, SM4, ST1, ST6, ST7, ST11, TR1, TR4: checked message by message."""
    assert read_faults(command_runs.full.output, command_runs.catalogs["full_refresh"]) == []
    assert read_faults(command_runs.first.output, command_runs.catalogs["incremental"]) == []
    assert read_faults(command_runs.second.output, command_runs.catalogs["incremental"]) == []


def test_nothing_is_written_to_standard_error(command_runs: CommandRuns) -> None:
    """E7: logs are messages on standard output; standard error is empty without a terminal."""
    assert [run.log for run in all_runs(command_runs)] == [""] * 6


def test_second_read_has_only_new_records(command_runs: CommandRuns) -> None:
    """RD6, RD7: a first incremental read equals a full refresh."""
    for configured_stream in command_runs.catalogs["incremental"]["streams"]:
        name = configured_stream["stream"]["name"]
        full, first, second = (
            run.records(name)
            for run in (command_runs.full, command_runs.first, command_runs.second)
        )
        assert full == first
        assert full
        if configured_stream["sync_mode"] == "full_refresh":
            assert second == full
        else:
            assert any(row not in full for row in second)
            assert any(row not in second for row in first)


@needs_models
@pytest.mark.peer
def test_api_tap_is_checked_and_read(tmp_path: Path) -> None:
    """CK4, CK5, RD10: with a refused token in `check` and `read`, then with a valid one."""
    program = (sys.executable, "-m", "tap_airlines.tap")
    with service("tap_airlines") as url:
        good, bad = ({"api_url": url, "token": token} for token in ("t-1", "wrong-token"))
        check = airbyte(program, "check", tmp_path, config=bad)
        [status] = check.of_type("CONNECTION_STATUS")
        assert (check.code, status["status"]) == (0, "FAILED")
        [catalog] = airbyte(program, "discover", tmp_path, config=good).of_type("CATALOG")
        configured_catalog = configured(catalog)
        failed = airbyte(program, "read", tmp_path, config=bad, catalog=configured_catalog)
        read = airbyte(program, "read", tmp_path, config=good, catalog=configured_catalog)
    assert failed.traces("ERROR")[-1]["failure_type"] == "config_error"
    for run, code in ((failed, 1), (read, 0)):
        assert run.code == code
        assert read_faults(run.output, configured_catalog, code) == []
        assert b"wrong-token" not in run.output
    assert model_faults(check.output + failed.output + read.output) == []
