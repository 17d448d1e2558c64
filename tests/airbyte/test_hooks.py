"""Hooks of taps, estimates, connection checks and masked secrets under the Airbyte commands."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from tap_core import Stream, Tap
from tap_core.about import changelog_url, documentation_url
from tap_core.authenticators.token_storage import write_refresh_token
from tap_core.events import Estimate, Event, Progress, Rows, StreamStatus
from tap_core.http.fail_fast import fail_fast, limit_timeout, limit_tries, limit_wait
from tap_core.redaction import make_redactor
from tap_core.singerlib.catalog import Catalog
from tests.airbyte.configurable_taps import TapTables
from tests.airbyte.running import airbyte, configured


class Collector:
    """A message writer that keeps the events."""

    takes_files = False

    def __init__(self, *, takes_estimates: bool) -> None:
        self.takes_estimates = takes_estimates
        self.events: list[Event] = []

    def encode(self, record: Any) -> bytes:
        return json.dumps(record).encode()

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def select_events(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


class Parent(Stream):
    name = "parent"
    schema = {"properties": {"id": {"type": "integer"}}}
    requests = 0

    def get_records(self, context):
        yield {"id": 1}

    def get_child_context(self, record, context):
        return {"parent": record["id"]}

    def estimate_sync(self):
        type(self).requests += 1
        return 1, None


class Child(Parent):
    name = "child"
    parent_stream_type = Parent

    def estimate_sync(self):
        raise ValueError("no estimate")


class Other(Child):
    """A child stream that is never selected."""

    name = "other"
    selected_by_default = False


class TapFamily(Tap):
    name = "tap-family"
    config_jsonschema = {"properties": {}}

    def discover_streams(self):
        return [Parent(self), Child(self), Other(self)]


def sync_family(*, takes_estimates: bool) -> Collector:
    Parent.requests = 0
    collector, tap = Collector(takes_estimates=takes_estimates), TapFamily()
    tap.set_protocol_writer(collector)
    tap.sync_all()
    return collector


def test_sync_emits_statuses_of_selected_streams() -> None:
    """TR4: child streams start with their parent and end after it."""
    statuses = sync_family(takes_estimates=False).select_events(StreamStatus)
    assert [(status.stream.name, status.progress) for status in statuses] == [
        ("parent", Progress.STARTED),
        ("child", Progress.STARTED),
        ("parent", Progress.COMPLETE),
        ("child", Progress.COMPLETE),
    ]


def test_estimates_are_requested_only_if_the_protocol_has_them(caplog: Any) -> None:
    """TR3: a failing estimate does not end the sync."""
    assert sync_family(takes_estimates=False).select_events(Estimate) == []
    assert Parent.requests == 0
    [estimate] = sync_family(takes_estimates=True).select_events(Estimate)
    assert (estimate.stream.name, estimate.rows, estimate.nbytes) == ("parent", 1, None)
    assert "'child' cannot be estimated: no estimate" in caplog.text
    assert Stream.estimate_sync(Parent(TapFamily())) is None


class Growing(Stream):
    """A stream that updates its estimate while it is read."""

    name = "growing"
    schema = Parent.schema

    def get_records(self, context):
        self.update_estimate(5)
        yield {"id": 1}
        self.update_estimate(7, 70)


class TapGrowing(Tap):
    name = "tap-growing"
    config_jsonschema = {"properties": {"total": {"type": "integer"}}}

    def discover_streams(self):
        return [Growing(self), Parent(self)]

    def estimate_sync(self):
        total = self.config.get("total")
        if total == 0:
            raise ValueError("no estimate")
        return total and (total, 10 * total)


def read_estimates(tap: Tap, *, takes_estimates: bool = True) -> list[tuple[Any, ...]]:
    collector = Collector(takes_estimates=takes_estimates)
    tap.set_protocol_writer(collector)
    tap.sync_all()
    estimates = collector.select_events(Estimate)
    return [
        (estimate.stream.name, estimate.is_total, estimate.rows, estimate.nbytes)
        for estimate in estimates
    ]


def test_updated_estimate_is_emitted_after_the_previous_rows(caplog: Any) -> None:
    """TR3: only if the protocol has estimates."""
    later = [("growing", False, 5, None), ("growing", False, 7, 70), ("parent", False, 1, None)]
    assert read_estimates(TapGrowing()) == later
    assert read_estimates(TapGrowing(config={"total": 0})) == later
    assert "The sync cannot be estimated: no estimate" in caplog.text
    assert read_estimates(TapGrowing(), takes_estimates=False) == []


def test_total_estimate_of_the_tap_replaces_those_of_streams() -> None:
    """TR3: the total may be updated while streams are synced."""
    Parent.requests = 0
    tap = TapGrowing(config={"total": 9})
    parent = tap.streams["parent"]
    parent.get_records = lambda _: iter([tap.update_estimate(11)])  # type: ignore[method-assign]
    estimates = read_estimates(tap)
    assert [estimate for estimate in estimates if estimate[1]] == [
        ("tap-growing", True, 9, 90),
        ("tap-growing", True, 11, None),
    ]
    assert Parent.requests == 0


@pytest.fixture
def tables(tmp_path: Path) -> Callable[[], Tap]:
    path = tmp_path / "tables.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table users (id integer primary key, at timestamp)")
        rows = [(day, f"2024-01-{day:02} 00:00:00") for day in range(1, 10)]
        connection.executemany("insert into users values (?, ?)", rows)
    connection.close()

    def make() -> Tap:
        tap = TapTables(str(path))
        for stream in tap.streams.values():
            stream.selected = True
        return tap

    return make


@pytest.mark.parametrize(("bookmark", "rows"), [(None, 9), (4, 6), (9, 1), (10, 0)])
def test_estimate_of_a_table_counts_the_rows_of_its_query(
    tables: Callable[[], Tap], bookmark: int | None, rows: int
) -> None:
    """TR3: the estimate equals the rows that are sent."""
    tap = tables()
    [users] = tap.streams.values()
    users.replication_key = "id"
    users.forced_replication_method = "INCREMENTAL"
    state = {"replication_key": "id", "replication_key_value": bookmark}
    if bookmark is not None:
        tap.load_state({"bookmarks": {users.name: state}})
    collector = Collector(takes_estimates=True)
    tap.set_protocol_writer(collector)
    tap.sync_all()
    assert [(estimate.rows, estimate.nbytes) for estimate in collector.select_events(Estimate)] == [
        (rows, None)
    ]
    assert sum(len(chunk.rows) for chunk in collector.select_events(Rows)) == rows


def test_row_count_of_tables_can_be_disabled(
    tables: Callable[[], Tap],
) -> None:
    assert [estimate[2] for estimate in read_estimates(tables())] == [9]
    tap = tables()
    [users] = tap.streams.values()
    users.estimates_by_count = False
    assert read_estimates(tap) == []
    tap = tables()
    [users] = tap.streams.values()
    users.get_records = lambda _: iter(())  # type: ignore[method-assign]
    assert read_estimates(tap) == []


def test_catalog_may_be_applied_after_discovery() -> None:
    tap = TapFamily()
    entry = tap.streams["parent"]._singer_catalog_entry
    tap.use_catalog(Catalog([("parent", entry)]))
    assert {name: stream.selected for name, stream in tap.streams.items()} == {
        "parent": True,
        "child": False,
        "other": False,
    }
    assert set(tap.catalog) == {"parent"}


class TapShared(TapFamily):
    name = "tap-shared"
    has_shared_state = True


def test_shared_state_is_kept_in_the_state() -> None:
    """ST4, ST9: also under Singer, next to the bookmarks."""
    state = {"bookmarks": {"parent": {"x": 1}}, "log": 7, "currently_syncing": "parent"}
    assert TapShared(state=dict(state)).state == {"bookmarks": {"parent": {"x": 1}}, "log": 7}
    assert TapFamily(state=dict(state)).state == {"bookmarks": {"parent": {"x": 1}}}


def test_connection_check_reads_one_record_of_one_stream() -> None:
    events = []

    class Asked(Parent):
        partitions = [{"p": 1}, {"p": 2}]

        def get_records(self, context):
            events.append(context)
            try:
                yield {"id": 1}
                raise AssertionError("a second record")
            finally:
                events.append("closed")

    class TapAsked(TapFamily):
        def discover_streams(self):
            return [Asked(self), Listed(self)]

    class Listed(Parent):
        name = "a list"
        selected_by_default = False

    TapAsked().check_connection()
    assert events == [{"p": 1}, "closed"]

    class TapEmpty(TapFamily):
        def discover_streams(self):
            return []

    TapEmpty().check_connection()


# Limits of a connection check


def test_connection_check_limits_retries_waits_and_timeouts() -> None:
    assert (limit_tries(11), limit_wait(60.0), limit_timeout(300.0)) == (11, 60.0, 300.0)
    with fail_fast():
        assert (limit_tries(11), limit_wait(60.0), limit_timeout(300)) == (2, 1.0, 30)
        assert (limit_tries(1), limit_wait(0.5), limit_timeout(5.0)) == (1, 0.5, 5.0)
        assert limit_timeout((3, 400)) == (3, 400)  # an author's own pair
    assert limit_tries(11) == 11


# Secrets and URLs


def test_settings_marked_secret_are_masked() -> None:
    schema = {
        "properties": {
            "door": {"type": "string", "secret": True},
            "in": {"properties": {"side": {"writeOnly": True}}},
            "plain": {"type": "string"},
        }
    }
    config = {"door": "open-sesame", "in": {"side": "hush"}, "plain": "seen", "more": "too"}
    hide = make_redactor(config, schema)
    assert hide("open-sesame, hush, seen, too") == "***, ***, seen, too"
    assert make_redactor(config)("open-sesame") == "open-sesame"
    assert make_redactor({"door": "ab"}, schema)("ab is too short") == "ab is too short"


def test_read_only_config_file_is_not_changed_by_root(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"refresh_token": "old"}')
    file.chmod(0o444)
    assert "is read-only" in str(write_refresh_token(file, {"old"}, "new"))
    assert file.read_text() == '{"refresh_token": "old"}'


@pytest.mark.parametrize(
    "headers, url",
    [
        (
            [("Project-URL", "Homepage, https://a"), ("Project-URL", "Documentation, https://b")],
            "b",
        ),
        ([("Project-URL", "Repository, https://c")], "c"),
        ([("Home-page", "https://d")], "d"),
        ([], None),
    ],
)
def test_documentation_url_comes_from_the_package_metadata(headers: Any, url: str | None) -> None:
    """SP5: the documentation page takes precedence over the others."""
    metadata = Message()
    for name, value in headers:
        metadata[name] = value
    assert documentation_url(metadata) == (None if url is None else f"https://{url}")


@pytest.mark.parametrize("label", ["Changelog", "changes", "Release Notes", "What's New"])
def test_changelog_url_comes_from_the_package_metadata(label: str) -> None:
    metadata = Message()
    metadata["Project-URL"] = "Documentation, https://a"
    assert changelog_url(metadata) is None
    metadata["Project-URL"] = f"{label}, https://b"
    assert changelog_url(metadata) == "https://b"


def test_tap_that_is_not_installed_has_no_urls() -> None:
    assert TapFamily.get_documentation_url() is None
    assert TapFamily.get_changelog_url() is None


# Tables


SQL_TAP = """
from tap_core.sql import SQLConnector, SQLStream, SQLTap


class Connector(SQLConnector):
    def get_sqlalchemy_url(self, config):
        return f"sqlite:///{config['path']}"


class Table(SQLStream):
    connector_class = Connector


class TapFiles(SQLTap):
    name = "tap-files"
    default_stream_class = Table
    config_jsonschema = {"properties": {"path": {"type": "string"}}}


TapFiles.cli()
"""


def test_table_is_read_incrementally_by_the_users_cursor(tmp_path: Path) -> None:
    """CU2, DI8, RD4, SM4: the schema is the namespace; only configured columns are sent."""
    (tmp_path / "tap.py").write_text(SQL_TAP)
    tap = (sys.executable, str(tmp_path / "tap.py"))
    with sqlite3.connect(tmp_path / "x.db") as database:
        database.execute("create table users (id integer primary key, name text, day text)")
        database.execute("create table others (id integer primary key)")
        rows = [(number, "x", f"2024-01-0{number}") for number in range(1, 6)]
        database.executemany("insert into users values (?, ?, ?)", rows)
    database.close()
    config = {"path": str(tmp_path / "x.db")}
    [catalog] = airbyte(tap, "discover", tmp_path, config=config).of_type("CATALOG")
    configured_catalog = configured(catalog, ["users"], cursor_field=["day"])
    del configured_catalog["streams"][0]["stream"]["json_schema"]["properties"]["name"]
    first = airbyte(tap, "read", tmp_path, config=config, catalog=configured_catalog)
    assert first.records("users") == [{"id": row[0], "day": row[2]} for row in rows]
    assert {message["namespace"] for message in first.of_type("RECORD")} == {"main"}
    second = airbyte(
        tap, "read", tmp_path, config=config, catalog=configured_catalog, state=first.states
    )
    assert second.records("users") == [{"id": 5, "day": "2024-01-05"}]
    empty = airbyte(tap, "read", tmp_path, config=config, catalog={"streams": []})
    assert (empty.code, empty.of_type("RECORD"), empty.states) == (0, [], [])
