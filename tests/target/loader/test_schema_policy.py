"""Loads with the setting ``on_schema_change``: the changes of the table and the messages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.errors import SchemaChangeError
from tests.target.warehouse import ID, Warehouse, make_warehouse, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = pytest.mark.spark

TEXT: dict[str, Any] = {"type": ["null", "string"]}
TEXT_ID = {"id": TEXT}
PLUS_NAME = {**ID, "name": TEXT}


def change_kinds(warehouse: Warehouse, stream: str) -> list[tuple[str, str, str | None]]:
    changes = warehouse.counts(stream)["changes"]
    return [(change["kind"], change["column"], change["old"]) for change in changes]


def load_with_error(warehouse: Warehouse, *messages: dict[str, Any], **config: Any) -> str:
    """Load messages, expect that a schema is refused, and return the error."""
    with pytest.raises(SchemaChangeError) as caught:
        warehouse.load(*messages, **config)
    return str(caught.value)


@pytest.mark.thorough
def test_schema_in_the_middle_of_a_run_is_refused_after_the_rows_before_it(
    warehouse: Warehouse,
) -> None:
    message = load_with_error(
        warehouse,
        schema("a", ID),
        schema("b", ID),
        record("a", id=1),
        record("b", id=1),
        state(1),
        schema("a", {**TEXT_ID, "name": TEXT}),
        record("a", id="2", name="x"),
        state(2),
        on_schema_change="fail",
    )
    assert message.startswith(f"The schema of stream a does not fit table a ({warehouse.folder}/a)")
    assert "column id is bigint in the table and string in the schema" in message
    assert "column name (string) is not in the table" in message
    assert "streams, a, on_schema_change" in message
    assert warehouse.states == [1]
    assert warehouse.rows("a") == warehouse.rows("b") == [(1,)]
    assert change_kinds(warehouse, "a") == [("refuse", "id", "bigint"), ("refuse", "name", None)]


@pytest.mark.thorough
def test_ignored_properties_are_named_and_other_types_are_quarantined(
    warehouse: Warehouse,
) -> None:
    warehouse.load(schema("a", ID), record("a", id=1))
    warehouse.load(
        schema("a", {**TEXT_ID, "name": TEXT, "more": TEXT}),
        record("a", id="2", name="x"),
        record("a", id="two", name="y"),
        state(1),
        on_schema_change="ignore",
    )
    assert warehouse.read("a").columns == ["id"]
    assert warehouse.rows("a") == [(1,), (2,)]
    assert warehouse.counts("a")["quarantined"] == 1
    assert change_kinds(warehouse, "a") == [
        ("keep", "id", "bigint"),
        ("omit", "name", None),
        ("omit", "more", None),
    ]
    assert (
        "has 2 properties without a column in its table, left out because on_schema_change is"
        " ignore: name, more"
    ) in warehouse.counts("a")["notes"]
    assert warehouse.states == [1]


def test_second_column_is_refused_under_widen_and_a_new_one_is_added(
    warehouse: Warehouse,
) -> None:
    policy = {"streams": {"a": {"on_schema_change": "widen"}}}
    warehouse.load(schema("a", ID), record("a", id=1), **policy)
    warehouse.load(schema("a", PLUS_NAME), record("a", id=2, name="x"), **policy)
    message = load_with_error(
        warehouse, schema("a", TEXT_ID), record("a", id="3"), state(1), **policy
    )
    assert "which on_schema_change: widen protects: column id is bigint" in message
    assert warehouse.rows("a", "id", "name") == [(1, None), (2, "x")]
    assert warehouse.states == []


# The rest, on Delta tables


@pytest.fixture
def delta_table(spark_session: Session, spark: SparkSession, tmp_path: Path) -> Warehouse:
    """A warehouse of Delta tables, written by Spark alone."""
    return make_warehouse("delta", spark_session, spark, tmp_path)


@pytest.mark.thorough
def test_dry_run_ends_with_the_error_of_a_load(delta_table: Warehouse) -> None:
    delta_table.load(schema("a", ID), record("a", id=1))
    messages = (schema("a", PLUS_NAME), record("a", id=2, name="x"))
    message = load_with_error(delta_table, *messages, on_schema_change="fail", dry_run=True)
    assert message == load_with_error(delta_table, *messages, on_schema_change="fail")


@pytest.mark.thorough
def test_columns_of_the_target_are_added_under_every_policy(delta_table: Warehouse) -> None:
    delta_table.load(schema("a", ID, "id"), record("a", id=1))
    for policy in ("fail", "ignore", "widen"):
        delta_table.load(
            schema("a", ID, "id"),
            record("a", id=1),
            state(1),
            on_schema_change=policy,
            write_mode="scd2",
            add_record_metadata=policy != "fail",
        )
        assert delta_table.states == [1]
    assert {"_sdc_valid_from", "_sdc_sequence"} <= set(delta_table.read("a").columns)


@pytest.mark.thorough
def test_column_that_another_writer_drops_counts_as_new(delta_table: Warehouse) -> None:
    delta_table.load(schema("a", PLUS_NAME), record("a", id=1, name="x"))
    remaining = delta_table.read("a").select("id")
    remaining.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(
        f"{delta_table.folder}/a"
    )
    messages = (schema("a", PLUS_NAME), record("a", id=2, name="y"))
    assert "column name (string) is not in the table" in load_with_error(
        delta_table, *messages, on_schema_change="fail"
    )
    delta_table.load(*messages, on_schema_change="ignore")
    assert delta_table.rows("a") == [(1,), (2,)]


@pytest.mark.thorough
def test_schema_without_rows_is_replaced_by_the_next_one(delta_table: Warehouse) -> None:
    delta_table.load(
        schema("a", ID), schema("a", TEXT_ID), record("a", id="x"), on_schema_change="fail"
    )
    assert delta_table.rows("a") == [("x",)]


@pytest.mark.thorough
def test_not_null_constraint_is_not_dropped_unless_every_change_is_allowed(
    delta_table: Warehouse,
) -> None:
    delta_table.spark.sql(
        f"CREATE TABLE delta.`{delta_table.folder}/a` (id bigint, name string NOT NULL) USING delta"
    )
    missing = (schema("a", PLUS_NAME), record("a", id=2))
    assert "NOT NULL" in load_with_error(delta_table, *missing, on_schema_change="ignore")
    delta_table.load(*missing)
    assert delta_table.rows("a") == [(2, None)]
