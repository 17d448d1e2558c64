"""ACTIVATE_VERSION deletes or marks the rows of older versions, and never newer rows."""

from __future__ import annotations

import datetime as dt

import pytest
import sqlalchemy as sa

from tests.sql_targets.small_target import SmallSink, SmallTarget, load, read_rows, read_types
from tests.sql_targets.test_sql_loading import make_target, upserting
from tests.target_base.messages import activate, record, schema, state

FIRST, SECOND = 1_700_000_000_000, 1_700_000_000_001
QUERY = "SELECT id, name, _sdc_deleted_at IS NULL FROM a ORDER BY id"
UPSERTING = make_target(SmallSink, generate_insert_statement=upserting)


def run(url: str, version: int, *ids: int, kind: type[SmallTarget] = SmallTarget, **config) -> None:
    """Load rows of a version, and activate the version before and after them."""
    rows = [record(id=id_, name=f"v{version % 10}", v=version) for id_ in ids]
    config = {"add_record_metadata": True, **config}
    ends = activate("a", version)
    load(kind, url, schema(), ends, *rows, ends, state({"n": version}), **config)


@pytest.mark.parametrize("hard_delete", [True, False])
def test_rows_of_older_versions_are_deleted_or_marked(url, hard_delete):
    run(url, FIRST, 1, 2, hard_delete=hard_delete)
    run(url, SECOND, 3, hard_delete=hard_delete)
    old = [] if hard_delete else [(1, "v0", False), (2, "v0", False)]
    assert [(*row[:2], bool(row[2])) for row in read_rows(url, QUERY)] == [*old, (3, "v1", True)]


@pytest.mark.parametrize("hard_delete", [True, False])
def test_pending_rows_are_written_before_old_versions_are_deleted(url, hard_delete):
    """The upsert updates rows of an old version, which must not be deleted before it."""
    run(url, FIRST, *range(7), kind=UPSERTING, hard_delete=hard_delete)
    run(url, SECOND, *range(7), kind=UPSERTING, hard_delete=hard_delete, batch_size_rows=5)
    rows = [(*row[:2], bool(row[2])) for row in read_rows(url, QUERY)]
    assert rows == [(id_, "v1", True) for id_ in range(7)]


def test_activating_a_version_twice_changes_nothing(url):
    run(url, FIRST, 1)
    run(url, SECOND, 2)
    [(before,)] = read_rows(url, "SELECT _sdc_deleted_at FROM a WHERE id = 1")
    run(url, SECOND)
    assert read_rows(url, "SELECT _sdc_deleted_at FROM a WHERE id = 1") == [(before,)]


def test_deletion_time_is_in_utc(url):
    start = dt.datetime.now(dt.timezone.utc).replace(tzinfo=None)
    run(url, FIRST, 1)
    run(url, SECOND, 2)
    [(deleted_at,)] = read_rows(url, "SELECT _sdc_deleted_at FROM a WHERE id = 1")
    assert start - dt.timedelta(seconds=1) <= dt.datetime.fromisoformat(str(deleted_at))
    assert dt.datetime.fromisoformat(str(deleted_at)) <= start + dt.timedelta(minutes=5)


def test_deletion_time_keeps_its_instant_in_a_column_with_time_zone(postgres_url):
    start = dt.datetime.now(dt.timezone.utc)
    engine = sa.create_engine(postgres_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE a (id int, _sdc_deleted_at timestamptz)")
    engine.dispose()
    run(postgres_url, FIRST, 1)
    run(postgres_url, SECOND, 2)
    [(deleted_at,)] = read_rows(postgres_url, "SELECT _sdc_deleted_at FROM a WHERE id = 1")
    assert abs(deleted_at - start) < dt.timedelta(minutes=5)


@pytest.mark.parametrize("hard_delete", [True, False])
def test_run_without_versions_in_its_rows_deletes_nothing(url, hard_delete):
    """An upsert without versions keeps the rows' old versions, which must not be deleted."""
    run(url, FIRST, 1, 2, kind=UPSERTING)
    plain = {"add_record_metadata": False, "hard_delete": hard_delete}
    run(url, SECOND, 1, kind=UPSERTING, **plain)
    rows = [(*row[:2], bool(row[2])) for row in read_rows(url, QUERY)]
    assert rows == [(1, "v1", True), (2, "v0", True)]


def test_missing_version_columns_are_added(url):
    run(url, FIRST, 1, add_record_metadata=False)
    wide = "INTEGER" if url.startswith("sqlite") else "BIGINT"
    stamp = "DATETIME" if url.startswith("sqlite") else "TIMESTAMP"
    added = {"_sdc_table_version": wide, "_sdc_deleted_at": stamp}
    assert list(read_types(url, "a").items())[2:] == list(added.items())


def test_hard_delete_adds_no_deleted_at_column(url):
    run(url, FIRST, 1, add_record_metadata=False, hard_delete=True)
    assert "_sdc_deleted_at" not in read_types(url, "a")


def test_rows_without_a_version_are_not_deleted(url):
    load(SmallTarget, url, schema(), record(id=1, name="x"), add_record_metadata=True)
    run(url, SECOND, 2, hard_delete=True)
    assert read_rows(url, "SELECT id FROM a ORDER BY id") == [(1,), (2,)]


def test_activating_a_version_of_a_missing_table_does_nothing(sqlite_url):
    target = SmallTarget(config={"sqlalchemy_url": sqlite_url, "add_record_metadata": True})
    sink = target.add_sqlsink("a", {"properties": {"id": {"type": "integer"}}})
    assert isinstance(sink, SmallSink)
    sink.connector._drop_table(sink.full_table_name)
    sink.activate_version(FIRST)
    assert not sink.connector.table_exists(sink.full_table_name)
    sink.connector._engine.dispose()


def test_custom_names_of_version_columns_are_quoted(url):
    kind = make_target(SmallSink, version_column_name="order", soft_delete_column_name="group")
    known = {"id": {"type": "integer"}, "order": {"type": "integer"}}
    load(kind, url, schema(**known), record(id=1, order=1), record(id=2, order=2), activate("a", 2))
    query = 'SELECT id FROM a WHERE "group" IS NULL'
    assert read_rows(url, query) == [(2,)]
    load(kind, url, schema(**known), activate("a", 3), hard_delete=True)
    assert read_rows(url, "a") == []
