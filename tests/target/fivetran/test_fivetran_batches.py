"""Batches of files that replace, update and delete rows, in Delta Lake and Iceberg."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tap_core.events import StreamId
from target_spark.config.options import LoadOptions
from target_spark.errors import BatchFileLoadError, TableError, UnsupportedError
from target_spark.fivetran import write_batch
from target_spark.fivetran.batch_request import FileKind, RequestFile
from target_spark.fivetran.table_schema import FivetranSchema
from target_spark.fivetran.tables import TableService
from target_spark.fivetran.write_batch import BatchResult
from target_spark.spark.arrow_workers import map_in_arrow
from tests.fivetran.batch_files import NULL, UNMODIFIED, Cell
from tests.target.fivetran.fivetran_writes import DestinationTables, make_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

WAIT_SECONDS = 60
REPLACE, UPDATE, DELETE = FileKind.REPLACE, FileKind.UPDATE, FileKind.DELETE
SYNCED = "2024-01-08T18:52:07.754685370Z"
PEOPLE = make_schema(id="*LONG", name="STRING", n="INT", _fivetran_synced="UTC_DATETIME")
COLUMNS = [column.name for column in PEOPLE.columns]


@pytest.fixture(params=["delta", "iceberg"])
def destination(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> DestinationTables:
    (tmp_path / "files").mkdir()
    options = LoadOptions(str(tmp_path / "lake"), format=request.param)
    return DestinationTables(TableService(spark, options), tmp_path / "files")


@pytest.fixture
def people(destination: DestinationTables) -> DestinationTables:
    """Return a destination with a table of three people."""
    destination.make("people", PEOPLE)
    rows = [("1", "one", "10", SYNCED), ("2", "two", "20", SYNCED), ("3", "three", NULL, SYNCED)]
    assert destination.write(
        "people", PEOPLE, destination.file(REPLACE, COLUMNS, rows)
    ) == BatchResult(3, 1)
    return destination


def read_people(destination: DestinationTables) -> list[tuple[Any, ...]]:
    return destination.rows("people", "id", "name", "n")


THREE_PEOPLE = [(1, "one", 10), (2, "two", 20), (3, "three", None)]


def test_replace_update_and_delete_files_are_one_commit(people: DestinationTables) -> None:
    """F35 to F37, F43: one commit for all files; updates of missing rows have no effect.

    A value that an update leaves unmodified is kept, also if it is null.
    """
    before = people.commits("people")
    files = (
        people.file(REPLACE, COLUMNS, [("4", "four", "40", SYNCED)]),
        people.file(REPLACE, ["n", "_fivetran_synced", "name", "id"], [("11", SYNCED, NULL, "1")]),
        people.file(
            UPDATE,
            ["name", "id", "_fivetran_synced", "n"],
            [
                (UNMODIFIED, "3", SYNCED, "30"),
                (NULL, "2", SYNCED, UNMODIFIED),
                ("nobody", "99", SYNCED, UNMODIFIED),
            ],
        ),
        people.file(DELETE, COLUMNS, [("98", NULL, NULL, NULL)]),
    )
    assert people.write("people", PEOPLE, *files) == BatchResult(6, 4)
    expected = [(1, None, 11), (2, None, 20), (3, "three", 30), (4, "four", 40)]
    assert read_people(people) == expected
    assert people.commits("people") == before + 1
    people.write("people", PEOPLE, *files)  # the answer was lost
    assert read_people(people) == expected

    people.write("people", PEOPLE, people.file(DELETE, ["id"], [("1",), ("3",), ("97",)]))
    assert [row[0] for row in read_people(people)] == [2, 4]
    assert people.write("people", PEOPLE) == BatchResult(0, 0)
    assert people.write("people", PEOPLE, people.file(UPDATE, COLUMNS, [])) == BatchResult(0, 1)


def test_first_batch_is_merged_with_concurrently_inserted_rows(
    destination: DestinationTables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The other writer inserts after the table was found empty, while the rows are written."""
    reading_started, may_continue = tmp_path / "began", tmp_path / "go on"
    read_files = write_batch.read_files

    def wait_before_rows(rows: Iterator[Any]) -> Iterator[Any]:
        reading_started.touch()
        end = time.monotonic() + WAIT_SECONDS
        while not may_continue.exists() and time.monotonic() < end:
            time.sleep(0.02)
        yield from rows

    def read_slowly(*args: Any) -> DataFrame:
        frame = read_files(*args)
        return map_in_arrow(frame, wait_before_rows, frame.schema, "waits")

    destination.make("people", PEOPLE)
    ref, other_session = destination.ref("people"), destination.tables.spark.newSession()
    for key, value in destination.tables.spark.conf.getAll.items():
        if key.startswith("spark.sql.catalog."):
            other_session.conf.set(key, value)
    monkeypatch.setattr(write_batch, "read_files", read_slowly)
    rows = [("1", "ours", "10", SYNCED), ("2", "ours", "20", SYNCED)]
    file = destination.file(REPLACE, COLUMNS, rows)
    with ThreadPoolExecutor() as pool:
        future = pool.submit(destination.write, "people", PEOPLE, file)
        end = time.monotonic() + WAIT_SECONDS
        while not reading_started.exists() and time.monotonic() < end:
            time.sleep(0.02)
        values = "(2, 'theirs', 0, now()), (3, 'theirs', 0, now())"
        other_session.sql(f"INSERT INTO {ref} VALUES {values}")  # noqa: S608
        may_continue.touch()
        assert future.result() == BatchResult(2, 1)
    assert read_people(destination) == [(1, "ours", 10), (2, "ours", 20), (3, "theirs", 0)]


def test_rows_of_one_key_are_applied_in_order(
    destination: DestinationTables,
) -> None:
    """F35: all rows of a key count, in the order of the files' kinds."""
    destination.make("people", PEOPLE)
    first = destination.file(
        REPLACE,
        COLUMNS,
        [("1", "a", "1", SYNCED), ("1", "b", "2", SYNCED), ("2", "x", "9", SYNCED)],
    )
    destination.write(
        "people", PEOPLE, first, destination.file(REPLACE, COLUMNS, [("2", "y", "8", SYNCED)])
    )
    assert read_people(destination) == [(1, "b", 2), (2, "y", 8)]
    destination.write(
        "people",
        PEOPLE,
        destination.file(DELETE, ["id"], [("4",), ("4",)]),
        destination.file(
            UPDATE,
            COLUMNS,
            [
                ("1", UNMODIFIED, "3", SYNCED),
                ("1", NULL, UNMODIFIED, SYNCED),
                ("3", UNMODIFIED, "33", SYNCED),
                ("2", UNMODIFIED, UNMODIFIED, SYNCED),
            ],
        ),
        destination.file(
            REPLACE,
            COLUMNS,
            [("3", "z", "7", SYNCED), ("4", "q", "6", SYNCED)],
        ),
    )
    assert read_people(destination) == [(1, None, 3), (2, "y", 8), (3, "z", 33)]


ALL_TYPES = make_schema(
    id="*STRING",
    truth="BOOLEAN",
    short="SHORT",
    int="INT",
    long="LONG",
    decimal=("DECIMAL", 38, 37),
    float="FLOAT",
    double="DOUBLE",
    day="NAIVE_DATE",
    time="NAIVE_TIME",
    local="NAIVE_DATETIME",
    instant="UTC_DATETIME",
    bytes="BINARY",
    xml="XML",
    json="JSON",
    text="STRING",
)
CELLS = (
    "true",
    "-32768",
    "2147483647",
    "-9223372036854775808",
    "1.0000000000000000000000000000000000001",
    "3.4028235E38",
    "-2.2250738585072014E-308",
    "0001-01-01",
    "10:15",
    "2007-12-03T10:15:30.123456",
    "9999-12-31T23:59:59.999Z",
    "AAECAwQ=",
    "<a>\n</a>",
    '{"a": "b, \\"c\\""}',
    'ünï "quoted",\r\n\u2028\u0085\\',
)
VALUES = (
    True,
    -32768,
    2147483647,
    -9223372036854775808,
    Decimal("1.0000000000000000000000000000000000001"),
    3.4028234663852886e38,
    -2.2250738585072014e-308,
    date(1, 1, 1),
    "10:15",
    datetime(2007, 12, 3, 10, 15, 30, 123456),  # noqa: DTZ001  (it has no zone)
    "9999-12-31 23:59:59.999",
    bytearray(b"\0\1\2\3\4"),
    "<a>\n</a>",
    '{"a": "b, \\"c\\""}',
    'ünï "quoted",\r\n\u2028\u0085\\',
)


def test_values_of_every_type_are_exact_after_each_operation(
    destination: DestinationTables,
) -> None:
    """F36, F40, F43: each type is exact when it is replaced, kept, nulled and updated.

    A first batch that is sent twice is stored once.
    """
    destination.make("every", ALL_TYPES)
    columns = [column.name for column in ALL_TYPES.columns]
    empty: tuple[Cell, ...] = (NULL,) * len(CELLS)
    unmodified: tuple[Cell, ...] = (UNMODIFIED,) * len(CELLS)

    def read_values() -> dict[str, tuple[Any, ...]]:
        table = destination.tables.spark.table(destination.ref("every"))
        with_text = table.withColumn("instant", table["instant"].cast("string"))
        return {row[0]: tuple(row[1:]) for row in with_text.collect()}

    rows = [(name, *CELLS) for name in ("stays", "is nulled", "goes")]
    first = destination.file(REPLACE, columns, [*rows, ("is set", *empty)])
    for _ in range(2):  # the rows are added, and then sent again, as after a lost answer
        destination.write("every", ALL_TYPES, first)
    nulls = (None,) * len(CELLS)
    expected = dict.fromkeys(("stays", "is nulled", "goes"), VALUES)
    assert read_values() == {**expected, "is set": nulls}
    update = destination.file(
        UPDATE,
        list(reversed(columns)),
        [
            (*unmodified, "stays"),
            (*empty, "is nulled"),
            (*reversed(CELLS), "is set"),
        ],
    )
    destination.write(
        "every", ALL_TYPES, update, destination.file(DELETE, columns, [("goes", *empty)])
    )
    assert read_values() == {"stays": VALUES, "is nulled": nulls, "is set": VALUES}


@pytest.mark.thorough
def test_rows_match_by_composite_keys_of_any_type(destination: DestinationTables) -> None:
    """F37: rows match by keys of several columns, of any type."""
    keys = {name: f"*{type_}" for name, type_ in zip("abcdefg", KEY_TYPES, strict=True)}
    fivetran_schema = make_schema(**keys, **{"odd name; `'": "STRING"})
    columns = [column.name for column in fivetran_schema.columns]
    destination.make("keyed", fivetran_schema)
    equal_cells = ("-0.0", *KEY_CELLS[1:])
    destination.write(
        "keyed", fivetran_schema, destination.file(REPLACE, columns, [(*KEY_CELLS, "old")])
    )
    destination.write(
        "keyed", fivetran_schema, destination.file(UPDATE, columns, [(*equal_cells, "new")])
    )
    (row,) = destination.rows("keyed")
    assert row[-1] == "new"
    destination.write(
        "keyed",
        FivetranSchema(fivetran_schema.keys),
        destination.file(UPDATE, columns[:-1], [equal_cells]),
    )
    destination.write(
        "keyed", fivetran_schema, destination.file(DELETE, columns[:-1], [equal_cells])
    )
    assert destination.rows("keyed") == []


KEY_TYPES = (
    "DOUBLE", "BINARY", "UTC_DATETIME", "NAIVE_DATE", "BOOLEAN", "DECIMAL", "NAIVE_TIME"
)  # fmt: skip
KEY_CELLS = (
    "0.0",
    "AAE=",
    "2024-01-08T18:52:07.754685000Z",
    "1582-10-10",
    "false",
    "1.50",
    "10:15:30",
)


@pytest.mark.thorough
def test_rows_match_by_the_stored_key_or_fivetran_id(
    destination: DestinationTables,
) -> None:
    """F37: rows of tables without keys match by _fivetran_id, flagged as key or not."""
    fivetran_schema = make_schema(_fivetran_id="STRING", n="INT")
    destination.make("flagless", fivetran_schema)
    columns = ["_fivetran_id", "n"]
    destination.write(
        "flagless", fivetran_schema, destination.file(REPLACE, columns, [("x", "1"), ("y", "2")])
    )
    destination.write("flagless", fivetran_schema, destination.file(UPDATE, columns, [("x", "3")]))
    destination.write("flagless", fivetran_schema, destination.file(DELETE, columns, [("y", NULL)]))
    assert destination.rows("flagless") == [("x", 3)]

    destination.make("people", PEOPLE)
    unflagged = make_schema(id="LONG", name="STRING")
    for name in ("first", "second"):
        destination.write(
            "people", unflagged, destination.file(REPLACE, ["id", "name"], [("1", name)])
        )
    assert read_people(destination) == [(1, "second", None)]
    with pytest.raises(TableError, match="has no column id"):
        destination.write(
            "people", make_schema(n="INT"), destination.file(REPLACE, ["n"], [("1",)])
        )

    keyless = make_schema(n="INT")
    destination.make("bare", keyless)
    with pytest.raises(UnsupportedError, match="no key"):
        destination.write("bare", keyless, destination.file(DELETE, ["n"], [("1",)]))


def test_repeated_call_for_a_table_without_a_key_adds_no_rows(
    destination: DestinationTables,
) -> None:
    """F43: a repetition has the same files, and nothing has removed rows since."""
    keyless = make_schema(n="INT")
    destination.make("bare", keyless)
    for _ in range(2):  # two calls with the same rows
        file = destination.file(REPLACE, ["n"], [("1",)])
        for _ in range(2):
            destination.write("bare", keyless, file)
    assert destination.rows("bare") == [(1,), (1,)]
    assert destination.tables.truncate(StreamId("bare", "s"), "", None, None) == 2
    destination.write("bare", keyless, file)
    assert destination.rows("bare") == [(1,)]


def test_repeated_call_is_recognized_after_commits_of_other_programs(
    destination: DestinationTables,
) -> None:
    """F43: the answer to a call without a key is lost, and other programs add rows meanwhile."""
    keyless = make_schema(n="INT")
    destination.make("bare", keyless)
    file = destination.file(REPLACE, ["n"], [("1",)])
    for _ in range(2):
        destination.write("bare", keyless, file)
        destination.tables.spark.sql(f"INSERT INTO {destination.ref('bare')} VALUES (2)")  # noqa: S608
    assert destination.rows("bare") == [(1,), (2,), (2,)]


def test_repeated_call_is_recognized_after_changes_of_the_columns(
    destination: DestinationTables,
) -> None:
    """F43: a change of a type or a comment neither updates nor removes rows."""
    keyless, name = make_schema(n="INT"), "bare"
    destination.make(name, keyless)
    file = destination.file(REPLACE, ["n"], [("1",)])
    destination.write(name, keyless, file)
    destination.tables.alter(StreamId(name, "s"), make_schema(n="LONG"), drops=False)
    destination.tables.spark.sql(f"ALTER TABLE {destination.ref(name)} ALTER COLUMN n COMMENT 'N'")
    destination.write(name, keyless, file)
    assert destination.rows(name) == [(1,)]


def test_call_is_applied_again_after_another_program_has_replaced_the_rows(
    destination: DestinationTables,
) -> None:
    keyless = make_schema(n="INT")
    destination.make("bare", keyless)
    file = destination.file(REPLACE, ["n"], [("1",)])
    destination.write("bare", keyless, file)
    destination.tables.spark.sql(f"INSERT OVERWRITE {destination.ref('bare')} VALUES (2)")  # noqa: S608
    destination.write("bare", keyless, file)
    assert destination.rows("bare") == [(1,), (2,)]


def test_invalid_file_leaves_the_table_unchanged(people: DestinationTables) -> None:
    """F42: with any invalid file, no row of the batch is in the table.

    The error names the file and no value.
    """
    good = people.file(REPLACE, COLUMNS, [("1", "changed", "1", SYNCED)])
    faulty = [
        people.file(REPLACE, COLUMNS, [("6", "six", "6", SYNCED), ("7", "seven", "MARK", SYNCED)]),
        people.file(UPDATE, COLUMNS, [("MARK", "six", "6", SYNCED)]),
        people.file(DELETE, ["id", "MARK"], [("1", "2")]),
        RequestFile(good.path, DELETE, b"MARK" * 8),
        RequestFile(f"{good.path}.gone", UPDATE, good.key),
    ]
    cut = Path(people.file(UPDATE, COLUMNS, [("1", "x" * n, "1", SYNCED) for n in range(99)]).path)
    cut.write_bytes(cut.read_bytes()[:-16])
    faulty.append(RequestFile(str(cut), UPDATE, good.key))
    before = people.commits("people")
    for file in faulty:
        with pytest.raises(BatchFileLoadError, match=Path(file.path).name) as caught:
            people.write("people", PEOPLE, good, file)
        assert "MARK" not in str(caught.value)
    assert read_people(people) == THREE_PEOPLE
    assert people.commits("people") == before


def test_batch_that_deletes_rows_of_a_table_in_history_mode_is_refused(
    destination: DestinationTables,
) -> None:
    """The key of such a table has a column that a delete file lacks, or in which it has NULL."""
    history_schema = make_schema(
        id="*STRING", _fivetran_start="*UTC_DATETIME", _fivetran_end="UTC_DATETIME"
    )
    destination.make("versions", history_schema)
    columns = [column.name for column in history_schema.columns]
    destination.write(
        "versions", history_schema, destination.file(REPLACE, columns, [("x", SYNCED, SYNCED)])
    )
    for columns_of_file, cells in (
        (columns, ("x", NULL, SYNCED)),
        (["id", "_fivetran_end"], ("x", SYNCED)),
    ):
        delete_file = destination.file(DELETE, columns_of_file, [cells])
        with pytest.raises(UnsupportedError, match=r"s\.versions is in history mode"):
            destination.write("versions", history_schema, delete_file)
    assert len(destination.rows("versions")) == 1


@pytest.mark.thorough
def test_mismatch_of_request_and_table_is_an_error(people: DestinationTables) -> None:
    """A missing table, a missing column and a type that cannot hold a value are reported.

    Values that the table's type can hold are written without loss.
    """
    file = people.file(REPLACE, COLUMNS, [("1", "one", "1", SYNCED)])
    with pytest.raises(TableError, match=r"s\.nowhere does not exist"):
        people.write("nowhere", PEOPLE, file)
    with_extra = make_schema(id="*LONG", extra="STRING")
    with pytest.raises(TableError, match="no column extra"):
        people.write("people", with_extra, people.file(REPLACE, ["id", "extra"], [("1", "x")]))

    wide = make_schema(id="*LONG", name="STRING", n="LONG")
    columns = ["id", "name", "n"]
    too_large = people.file(UPDATE, columns, [("2", "dos", "22"), ("3", "tres", "2147483648")])
    with pytest.raises(TableError, match=r"Column n of table s\.people is int.*LONG") as caught:
        people.write("people", wide, too_large)
    assert "2147483648" not in str(caught.value)
    text_key = make_schema(id="*STRING", n="DOUBLE")
    people.write("people", text_key, people.file(UPDATE, ["id", "n"], [("2", "2.2E1")]))
    assert read_people(people) == [THREE_PEOPLE[0], (2, "two", 22), THREE_PEOPLE[2]]


@pytest.mark.thorough
@pytest.mark.parametrize("destination", ["delta"], indirect=True)
def test_text_that_a_foreign_partition_stores_as_null_is_an_error(
    destination: DestinationTables, spark: SparkSession
) -> None:
    path = f"{destination.tables.options.path}/s__t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id bigint, a string) USING delta PARTITIONED BY (a)")
    keyed = make_schema(id="*LONG", a="*STRING")
    for text in ("", "__HIVE_DEFAULT_PARTITION__"):
        file = destination.file(REPLACE, ["id", "a"], [("1", text), ("2", "x")])
        with pytest.raises(TableError, match=r"is partitioned by column a.* an empty string or"):
            destination.write("t", keyed, file)
    destination.write("t", keyed, destination.file(REPLACE, ["id", "a"], [("1", " ")]))
    assert destination.rows("t") == [(1, " ")]


@pytest.mark.thorough
def test_keys_that_are_equal_in_the_type_of_the_table_are_one_row(
    destination: DestinationTables,
) -> None:
    """The texts 1 and 1.0 are one key of a table whose key another writer has made an integer."""
    destination.make("t", make_schema(id="*INT", name="STRING"))
    text_key = make_schema(id="*STRING", name="STRING")
    for names in (("a", "b"), ("c", "d")):
        rows = list(zip(("1", "1.0"), names, strict=True))
        destination.write("t", text_key, destination.file(REPLACE, ["id", "name"], rows))
        assert destination.rows("t") == [(1, names[-1])]


@pytest.mark.thorough
def test_batch_for_a_thousand_columns_is_applied(destination: DestinationTables) -> None:
    """F45: rows of a wide table are replaced, updated and deleted in one batch."""
    kinds = ["STRING", "LONG", "UTC_DATETIME", "DOUBLE"]
    wide = make_schema(id="*LONG", **{f"column {n}": kinds[n % 4] for n in range(1000)})
    columns = [column.name for column in wide.columns]
    cells = [["text", "7", SYNCED, "1.5"][n % 4] for n in range(1000)]
    destination.make("wide", wide)
    destination.write(
        "wide", wide, destination.file(REPLACE, columns, [("1", *cells), ("2", *cells)])
    )
    changes = [UNMODIFIED if n % 3 else NULL for n in range(1000)]
    destination.write(
        "wide",
        wide,
        destination.file(REPLACE, columns, [("3", *cells)]),
        destination.file(UPDATE, columns, [("1", *changes)]),
        destination.file(DELETE, ["id"], [("2",)]),
    )
    rows = destination.rows("wide")
    assert [row[0] for row in rows] == [1, 3]
    assert [value is None for value in rows[0][1:]] == [not n % 3 for n in range(1000)]
