"""`read` as a program: authors' output, threads, signals, and closed pipes.

The rules for every source are in test_source_rules.py; these tests cover further behaviour.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.airbyte.rules import read_faults
from tests.airbyte.running import PROGRAMS, TAP_SHOP, TOKEN, Run, airbyte, configured, environment
from tests.delivered_signals import deliver
from tests.full_pipes import wait_until_full

WAYS = (sys.executable, str(PROGRAMS / "tap_ways.py"))


def configure(folder: Path, *names: str, mode: str = "incremental") -> dict[str, Any]:
    [catalog] = airbyte(WAYS, "discover", folder, config={}).of_type("CATALOG")
    return configured(catalog, names, mode)


def read(folder: Path, catalog: Any, code: int = 0, **config: Any) -> Run:
    state = {"state": config.pop("state")} if "state" in config else {}
    run = airbyte(WAYS, "read", folder, config=config, catalog=catalog, **state)
    assert run.code == code, run.output[-2000:]
    assert read_faults(run.output, catalog, code) == []
    return run


# Authors' code


def test_printed_output_goes_to_standard_error(tmp_path: Path) -> None:
    run = read(tmp_path, configure(tmp_path, "numbers"), action="prints", rows=200)
    assert len(run.records("numbers")) == 200
    for printed in ("no line of the protocol's", "half a line", "a child's line"):
        assert printed in run.log


def test_messages_written_by_the_author_become_airbyte_messages(tmp_path: Path) -> None:
    run = read(tmp_path, configure(tmp_path, "numbers"), action="writes", rows=200)
    ids = [row["id"] for row in run.records("numbers")]
    assert ids == [*range(150), -1, -2, *range(150, 200)]
    assert {"mine": 1} in [state["stream"]["stream_state"] for state in run.states]


@pytest.mark.parametrize("names", [("numbers",), ("batched",), ("numbers", "batched")])
def test_batch_config_writes_no_files(tmp_path: Path, names: tuple[str, ...]) -> None:
    batch = {"encoding": {"format": "jsonl"}, "storage": {"root": f"file://{tmp_path}/out"}}
    run = read(tmp_path, configure(tmp_path, *names), rows=120, batch_config=batch)
    assert [len(run.records(name)) for name in names] == [120] * len(names)
    assert not (tmp_path / "out").exists()


def test_system_exit_of_the_tap_is_a_system_error(tmp_path: Path) -> None:
    run = read(tmp_path, configure(tmp_path, "numbers"), code=1, action="leaves")
    [trace] = run.traces("ERROR")
    assert trace["failure_type"] == "system_error"
    assert "SystemExit(0)" in trace["message"]


def test_stream_maps_may_change_records_but_not_the_stream_name(tmp_path: Path) -> None:
    catalog = configure(tmp_path, "numbers")
    maps = {"numbers": {"text": "'mapped'", "__filter__": "id < 3"}}
    run = read(tmp_path, catalog, rows=10, stream_maps=maps)
    assert run.records("numbers") == [{"id": n, "text": "mapped"} for n in range(3)]
    assert run.state_of["numbers"]["replication_key_value"] == 9
    renamed = {"numbers": {"__alias__": "others"}}
    run = read(tmp_path, catalog, code=1, stream_maps=renamed)
    [trace] = run.traces("ERROR")
    assert trace["failure_type"] == "config_error"
    assert "others" in trace["message"]


def test_custom_message_writer_is_ignored_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "tap.py").write_text(OWN_LINES)
    tap = (sys.executable, str(tmp_path / "tap.py"))
    [catalog] = airbyte(tap, "discover", tmp_path, config={}).of_type("CATALOG")
    run = airbyte(tap, "read", tmp_path, config={}, catalog=configured(catalog))
    assert run.code == 0
    assert run.records("users") == [{"id": 1}, {"id": 2}]
    warned = [log["message"] for log in run.of_type("LOG") if log["level"] == "WARN"]
    assert any("'Lines' is not used" in warning for warning in warned)
    assert any("overrides write_message" in warning for warning in warned)
    assert "printed by himself" in run.log


OWN_LINES = """
from tap_core import Stream, Tap
from tap_core.singerlib.encoding import SimpleSingerWriter


class Lines(SimpleSingerWriter):
    pass


class Users(Stream):
    name = "users"
    schema = {"properties": {"id": {"type": "integer"}}}

    def get_records(self, context):
        yield {"id": 1}
        yield {"id": 2}


class TapOwn(Tap):
    name = "tap-own"
    config_jsonschema = {"properties": {}}
    message_writer_class = Lines

    def discover_streams(self):
        return [Users(self)]

    def write_message(self, message):
        print("printed by himself")
        super().write_message(message)


TapOwn.cli()
"""


# States


def states_up_to(run: Run, count: int) -> list[dict[str, Any]]:
    """Return the last state of each stream among the first ``count`` states."""
    last = {state["stream"]["stream_descriptor"]["name"]: state for state in run.states[:count]}
    return list(last.values())


def test_no_record_is_lost_after_resuming_from_any_state(tmp_path: Path) -> None:
    """ST8, ST7: the records before a state and those of a read from it are all records."""
    catalog = configure(tmp_path, "numbers")
    first = read(tmp_path, catalog, rows=350)
    assert len(first.states) >= 4
    for count in range(1, len(first.states) + 1):
        states = states_up_to(first, count)
        bookmark = states[0]["stream"]["stream_state"]["replication_key_value"]
        second = read(tmp_path, catalog, rows=350, state=states)
        assert [row["id"] for row in second.records("numbers")] == list(range(bookmark, 350))
        assert records_before_state(first, count) == bookmark + 1


def records_before_state(run: Run, count: int) -> int:
    """Return the number of records before the state with number ``count``."""
    states = records = 0
    for message in run.messages:
        records += message["type"] == "RECORD"
        states += message["type"] == "STATE"
        if states == count:
            break
    return records


def test_stream_without_new_records_has_a_state(tmp_path: Path) -> None:
    """ST6: the state equals the previous one."""
    catalog = configure(tmp_path, "numbers")
    first = read(tmp_path, catalog, rows=10)
    second = read(tmp_path, catalog, rows=9, state=first.states)
    assert second.records("numbers") == []
    [state] = second.states
    assert state["stream"] == first.states[-1]["stream"]
    assert state["sourceStats"] == {"recordCount": 0.0}


# Threads


def test_lines_of_concurrent_threads_are_not_interleaved(tmp_path: Path) -> None:
    """Streams and partitions are read concurrently; each stream has its statuses."""
    catalog = configure(tmp_path, "cells", "leaves", "veins")
    run = read(tmp_path, catalog)
    statuses = [trace["status"] for trace in run.traces("STREAM_STATUS")]
    assert statuses.index("COMPLETE") > max(
        n for n, status in enumerate(statuses) if status == "RUNNING"
    )
    for name in ("cells", "leaves"):
        row_counts = Counter((row["p"], row["id"]) for row in run.records(name))
        assert row_counts == Counter((p, n) for p in range(8) for n in range(700))
    assert len(run.records("veins")) == 4
    second = read(tmp_path, catalog, state=states_up_to(run, len(run.states)))
    assert len(second.records("cells")) == 8 * 700  # the source ignores the bookmark
    assert second.state_of["cells"] == run.state_of["cells"]


def test_unconfigured_parent_has_no_statuses_or_states(tmp_path: Path) -> None:
    run = read(tmp_path, configure(tmp_path, "veins"))
    assert len(run.records("veins")) == 4
    names = {trace["stream_descriptor"]["name"] for trace in run.traces("STREAM_STATUS")}
    assert names == {"veins"} == set(run.state_of)


# Termination


@contextmanager
def start_read(folder: Path, catalog: Any, **config: Any) -> Iterator[subprocess.Popen[bytes]]:
    for name, content in (("config", config), ("catalog", catalog)):
        (folder / f"{name}.json").write_text(json.dumps(content))
    files = ["--config", "config.json", "--catalog", "catalog.json"]
    with subprocess.Popen(
        [*WAYS, "read", *files],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as tap:
        try:
            yield tap
        finally:
            tap.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_a_read_with_a_state_and_incomplete_status(
    tmp_path: Path, number: signal.Signals
) -> None:
    """TR4, E9: the process ends by the signal."""
    catalog = configure(tmp_path, "numbers")
    with start_read(tmp_path, catalog, action="waits") as tap:
        lines = []
        while not lines or b"still waiting" not in lines[-1]:
            lines.append(tap.stdout.readline())
        tap.send_signal(number)
        remaining, log = tap.communicate(timeout=60)
    assert tap.returncode == -number
    assert log == b""
    run = Run(tap.returncode, b"".join(lines) + remaining, "")
    assert len(run.records("numbers")) == 150
    assert run.state_of["numbers"]["replication_key_value"] == 149
    assert run.traces("STREAM_STATUS")[-1]["status"] == "INCOMPLETE"
    assert run.traces("ERROR") == []
    assert f"Stopped by {number.name}." in run.of_type("LOG")[-1]["message"]


def test_second_signal_ends_a_read_blocked_on_a_full_pipe(tmp_path: Path) -> None:
    with start_read(tmp_path, configure(tmp_path, "numbers"), rows=200_000) as tap:
        wait_until_full(tap.stdout)
        deliver(tap, signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            tap.wait(2)  # the current line is written completely
        tap.send_signal(signal.SIGTERM)
        assert tap.wait(timeout=60) == -signal.SIGTERM
        tap.stdout.close()


def test_closed_output_pipe_ends_a_read_without_a_traceback(tmp_path: Path) -> None:
    with start_read(tmp_path, configure(tmp_path, "numbers"), rows=200_000) as tap:
        tap.stdout.readline()
        tap.stdout.close()
        assert tap.wait(timeout=60) == 1
        log = tap.stderr.read().decode()
    assert "The output was closed by its reader." in log
    assert "Traceback" not in log


def run_with_redirection(
    redirection: str, *arguments: str, cwd: Path
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *WAYS, *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        check=False,
        timeout=60,
    )


def test_closed_standard_output_is_a_failure(tmp_path: Path) -> None:
    assert run_with_redirection(">&-", "spec", cwd=tmp_path).returncode == 1


def test_printed_output_is_dropped_without_standard_error(tmp_path: Path) -> None:
    """The output of the protocol must not use the free file descriptor."""
    catalog = configure(tmp_path, "numbers")
    config = {"action": "prints", "rows": 200}
    for name, content in (("config", config), ("catalog", catalog)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    arguments = ["read", "--config", "config.json", "--catalog", "catalog.json"]
    result = run_with_redirection("2>&-", *arguments, cwd=tmp_path)
    assert (result.returncode, read_faults(result.stdout, catalog)) == (0, [])
    assert len(Run(0, result.stdout, "").records("numbers")) == 200


def test_failed_source_can_be_resumed_from_its_last_state(tmp_path: Path) -> None:
    """ST8, RD10: no record is lost."""
    config = {"token": TOKEN}
    [catalog] = airbyte(TAP_SHOP, "discover", tmp_path, config=config).of_type("CATALOG")
    for name in ("orders", "readings", "visits"):
        broken = airbyte(
            TAP_SHOP,
            "read",
            tmp_path,
            config={**config, "breaks": name},
            catalog=configured(catalog),
        )
        assert broken.code == 1
        resumed = airbyte(
            TAP_SHOP,
            "read",
            tmp_path,
            config=config,
            catalog=configured(catalog),
            state=broken.states,
        )
        assert resumed.code == 0
        rows = {json.dumps(row) for row in (*broken.records(name), *resumed.records(name))}
        assert len(rows) == {"orders": 9, "readings": 27, "visits": 18}[name]
