"""Small batches, which are read in Python and committed with few Spark jobs, on real tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from target_spark.frames.local_frame import MAX_LOCAL_BYTES
from target_spark.writers.sql_statements import find_small_commit_conf
from tests.one_spark import COMPILED, ConfiguredSession
from tests.target.warehouse import ID_AND_NAME, Warehouse, make_warehouse, record, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = pytest.mark.spark

DESCRIBED = schema("a", ID_AND_NAME, "id")


@pytest.fixture(params=["delta", "delta-rs"])
def delta(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Warehouse:
    """Warehouse of Delta tables with Spark's default planning, which small commits change."""
    session = cast("Session", ConfiguredSession(spark_session, COMPILED))
    return make_warehouse(request.param, session, spark, tmp_path)


def named_records(**names: Any) -> list[dict[str, Any]]:
    return [record("a", id=int(key[1:]), name=name) for key, name in names.items()]


def test_small_upsert_replaces_and_adds_rows(delta: Warehouse) -> None:
    delta.load(DESCRIBED, *named_records(k1="one", k2="two"), state(1))
    assert delta.load(DESCRIBED, *named_records(k2="zwei", k3=None), state(2)) == [2]
    assert delta.rows("a", "id", "name") == [(1, "one"), (2, "zwei"), (3, None)]
    effect = delta.report.as_dict()["streams"]["a"]
    assert (effect["inserted"], effect["updated"]) == (1, 1)


def test_last_row_of_a_repeated_key_wins_in_a_small_batch(delta: Warehouse) -> None:
    for name in ("new", "newer"):
        rows = [record("a", id=1, name=text) for text in ("old", "older", name)]
        delta.load(DESCRIBED, *rows, state(1))
        assert delta.rows("a", "id", "name") == [(1, name)]


@pytest.mark.parametrize("hard_delete", [pytest.param(True, marks=pytest.mark.thorough), False])
def test_delete_records_of_a_small_batch_are_applied(delta: Warehouse, hard_delete: bool) -> None:
    deletion_time = "2024-05-01T00:00:00Z"
    streams = {"a": {"hard_delete": hard_delete}}
    delta.load(
        DESCRIBED,
        record("a", id=9, _sdc_deleted_at=deletion_time),
        *named_records(k1="one"),
        streams=streams,
    )
    delta.load(
        DESCRIBED,
        record("a", id=1, _sdc_deleted_at=deletion_time),
        *named_records(k2="two"),
        streams=streams,
    )
    rows = delta.rows("a", "id", "name", "_sdc_deleted_at")
    actual = [(id_, name, deleted_at is None) for id_, name, deleted_at in rows]
    soft_deleted = [(1, "one", False), (2, "two", True), (9, None, False)]
    assert actual == ([(2, "two", True)] if hard_delete else soft_deleted)


@pytest.mark.thorough
def test_small_batch_with_a_bad_row_is_quarantined_as_a_large_one(delta: Warehouse) -> None:
    delta.load(DESCRIBED, *named_records(k1="one"))
    delta.load(DESCRIBED, *named_records(k2="two"), record("a", id="no number", name="x"), state(1))
    assert delta.rows("a", "id", "name") == [(1, "one"), (2, "two")]
    assert delta.report.as_dict()["streams"]["a"]["quarantined"] == 1


@pytest.mark.parametrize("keys", [["id"], []])
def test_small_batch_is_one_file(delta: Warehouse, keys: list[str]) -> None:
    """Else each of many small runs would leave a file per processor."""
    schema_message = schema("a", ID_AND_NAME, *keys)
    for number in range(2):
        names = {f"k{number + offset}": "some" for offset in range(9)}
        delta.load(schema_message, *named_records(**names))
        assert delta.report.as_dict()["streams"]["a"]["files"] == 1


@pytest.mark.thorough
def test_batch_of_more_bytes_than_python_reads_is_merged_alike(delta: Warehouse) -> None:
    delta.load(DESCRIBED, *named_records(k1="one", k2="two"))
    long = "x" * (MAX_LOCAL_BYTES // 2)
    delta.load(DESCRIBED, *named_records(k2=long, k3=long, k1="uno"))
    assert delta.rows("a", "id", "name") == [(1, "uno"), (2, long), (3, long)]


def test_planning_that_the_user_has_tuned_is_left_alone(compiled_spark: SparkSession) -> None:
    assert find_small_commit_conf(compiled_spark)
    compiled_spark.conf.set("spark.sql.adaptive.enabled", "false")
    assert find_small_commit_conf(compiled_spark) == {}
