"""Backfill of a range: ``--from`` and ``--to`` read each kind of stream, and change no state."""

from __future__ import annotations

import json
import sqlite3
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tap_core import Tap
from tap_core import typing as th
from tap_core.manifest.cli import main as run_tap_manifest
from tap_core.sql import SQLConnector, SQLStream, SQLTap
from tap_core.state.backfill_range import ReadRange, parse_range
from tap_core.sync.backfill import begin_backfill
from tests.http.server import Reply, Server, serving
from tests.incremental.apis import Api, make_dated_records, make_stream_class
from tests.manifest.running import list_paths, manifest
from tests.manifest.running import stream as declare_stream
from tests.sync.syncing import DATETIME, INTEGER, Output, make, schema, stream, with_hook

SAVED_STATE = {
    "bookmarks": {
        "orders": {"replication_key": "at", "replication_key_value": "2026-03-01T00:00:00Z"},
        "other": {"replication_key": "n", "replication_key_value": 12345678901234567890},
    },
    "currently_syncing": "orders",
}
JANUARY = ReadRange("2026-01-01", "2026-02-01")
RECORDS = make_dated_records(
    "2025-12-31T23:59:59.999999Z",
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:30:00+01:00",  # in December
    "2026-02-01T00:30:00+01:00",  # in January
    "2026-01-31T23:59:59.999999Z",
    "2026-02-01T00:00:00Z",
)
JANUARY_IDS = [2, 4, 5]
ORDERS = {"replication_key": "at", "schema": schema(id=INTEGER, at=DATETIME)}
CURSOR = """
incremental_sync:
  type: DatetimeBasedCursor
  cursor_field: at
  datetime_format: "%Y-%m-%d"
  start_datetime: "2026-01-10"
  end_datetime: "2026-03-01"
  step: P10D
  cursor_granularity: P1D
  start_time_option: {type: RequestOption, inject_into: request_parameter, field_name: since}
  end_time_option: {type: RequestOption, inject_into: request_parameter, field_name: until}
"""


def run_backfill(
    *stream_classes: Any, bounds: ReadRange = JANUARY, state: Any = SAVED_STATE, **options: Any
) -> Output:
    output = Output()
    tap = make(*stream_classes, output=output, **options)
    begin_backfill(tap, bounds, state)
    tap.sync_all()
    return output


def get_ids(output: Output, name: str | None = None) -> list[Any]:
    return [record["id"] for record in output.records(name)]


def run_command(tap: type[Tap], *arguments: object) -> int:
    try:
        tap.get_singer_command().main([str(argument) for argument in arguments])
    except SystemExit as error:
        return int(error.code or 0)
    return 0


def read_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def list_record_ids(lines: list[dict[str, Any]]) -> list[Any]:
    return [line["record"]["id"] for line in lines if line["type"] == "RECORD"]


@pytest.fixture
def server():
    with serving() as running_server:
        yield running_server


# Any stream with a replication key


@pytest.mark.parametrize("on_path", [lambda kind: kind, with_hook], ids=["compiled", "hooked"])
def test_range_contains_its_start_and_not_its_end(on_path: Any) -> None:
    """Values are compared as points in time, also with different offsets."""
    assert get_ids(run_backfill(on_path(stream("orders", RECORDS, **ORDERS)))) == JANUARY_IDS


def test_bounds_may_have_an_offset() -> None:
    output = run_backfill(
        stream("orders", RECORDS, **ORDERS),
        bounds=ReadRange("2026-01-01T00:00:00+01:00", "2026-02-01T00:00:00+01:00"),
    )
    assert get_ids(output) == [1, 2, 3]


def test_range_without_an_end_reads_to_the_last_record() -> None:
    assert get_ids(
        run_backfill(stream("orders", RECORDS, **ORDERS), bounds=ReadRange("2026-01-01"))
    ) == [*(2, 4, 5, 6)]


def test_get_records_starts_at_the_range_and_not_at_bookmark_or_start_date() -> None:
    starts: list[Any] = []

    def get_records(self: Any, _context: Any) -> Any:
        starts.append(self.get_starting_replication_key_value(None))
        starts.append(self.get_starting_timestamp(None).isoformat())
        return iter(RECORDS)

    output = run_backfill(
        stream("orders", get_records, **ORDERS), config={"start_date": "2026-01-20"}
    )
    assert starts == ["2026-01-01", "2026-01-01T00:00:00+00:00"]
    assert get_ids(output) == JANUARY_IDS


@pytest.mark.parametrize("is_sorted", [True, False])
def test_every_state_is_the_saved_state_unchanged(is_sorted: bool) -> None:
    """A state precedes the first row, so that a target stores no other state with the rows."""
    rows = make_dated_records("2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z")
    stream_class = stream("orders", rows, **ORDERS, is_sorted=is_sorted, STATE_MSG_FREQUENCY=1)
    messages = run_backfill(stream_class).messages
    assert [messages[0]["type"], messages[-1]["type"]] == ["STATE", "STATE"]
    assert all(
        message["value"] == SAVED_STATE for message in messages if message["type"] == "STATE"
    )


def test_without_a_saved_state_no_state_is_written() -> None:
    stream_class = stream("orders", RECORDS, **ORDERS, STATE_MSG_FREQUENCY=1)
    assert run_backfill(stream_class, state=None).states == []


def test_state_that_the_tap_writes_itself_is_replaced() -> None:
    def get_records(self: Any, _context: Any) -> Any:
        self._tap.state_writer.write_state({"bookmarks": {"orders": {"mine": 1}}})
        yield from RECORDS

    assert all(
        state == SAVED_STATE
        for state in run_backfill(stream("orders", get_records, **ORDERS)).states
    )


def test_failed_backfill_does_not_change_the_state() -> None:
    def get_records(_self: Any, _context: Any) -> Any:
        yield RECORDS[1]
        raise ZeroDivisionError

    output = Output()
    tap = make(stream("orders", get_records, **ORDERS), output=output)
    begin_backfill(tap, JANUARY, SAVED_STATE)
    with pytest.raises(ZeroDivisionError):
        tap.sync_all()
    assert output.states
    assert all(state == SAVED_STATE for state in output.states)


def test_numeric_keys_have_numeric_ranges() -> None:
    rows = [{"id": n, "n": n} for n in (9, 10, 19, 20, 100)]
    stream_class = stream("counts", rows, replication_key="n", schema=schema(id=INTEGER, n=INTEGER))
    assert get_ids(run_backfill(stream_class, bounds=ReadRange("10", "20"))) == [10, 19]
    assert get_ids(run_backfill(stream_class, bounds=ReadRange("9.5", "19.5"))) == [10, 19]


def test_each_partition_is_read_from_the_start_of_the_range() -> None:
    stream_class = stream("orders", RECORDS, **ORDERS, partitions=[{"shop": 1}, {"shop": 2}])
    assert get_ids(run_backfill(stream_class)) == JANUARY_IDS * 2


def test_stream_without_a_range_is_named_and_not_read(caplog: pytest.LogCaptureFixture) -> None:
    """These are streams without a replication key, or with a key of another type than the range."""
    stream_classes = (
        stream("orders", RECORDS, **ORDERS),
        stream("plain", [{"id": 7}]),
        stream("counts", [{"id": 8, "n": 1}], replication_key="n"),
        stream("unselected", RECORDS, **ORDERS, selected_by_default=False),
    )
    output = run_backfill(*stream_classes)
    assert {message["stream"] for message in output.select("SCHEMA")} == {"orders"}
    assert "'plain' is not read in the backfill: it is not read by a replication key" in caplog.text
    assert "'counts' is not read in the backfill: its replication key 'n' cannot" in caplog.text
    assert "'unselected' is not read" not in caplog.text


def test_record_with_a_null_key_is_in_no_range(caplog: pytest.LogCaptureFixture) -> None:
    output = run_backfill(stream("orders", [{"id": 1, "at": None}, RECORDS[1]], **ORDERS))
    assert get_ids(output) == [2]
    assert "without a usable replication key value are not written" in caplog.text


def test_children_of_records_after_the_range_are_read() -> None:
    """A child's record in the range may belong to a parent that has changed since."""
    parent = stream(
        "orders",
        RECORDS,
        **ORDERS,
        get_child_context=lambda _self, record, context: {"order": record["id"]},
    )
    child = stream(
        "lines",
        lambda _stream, context: [{"id": context["order"], "at": "2026-01-05T00:00:00Z"}],
        **ORDERS,
        parent_stream_type=parent,
        state_partitioning_keys=[],
    )
    output = run_backfill(parent, child)
    assert get_ids(output, "orders") == JANUARY_IDS
    assert 6 in get_ids(output, "lines")


# HTTP streams with windows, and manifests


def test_windows_cover_only_the_range(server: Server) -> None:
    """The range may begin before the cursor's start; it never passes the cursor's end."""
    api = Api(
        server,
        make_dated_records("2022-12-01T00:00:00Z", "2022-12-05T00:00:00Z", "2023-01-07T00:00:00Z"),
    )
    steps = {"step": "P5D", "cursor_granularity": "PT1S"}
    bounds = ReadRange("2022-12-01", "2022-12-05")
    saved_state = {
        "bookmarks": {"articles": {"replication_key": "at", "replication_key_value": "x"}}
    }
    output = run_backfill(
        make_stream_class(**steps), bounds=bounds, state=saved_state, config={"url": server.url}
    )
    assert api.requests == ["2022-12-01T00:00:00Z..2022-12-05T00:00:00Z"]
    assert get_ids(output) == [1]
    assert output.states[-1] == saved_state
    server.requests.clear()
    run_backfill(
        make_stream_class(), bounds=ReadRange("2023-02-01"), state=None, config={"url": server.url}
    )
    assert api.requests == ["2023-02-01T00:00:00Z..2023-02-05T00:00:00Z"]


def test_manifest_is_read_in_the_range(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [{"id": day, "at": f"2026-01-{day:02}"} for day in range(1, 32)]
    server.answers_by(
        lambda request: Reply(
            {
                "data": [
                    record
                    for record in records
                    if request.query["since"][0] <= record["at"] <= request.query["until"][0]
                ]
            }
        )
    )
    path = manifest(tmp_path, declare_stream("items", "/items", options=CURSOR))
    saved_state = {
        "bookmarks": {"items": {"replication_key": "at", "replication_key_value": "2026-02-20"}}
    }
    (config := tmp_path / "config.json").write_text(json.dumps({"url": server.url}))
    (state := tmp_path / "state.json").write_text(json.dumps(saved_state))
    arguments = ["--manifest", path, "--config", config, "--state", state, "--from", "2026-01-03"]
    with pytest.raises(SystemExit) as exc_info:
        run_tap_manifest([*map(str, arguments), "--to", "2026-01-15"])
    assert not exc_info.value.code
    lines = read_lines(capsys)
    assert list_record_ids(lines) == list(range(3, 15))
    assert all(line["value"] == saved_state for line in lines if line["type"] == "STATE")
    assert list_paths(server) == [
        "/items?since=2026-01-03&until=2026-01-12",
        "/items?since=2026-01-13&until=2026-01-15",
    ]


# SQL streams


class RecordedTableStream(SQLStream):
    connector_class = SQLConnector
    queries: list[str] = []

    def build_query(self, **options: Any) -> Any:
        query = super().build_query(**options)
        self.queries.append(str(query.compile(compile_kwargs={"literal_binds": True})))
        return query


class TapTables(SQLTap):
    name = "tap-tables"
    default_stream_class = RecordedTableStream
    config_jsonschema = th.PropertiesList(
        th.Property("sqlalchemy_url", th.StringType, required=True)
    ).to_dict()


def backfill_table(folder: Path, rows: list[Any], key: str, start: str, end: str) -> dict[str, Any]:
    """Run a backfill of a table `events` with these rows; return the state before the run."""
    with sqlite3.connect(folder / "data.db") as connection:
        connection.execute("create table events (id integer primary key, at datetime, day date)")
        connection.executemany("insert into events values (?, ?, ?)", rows)
    connection.close()
    settings = {"sqlalchemy_url": f"sqlite:///{folder / 'data.db'}"}
    catalog = TapTables(config=settings).catalog_dict
    for entry in catalog["streams"]:
        entry["replication_key"], entry["replication_method"] = key, "INCREMENTAL"
        entry["metadata"][-1 if not entry["metadata"][-1]["breadcrumb"] else 0]["metadata"].update(
            {"replication-key": key, "selected": True}
        )
    files = {"config": settings, "catalog": catalog, "state": {"bookmarks": {"main-events": {}}}}
    arguments = []
    for name, content in files.items():
        (path := folder / f"{name}.json").write_text(json.dumps(content))
        arguments += [f"--{name}", path]
    RecordedTableStream.queries.clear()
    assert run_command(TapTables, *arguments, "--from", start, *(["--to", end] if end else [])) == 0
    return files["state"]


@pytest.mark.parametrize(
    "key, start, end, expected",
    [
        ("at", "2026-01-01", "2026-02-01", [2, 3]),
        ("at", "2026-01-01T01:00:00+01:00", "", [2, 3, 4]),
        ("day", "2026-01-01", "2026-01-31", [2]),
        ("day", "2026-01-01", "2026-01-31T12:00:00Z", [2, 3]),
        ("id", "2", "4", [2, 3]),
    ],
)
def test_table_is_read_by_a_query_of_the_range(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    key: str,
    start: str,
    end: str,
    expected: list[int],
) -> None:
    """Rows whose key is null are not read."""
    rows = [
        (1, "2025-12-31 23:59:59.999999", "2025-12-31"),
        (2, "2026-01-01 00:00:00.000000", "2026-01-01"),
        (3, "2026-01-31 23:59:59.999999", "2026-01-31"),
        (4, "2026-02-01 00:00:00.000000", "2026-02-01"),
        (5, None, None),
    ]
    state = backfill_table(tmp_path, rows, key, start, end)
    lines = read_lines(capsys)
    assert sorted(list_record_ids(lines)) == expected
    assert [line["value"] for line in lines if line["type"] == "STATE"][-1] == state
    assert all(f"{key} >=" in query for query in RecordedTableStream.queries)
    assert all((" <= " in query) is bool(end) for query in RecordedTableStream.queries)


@pytest.mark.parametrize(
    "offset",
    [
        "-05:00",
        "+05:00",
        pytest.param(
            "Z",
            marks=pytest.mark.skipif(
                sys.version_info < (3, 11), reason="SQLAlchemy refuses the text on Python 3.10"
            ),
        ),
    ],
)
def test_range_is_compared_with_sqlite_rows_of_any_offset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], offset: str
) -> None:
    rows = [(hour, f"2026-01-02T{hour}:00:00{offset}", None) for hour in (10, 11, 12, 13)]
    start, end = (f"2026-01-02T{hour}:00:00{offset}" for hour in (11, 13))
    utc_bounds = [
        datetime.fromisoformat(value.replace("Z", "+00:00")).astimezone(timezone.utc).isoformat()
        for value in (start, end)
    ]
    backfill_table(tmp_path, rows, "at", *utc_bounds)
    assert sorted(list_record_ids(read_lines(capsys))) == [11, 12]


# The options


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--to", "2026-01-01"], "--to needs --from"),
        (["--from", "soon"], "--from 'soon' is neither a date-time"),
        (["--from", "2026-01-01", "--to", "2026-02-30"], "--to '2026-02-30' is neither"),
        (["--from", "1", "--to", "2026-02-01"], "must both be date-times, or both be numbers"),
        (["--from", "2026-01-01", "--to", "2026-01-01T01:00:00+01:00"], "is not after --from"),
    ],
)
def test_invalid_range_is_a_usage_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(TapTables, *arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_range_of_no_options_is_none() -> None:
    assert parse_range("", "") is None
    assert parse_range("2026-01-01", "") == ReadRange("2026-01-01")
