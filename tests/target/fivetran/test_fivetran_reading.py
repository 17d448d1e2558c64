"""Batch files read as Spark DataFrames: values, order, and errors of the workers."""

from __future__ import annotations

import traceback
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tap_core.protocols.fivetran.enums import Compression, DataType, Encryption
from target_spark.errors import BatchFileLoadError
from target_spark.fivetran.batch_frame import find_file_error, read_files, validate_files
from target_spark.fivetran.batch_request import FileKind, FileParams, RequestFile
from target_spark.fivetran.row_reader import OP, ORDINAL, unmodified_flag
from target_spark.fivetran.table_schema import DestinationColumn, FivetranSchema
from tests.fivetran.batch_files import (
    NULL,
    NULL_TEXT,
    UNMODIFIED,
    UNMODIFIED_TEXT,
    Cell,
    new_key,
    write_batch_file,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PARAMS = FileParams(Compression.ZSTD, Encryption.AES, NULL_TEXT, UNMODIFIED_TEXT)
BEGIN = datetime(1, 1, 1)  # noqa: DTZ001
END = "9999-12-31T23:59:59.999Z"
TYPES = {
    "id": (DataType.LONG, "bigint", "-9223372036854775808", -(2**63)),
    "boolean": (DataType.BOOLEAN, "boolean", "true", True),
    "short": (DataType.SHORT, "smallint", "-32768", -32768),
    "int": (DataType.INT, "int", "2147483647", 2**31 - 1),
    "decimal": (DataType.DECIMAL, "decimal(38,37)", "1." + "2" * 37, Decimal("1." + "2" * 37)),
    "float": (DataType.FLOAT, "float", "3.4028235E+38", 3.4028234663852886e38),
    "double": (DataType.DOUBLE, "double", "4.9E-324", 5e-324),
    "date": (DataType.NAIVE_DATE, "date", "1582-10-10", date(1582, 10, 10)),
    "naive": (DataType.NAIVE_DATETIME, "timestamp_ntz", "0001-01-01T00:00", BEGIN),
    "utc": (DataType.UTC_DATETIME, "timestamp", END, END.replace("999Z", "999000Z")),
    "gap": (DataType.UTC_DATETIME, "timestamp", "2024-03-31T01:30Z", "2024-03-31T01:30:00.000000Z"),
    "binary": (DataType.BINARY, "binary", "AAE=", b"\x00\x01"),
    "xml": (DataType.XML, "string", "<a/>", "<a/>"),
    "text": (DataType.STRING, "string", 'a "b",\n', 'a "b",\n'),
    "json": (DataType.JSON, "string", '{"a": 1}', '{"a": 1}'),
    "time.of day": (DataType.NAIVE_TIME, "string", "10:15", "10:15"),
}  # fmt: skip
ALL_TYPES = FivetranSchema(
    tuple(
        DestinationColumn(
            name, type_[0], name == "id", (38, 37) if name == "decimal" else None, f"{name}_"
        )
        for name, type_ in TYPES.items()
    )
)
NAMES = [column.name for column in ALL_TYPES.columns]
TWO_COLUMNS = FivetranSchema((ALL_TYPES.columns[0], ALL_TYPES.columns[7]))


@pytest.fixture
def files(tmp_path: Path) -> BatchFiles:
    return BatchFiles(tmp_path)


class BatchFiles:
    """Batch files in a folder, each encrypted with a new key."""

    def __init__(self, home: Path) -> None:
        self._home, self._count = home, 0

    def file(self, kind: FileKind, names: list[str], *rows: list[Cell]) -> RequestFile:
        self._count += 1
        path, key = self._home / f"batch_{self._count}.csv.zst.aes", new_key()
        write_batch_file(path, names, rows, key=key)
        return RequestFile(str(path), kind, key)


def read_in_order(frame: DataFrame) -> list[dict[str, object]]:
    """Return the rows of a frame in the order of their files; timestamps are text in UTC."""
    columns = (
        f"date_format(`{name}`, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'\") AS `{name}`"
        if type_ == "timestamp"
        else f"`{name}`"
        for name, type_ in frame.dtypes
    )
    rows = [row.asDict() for row in frame.selectExpr(*columns).collect()]
    return sorted(rows, key=lambda row: row[ORDINAL])


def test_every_type_is_read_exactly(spark: SparkSession, files: BatchFiles) -> None:
    """F40: also the bounds of dates and numbers, and null."""
    cells: list[Cell] = [case[2] for case in TYPES.values()]
    file = files.file(FileKind.REPLACE, NAMES, cells, ["7", *[NULL] * (len(NAMES) - 1)])
    validate_files([file], PARAMS, ALL_TYPES)
    frame = read_files(spark, [file], PARAMS, ALL_TYPES)
    types = dict(frame.dtypes)
    assert types == {f"{name}_": case[1] for name, case in TYPES.items()} | {
        OP: "tinyint",
        ORDINAL: "bigint",
    }
    first, second = read_in_order(frame)
    for name, (_, _, _, expected) in TYPES.items():
        assert (name, first[f"{name}_"]) == (name, expected)
        assert second[f"{name}_"] is None or name == "id"


def test_files_of_all_kinds_are_one_frame_in_order(spark: SparkSession, files: BatchFiles) -> None:
    """F35 to F37: each has its key and header; one partition per file; unmodified cells flagged."""
    frame = read_files(
        spark,
        [
            files.file(FileKind.REPLACE, ["date", "id"], ["2024-01-08", "1"], [NULL, "2"]),
            files.file(FileKind.UPDATE, ["id", "date"], ["3", UNMODIFIED], ["4", "2024-01-09"]),
            files.file(FileKind.UPDATE, ["id"], ["5"]),
            files.file(FileKind.DELETE, ["id"], ["6"]),
        ],
        PARAMS,
        TWO_COLUMNS,
    )
    flag = unmodified_flag(TWO_COLUMNS.columns[1])
    assert frame.columns == ["id_", "date_", flag, OP, ORDINAL]
    assert [tuple(row.values()) for row in read_in_order(frame)] == [
        (1, date(2024, 1, 8), False, 1, 0),
        (2, None, False, 1, 1),
        (3, None, True, 2, 1 << 40),
        (4, date(2024, 1, 9), False, 2, (1 << 40) + 1),
        (5, None, True, 2, 2 << 40),
        (6, None, False, 3, 3 << 40),
    ]
    assert frame._jdf.queryExecution().toRdd().getNumPartitions() == 4
    empty_frame = read_files(spark, [], PARAMS, TWO_COLUMNS)
    assert (empty_frame.columns, empty_frame.collect()) == (["id_", "date_", OP, ORDINAL], [])


def test_invalid_cell_fails_the_commit_with_row_and_column(
    spark: SparkSession, files: BatchFiles, tmp_path: Path
) -> None:
    """F3, F42: nothing is committed; errors and plans contain no cell and no key."""
    valid_file = files.file(FileKind.REPLACE, ["id", "date"], ["1", NULL])
    invalid_file = files.file(FileKind.REPLACE, ["id", "date"], ["1", NULL], ["2", "secret words"])
    validate_files([valid_file, invalid_file], PARAMS, TWO_COLUMNS)
    table = tmp_path / "table"
    frame = read_files(spark, [valid_file, invalid_file], PARAMS, TWO_COLUMNS)
    with pytest.raises(Exception, match=r"batch_2\.csv\.zst\.aes") as caught:
        frame.write.format("delta").save(str(table))
    load_error = find_file_error(caught.value)
    assert str(load_error) == (
        "The batch file batch_2.csv.zst.aes has a cell in row 2, column date, that is not a date of"
        " the years 0001 to 9999."
    )
    assert isinstance(load_error, BatchFileLoadError)
    assert not (table / "_delta_log").exists() or not list((table / "_delta_log").glob("*.json"))
    plan = frame._jdf.queryExecution().toString()
    output = "".join(traceback.format_exception(caught.value)) + plan
    stack = getattr(caught.value, "_stackTrace", "") or ""
    for file in (valid_file, invalid_file):
        assert file.key is not None
        assert not any(text in output + stack for text in (repr(file.key)[2:-1], file.key.hex()))
    assert "secret" not in output + stack
