"""Batches in history mode, which keeps the versions of rows, in Delta Lake and Iceberg.

A small model of Fivetran's guide, applied row by row, gives the expected table.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.config.options import LoadOptions
from target_spark.errors import TableError
from target_spark.fivetran.batch_request import FileKind, RequestFile
from target_spark.fivetran.tables import TableService
from target_spark.fivetran.write_batch import BatchResult
from target_spark.fivetran.write_history_batch import write_versions
from tests.fivetran.batch_files import NULL, UNMODIFIED, Cell
from tests.target.fivetran.fivetran_writes import DestinationTables, make_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SHAPE = make_schema(
    id="*STRING",
    a="STRING",
    b="LONG",
    _fivetran_start="*UTC_DATETIME",
    _fivetran_end="UTC_DATETIME",
    _fivetran_active="BOOLEAN",
    _fivetran_synced="UTC_DATETIME",
)
COLUMNS = [column.name for column in SHAPE.columns]
EARLIEST = ["id", "_fivetran_start"]
MAX = datetime(9999, 12, 31, 23, 59, 59, 999000, timezone.utc)
BEGIN = datetime(2024, 1, 1, tzinfo=timezone.utc)
JUST_BEFORE = timedelta(milliseconds=1)


def at(minute: int) -> datetime:
    return BEGIN + timedelta(minutes=minute)


def text(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


@dataclass(frozen=True)
class Version:
    """One version of a row; UNMODIFIED and NULL as in a file."""

    id: str
    start: datetime
    a: Cell = NULL
    b: Cell = NULL
    end: datetime = MAX
    active: bool = True

    def cells(self) -> list[Cell]:
        period = [text(self.start), text(self.end), str(self.active).lower(), text(at(999))]
        return [self.id, self.a, self.b, *period]


@dataclass
class Sync:
    """A batch: replaced and updated versions, deletions, and the earliest starts."""

    replaced: list[Version] = field(default_factory=list)
    updated: list[Version] = field(default_factory=list)
    deleted: dict[str, datetime] = field(default_factory=dict)
    without_earliest: bool = False

    @property
    def first(self) -> dict[str, datetime]:
        starts: dict[str, datetime] = {}
        for version in (*self.replaced, *self.updated):
            starts[version.id] = min(starts.get(version.id, MAX), version.start)
        return starts

    @property
    def earliest(self) -> dict[str, datetime]:
        return {} if self.without_earliest else self.first

    def files(self, destination: DestinationTables) -> list[RequestFile]:
        """Write the batch as files, two of each kind, in the reverse order of their application."""
        deletions: list[list[Cell]] = [
            [row, NULL, NULL, NULL, text(end), NULL, NULL] for row, end in self.deleted.items()
        ]
        operations: list[tuple[FileKind, list[str], list[list[Cell]]]] = [
            (FileKind.DELETE, COLUMNS, deletions),
            (FileKind.UPDATE, COLUMNS, [version.cells() for version in self.updated]),
            (FileKind.REPLACE, COLUMNS[::-1], [version.cells()[::-1] for version in self.replaced]),
            (FileKind.EARLIEST_START, EARLIEST, [[i, text(t)] for i, t in self.earliest.items()]),
        ]
        return [
            destination.file(kind, columns, rows[half::2])
            for kind, columns, rows in operations
            for half in (0, 1)
            if rows[half::2]
        ]


Model = dict[tuple[str, datetime], Version]


def apply_sync(model: Model, sync: Sync) -> Model:
    """Return the expected table after a batch, computed row by row as in Fivetran's guide."""
    table = dict(model)
    changed = {(version.id, version.start) for version in (*sync.replaced, *sync.updated)}
    last = {row: find_base_version(model, row, start, changed) for row, start in sync.first.items()}
    for row, start in sync.earliest.items():
        for key in [key for key in table if key[0] == row and key[1] >= start]:
            del table[key]
        close(table, row, start - JUST_BEFORE)
    for version in sorted((*sync.replaced, *sync.updated), key=lambda v: v.start):
        before = last[version.id]
        if version in sync.updated:
            if before is None:  # there is no such row
                continue
            version = replace(  # noqa: PLW2901
                version,
                a=before.a if version.a is UNMODIFIED else version.a,
                b=before.b if version.b is UNMODIFIED else version.b,
            )
        table[version.id, version.start] = last[version.id] = version
    for row, end in sync.deleted.items():
        close(table, row, end)
    return table


def find_base_version(
    model: Model, row: str, first: datetime, changed: AbstractSet[tuple[str, datetime]]
) -> Version | None:
    """Return the version whose values the first update of a row keeps."""
    versions = sorted(
        (version for version in model.values() if version.id == row), key=lambda v: v.start
    )
    same_start = [version for version in versions if version.start == first]
    active = [
        version for version in versions if version.active and (row, version.start) not in changed
    ]
    earlier = [version for version in versions if version.start < first]
    return next(reversed(same_start or active or earlier), None)


def close(table: Model, row: str, end: datetime) -> None:
    for key, version in table.items():
        if key[0] == row and version.active:
            table[key] = replace(version, active=False, end=end)


@pytest.fixture(params=[pytest.param("delta", marks=pytest.mark.thorough), "iceberg"])
def destination(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> DestinationTables:
    (tmp_path / "files").mkdir()
    options = LoadOptions(str(tmp_path / "lake"), format=request.param)
    tables = DestinationTables(TableService(spark, options), tmp_path / "files")
    tables.make("versions", SHAPE)
    return tables


def write(destination: DestinationTables, sync: Sync | Sequence[RequestFile]) -> BatchResult:
    files = sync.files(destination) if isinstance(sync, Sync) else sync
    return destination.write("versions", SHAPE, *files, write_with=write_versions)


def content(destination: DestinationTables) -> list[tuple[Any, ...]]:
    """Return the versions; timestamps are text, since the latest is beyond Python's range."""
    table = destination.tables.spark.table(destination.ref("versions"))
    selected = table.selectExpr(
        "id", "string(_fivetran_start)", "a", "b", "string(_fivetran_end)", "_fivetran_active"
    )
    return sorted(tuple(row) for row in selected.collect())


def format_versions(versions: Iterable[Version]) -> list[tuple[Any, ...]]:
    def spelled(instant: datetime) -> str:
        seconds = instant.strftime("%Y-%m-%d %H:%M:%S")
        digits = f"{instant.microsecond:06}".rstrip("0")
        return f"{seconds}.{digits}" if digits else seconds

    return sorted(
        (v.id, spelled(v.start), v.a, v.b and int(str(v.b)), spelled(v.end), v.active)
        for v in versions
    )


def test_versions_start_and_end_as_the_files_declare(destination: DestinationTables) -> None:
    """F44: versions are replaced, updated in a chain, deleted and sent again.

    A batch is one commit, and repeating the batch does not change the table.
    """
    first = Sync(
        replaced=[
            Version("1", at(1), "abc", "1", at(2) - JUST_BEFORE, active=False),
            Version("1", at(2), "pqr", "2"),
            *(Version(i, at(2), "mno", "3") for i in ("2", "3", "4", "5", "6")),
        ],
        without_earliest=True,
    )
    assert write(destination, first) == BatchResult(7, 2)
    model = apply_sync({}, first)
    assert content(destination) == format_versions(model.values())
    second = Sync(
        replaced=[
            Version("3", at(5), "whole", "30", at(6) - JUST_BEFORE, active=False),
            Version("5", at(2), "said anew", "50"),
            Version("7", at(8), "new", NULL),
        ],
        updated=[
            Version("1", at(5), "def", UNMODIFIED),
            Version("1", at(3), UNMODIFIED, "9", at(5) - JUST_BEFORE, active=False),
            Version("2", at(4), UNMODIFIED, NULL),
            Version("3", at(6), UNMODIFIED, "31"),
            Version("9", at(6), "nobody", UNMODIFIED),
        ],
        deleted={"3": at(7), "4": at(9), "8": at(9)},
    )
    model = apply_sync(model, second)
    before, files = destination.commits("versions"), second.files(destination)
    write(destination, files)
    assert content(destination) == format_versions(model.values())
    assert destination.commits("versions") == before + 1
    write(destination, files)  # the answer was lost
    assert content(destination) == format_versions(model.values())

    third = Sync(updated=[Version("1", at(4), "came late", UNMODIFIED)], deleted={"6": at(11)})
    model = apply_sync(model, third)
    write(destination, third)
    assert content(destination) == format_versions(model.values())


def test_table_without_history_columns_or_keys_is_rejected(destination: DestinationTables) -> None:
    """F44: a table that lacks the columns of history mode, and one without a key of its rows."""
    destination.make("plain", make_schema(id="*STRING", a="STRING"))
    row = destination.file(FileKind.DELETE, ["id"], [("1",)])
    with pytest.raises(TableError, match=r"s\.plain keeps no versions.*_start is missing"):
        destination.write("plain", make_schema(id="*STRING"), row, write_with=write_versions)
    keyless = [(c.name, c.type.name) for c in SHAPE.columns if c.name.startswith("_")]
    destination.make("keyless", make_schema(**dict(keyless)))
    starts = destination.file(FileKind.EARLIEST_START, ["_fivetran_start"], [(text(at(1)),)])
    with pytest.raises(TableError, match="no key beside _fivetran_start"):
        destination.write(
            "keyless", make_schema(**dict(keyless)), starts, write_with=write_versions
        )


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
def test_random_batches_give_the_table_of_the_guide(
    destination: DestinationTables, seed: int
) -> None:
    """F44: batches of all kinds in sequence, each sent once or twice."""
    rng = random.Random(seed)
    model: Model = {}
    for number in range(4):
        sync = make_batch(rng, number)
        model = apply_sync(model, sync)
        files = sync.files(destination)
        for _ in range(rng.choice((1, 2))):
            write(destination, files)
            assert content(destination) == format_versions(model.values()), (seed, number, sync)


def make_batch(rng: random.Random, number: int) -> Sync:
    """Return a random batch that starts now, or some time ago."""
    sync = Sync()
    minute = number * 10 - rng.choice((0, 0, 12))
    for row in "abcdefgh":
        count = rng.choice((0, 0, 1, 1, 2, 3))
        starts = sorted(rng.sample(range(minute, minute + 10), count))
        for start, end in zip(starts, [*starts[1:], None], strict=False):
            values: list[Cell] = [
                f"{row}{number}{start}" if rng.random() < 0.5 else UNMODIFIED,
                rng.choice((UNMODIFIED, NULL, str(start))),
            ]
            is_update = rng.random() < 0.6
            if not is_update:
                values = [NULL if value is UNMODIFIED else value for value in values]
            last = {} if end is None else {"end": at(end) - JUST_BEFORE, "active": False}
            version = Version(row, at(start), *values, **last)  # type: ignore[arg-type]
            (sync.updated if is_update else sync.replaced).append(version)
        if rng.random() < 0.2:
            sync.deleted[row] = at(minute + 10)
    return sync
