"""ACTIVATE_VERSION: rows of other versions are deleted once the stream is complete, not before."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.events import StreamId
from target_spark.columns import (
    TABLE_VERSION,
    ColumnOptions,
    diff_with_table,
    merge_table_schemas,
    schema_from_json_schema,
)
from target_spark.config.options import WriteMode
from target_spark.errors import IncompleteError, UnsupportedError
from target_spark.loader.version_tracker import VersionTracker
from target_spark.loader.write_modes import check_scd2_compatible, find_metadata_column
from target_spark.tables.table import Table
from tests.target.warehouse import (
    ID,
    ID_AND_NAME,
    Warehouse,
    activate,
    feed,
    record,
    schema,
    state,
    versioned,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

spark_marked = pytest.mark.spark
NOT_FINAL = {"type": "STATE", "value": {"at": 9, "currently_syncing": "a"}}


# The version tracker


def track(*steps: int | str | None) -> VersionTracker:
    """Return the tracker after rows (a version or None) and activations (``!number``)."""
    versions = VersionTracker()
    for step in steps:
        if isinstance(step, str):
            versions.activate(int(step[1:]))
        else:
            versions.record_rows(step)
    return versions


@pytest.mark.parametrize(
    ("steps", "at_once", "at_a_final_end"),
    [
        (["!1"], False, True),  # a table that is empty in the source
        (["!1", 1], False, True),  # activated before its rows, as singer_sdk does
        ([1, "!1"], True, True),
        (["!1", 1, "!1"], True, True),
        ([None, 1, "!1"], True, True),
        ([2, 1, "!1"], True, True),
        (["!1", 1, "!1", 1], False, True),  # rows that come later are of it too
        (["!1", 1, "!2", 2, "!2"], True, True),
        ([], False, False),
        ([1], False, False),
        # Rows of this run would be removed that were not declared old.
        ([None, "!1"], False, False),
        (["!1", None], False, False),
        (["!1", 1, None, "!1"], False, False),
        (["!1", 1, 2], False, False),
        ([2, "!1"], False, False),
    ],
)
def test_versions_may_be_deleted_once_the_stream_is_complete(
    steps: list[int | str | None], at_once: bool, at_a_final_end: bool
) -> None:
    versions = track(*steps)
    assert versions.may_delete_versions(final=False) is at_once
    assert versions.may_delete_versions(final=True) is at_a_final_end
    versions.is_deletion_queued = True
    assert not versions.may_delete_versions(final=True)


@pytest.mark.parametrize(
    ("steps", "old"),
    [
        ([1, 2], set()),
        ([1, None, 2, "!2"], {1}),
        (["!2", 1, "!1"], set()),
        (["!2", 1], set()),  # no row has the activated version
        # Rows that come after the activation are those of the source now.
        ([1, "!1", 2], set()),
        ([3, 1, "!1", 2], {3}),
        ([3, 1, "!1", None], {3}),
        ([1, "!1", 2, "!2"], {1}),
    ],
)
def test_overwrite_leaves_out_only_rows_before_the_activation(
    steps: list[int | str | None], old: set[int]
) -> None:
    versions = track(*steps)
    assert {version for version in (None, 1, 2, 3) if versions.is_old(version)} & {
        step for step in steps if not isinstance(step, str)
    } == old


@given(st.lists(st.one_of(st.none(), st.integers(1, 3), st.sampled_from(["!1", "!2", "!3"]))))
def test_rows_received_after_the_activation_are_never_deleted(
    steps: list[int | str | None],
) -> None:
    versions = track(*steps)
    if not versions.may_delete_versions(final=True):
        return
    announced = f"!{versions.activated}"
    first = len(steps)
    while first and (steps[first - 1] in {announced, versions.activated} or first == 0):
        first -= 1
    after = steps[steps.index(announced, first) :]
    assert {step for step in after if not isinstance(step, str)} <= {versions.activated}
    rows = [step for step in steps if not isinstance(step, str)]
    assert not rows or versions.activated in rows


# The column


def test_column_of_the_version_has_another_name_if_a_property_has_its_name() -> None:
    document = {"properties": {**ID, "_sdc_table_version": {"type": "integer"}}}
    before, after = (
        schema_from_json_schema(document, ["id"], ColumnOptions(table_version=versioned))
        for versioned in (False, True)
    )
    merged, _ = merge_table_schemas(before, after, lambda _old, _new: False)
    assert find_metadata_column(merged, TABLE_VERSION) == "_sdc_table_version_2"
    assert find_metadata_column(after, TABLE_VERSION) == TABLE_VERSION
    assert find_metadata_column(before, TABLE_VERSION) == TABLE_VERSION
    assert find_metadata_column(None, TABLE_VERSION) == TABLE_VERSION


def test_history_is_not_stored_in_a_column_that_a_property_fills() -> None:
    document = {"properties": {**ID, "_sdc_is_current": {"type": "boolean"}}}
    upserted, versions = (
        schema_from_json_schema(document, ["id"], ColumnOptions(history=history))
        for history in (False, True)
    )
    adapted, _ = diff_with_table(versions, upserted.types, lambda _old, _new: False, {})
    request: Any = SimpleNamespace(
        table=Table("/t/a", "a"), stream=StreamId("a"), mode=WriteMode.SCD2
    )
    with pytest.raises(UnsupportedError, match="in column _sdc_is_current, which write_mode scd2"):
        check_scd2_compatible(request, adapted)
    check_scd2_compatible(request, versions)  # the property has another column in a new table


# Tables


@pytest.fixture(params=["delta", "iceberg"])
def table(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables", request.param)


def undeleted_rows(warehouse: Warehouse, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows that are not marked as deleted."""
    rows = warehouse.rows("a", *columns, "_sdc_deleted_at")
    return [row[:-1] for row in rows if row[-1] is None]


@spark_marked
def test_rows_of_other_versions_are_marked_or_deleted(table: Warehouse) -> None:
    schema_message = schema("a", ID_AND_NAME, "id")
    table.load(
        schema_message, record("a", id=1, name="none"), versioned("a", 3, id=2, name="three")
    )
    states = table.load(
        schema_message,
        activate("a", 5),
        versioned("a", 5, id=2, name="five"),
        versioned("a", 5, id=3, name="new"),
        activate("a", 5),
        state(1),
        record("a", id=4, name="a row that came later"),
    )
    assert states == [1]
    assert undeleted_rows(table, "id", "name", "_sdc_table_version") == [
        (2, "five", 5),
        (3, "new", 5),
        (4, "a row that came later", None),
    ]
    assert len(table.rows("a")) == 4
    marked = {row[:-1]: row[-1] for row in table.rows("a", "id", "_sdc_deleted_at")}
    table.load(
        schema_message, versioned("a", 4, id=3, name="four"), activate("a", 4), hard_delete=True
    )
    assert table.rows("a", "id", "_sdc_table_version", "_sdc_deleted_at") == [(3, 4, None)]
    assert marked[(1,)] is not None
    assert table.counts("a")["deleted"] == 3


@spark_marked
def test_activation_before_its_rows_waits_for_the_end_and_holds_states(
    delta: Warehouse,
) -> None:
    delta.load(schema("a", ID), record("a", id=0), state(0))
    loader, spool = delta.open(flush_rows=1, hard_delete=True)
    feed(loader, activate("a", 5), state("before"), schema("a", ID), schema("b", ID))
    feed(loader, state("at"), versioned("a", 5, id=1), state("first"), record("b", id=1))
    feed(loader, state("second"))
    loader._pipeline.wait()
    loader.poll()
    assert delta.states == ["before"]  # later states could imply that the table is complete
    assert delta.rows("a", "id") == [(0,), (1,)]
    loader.finish(whole=True)
    loader.close()
    spool.close()
    assert delta.states[-1] == "second"
    assert delta.rows("a", "id") == [(1,)]
    marker = delta.marker("a")
    assert marker is not None
    assert marker.state == '{"at": "second"}'


@spark_marked
def test_activation_after_its_rows_is_applied_before_the_next_state(
    delta: Warehouse,
) -> None:
    delta.load(schema("a", ID), record("a", id=0))
    rows_at_states: list[list[tuple[Any, ...]]] = []
    loader, spool = delta.open(
        emit=lambda _: rows_at_states.append(delta.rows("a", "id")), hard_delete=True, flush_rows=2
    )
    feed(loader, schema("a", ID), activate("a", 5), *(versioned("a", 5, id=n) for n in range(1, 4)))
    feed(loader, activate("a", 5), state("done"), schema("b", ID), record("b", id=1))
    while not rows_at_states:
        loader.poll()
        time.sleep(0.05)
    assert rows_at_states == [[(1,), (2,), (3,)]]
    loader.finish(whole=False)
    loader.close()
    spool.close()


@spark_marked
@pytest.mark.parametrize(
    "end",
    [
        "no state",
        pytest.param("currently syncing", marks=pytest.mark.thorough),
        pytest.param("torn", marks=pytest.mark.thorough),
    ],
)
def test_possibly_incomplete_stream_deletes_no_versions_and_fails(
    delta: Warehouse, end: str
) -> None:
    delta.load(schema("a", ID), record("a", id=0), state(0))
    last = {"no state": [], "currently syncing": [NOT_FINAL], "torn": [state(9)]}[end]
    with pytest.raises(IncompleteError, match="tables of a still have rows of other versions"):
        delta.load(
            schema("a", ID),
            activate("a", 5),
            versioned("a", 5, id=1),
            *last,
            whole=end != "torn",
            hard_delete=True,
        )
    assert delta.states == []
    assert delta.rows("a", "id") == [(0,), (1,)]
    delta.load(
        schema("a", ID),
        activate("a", 6),
        versioned("a", 6, id=1),
        hard_delete=True,
        overwrite_on_eof="always",
    )
    assert delta.rows("a", "id", "_sdc_table_version") == [(1, 6)]


@spark_marked
def test_first_load_needs_no_final_state(
    table: Warehouse,
) -> None:
    states = table.load(
        activate("a", 5),
        schema("a", ID),
        versioned("a", 5, id=1),
        state(1),
        versioned("a", 5, id=2),
    )
    assert states == [1]
    assert table.rows("a", "id", "_sdc_table_version") == [(1, 5), (2, 5)]


@pytest.mark.thorough
@spark_marked
def test_activation_without_rows_empties_the_table(delta: Warehouse) -> None:
    delta.load(schema("a", ID), record("a", id=0))
    states = delta.load(schema("a", ID), activate("a", 5), state(1), hard_delete=True)
    assert states == [1]
    assert delta.rows("a", "id") == []
    assert delta.load(schema("b", ID), activate("b", 5)) == []
    assert not delta.exists("b") or delta.rows("b", "id") == []


@spark_marked
def test_rows_without_a_version_are_not_deleted_by_the_activation(delta: Warehouse) -> None:
    """The tap activates versions and does not set them on its records."""
    delta.load(schema("a", ID), record("a", id=0))
    states = delta.load(
        schema("a", ID), activate("a", 5), record("a", id=1), activate("a", 5), state(1)
    )
    assert states == [1]
    assert delta.rows("a", "id") == [(0,), (1,)]
    assert any("not of the version" in note for note in delta.counts("a")["notes"])


@pytest.mark.thorough
@spark_marked
@pytest.mark.parametrize("mode", ["upsert", "append", "scd2"])
def test_property_with_the_name_of_the_version_column_does_not_decide_what_is_deleted(
    delta: Warehouse, mode: str
) -> None:
    schema_message = schema("a", {**ID, "_sdc_table_version": {"type": "integer"}}, "id")
    for version in (1, 2):
        rows = [versioned("a", version, id=number, _sdc_table_version=7) for number in (1, version)]
        loaded = [schema_message, *rows, activate("a", version), state(version)]
        assert delta.load(*loaded, hard_delete=True, write_mode=mode) == [version]
    assert delta.counts("a")["deleted"] == (2 if mode == "append" else 0)
    assert set(delta.rows("a", "_sdc_table_version", "_sdc_table_version_2")) == {(7, 2)}


@pytest.mark.thorough
@spark_marked
def test_deletion_missed_by_an_interrupted_run_is_done_by_the_next(delta: Warehouse) -> None:
    schema_message = schema("a", ID, "id")
    delta.load(schema_message, versioned("a", 1, id=1), versioned("a", 1, id=2), activate("a", 1))
    full = [schema_message, activate("a", 2), versioned("a", 2, id=2), activate("a", 2), state(1)]
    loader, spool = delta.open(flush_rows=1, hard_delete=True)
    feed(loader, *full[:3])
    loader._pipeline.wait()
    loader._pipeline.stop()
    feed(loader, *full[3:])
    loader.stop()
    loader.close()
    spool.close()
    assert delta.states == []
    assert delta.rows("a", "id") == [(1,), (2,)]
    for _ in range(2):
        assert delta.load(*full, hard_delete=True) == [1]
        assert delta.rows("a", "id") == [(2,)]


@spark_marked
def test_parquet_keeps_all_versions_and_reports_it(
    spark_session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    parquet = Warehouse(spark_session, spark, tmp_path / "tables", "parquet")
    parquet.load(schema("a", ID), record("a", id=1))
    states = parquet.load(
        schema("a", ID), activate("a", 5), versioned("a", 5, id=2), activate("a", 5), state(1)
    )
    assert states == [1]
    assert parquet.rows("a", "id", "_sdc_table_version") == [(1, None), (2, 5)]
    (note,) = (n for n in parquet.counts("a")["notes"] if "ACTIVATE_VERSION" in n)
    assert "Set format to delta" in note
