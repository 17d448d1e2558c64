"""The write modes on existing rows, compared with a model of each mode, on real tables."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.errors import TableError
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

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

GONE = "2024-05-01T00:00:00Z"
START = datetime(2024, 1, 1, tzinfo=timezone.utc)


@pytest.fixture(params=["delta", "iceberg"])
def table(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables", request.param)


def deletion(stream: str, **values: Any) -> dict[str, Any]:
    return record(stream, **values, _sdc_deleted_at=GONE)


# Deletions


@pytest.mark.parametrize("flush_rows", [3, 100])
def test_rows_and_deletions_are_applied_in_order(table: Warehouse, flush_rows: int) -> None:
    schema_message = [schema(stream, ID_AND_NAME, "id") for stream in ("soft", "hard")]
    steps = [
        (record, {"id": 1, "name": "again"}),
        (deletion, {"id": 2}),
        (record, {"id": 3, "name": "born"}),
        (deletion, {"id": 3}),
        (deletion, {"id": 4}),
        (record, {"id": 4, "name": "back"}),
        (deletion, {"id": 5}),
    ]
    streams = {"hard": {"hard_delete": True}}
    for stream in ("soft", "hard"):
        before = [record(stream, id=2, name="two"), record(stream, id=1, name="one")]
        table.load(*schema_message, *before, deletion(stream, id=1), streams=streams)
    table.load(
        *schema_message,
        *(make(stream, **values) for make, values in steps for stream in ("soft", "hard")),
        streams=streams,
        flush_rows=flush_rows,
    )
    assert table.rows("hard", "id", "name", "_sdc_deleted_at") == [
        (1, "again", None),
        (4, "back", None),
    ]
    soft = table.rows("soft", "id", "name", "_sdc_deleted_at")
    assert [(id_, name, deleted_at is None) for id_, name, deleted_at in soft] == [
        (1, "again", True),
        (2, "two", False),
        (3, "born", False),
        (4, "back", True),
        (5, None, False),
    ]


def test_row_sent_after_its_deletion_is_not_marked(table: Warehouse) -> None:
    schema_message = schema("a", ID_AND_NAME, "id")
    table.load(schema_message, record("a", id=1, name="one"), record("a", id=2, name="two"))
    table.load(schema_message, deletion("a", id=1), deletion("a", id=2))
    table.load(schema_message, record("a", id=1, name="back"))
    rows = table.rows("a", "id", "name", "_sdc_deleted_at")
    assert [(id_, name, deleted_at is None) for id_, name, deleted_at in rows] == [
        (1, "back", True),
        (2, "two", False),
    ]


def test_overwrite_omits_deleted_rows_and_append_keeps_them(delta: Warehouse) -> None:
    steps = [record("a", id=1), record("a", id=2), deletion("a", id=1), state(1)]
    schema_message = schema("a", ID, "id")
    delta.load(schema_message, *steps, write_mode="overwrite", hard_delete=True)
    assert delta.rows("a", "id") == [(2,)]
    delta.load(schema_message, *steps, write_mode="overwrite")
    assert [
        (id_, deleted_at is None) for id_, deleted_at in delta.rows("a", "id", "_sdc_deleted_at")
    ] == [
        (1, False),
        (2, True),
    ]
    delta.load(schema_message, *steps, write_mode="append", hard_delete=True)
    assert delta.rows("a", "id") == [(1,), (1,), (1,), (2,), (2,)]


@pytest.mark.parametrize("keys", [[], ["id"]])
def test_overwrite_converts_each_row_with_the_schema_that_preceded_it(
    table: Warehouse, keys: list[str]
) -> None:
    nested = schema("a", {**ID, "a": {"type": "object", "properties": {"x": ID["id"]}}}, *keys)
    flat = schema("a", {**ID, "a": {"type": "integer"}}, *keys)
    steps = [
        *(nested, record("a", id=1, a={"x": 1}), record("a", id=2, a={"x": 2}), flat),
        *(record("a", id=2, a=20), record("a", id=3, a=30), nested, record("a", id=4, a={"x": 4})),
    ]
    replaced = [] if keys else [(2, (2,), None)]
    rows = {(1, (1,), None), *replaced, (2, None, 20), (3, None, 30), (4, (4,), None)}
    assert table.load(*steps, state(1), write_mode="overwrite") == [1]
    assert set(table.rows("a", "id", "a", "a__bigint")) == rows
    assert not table.exists("a__quarantine")
    faulty = [flat, record("a", id=5, a="x"), nested, record("a", id=6, a="y")]
    assert table.load(*steps, *faulty, state(2), write_mode="overwrite") == [2]
    assert set(table.rows("a", "id", "a", "a__bigint")) == rows
    assert table.counts("a")["quarantined"] == 2
    ids = [json.loads(raw)["id"] for (raw,) in table.rows("a__quarantine", "raw")]
    assert sorted(ids) == [5, 6]


def test_overwrite_adds_the_columns_of_all_of_its_schemas_to_an_existing_table(
    table: Warehouse,
) -> None:
    flag, number, text = (
        schema("a", {**ID, "a": {"type": kind}}, "id") for kind in ("boolean", "number", "string")
    )
    table.load(flag, record("a", id=1, a=True), state(1), write_mode="overwrite")
    steps = [number, record("a", id=1, a=1.5), text, record("a", id=2, a="x"), state(2)]
    assert table.load(*steps, write_mode="overwrite") == [2]
    rows = {(1, None, 1.5, None), (2, None, None, "x")}
    assert set(table.rows("a", "id", "a", "a__double", "a__string")) == rows
    assert not table.exists("a__quarantine")


# Commit statistics


def test_report_contains_the_statistics_of_the_commits(table: Warehouse) -> None:
    schema_message = schema("a", ID_AND_NAME, "id")
    table.load(schema_message, *(record("a", id=n, name="x") for n in range(10)))
    counts = table.counts("a")
    assert (counts["inserted"], counts["updated"], counts["deleted"]) == (10, 0, 0)
    assert counts["files"] >= 1
    assert counts["table_bytes"] > 0
    table.load(
        schema_message,
        *(record("a", id=n, name="y") for n in range(8, 12)),
        deletion("a", id=0),
        hard_delete=True,
    )
    counts = table.counts("a")
    assert (counts["written"], counts["inserted"]) == (5, 2)
    assert (counts["updated"], counts["deleted"]) == (2, 1)


def test_first_rows_of_an_empty_table_are_appended(delta: Warehouse) -> None:
    schema_message = schema("a", ID, "id")
    delta.load(
        schema_message, schema("b", ID), record("b", id=1)
    )  # makes the table a, without rows
    delta.load(schema_message, record("a", id=1), record("a", id=1), record("a", id=2))
    assert delta.rows("a") == [(1,), (2,)]
    log = sorted((delta.folder / "a" / "_delta_log").glob("*.json"))
    operations = [json.loads(file.read_text().splitlines()[0])["commitInfo"] for file in log]
    assert "MERGE" not in {commit["operation"] for commit in operations}


def test_parquet_reports_files_and_bytes(
    spark_session: Session, spark: SparkSession, tmp_path: Path
) -> None:
    parquet = Warehouse(spark_session, spark, tmp_path / "tables", "parquet")
    parquet.load(schema("a", ID), *(record("a", id=n) for n in range(10)), state(1))
    counts = parquet.counts("a")
    sizes = [file.stat().st_size for file in (parquet.folder / "a").glob("*.parquet")]
    assert counts["inserted"] == 10
    assert (counts["files"], counts["table_bytes"]) == (len(sizes), sum(sizes))


# A model of each mode


@dataclass(frozen=True)
class Message:
    """A record or its deletion; ``at`` is in microseconds, ``more`` is a column added later."""

    id: int
    v: int | None
    at: int
    deletes: bool = False
    more: int | None = None

    def sent(self, stream: str, later: int, version: int) -> dict[str, Any]:
        when = (START + timedelta(microseconds=self.at + later)).isoformat()
        if self.deletes:
            message = record(stream, id=self.id, _sdc_deleted_at=when)
        else:
            message = record(stream, id=self.id, v=self.v, more=self.more)
        versions = {"version": version} if stream in VERSIONED else {}
        return {**message, "time_extracted": when, **versions}


@dataclass(frozen=True)
class Attempt:
    """A run that reads the messages first to last, ``later`` microseconds after the first run."""

    first: int
    last: int
    later: int


@dataclass
class Period:
    """One version of a row: its values, begin and end, and whether a deletion ended it."""

    values: tuple[Any, ...]
    started: int
    ended: int | None = None
    deleted: bool = False
    mark: int | None = None


@dataclass
class Model:
    """The expected content of each table after some batches, in plain Python."""

    hard: bool
    rows: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    periods: dict[int, list[Period]] = field(default_factory=dict)

    def upsert(self, message: Message) -> None:
        old = self.rows.get(message.id)
        if not message.deletes:
            self.rows[message.id] = (message.v, message.more, False)
        elif self.hard:
            self.rows.pop(message.id, None)
        else:
            self.rows[message.id] = (*(old or (None, None))[:2], True)

    def history(self, batch: Sequence[tuple[Message, int]]) -> None:
        for id_ in dict.fromkeys(message.id for message, _ in batch):
            events = [(m, later) for m, later in batch if m.id == id_]
            periods = self.periods.setdefault(id_, [])
            for event in self._new(events, periods):
                self._apply(periods, *event)

    def _new(
        self, events: list[tuple[Message, int]], periods: list[Period]
    ) -> list[tuple[Message, int]]:
        """Return the messages without repeated ones and earlier ones that are not newer."""
        if not periods:
            return events
        current, since = _current(periods), _changed_at(periods)
        standing = current.values if current else None
        older = [self._is_older(message, message.at + later, periods) for message, later in events]
        same = [
            _message_values(message) == standing and message.at + later <= since
            for message, later in events
        ]
        last = max((n for n in range(len(events)) if older[n] or same[n]), default=-1)
        return [
            (message, later)
            for n, (message, later) in enumerate(events)
            if not older[n] and (n >= last or message.at + later > since)
        ]

    def _is_older(self, message: Message, time_sent: int, periods: list[Period]) -> bool:
        """Return True if a record is a step of its key that others followed."""
        if message.deletes:
            ends = (p.ended for p in periods if p.deleted or self.hard)
            times = [ended for ended in ends if ended is not None]
            if _current(periods) and any(p.mark == time_sent for p in periods):
                return True
        else:
            times = [p.started for p in periods if p.values == _message_values(message)]
        return (
            any(time_sent <= time <= time_sent + 1000 for time in times)
            and time_sent < _changed_at(periods) - 1000
        )

    def _apply(self, periods: list[Period], message: Message, later: int) -> None:
        current = _current(periods)
        values = _message_values(message)
        if values == (current.values if current else None):
            return
        changed_at = message.at + later
        if periods:
            changed_at = max(changed_at, _changed_at(periods) + 1)
        if current:
            current.ended, current.deleted = changed_at, message.deletes and not self.hard
            current.mark = message.at + later if current.deleted else None
        if values is not None:
            periods.append(Period(values, changed_at))


def _message_values(message: Message) -> tuple[Any, ...] | None:
    return None if message.deletes else (message.v, message.more)


def _current(periods: list[Period]) -> Period | None:
    return periods[-1] if periods and periods[-1].ended is None else None


def _changed_at(periods: list[Period]) -> int:
    """Return the time of a key's last change."""
    return max(periods[-1].started, periods[-1].ended or 0)


STREAMS: dict[str, dict[str, Any]] = {
    "soft": {},
    "hard": {"hard_delete": True},
    "overwritten": {"write_mode": "overwrite"},
    "history": {"write_mode": "scd2"},
    "history_hard": {"write_mode": "scd2", "hard_delete": True},
}
VERSIONED = {"hard", "history_hard"}
COUNT, KEYS = 260, 25
PROPERTIES = {"id": {"type": "integer"}, "v": {"type": ["null", "integer"]}}
GROWN = {**PROPERTIES, "more": {"type": ["null", "integer"]}}


def messages(chance: random.Random) -> list[Message]:
    """Return random records of many keys; times repeat, jump ahead and sometimes go back."""
    sequence, micros = [], 1_000_000
    grows_at = chance.randrange(COUNT // 2)
    for index in range(COUNT):
        micros += chance.choice([0, 0, 1, 1, 2, 1000, 1_000_000, -3])
        deletes = chance.random() < 0.2
        more = chance.choice([None, None, 7]) if index >= grows_at and not deletes else None
        value = None if deletes else chance.choice([None, 1, 2])
        sequence.append(Message(chance.randrange(KEYS), value, micros, deletes, more))
    return sequence


def attempts(chance: random.Random, count: int, flush_rows: int) -> Iterator[Attempt]:
    """Yield the messages of runs; each but the last is killed, and the next one starts earlier."""
    first = later = 0
    for _ in range(2):
        last = min(count - 10, first + chance.randrange(count // 5, count // 2))
        yield Attempt(first, last, later)
        apply_batch = first + (last - first) // flush_rows * flush_rows
        first = chance.randrange(max(first, apply_batch - count // 10), apply_batch + 1)
        later += chance.choice([0, 3_600_000_000])
    yield Attempt(first, count, later)


def run_into(
    warehouse: Warehouse, sent: Sequence[Message], attempt: Attempt, flush_rows: int
) -> None:
    """Load the messages of one run; all but the last run are killed with an open batch."""
    final = attempt.last == len(sent)
    version = warehouse.runs + 1
    loader, spool = warehouse.open(streams=STREAMS, flush_rows=flush_rows)
    grown = attempt.first > 0
    for stream in STREAMS:
        feed(loader, schema(stream, GROWN if grown else PROPERTIES, "id"))
    for message in sent[attempt.first : attempt.last]:
        if message.more is not None and not grown:
            grown = True
            feed(loader, *(schema(stream, GROWN, "id") for stream in STREAMS))
        feed(loader, *(message.sent(stream, attempt.later, version) for stream in STREAMS))
    if final:
        feed(loader, *(activate(stream, version) for stream in VERSIONED), state(1))
        loader.finish(whole=True)
    else:
        loader._pipeline.wait()
        loader.stop()
    loader.close()
    spool.close()


def expected_models(
    sent: Sequence[Message], runs: Sequence[Attempt], flush_rows: int
) -> dict[str, Model]:
    models = {
        stream: Model(bool(options.get("hard_delete"))) for stream, options in STREAMS.items()
    }
    for run in runs:
        final = run is runs[-1]
        read = [(message, run.later) for message in sent[run.first : run.last]]
        batches = [read[n : n + flush_rows] for n in range(0, len(read), flush_rows)]
        for batch in batches:
            if len(batch) == flush_rows or final:  # otherwise the batch was lost with the run
                apply_batch(models, batch, final=final)
    # Keys that the last run did not send are of another version.
    sent_ids = {message.id for message in sent[runs[-1].first :]}
    hard = models["hard"]
    hard.rows = {id_: row for id_, row in hard.rows.items() if id_ in sent_ids}
    for id_, periods in models["history_hard"].periods.items():
        current = _current(periods)
        if current and id_ not in sent_ids:
            current.ended = -1
    return models


def apply_batch(
    models: Mapping[str, Model], batch: Sequence[tuple[Message, int]], *, final: bool
) -> None:
    for stream in ("history", "history_hard"):
        models[stream].history(batch)
    for stream in ("soft", "hard", *(["overwritten"] if final else [])):
        for message, _ in batch:
            models[stream].upsert(message)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
def test_each_mode_agrees_with_its_model_for_any_batch_boundaries(
    delta: Warehouse, seed: int
) -> None:
    chance = random.Random(seed)
    sent, flush_rows = messages(chance), (70, 60)[seed]
    runs = list(attempts(chance, len(sent), flush_rows))
    for attempt in runs:
        run_into(delta, sent, attempt, flush_rows)
    models = expected_models(sent, runs, flush_rows)
    for stream in ("soft", "hard", "overwritten"):
        rows = delta.rows(stream, "id", "v", "more", "_sdc_deleted_at")
        assert {row[0]: (*row[1:3], row[3] is not None) for row in rows} == models[stream].rows
        assert len(rows) == len(models[stream].rows)
    for stream in ("history", "history_hard"):
        assert read_table_periods(delta, stream) == read_model_periods(models[stream])


def read_model_periods(model: Model) -> dict[int, list[Any]]:
    return {
        id_: [(p.values, p.started, p.ended, p.deleted) for p in periods]
        for id_, periods in model.periods.items()
        if periods
    }


def read_table_periods(warehouse: Warehouse, stream: str) -> dict[int, list[Any]]:
    periods: dict[int, list[Any]] = {}
    frame = warehouse.read(stream).selectExpr(
        "id",
        "v",
        "more",
        "unix_micros(_sdc_valid_from)",
        "unix_micros(_sdc_valid_to)",
        "_sdc_is_current",
        "_sdc_deleted_at IS NOT NULL",
    )
    zero = (START - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
    for id_, v, more, started, ended, current, deleted in sorted(
        frame.collect(), key=lambda row: row[:1] + row[3:4]
    ):
        assert current is (ended is None)
        until = None if ended is None else ended - zero
        if until is not None and until > 10**14:
            until = -1  # the time of a deletion
        periods.setdefault(id_, []).append(((v, more), started - zero, until, deleted))
    return periods


def test_unchanged_row_of_the_activated_version_is_kept(delta: Warehouse) -> None:
    """The row keeps the version with which it was written, unless that version is replaced."""
    schema_message, scd2 = schema("a", ID_AND_NAME, "id"), {"write_mode": "scd2"}
    for version in (1, 2):
        rows = [versioned("a", version, id=n, name="x") for n in range(version, 4)]
        delta.load(schema_message, *rows, activate("a", version), **scd2)
    versions = delta.rows("a", "id", "_sdc_table_version", "_sdc_is_current")
    assert versions == [(1, 1, False), (2, 2, True), (3, 2, True)]


REGIONS = {**ID_AND_NAME, "region": {"type": ["null", "string"]}}


def test_key_that_several_rows_have_is_refused(table: Warehouse) -> None:
    """A MERGE by such a key would give all of them the values of one record."""
    rows = [record("t", id=1, region=region, name=region) for region in ("eu", "us")]
    table.load(schema("t", REGIONS, "id", "region"), *rows, state(1))
    shorter = [schema("t", REGIONS, "id"), record("t", id=1, region="eu", name="new"), state(2)]
    with pytest.raises(TableError, match="several rows with the same id, the key of stream t"):
        table.load(*shorter, whole=False)
    assert table.states == []
    assert table.rows("t", "id", "region", "name") == [(1, "eu", "eu"), (1, "us", "us")]
    table.load(*shorter, full_refresh=["t"])
    table.load(*shorter[:1], record("t", id=1, region="us", name="newer"), state(3))
    assert table.rows("t", "id", "region", "name") == [(1, "us", "newer")]


def test_rows_that_an_append_repeated_are_not_replaced_by_one_record(delta: Warehouse) -> None:
    rows = [schema("t", ID_AND_NAME, "id"), record("t", id=1, name="a"), state(1)]
    delta.load(*rows, write_mode="append")
    delta.load(*rows)  # each key is there once
    delta.load(*rows, write_mode="append")
    for mode in ("upsert", "scd2"):
        with pytest.raises(TableError, match="several rows"):
            delta.load(*rows, whole=False, write_mode=mode)
    assert delta.rows("t", "id", "name") == [(1, "a")] * 2


def test_history_has_one_current_version_of_each_key_if_the_key_changes(table: Warehouse) -> None:
    """Ended versions may repeat a key."""
    long, short = schema("t", REGIONS, "id", "region"), schema("t", REGIONS, "id")
    rows = [record("t", id=1, region="eu", name=name) for name in "ab"]
    table.load(long, *rows, state(1), write_mode="scd2")
    table.load(short, record("t", id=1, region="us", name="c"), state(2), write_mode="scd2")
    current = [(1, "eu", "a", False), (1, "eu", "b", False), (1, "us", "c", True)]
    assert table.rows("t", "id", "region", "name", "_sdc_is_current") == current
    table.load(long, record("t", id=1, region="eu", name="d"), state(3), write_mode="scd2")
    with pytest.raises(TableError, match="several rows with the same id"):
        table.load(short, *rows, state(4), whole=False, write_mode="scd2")
    assert table.states == []
