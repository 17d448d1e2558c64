"""Every line that a tap of ours writes under this protocol, held against models and rules.

A run of each command of a few taps, once; the lines of all of them go through
the models in one process.
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
    """A tap, its settings, its settings of a later day, and those of its streams to read."""

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
class Life:
    """All commands of a tap: three reads, of which the last goes on from the one before it."""

    spec: Run
    check: Run
    discover: Run
    full: Run
    first: Run
    second: Run
    catalogs: dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=list(CONNECTORS))
def life(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Life:
    one, folder = CONNECTORS[request.param], tmp_path_factory.mktemp("airbyte")
    discovered = airbyte(one.program, "discover", folder, config=one.config)
    assert discovered.code == 0, discovered.output.decode() + discovered.log
    [catalog] = discovered.of_type("CATALOG")
    modes = ("full_refresh", "incremental")
    catalogs = {mode: configured(catalog, one.streams, mode) for mode in modes}
    of_mode = {
        mode: airbyte(one.program, "read", folder, config=one.config, catalog=catalogs[mode])
        for mode in modes
    }
    first = of_mode["incremental"]
    return Life(
        spec=airbyte(one.program, "spec", folder),
        check=airbyte(one.program, "check", folder, config=one.config),
        discover=discovered,
        full=of_mode["full_refresh"],
        first=first,
        second=airbyte(
            one.program,
            "read",
            folder,
            config=one.later,
            catalog=catalogs["incremental"],
            state=first.states,
        ),
        catalogs=catalogs,
    )


def runs(life: Life) -> Iterator[Run]:
    yield from (life.spec, life.check, life.discover, life.full, life.first, life.second)


def test_all_commands_end_well(life: Life) -> None:
    """E9, CK7: all is emitted, so the exit is 0; what `check` said holds for the rest."""
    for run in runs(life):
        assert run.code == 0, run.output.decode()[-3000:] + run.log


@needs_models
@pytest.mark.peer
def test_every_line_is_a_message_by_the_published_models(life: Life) -> None:
    """E2, E3, E4, E12: each line is one envelope with the one body of its type."""
    assert model_faults(b"".join(run.output for run in runs(life))) == []


def test_each_question_gets_one_answer(life: Life) -> None:
    """SP1, CK1, DI1, E14: of the type that was asked for there is one message, of others none."""
    assert single_faults(life.spec.output, "SPEC") == []
    assert single_faults(life.check.output, "CONNECTION_STATUS") == []
    assert single_faults(life.discover.output, "CATALOG") == []


def test_a_read_keeps_the_rules_of_order_and_count(life: Life) -> None:
    """RD2 to RD5, SM4, ST1, ST6, ST7, ST11, TR1, TR4: judged message by message."""
    assert read_faults(life.full.output, life.catalogs["full_refresh"]) == []
    assert read_faults(life.first.output, life.catalogs["incremental"]) == []
    assert read_faults(life.second.output, life.catalogs["incremental"]) == []


def test_nothing_is_written_to_standard_error(life: Life) -> None:
    """E7: logs are messages; nothing else is said on standard error without a terminal."""
    assert [run.log for run in runs(life)] == [""] * 6


def test_what_is_new_comes_second(life: Life) -> None:
    """RD6, RD7: a full refresh and a first read give the same; a second one only what is new."""
    for configured_stream in life.catalogs["incremental"]["streams"]:
        name = configured_stream["stream"]["name"]
        full, first, second = (run.records(name) for run in (life.full, life.first, life.second))
        assert full == first
        assert full
        if configured_stream["sync_mode"] == "full_refresh":
            assert second == full
        else:
            assert any(row not in full for row in second)
            assert any(row not in second for row in first)


@needs_models
@pytest.mark.peer
def test_a_tap_of_a_service_is_a_source_too(tmp_path: Path) -> None:
    """CK4, CK5, RD10: a token that the service refuses, in `check` and `read`; then a good one."""
    program = (sys.executable, "-m", "tap_airlines.tap")
    with service("tap_airlines") as url:
        good, bad = ({"api_url": url, "token": token} for token in ("t-1", "wrong-token"))
        refused = airbyte(program, "check", tmp_path, config=bad)
        [status] = refused.of_type("CONNECTION_STATUS")
        assert (refused.code, status["status"]) == (0, "FAILED")
        [catalog] = airbyte(program, "discover", tmp_path, config=good).of_type("CATALOG")
        chosen = configured(catalog)
        failed = airbyte(program, "read", tmp_path, config=bad, catalog=chosen)
        read = airbyte(program, "read", tmp_path, config=good, catalog=chosen)
    assert failed.traces("ERROR")[-1]["failure_type"] == "config_error"
    for run, code in ((failed, 1), (read, 0)):
        assert run.code == code
        assert read_faults(run.output, chosen, code) == []
        assert b"wrong-token" not in run.output
    assert model_faults(refused.output + failed.output + read.output) == []
