"""Concurrent writers change or replace a table after a call has read it and before its commit."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pytest

from tap_core.events import StreamId
from target_spark.config.options import LoadOptions
from target_spark.errors import TableError
from target_spark.fivetran import alter_table, tables, write_batch, write_history_batch
from target_spark.fivetran.batch_request import FileKind
from target_spark.fivetran.tables import TableService
from target_spark.fivetran.type_conversion import get_conversion
from tests.fivetran.batch_files import NULL, UNMODIFIED
from tests.target.fivetran.fivetran_writes import DestinationTables, make_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from target_spark.fivetran.existing_table import ExistingTable

pytestmark = pytest.mark.spark

PATIENCE = 60
SYNCED, LATER = "2024-01-08T18:52:07Z", "2024-02-01T00:00:00Z"
MAX = "9999-12-31T23:59:59.999Z"
KEYLESS = make_schema(id="LONG", n="STRING", at="UTC_DATETIME")
KEYED = make_schema(id="*LONG", n="STRING", at="UTC_DATETIME", gone="BOOLEAN")
VERSIONS = make_schema(
    id="*LONG",
    n="STRING",
    _fivetran_start="*UTC_DATETIME",
    _fivetran_end="UTC_DATETIME",
    _fivetran_active="BOOLEAN",
)
ALL = ["id", "n", "at", "gone"]
ROWS = [("1", "10", SYNCED, NULL), ("2", "20", SYNCED, NULL)]


class RacingDestination(DestinationTables):
    """A destination with another writer that acts once, at a moment that the test chooses."""

    def __init__(self, tables: TableService, home: Path) -> None:
        super().__init__(tables, home)
        self.theirs = tables.spark.newSession()
        self.act: Callable[[ExistingTable], None] | None = None

    @property
    def existing(self) -> ExistingTable:
        existing = self.tables.describe(StreamId("t", "s"))
        assert existing is not None
        return existing

    def others(self) -> None:
        """Let the other writer act, unless it has."""
        act, self.act = self.act, None
        if act is not None:
            for key, value in self.tables.spark.conf.getAll.items():
                if key.startswith("spark.sql.catalog."):
                    self.theirs.conf.set(key, value)
            act(self.existing)

    def append(self, existing: ExistingTable) -> None:
        """Add a row with the key 99 and the text 7."""
        cells = {"id": "99", "n": "'7'", "gone": "true", "_fivetran_active": "true"}
        cells |= dict.fromkeys(("at", "_fivetran_start"), f"timestamp '{LATER}'")
        names = ", ".join(existing.types)
        values = ", ".join(cells.get(name, "NULL") for name in existing.types)
        self.theirs.sql(f"INSERT INTO {existing.ref} ({names}) VALUES ({values})")  # noqa: S608

    def replace(self, existing: ExistingTable) -> None:
        """Drop the table, and create one with the same columns and one row at its place."""
        self.append(existing)
        rows: pa.Table = self.theirs.table(existing.ref).where("id = 99").toArrow()
        columns = ", ".join(f"{name} {ddl}" for name, ddl in existing.types.items())
        if existing.format == "delta":
            shutil.rmtree(existing.table.path)
            deltalake.write_deltalake(existing.table.path, rows)
            return
        self.theirs.sql(f"DROP TABLE {existing.ref} PURGE")
        self.theirs.sql(f"CREATE TABLE {existing.ref} ({columns}) USING iceberg")
        self.append(existing)


@pytest.fixture(params=["delta", "iceberg"])
def destination(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> RacingDestination:
    (tmp_path / "files").mkdir()
    options = LoadOptions(str(tmp_path / "lake"), format=request.param)
    return RacingDestination(TableService(spark, options), tmp_path / "files")


def keyless(destination: RacingDestination) -> None:
    destination.make("t", KEYLESS)


def keyed(destination: RacingDestination) -> None:
    destination.make("t", KEYED)


def filled(destination: RacingDestination) -> None:
    keyed(destination)
    destination.write("t", KEYED, destination.file(FileKind.REPLACE, ALL, ROWS))


def versioned(destination: RacingDestination) -> None:
    destination.make("t", VERSIONS)


def with_versions(destination: RacingDestination) -> None:
    versioned(destination)
    history(destination)


def append(destination: RacingDestination) -> None:
    destination.write(
        "t", KEYLESS, destination.file(FileKind.REPLACE, ALL[:3], [row[:3] for row in ROWS])
    )


def replace(destination: RacingDestination) -> None:
    destination.write("t", KEYED, destination.file(FileKind.REPLACE, ALL, ROWS))


def update(destination: RacingDestination) -> None:
    rows = [(row, "11", UNMODIFIED, UNMODIFIED) for row in ("1", "3")]
    destination.write("t", KEYED, destination.file(FileKind.UPDATE, ALL, rows))


def delete(destination: RacingDestination) -> None:
    destination.write("t", KEYED, destination.file(FileKind.DELETE, ["id"], [("1",)]))


def history(destination: RacingDestination) -> None:
    columns = [column.name for column in VERSIONS.columns]
    rows = [("1", "10", SYNCED, MAX, "true"), ("2", NULL, SYNCED, MAX, "true")]
    write_with = write_history_batch.write_versions
    destination.write(
        "t", VERSIONS, destination.file(FileKind.REPLACE, columns, rows), write_with=write_with
    )


def next_versions(destination: RacingDestination) -> None:
    columns = [column.name for column in VERSIONS.columns]
    rows = [("1", "11", LATER, MAX, "true")]
    destination.write(
        "t",
        VERSIONS,
        destination.file(FileKind.UPDATE, columns, rows),
        destination.file(FileKind.EARLIEST_START, ["id", "_fivetran_start"], [("1", LATER)]),
        write_with=write_history_batch.write_versions,
    )


def truncate(destination: RacingDestination) -> None:
    before = datetime(2024, 1, 31, tzinfo=timezone.utc)
    assert destination.tables.truncate(StreamId("t", "s"), "at", before, None) == 2


def truncate_softly(destination: RacingDestination) -> None:
    before = datetime(2024, 1, 31, tzinfo=timezone.utc)
    assert destination.tables.truncate(StreamId("t", "s"), "at", before, "gone") == 2


def retype(destination: RacingDestination) -> None:
    new_schema = make_schema(id="*LONG", n="INT", at="UTC_DATETIME", gone="BOOLEAN")
    destination.tables.alter(StreamId("t", "s"), new_schema, drops=False)


def add(destination: RacingDestination) -> None:
    new_schema = make_schema(id="*LONG", n="STRING", at="UTC_DATETIME", gone="BOOLEAN", new="LONG")
    destination.tables.alter(StreamId("t", "s"), new_schema, drops=False)


def drop(destination: RacingDestination) -> None:
    destination.tables.alter(
        StreamId("t", "s"), make_schema(id="*LONG", n="STRING", gone="BOOLEAN"), drops=True
    )


@dataclass(frozen=True)
class Case:
    """Test case: a call, the preparation of its table, and its rows without other writers."""

    begin: Callable[[RacingDestination], None]
    call: Callable[[RacingDestination], None]
    wanted: list[tuple[Any, ...]]
    columns: tuple[str, ...] = ("id", "n")
    theirs: tuple[Any, ...] = (99, "7")


CASES = [
    Case(keyless, append, [(1, "10"), (2, "20")]),
    Case(keyed, replace, [(1, "10"), (2, "20")]),
    Case(filled, replace, [(1, "10"), (2, "20")]),
    Case(filled, update, [(1, "11"), (2, "20")]),
    Case(filled, delete, [(2, "20")]),
    Case(versioned, history, [(1, "10"), (2, None)]),
    Case(with_versions, next_versions, [(1, "10"), (1, "11"), (2, None)]),
    Case(filled, truncate, []),
    Case(filled, truncate_softly, [(1, True), (2, True)], ("id", "gone"), (99, True)),
    Case(filled, retype, [(1, 10), (2, 20)], theirs=(99, 7)),
    Case(filled, add, [(1, "10", None), (2, "20", None)], ("id", "n", "new"), (99, "7", None)),
    Case(filled, drop, [(1, "10"), (2, "20")]),
]


def let_others(destination: RacingDestination, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the other writer after the call has read the table and before its commit."""

    def after(module: Any, name: str) -> None:
        real = getattr(module, name)

        def called(*args: Any, **options: Any) -> Any:
            destination.others()
            return real(*args, **options)

        monkeypatch.setattr(module, name, called)

    after(write_batch, "read_files")
    after(write_history_batch, "read_files")
    after(tables, "delete_rows")
    after(alter_table, "_build_select_list")


@pytest.mark.every_nth_case(3)
@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.call.__name__}-{case.begin.__name__}"
)
def test_table_that_replaced_the_expected_one_is_not_changed(
    destination: RacingDestination, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.begin(destination)
    destination.act = destination.replace
    let_others(destination, monkeypatch)
    before = destination.existing.id
    with pytest.raises(TableError, match="was replaced by another table"):
        case.call(destination)
    assert destination.act is None
    assert destination.existing.id != before
    columns = ("id", "n") if case.columns[-1] == "new" else case.columns
    assert destination.rows("t", *columns) == [(99, True if "gone" in columns else "7")]
    destination.theirs.sql(f"REFRESH TABLE {destination.existing.ref}")
    assert destination.theirs.table(destination.existing.ref).count() == 1


@pytest.mark.thorough  # the formats guarantee it; make test runs what the project checks itself
@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.call.__name__}-{case.begin.__name__}"
)
def test_concurrently_committed_rows_are_kept(
    destination: RacingDestination, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.begin(destination)
    destination.act = destination.append
    let_others(destination, monkeypatch)
    case.call(destination)
    assert destination.act is None
    assert destination.rows("t", *case.columns) == sorted([*case.wanted, case.theirs], key=repr)


@pytest.fixture
def retype_slowly(
    destination: RacingDestination, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., None]:
    """Return a function that changes a type, and lets another writer act during the rewrite."""

    def pause(text: str | None) -> str | None:
        (tmp_path / "began").touch()
        end = time.monotonic() + PATIENCE
        while not (tmp_path / "go on").exists() and time.monotonic() < end:
            time.sleep(0.02)
        return text

    def convert(value: str, old: str, new: str) -> Any:
        conversion = get_conversion(value, old, new)
        return conversion._replace(value=conversion.value.replace(value, f"pause({value})"))

    def call(act: Callable[[ExistingTable], None]) -> None:
        destination.tables.spark.udf.register("pause", pause)
        monkeypatch.setattr(alter_table, "get_conversion", convert)
        destination.act = act
        with ThreadPoolExecutor() as pool:
            calling = pool.submit(retype, destination)
            while not (tmp_path / "began").exists() and not calling.done():
                time.sleep(0.02)
            assert not calling.done()
            destination.others()
            (tmp_path / "go on").touch()
            calling.result()

    return call


@pytest.mark.thorough
def test_rows_added_during_a_rewrite_are_kept(
    destination: RacingDestination, retype_slowly: Callable[..., None]
) -> None:
    filled(destination)
    retype_slowly(destination.append)
    assert destination.rows("t", "id", "n") == [(1, 10), (2, 20), (99, 7)]


def test_table_replaced_during_a_rewrite_is_not_changed(
    destination: RacingDestination, retype_slowly: Callable[..., None]
) -> None:
    filled(destination)
    with pytest.raises(TableError, match="was replaced by another table"):
        retype_slowly(destination.replace)
    assert destination.rows("t", "id", "n") == [(99, "7")]
