"""SQL streams: queries, bookmarks, records and catalog entries."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

import tap_core
from tap_core import typing as th
from tap_core.exceptions import (
    ConfigValidationError,
    DataError,
    InvalidStreamSortException,
    StreamSetupError,
)
from tap_core.helpers import _typing as helpers
from tap_core.sql import SQLConnector, SQLStream, SQLTap
from tap_core.typing.inspect import TypeConformanceLevel
from tests.postgres import Server

PYTHON_3_11 = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="SQLAlchemy refuses the text on Python 3.10"
)
"""Mark for a time that SQLAlchemy reads from SQLite with `fromisoformat` of Python 3.11."""

ROWS = """
create table events (
  id integer primary key, at datetime, day date, clock time, price numeric(9,2), ok boolean,
  raw blob, note text);
insert into events values
  (1, '2024-01-01 10:00:00.000000', '2024-01-01', '10:00:00.000000', 1.5, 1, x'00ff', 'ä'),
  (2, '2024-01-02 10:00:00.250000', '2024-01-02', '11:00:00.000000', 2.25, 0, null, null),
  (3, null, null, null, null, null, null, 'z'),
  (4, '2024-01-04 10:00:00.000000', '2024-01-04', '12:00:00.000000', 4, 1, x'01', 'y');
create view notes as select id, note from events;
"""
FIRST = {
    "id": 1,
    "at": "2024-01-01T10:00:00.000000+00:00",
    "day": "2024-01-01",
    "clock": "10:00:00",
    "price": 1.5,
    "ok": True,
    "raw": "00ff",
    "note": "ä",
}


class LiteStream(SQLStream):
    connector_class = SQLConnector
    supports_nulls_first = True


class LiteTap(SQLTap):
    name = "tap-lite"
    default_stream_class = LiteStream
    config_jsonschema = th.PropertiesList(
        th.Property("sqlalchemy_url", th.StringType, required=True)
    ).to_dict()


def tap_with(stream_class: type[SQLStream]) -> type[SQLTap]:
    return type("OwnTap", (LiteTap,), {"default_stream_class": stream_class})


@pytest.fixture
def url(tmp_path: Path) -> str:
    with sqlite3.connect(tmp_path / "data.db") as connection:
        connection.executescript(ROWS)
    connection.close()
    return f"sqlite:///{tmp_path / 'data.db'}"


@pytest.fixture
def sync_events(url, capsys) -> Callable[..., list[dict[str, Any]]]:
    """Sync `main-events`; return the messages."""

    def sync(
        kind: type[SQLTap] = LiteTap,
        *,
        key: str | None = None,
        state: dict[str, Any] | None = None,
        deselected: tuple[str, ...] = (),
        changed: dict[str, Any] | None = None,
        **config: Any,
    ) -> list[dict[str, Any]]:
        catalog = kind(config={"sqlalchemy_url": url}).catalog_dict
        for entry in catalog["streams"]:
            for item in entry["metadata"]:
                if not item["breadcrumb"]:
                    item["metadata"]["selected"] = entry["tap_stream_id"] == "main-events"
                    item["metadata"]["replication-key"] = key
                elif item["breadcrumb"][-1] in deselected:
                    item["metadata"]["selected"] = False
            entry["replication_key"] = key
            entry["replication_method"] = "INCREMENTAL" if key else "FULL_TABLE"
            entry.update(changed or {})
        tap = kind(config={"sqlalchemy_url": url, **config}, catalog=catalog, state=state)
        tap.sync_all()
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return sync


def records(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message["record"] for message in messages if message["type"] == "RECORD"]


def last_state(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return [message["value"] for message in messages if message["type"] == "STATE"][-1]


def test_sync_writes_schema_and_records_of_a_table(sync_events):
    messages = sync_events()
    [schema] = [message for message in messages if message["type"] == "SCHEMA"]
    assert (schema["stream"], schema["key_properties"]) == ("main-events", ["id"])
    assert [row["id"] for row in records(messages)] == [1, 2, 3, 4]
    assert records(messages)[0] == FIRST
    assert records(messages)[2] == dict.fromkeys(FIRST) | {"id": 3, "note": "z"}


def test_tap_with_overridden_catalog_writes_batch_files(sync_events, tmp_path):
    class Wrapped(LiteTap):
        @property
        def catalog(self):
            return super().catalog

    encoding = {"format": "jsonl", "compression": "none"}
    settings = {"encoding": encoding, "storage": {"root": tmp_path.as_uri()}}
    messages = sync_events(Wrapped, batch_config=settings)
    [batch] = [message for message in messages if message["type"] == "BATCH"]
    [file] = [Path(name.removeprefix("file://")) for name in batch["manifest"]]
    assert records(messages) == []
    assert [json.loads(line) for line in file.read_text().splitlines()] == records(
        sync_events(Wrapped)
    )


def test_tap_converts_values_with_its_own_function(sync_events, monkeypatch):
    replaced = helpers._conform_primitive_property

    def convert(elem, property_schema):
        if isinstance(elem, dt.date):
            return elem.isoformat()
        return replaced(elem=elem, property_schema=property_schema)

    monkeypatch.setattr(helpers, "_conform_primitive_property", convert)
    converted = records(sync_events())
    assert converted[0] == FIRST | {"at": "2024-01-01T10:00:00"}
    assert [row["at"] for row in converted[1:]] == [
        "2024-01-02T10:00:00.250000",
        None,
        "2024-01-04T10:00:00",
    ]


def test_query_has_only_selected_columns(sync_events):
    class Asking(LiteStream):
        def build_query(self, *, context=None):
            query = super().build_query(context=context)
            assert [column.name for column in query.selected_columns] == ["id", "at"]
            return query

    names = ("day", "clock", "price", "ok", "raw", "note")
    assert list(records(sync_events(tap_with(Asking), deselected=names))[0]) == ["id", "at"]


@pytest.mark.parametrize(
    "key, order, second_ids, bookmark",
    [
        ("id", [1, 2, 3, 4], [4], 4),
        ("at", [3, 1, 2, 4], [4], "2024-01-04T10:00:00.000000+00:00"),
        ("day", [3, 1, 2, 4], [4], "2024-01-04"),
        ("note", [2, 4, 3, 1], [1], "ä"),
    ],
)
def test_incremental_query_orders_and_filters_by_the_replication_key(
    sync_events, key, order, second_ids, bookmark
):
    first = sync_events(key=key)
    assert [row["id"] for row in records(first)] == order
    state = last_state(first)
    assert state["bookmarks"]["main-events"]["replication_key_value"] == bookmark
    second = sync_events(key=key, state=state)
    assert [row["id"] for row in records(second)] == second_ids
    assert last_state(second) == state


@pytest.mark.parametrize(
    "moment", ["2024-01-05 10:00:00", pytest.param("2024-01-05 10:00:00.5", marks=PYTHON_3_11)]
)
def test_rows_with_the_time_of_the_bookmark_are_read_however_sqlite_has_written_it(
    sync_events, url, moment
):
    """Such as ``CURRENT_TIMESTAMP``, which has no fraction; SQLAlchemy writes six digits."""
    insert = "insert into events (id, at) values (?, ?)"
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute(insert, (5, moment))
        connection.commit()
        state = last_state(sync_events(key="at"))
        connection.execute(insert, (6, moment))
    connection.close()
    assert [row["id"] for row in records(sync_events(key="at", state=state))] == [5, 6]


@pytest.mark.parametrize(
    "key, before, last, after",
    [
        ("at", "2024-01-05T10:00:00", "2024-01-05T10:00:01", "2024-01-05T10:00:01"),
        pytest.param(
            "at",
            "2024-01-05T10:00:00Z",
            "2024-01-05T10:00:01.5Z",
            "2024-01-05T10:00:01.500Z",
            marks=PYTHON_3_11,
        ),
        (
            "at",
            "2024-01-05 22:00:00-05:00",
            "2024-01-05 23:00:00-05:00",
            "2024-01-05 23:30:00-05:00",
        ),
        (
            "at",
            "2024-01-05T22:00:00+02:00",
            "2024-01-05T23:00:00+02:00",
            "2024-01-05T23:30:00+02:00",
        ),
        pytest.param(
            "at",
            "2024-01-05 09:00+0200",
            "2024-01-05 10:00+0200",
            "2024-01-05 10:00:00+02:00",
            marks=PYTHON_3_11,
        ),
        ("at", "2024-01-04", "2024-01-05", "2024-01-05 00:00"),
        pytest.param("clock", "22:00:00", "23:00:00.5", "23:00:00.500", marks=PYTHON_3_11),
        ("clock", "22:00", "23:00", "23:00:00.000"),
    ],
)
def test_rows_from_the_bookmark_on_are_read_in_each_format_of_sqlite(
    sync_events, url, key, before, last, after
):
    insert = {
        "at": "insert into events (id, at) values (?, ?)",
        "clock": "insert into events (id, clock) values (?, ?)",
    }[key]
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.executemany(insert, [(5, before), (6, last)])
        connection.commit()
        state = last_state(sync_events(key=key))
        connection.execute(insert, (7, after))
        connection.commit()
    assert sorted(row["id"] for row in records(sync_events(key=key, state=state))) == [6, 7]


def test_start_date_with_an_offset_loses_no_row_that_sqlite_has_in_utc(sync_events, url):
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute("insert into events (id, at) values (5, '2024-01-05T10:00:00')")
        connection.commit()
    for begin in ("2024-01-05T12:00:00+02:00", "2024-01-05T05:00:00-05:00"):
        assert [row["id"] for row in records(sync_events(key="at", start_date=begin))] == [5]
    bookmark = {"replication_key": "at", "replication_key_value": "2024-01-05T12:00:00+02:00"}
    state = {"bookmarks": {"main-events": bookmark}}
    assert [row["id"] for row in records(sync_events(key="at", state=state))] == [5]


def test_start_date_with_an_offset_excludes_earlier_rows_with_this_offset(sync_events, url):
    insert = "insert into events (id, at) values (?, ?)"
    times = ["2024-01-05T11:30:00+02:00", "2024-01-05T12:30:00+02:00"]
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.executemany(insert, enumerate(times, 5))
        connection.commit()
    begin = "2024-01-05T12:00:00+02:00"
    assert [row["id"] for row in records(sync_events(key="at", start_date=begin))] == [6]
    assert records(sync_events(key="at", start_date="0001-01-01T00:00:00+02:00"))


@pytest.mark.parametrize("members", [{}, {"post_process": lambda _self, row, _context: row}])
def test_bookmark_of_a_column_of_bytes_is_compared_as_bytes(sync_events, url, members):
    kind = tap_with(type("OwnStream", (LiteStream,), members))
    state = last_state(sync_events(kind, key="raw"))
    assert state["bookmarks"]["main-events"]["replication_key_value"] == "01"
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute("insert into events (id, raw) values (5, x'0101')")
        connection.commit()
    assert [row["id"] for row in records(sync_events(kind, key="raw", state=state))] == [4, 5]


def test_sync_resumes_at_the_bookmark_of_a_boolean_column(sync_events):
    state = last_state(sync_events(key="ok"))
    assert state["bookmarks"]["main-events"]["replication_key_value"] is True
    assert [row["id"] for row in records(sync_events(key="ok", state=state))] == [1, 4]


def test_stream_is_named_in_the_error_for_a_bookmark_of_another_type(sync_events):
    bookmark = {"replication_key": "raw", "replication_key_value": "no bytes"}
    with pytest.raises(DataError, match=r"'main-events': a value does not fit .* the bookmark"):
        sync_events(key="raw", state={"bookmarks": {"main-events": bookmark}})


def test_rows_sorted_by_a_collation_are_read_to_the_end(sync_events, url):
    """A database sorts "a", "B", "c" unless its collation is that of code points."""
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.executescript("""
            drop view notes; drop table events;
            create table events (id integer primary key, name text collate nocase);
            insert into events values (1, 'c'), (2, 'B'), (3, 'a'), (4, null);
        """)
        first = sync_events(key="name")
        connection.execute("insert into events values (5, 'C'), (6, 'D'), (7, 'b')")
        connection.commit()
    connection.close()
    assert [row["id"] for row in records(first)] == [4, 3, 2, 1]
    state = last_state(first)
    assert state["bookmarks"]["main-events"]["replication_key_value"] == "c"
    second = sync_events(key="name", state=state)
    assert sorted(row["id"] for row in records(second)) == [1, 5, 6]
    assert last_state(second)["bookmarks"]["main-events"]["replication_key_value"] == "D"


def test_order_of_an_overridden_query_is_checked(sync_events):
    class Descending(LiteStream):
        def apply_query_filters(self, query, table, *, context=None):
            return query.order_by(table.columns["note"].desc())

    with pytest.raises(InvalidStreamSortException, match="'z' came after 'ä'"):
        sync_events(tap_with(Descending), key="note")


def test_first_sync_starts_at_start_date(sync_events):
    rows = records(sync_events(key="at", start_date="2024-01-02T12:00:00+02:00"))
    assert [row["id"] for row in rows] == [2, 4]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("id", "abc", "'abc' is not a number"),
        ("id", "1_000", "'1_000' is not a number"),
        ("price", "NaN", "'NaN' is not a number"),
        ("id", [1], r"\[1\] is not a single value"),
        ("note", {"a": 1}, "{'a': 1} is not a single value"),
        ("day", "soon", "'soon' is not a date or date-time in ISO 8601"),
        ("at", True, "True is not a date or date-time in ISO 8601"),
        ("clock", "noon", "'noon' is not a time"),
    ],
)
def test_bookmark_that_does_not_fit_its_column_is_an_error(sync_events, key, value, expected):
    """SQLite compares values of any types: it would find no rows, or all."""
    bookmark = {"replication_key": key, "replication_key_value": value}
    with pytest.raises(StreamSetupError, match=f"'main-events': the bookmark .* {expected}"):
        sync_events(key=key, state={"bookmarks": {"main-events": bookmark}})


def test_start_date_that_does_not_fit_its_column_is_an_error(sync_events):
    with pytest.raises(StreamSetupError, match=r"^start_date: stream 'main-events' needs a number"):
        sync_events(key="id", start_date="2024-01-02")


@pytest.mark.parametrize(
    "override",
    [
        {"post_process": lambda self, row, context=None: {**row, "at": row["at"].year}},
        {"get_records": lambda self, context: iter(read_rows(self, context))},
        {"_process_record": lambda self, record, *a, **k: record.update(at=record["at"].year)},
    ],
    ids=["post_process", "get_records", "_process_record"],
)
def test_record_hooks_get_python_values_of_the_database(url, capsys, override):
    kind = type("Own", (LiteStream,), override)
    tap = tap_with(kind)(config={"sqlalchemy_url": url})
    stream = tap.streams["main-events"]
    stream.apply_query_filters = lambda query, table, context=None: query.where(table.c.id == 1)
    for name, other in tap.streams.items():
        other.selected = name == "main-events"
    stream.catalog_entry["schema"]["properties"]["at"] = {"type": "integer"}
    tap.sync_all()
    [row] = records([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert row == FIRST | {"at": 2024}


def read_rows(stream, context):
    for row in SQLStream.get_records(stream, context):
        row["at"] = row["at"].year
        yield row


def test_compiled_path_and_compatibility_path_write_the_same_messages(url, capsys):
    """The compatibility path, which a hook enables, conforms each record."""

    def increment(self, latest_record, *, context=None):
        SQLStream._increment_stream_state(self, latest_record, context=context)

    hooked = type("Hooked", (LiteStream,), {"_increment_stream_state": increment})
    outputs = []
    for kind in (LiteStream, hooked):
        tap = tap_with(kind)(config={"sqlalchemy_url": url})
        for stream in tap.streams.values():
            stream.selected = True
        tap.sync_all()
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        outputs.append([{k: v for k, v in x.items() if k != "time_extracted"} for x in lines])
    assert outputs[0] == outputs[1]


def test_values_are_not_converted_to_text_without_type_conformance(url, capsys):
    class Raw(LiteStream):
        TYPE_CONFORMANCE_LEVEL = TypeConformanceLevel.NONE

    tap = tap_with(Raw)(config={"sqlalchemy_url": url})
    tap.streams["main-events"].selected = True
    tap.sync_all()
    row = records([json.loads(line) for line in capsys.readouterr().out.splitlines()])[0]
    assert row["at"] == "2024-01-01T10:00:00"


def test_stream_maps_get_conformed_values(sync_events):
    maps = {"main-events": {"id": "id", "year": "at[:4] if at else None", "__else__": None}}
    assert records(sync_events(stream_maps=maps))[0] == {"id": 1, "year": "2024"}


def test_overridden_build_query_may_return_text(url, capsys):
    class Own(LiteStream):
        def build_query(self, *, context=None):
            return sa.text("select id, note from events where id = 4")

    tap = tap_with(Own)(config={"sqlalchemy_url": url})
    tap.streams["main-events"].selected = True
    tap.sync_all()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert records(lines) == [{"id": 4, "note": "y"}]


def test_get_records_outside_a_sync_returns_python_values(url):
    stream = LiteTap(config={"sqlalchemy_url": url}).streams["main-events"]
    first = next(iter(stream.get_records(None)))
    assert (first["at"].year, first["raw"]) == (2024, b"\x00\xff")


def test_table_that_does_not_exist_any_more_is_named_in_the_error(sync_events, url):
    with pytest.raises(
        StreamSetupError, match=r"'main-events': the database has no table main.gon"
    ):
        sync_events(changed={"table_name": "gone"})


def test_replication_key_that_is_no_column_any_more_is_named_in_the_error(sync_events):
    with pytest.raises(StreamSetupError, match="'main-events': its replication key 'at' is no col"):
        sync_events(key="at", changed={"table_name": "notes"})


@pytest.mark.parametrize("value", ["yesterday", 1700000000])
def test_stream_is_named_in_the_error_for_a_value_that_is_no_date_time(sync_events, url, value):
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute("insert into events (id, at) values (5, ?)", (value,))
        connection.commit()
    with pytest.raises(DataError, match=r"'main-events': a value does not fit .*isoformat"):
        sync_events()


def test_warning_says_that_a_table_without_a_log_is_read_in_full(sync_events, caplog):
    assert len(records(sync_events(changed={"replication_method": "LOG_BASED"}))) == 4
    assert "'main-events' has no log to read" in caplog.text


@pytest.mark.parametrize(
    ("key", "bookmark"), [("at", "9999-12-31T00:00:00.000000+00:00"), ("day", "9999-12-31")]
)
def test_warning_names_a_bookmark_in_the_future(sync_events, url, caplog, key, bookmark):
    assert last_state(sync_events(key=key))
    assert "in the future" not in caplog.text
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute(
            "insert into events (id, at, day) values (5, '9999-12-31 00:00:00', '9999-12-31')"
        )
        connection.commit()
    state = last_state(sync_events(key=key))
    assert state["bookmarks"]["main-events"]["replication_key_value"] == bookmark
    expected = f"Stream 'main-events': the bookmark of '{key}' is in the future ({bookmark})"
    assert caplog.text.count(expected) == 1


def test_get_records_with_a_partition_context_is_rejected(url):
    stream = LiteTap(config={"sqlalchemy_url": url}).streams["main-events"]
    with pytest.raises(NotImplementedError, match="does not support partitioning"):
        list(stream.get_records({"a": 1}))


def test_abort_at_record_count_limits_the_query(url):
    stream = LiteTap(config={"sqlalchemy_url": url}).streams["main-events"]
    assert "LIMIT" not in str(stream.build_query())
    stream.ABORT_AT_RECORD_COUNT = 1
    assert len(list(stream.get_records(None))) == 2


def test_connection_test_writes_one_record_per_stream(url, capsys):
    tap = LiteTap(config={"sqlalchemy_url": url})
    assert tap.run_connection_test()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [message["stream"] for message in lines if message["type"] == "RECORD"] == [
        "main-events",
        "main-notes",
    ]


def test_nulls_first_is_used_only_if_the_stream_supports_it(url):
    class Plain(LiteStream):
        supports_nulls_first = False

    for kind, word in ((LiteStream, True), (Plain, False)):
        stream = tap_with(kind)(config={"sqlalchemy_url": url}).streams["main-events"]
        stream.replication_key = "at"
        assert ("NULLS FIRST" in str(stream.build_query())) is word


# --------------------------------------------------------------------- the catalog's entry


def test_bookmark_of_an_unknown_column_type_is_compared_by_the_database(url):
    class Unknown(sa.types.UserDefinedType[object]):
        cache_ok = True

        @property
        def python_type(self):
            raise NotImplementedError

    state = {"bookmarks": {"main-events": {"replication_key": "x", "replication_key_value": "5"}}}
    tap = LiteTap(config={"sqlalchemy_url": url}, state=state)
    stream = tap.streams["main-events"]
    stream.replication_key = "x"
    stream._write_starting_replication_value(None)
    table = sa.Table("t", sa.MetaData(), sa.Column("x", Unknown))
    query = stream.apply_query_filters(table.select(), table)
    assert query.compile().params == {"x_1": "5"}


def test_stream_properties_come_from_the_catalog_entry(url):
    stream = LiteTap(config={"sqlalchemy_url": url}).streams["main-events"]
    assert stream.name == stream.tap_stream_id == "main-events"
    assert stream.namespace == "main"
    assert stream.primary_keys == ["id"]
    assert stream.fully_qualified_name == "main.events"
    assert not stream.is_sorted
    assert stream._singer_catalog_entry is stream._singer_catalog_entry
    assert stream.effective_schema == stream.schema
    stream.primary_keys = ["id", "at"]
    stream.replication_key = "at"
    assert stream.primary_keys == ["id", "at"]
    assert stream.is_sorted


def test_catalog_entry_may_be_changed_before_the_sync(url):
    stream = LiteTap(config={"sqlalchemy_url": url}).streams["main-events"]
    root = next(m for m in stream.catalog_entry["metadata"] if not m["breadcrumb"])
    root["metadata"]["selected"] = True
    assert stream.selected


def test_catalog_entry_without_a_table_name_is_rejected(url):
    stream = LiteTap(config={"sqlalchemy_url": url}).streams["main-events"]
    del stream.catalog_entry["table_name"]
    with pytest.raises(ValueError, match="Missing table name in catalog entry: stream 'main-ev"):
        _ = stream.fully_qualified_name


def test_stream_without_a_connector_creates_one(url):
    tap = LiteTap(config={"sqlalchemy_url": url})
    stream = LiteStream(tap, tap.catalog_dict["streams"][0])
    assert stream.connector is not tap.tap_connector
    assert stream.connector.config == {"sqlalchemy_url": url}


# -------------------------------------------------------------------------------- the tap


def test_all_streams_share_one_connector_and_one_discovered_catalog(url):
    tap = LiteTap(config={"sqlalchemy_url": url})
    assert {stream.connector for stream in tap.streams.values()} == {tap.tap_connector}
    assert tap.catalog_dict is tap.catalog_dict


def test_input_catalog_replaces_discovery(url):
    class Blind(SQLConnector):
        def discover_catalog_entries(self, **_):
            raise AssertionError

    catalog = LiteTap(config={"sqlalchemy_url": url}).catalog_dict
    kind = tap_with(type("S", (LiteStream,), {"connector_class": Blind}))
    tap = kind(config={"sqlalchemy_url": url}, catalog=catalog)
    assert list(tap.streams) == ["main-events", "main-notes"]
    assert tap.catalog_dict == tap.input_catalog.to_dict()


def test_exclude_schemas_of_the_tap_are_not_discovered(url):
    class Nothing(LiteTap):
        exclude_schemas = ("main",)

    assert Nothing(config={"sqlalchemy_url": url}).streams == {}


def test_sql_tap_adds_use_singer_decimal_to_the_tap_settings():
    class Own(LiteTap):
        config_jsonschema: dict[str, Any] = {"properties": {}}

    schema = dict(Own.config_jsonschema)
    Own.append_builtin_config(schema)
    assert schema["properties"]["use_singer_decimal"]["type"] == ["boolean", "null"]
    assert "stream_maps" in schema["properties"]
    assert Own.dynamic_catalog


def test_missing_setting_is_rejected_by_the_constructor():
    with pytest.raises(ConfigValidationError, match="sqlalchemy_url"):
        LiteTap(config={})


def test_tap_core_exports_the_sql_classes():
    assert tap_core.SQLTap is SQLTap
    assert tap_core.SQLStream is SQLStream
    assert tap_core.SQLConnector is SQLConnector
    with pytest.raises(AttributeError, match="Unheard"):
        _ = tap_core.sql.Unheard


# ------------------------------------------------------------------------ a real server


@pytest.fixture
def server_tap(postgres: Server):
    with postgres.database() as database:
        database.run(
            "create table t as select g as id, now() as at, gen_random_uuid() as uid,"
            " '10.00'::numeric as price, interval '1 day' as span, '\\x00ff'::bytea as raw,"
            " timestamp '2024-01-01' + g * interval '1 second' as moved,"
            " md5(g::text)::uuid as mark, '10.0.0.0'::inet + g as address"
            " from generate_series(1, 3000) g",
            "insert into t (id) values (0)",
        )
        tap = LiteTap(config={"sqlalchemy_url": database.url})
        yield tap
        tap.tap_connector._engine.dispose()


def test_rows_are_read_through_a_server_side_cursor(server_tap):
    stream = server_tap.streams["public-t"]
    cursors = []

    def watch(_connection, cursor, *_):
        cursors.append(cursor)

    sa.event.listen(server_tap.tap_connector._engine, "after_cursor_execute", watch)
    rows = stream.get_records(None)
    assert next(rows)["id"] is not None
    assert type(cursors[-1]).__name__ == "ServerCursor"
    rows.close()


def test_most_postgresql_rows_skip_the_slow_serializer(server_tap, capsys, monkeypatch):
    from tap_core.records.serializer import RecordSerializer

    careful = []
    call = RecordSerializer.__call__

    def counted(self, record):
        careful.append(record)
        return call(self, record)

    monkeypatch.setattr(RecordSerializer, "__call__", counted)
    server_tap.streams["public-t"].selected = True
    server_tap.sync_all()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(records(lines)) == 3001
    assert len(careful) < 50
    first = records(lines)[0]
    assert (first["raw"], first["span"]) == ("00ff", "1970-01-02T00:00:00+00:00")
    assert first["moved"] == "2024-01-01T00:00:01.000000+00:00"


@pytest.mark.parametrize("key", ["id", "at", "moved", "mark"])
def test_incremental_sync_resumes_at_the_postgresql_bookmark(server_tap, key, capsys):
    stream = server_tap.streams["public-t"]
    stream.replication_key, stream.selected = key, True
    server_tap.sync_all()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    state = last_state(lines)
    second_tap = LiteTap(config=dict(server_tap.config), state=state)
    stream = second_tap.streams["public-t"]
    stream.replication_key, stream.selected = key, True
    second_tap.sync_all()
    second_tap.tap_connector._engine.dispose()
    rows = records([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    assert len(rows) == (3000 if key == "at" else 1)


@pytest.mark.parametrize(
    ("key", "bookmark"),
    [
        *(("id", "2"), ("id", "1.5"), ("price", "10.25"), ("ratio", "1e300"), ("share", "3e38")),
        *(("at", "2024-01-01T00:00:00+00:00"), ("fee", 10.25)),
    ],
)
def test_texts_of_numbers_and_domains_are_compared_by_their_type(postgres, key, bookmark, capsys):
    with postgres.database() as database:
        database.run(
            "create domain moment as timestamptz; create domain fee as numeric(9, 2)",
            "create domain local_fee as fee",
            "create table t (id int, price numeric, ratio float8, share real, at moment,"
            " fee local_fee)",
            "insert into t values (1, 9.5, 0.7, 0.7, '2024-01-01 01:00+02', 9.5),"
            " (2, 10.25, 1e300, 3e38, '2024-01-01 00:00+00', 10.25)",
        )
        start = {"replication_key": key, "replication_key_value": bookmark}
        tap = LiteTap(
            config={"sqlalchemy_url": database.url}, state={"bookmarks": {"public-t": start}}
        )
        stream = tap.streams["public-t"]
        stream.replication_key, stream.selected = key, True
        tap.sync_all()
        tap.tap_connector._engine.dispose()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in records(lines)] == [2]


def test_set_of_mysql_is_read_as_text():
    class Sets(SQLConnector):
        def get_table(self, full_table_name, column_names=None):
            return sa.Table("t", sa.MetaData(), sa.Column("tags", mysql.SET("a", "b")))

    class SetStream(LiteStream):
        connector_class = Sets

    entry = {"stream": "t", "tap_stream_id": "t", "table_name": "t", "schema": {"properties": {}}}
    tap = tap_with(SetStream)(config={"sqlalchemy_url": "sqlite://"}, catalog={"streams": []})
    [column] = SetStream(tap, entry).build_query().selected_columns
    assert type(column.type) is sa.String


def test_rows_without_a_replication_key_value_are_read_before_an_interruption(postgres, capsys):
    """PostgreSQL sorts nulls last; a sync from the bookmark on would not find them."""

    class Interrupted(LiteStream):
        supports_nulls_first = False
        STATE_MSG_FREQUENCY = 1

        def post_process(self, row, context=None):
            if row["id"] == self.config.get("fails_at"):
                raise RuntimeError("interrupted")
            return row

    def sync(state, **config):
        tap = tap_with(Interrupted)(config={"sqlalchemy_url": url, **config}, state=state)
        stream = tap.streams["public-t"]
        stream.replication_key, stream.selected = "k", True
        with contextlib.suppress(RuntimeError):
            tap.sync_all()
        tap.tap_connector._engine.dispose()
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return {row["id"] for row in records(lines)}, last_state(lines)

    with postgres.database() as database:
        url = database.url
        database.run(
            "create table t (id int not null, k int)",
            "insert into t values (1, 10), (2, null), (3, 30), (4, null), (5, 50)",
        )
        before, state = sync(None, fails_at=5)
        after, _ = sync(state)
    assert before | after == {1, 2, 3, 4, 5}


def test_stream_is_named_in_the_error_for_a_date_that_python_does_not_know(postgres):
    with postgres.database() as database:
        database.run("create table t (id int, at date)", "insert into t values (1, 'infinity')")
        tap = LiteTap(config={"sqlalchemy_url": database.url})
        tap.streams["public-t"].selected = True
        with pytest.raises(DataError, match=r"'public-t': a value does not fit .*date too large"):
            tap.sync_all()
        tap.tap_connector._engine.dispose()


def test_table_that_the_user_may_not_read_is_named_in_the_error(postgres):
    with postgres.database() as database:
        database.run("create table t (id int)", "create role limited")
        tap = LiteTap(config={"sqlalchemy_url": f"{database.url}?options=-crole%3Dlimited"})
        tap.streams["public-t"].selected = True
        with pytest.raises(StreamSetupError, match=r"'public-t': .* permission denied for table t"):
            tap.sync_all()
        tap.tap_connector._engine.dispose()
        database.run("drop role limited")
