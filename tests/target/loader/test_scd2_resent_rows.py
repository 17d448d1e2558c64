"""Rows that are sent again add no versions, for random histories with random interruptions."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.target.warehouse import ID_AND_NAME, Warehouse, record, schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

pytestmark = pytest.mark.spark

SCD2 = {"write_mode": "scd2"}
KEYS = 50


@dataclass(frozen=True)
class Step:
    """One change of a key in the source: a name, or None for a deletion."""

    key: int
    number: int
    name: str | None

    def message(self, *, timed: bool, cursor: bool) -> dict[str, Any]:
        extracted = f"2024-01-01T00:{self.key:02}:{self.number:02}Z"
        values: dict[str, Any] = {"id": self.key, "name": self.name}
        if self.name is None:
            values = {"id": self.key, "_sdc_deleted_at": extracted}
        elif cursor:
            values["lsn"] = self.number
        return record("a", **values) | ({"time_extracted": extracted} if timed else {})


def expected_history(steps: Sequence[Step], *, cursor: bool) -> list[tuple[Any, ...]]:
    """Return the expected versions of a key: name, marked as deleted, current."""
    versions: list[list[Any]] = []
    for step in steps:
        alive = bool(versions) and versions[-1][2]
        if step.name is None:
            if alive:
                versions[-1][1:] = [True, False]
        elif not alive or cursor or versions[-1][0] != step.name:
            if alive:
                versions[-1][2] = False
            versions.append([step.name, False, True])
    return [tuple(version) for version in versions]


def random_steps(chance: random.Random, *, timed: bool) -> dict[int, list[Step]]:
    """Return the random steps of each key; names recur only if steps have times."""
    steps: dict[int, list[Step]] = {}
    for key in range(KEYS):
        names: list[str | None] = []
        for number in range(chance.randint(1, 7)):
            choices = ["a", "b", "c"] if timed else [f"n{number}"]
            last = names[-1] if names else None  # an unchanged row creates no new version
            different = [name for name in [*choices * 2, None] if name != last]
            names.append(chance.choice(different))
        steps[key] = [Step(key, number, name) for number, name in enumerate(names, 1)]
    return steps


def drop_last_deletions(steps: list[Step]) -> list[Step]:
    """Return the steps without deletions at their end."""
    last = max((index for index, step in enumerate(steps) if step.name is not None), default=-1)
    return steps[: last + 1]


def interleave(steps: dict[int, Sequence[Step]], chance: random.Random) -> Iterator[Step]:
    """Yield all steps in random order, those of each key in their order."""
    remaining = {key: list(key_steps) for key, key_steps in steps.items()}
    while remaining:
        key = chance.choice(list(remaining))
        if remaining[key]:
            yield remaining[key].pop(0)
        else:
            del remaining[key]


@pytest.fixture(params=["delta", "iceberg"])
def warehouse(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables", request.param)


def check(warehouse: Warehouse, sources: dict[int, list[Step]], *, cursor: bool) -> None:
    """Check that the table has the versions that result from the steps of each key."""
    is_deleted = "_sdc_deleted_at IS NOT NULL"
    table = warehouse.read("a").orderBy("id", "_sdc_valid_from")
    rows = table.selectExpr("id", "name", is_deleted, "_sdc_is_current").collect()
    for key, steps in sources.items():
        of_key = [tuple(row)[1:] for row in rows if row.id == key]
        assert of_key == expected_history(steps, cursor=cursor), (key, steps)


def schema_message(*, cursor: bool) -> dict[str, Any]:
    properties = {**ID_AND_NAME, "lsn": {"type": "integer"}}
    bookmark = {"bookmark_properties": ["lsn"]} if cursor else {}
    return schema("a", properties, "id") | bookmark


def load(warehouse: Warehouse, messages: list[dict[str, Any]], **config: Any) -> None:
    warehouse.runs = int(time.time() * 1000)
    warehouse.load(*messages, **SCD2, **config)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "timed, cursor, cuts", [(True, False, 2), (False, True, 2), (False, False, 1)]
)
def test_resent_rows_leave_the_history_unchanged(
    warehouse: Warehouse, timed: bool, cursor: bool, cuts: int
) -> None:
    """In random batches, the last steps of each key are sent again, followed by new steps."""
    chance = random.Random(20240101)
    all_steps = random_steps(chance, timed=timed)
    sent = {key: steps[: chance.randint(0, len(steps))] for key, steps in all_steps.items()}
    if cursor:  # a deletion has none: a version that it ended could be back
        sent = {key: drop_last_deletions(steps) for key, steps in sent.items()}
    resent = {key: steps[chance.randint(0, len(sent[key])) :] for key, steps in all_steps.items()}
    options = {"timed": timed, "cursor": cursor}
    for part, times in ((sent, 2), (resent, cuts)):
        steps = list(interleave(part, chance))
        messages = [step.message(**options) for step in steps]
        load(
            warehouse,
            [schema_message(cursor=cursor), *messages],
            flush_rows=len(steps) // times + 1,
        )
        check(warehouse, sent if part is sent else all_steps, cursor=cursor)


def log_record(id_: int, lsn: int, **values: Any) -> dict[str, Any]:
    """Return a record of a database's log, extracted now."""
    extracted = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%S.%fZ}"
    return record("a", id=id_, lsn=lsn, **values) | {"time_extracted": extracted}


@pytest.mark.thorough
@pytest.mark.parametrize("hard_delete", [False, True], ids=["marked", "removed"])
def test_changes_of_a_log_that_are_sent_again_leave_the_history_unchanged(
    warehouse: Warehouse, hard_delete: bool
) -> None:
    """The rows of key 1 are deleted, key 2 exists again, and key 3 only exists in the log."""

    def changes() -> list[dict[str, Any]]:
        return [
            log_record(1, 1, name="a"),
            log_record(1, 2, name="b"),
            log_record(1, 3, _sdc_deleted_at="2024-01-01T00:00:03Z"),
            log_record(2, 4, name="a"),
            log_record(2, 5, _sdc_deleted_at="2024-01-01T00:00:05Z"),
            log_record(2, 6, name="a"),
        ]

    config = {"hard_delete": hard_delete}
    load(warehouse, [schema_message(cursor=True), *changes()], **config)
    expected = [(1, "a", False), (1, "b", False), (2, "a", False), (2, "a", True)]
    assert read_versions(warehouse) == expected
    load(warehouse, [schema_message(cursor=True), *changes(), log_record(3, 7, name="a")], **config)
    assert read_versions(warehouse) == [*expected, (3, "a", True)]


@pytest.mark.thorough
@pytest.mark.parametrize("cursor", [False, True], ids=["no cursor", "cursor"])
def test_deleted_row_stays_deleted_if_it_is_sent_again_in_several_batches(
    warehouse: Warehouse, cursor: bool
) -> None:
    def changes() -> list[dict[str, Any]]:
        deletion = log_record(1, 3, _sdc_deleted_at="2024-01-01T00:00:03Z")
        return [log_record(1, 1, name="a"), log_record(1, 2, name="b"), deletion]

    load(warehouse, [schema_message(cursor=cursor), *changes()])
    load(warehouse, [schema_message(cursor=cursor), *changes()], flush_rows=1)
    assert {is_current for _, _, is_current in read_versions(warehouse)} == {False}


def read_versions(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """Return the key, the name and the flag of the current version of each row version."""
    table = warehouse.read("a").orderBy("id", "_sdc_valid_from")
    return [tuple(row) for row in table.select("id", "name", "_sdc_is_current").collect()]
