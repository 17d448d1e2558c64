"""BATCH messages: rows in files, with the same guarantees as rows in messages."""

from __future__ import annotations

import gzip
import json
import math
import os
import subprocess
import sys
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tap_core.batch.limits import FileLimits
from tap_core.batch.url_schemes import SCHEMES
from tap_core.events import BatchFiles, StreamId
from target_spark.errors import FilesError, QuarantineError, UnsupportedError
from target_spark.frames import assign_ordinals, spool_lines_from_files
from target_spark.loader.batch_file_checks import BatchFile, check_batch_files, get_file_key
from target_spark.loader.loader import Loader
from target_spark.spark.session import Session
from target_spark.storage.hadoop_fs import remove_file
from target_spark.storage.uris import to_spark_uri
from tests.target.warehouse import (
    ID,
    ID_AND_NAME,
    Warehouse,
    feed,
    record,
    schema,
    state,
    versioned,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

JSONL = {"format": "jsonl"}
GZIP = {"format": "jsonl", "compression": "gzip"}
PARQUET = {"format": "parquet"}
ROOT = Path(__file__).parents[3]


@pytest.fixture(params=["delta", "iceberg"])
def keyed(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables", request.param)


def lines(path: Path, *rows: Any) -> str:
    """Write rows as JSON lines, gzipped if the name ends in .gz; return the address."""
    texts = (row if isinstance(row, (str, bytes)) else json.dumps(row) for row in rows)
    data = b"".join((t if isinstance(t, bytes) else t.encode()) + b"\n" for t in texts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path.as_uri()


def batch(stream: str, *manifest: str, encoding: Any = JSONL, **fields: Any) -> dict[str, Any]:
    return {
        "type": "BATCH",
        "stream": stream,
        "encoding": encoding,
        "manifest": list(manifest),
        **fields,
    }


# Rows


def test_files_of_every_format_are_loaded_and_the_next_state_emitted(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    rows = [{"id": n, "name": f"n{n}"} for n in range(9)]
    plain = lines(tmp_path / "a.jsonl", *rows[:3])
    zipped = lines(tmp_path / "a.json.gz", *rows[3:6])
    columns = tmp_path / "a.parquet"
    parquet.write_table(pa.Table.from_pylist(rows[6:]), columns)
    states = warehouse.load(
        schema("a", ID_AND_NAME),
        batch("a", plain),
        batch("a", zipped, encoding=GZIP),
        state(1),
        batch("a", str(columns), encoding=PARQUET),
        state(2),
    )
    assert states == [2]
    assert warehouse.rows("a") == [(n, f"n{n}") for n in range(9)]
    counts = warehouse.counts("a")
    assert (counts["received"], counts["written"], counts["quarantined"]) == (9, 9, 0)
    assert counts["commits"] == 1
    assert plain.endswith("a.jsonl")
    assert (tmp_path / "a.jsonl").exists()
    assert not list((warehouse.folder.parent / "spool").iterdir())


def test_last_row_of_a_key_wins_across_files_and_messages(keyed: Warehouse, tmp_path: Path) -> None:
    first = lines(tmp_path / "z.jsonl", *({"id": n, "name": "first"} for n in range(6)))
    second = lines(tmp_path / "b.jsonl", *({"id": n, "name": "second"} for n in range(1, 6)))
    third = lines(tmp_path / "c.json.gz", *({"id": n, "name": "third"} for n in range(3, 6)))
    for mode in ("upsert", "overwrite"):
        keyed.load(
            schema("a", ID_AND_NAME, "id"),
            record("a", id=0, name="old"),
            batch("a", first, second),
            record("a", id=2, name="between"),
            batch("a", third, encoding=GZIP),
            record("a", id=4, name="after"),
            record("a", id=5, name="after"),
            batch("a", lines(tmp_path / "d.jsonl", {"id": 5, "name": "last"})),
            state(1),
            write_mode=mode,
            add_record_metadata=True,
        )
        names = ["first", "second", "between", "third", "after", "last"]
        assert keyed.rows("a", "id", "name") == list(enumerate(names))
        # Later rows have higher numbers.
        sequences = {row.name: row["_sdc_sequence"] for row in keyed.read("a").collect()}
        assert sorted(sequences, key=lambda name: sequences[name]) == names


def test_rows_after_files_have_higher_sequence_numbers_in_all_commits(
    delta: Warehouse, tmp_path: Path
) -> None:
    file = lines(tmp_path / "a.jsonl", *({"id": n} for n in range(500)))
    loader, spool = delta.open(add_record_metadata=True, flush_rows=1)
    feed(loader, schema("a", ID), record("a", id=-1), batch("a", file), record("a", id=1000))
    feed(loader, record("a", id=1001), batch("a", file))
    loader.finish(whole=True)
    loader.close()
    spool.close()
    rows = [(row["_sdc_sequence"], row.id) for row in delta.read("a").collect()]
    ids = [-1, *range(500), 1000, 1001, *range(500)]
    assert [row_id for _, row_id in sorted(rows)] == ids
    assert len({sequence for sequence, _ in rows}) == len(ids)


def test_lines_of_large_files_keep_their_order_across_parallel_blocks(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.files.maxPartitionBytes", "100000")
    texts = [{"id": n, "pad": "x" * (n % 97)} for n in range(30_000)]
    large = lines(tmp_path / "z.jsonl", *texts[:20_000], "", "  \r", *texts[20_000:25_000])
    zipped = lines(tmp_path / "a.jsonl.gz", *texts[25_000:])
    files = [
        BatchFile(StreamId("a"), to_spark_uri(f"{tmp_path}/{name}"), "jsonl", 7, 3)
        for name in ("z.jsonl", "a.jsonl.gz", "z.jsonl")
    ]
    assert large
    assert zipped
    spooled = spool_lines_from_files(spark, files, to_spark_uri(f"{tmp_path}/out"), 10)
    read = spark.read.schema("n BIGINT, v BIGINT, r STRUCT<id: BIGINT>").json(list(spooled.paths))
    rows = sorted((row.n, row.r.id) for row in read.collect())
    assert spooled.rows == len(rows) == 55_000
    assert [row_id for _, row_id in rows] == [
        *range(25_000),
        *range(25_000, 30_000),
        *range(25_000),
    ]
    assert rows[0][0] == 17
    assert spooled.ordinal_offsets == ((7, 55_004),)
    assert len({n for n, _ in rows}) == 55_000
    assert {row.v for row in read.select("v").distinct().collect()} == {3}


def test_ordinals_are_shifted_by_the_rows_of_preceding_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    spool.write_text("".join(f'{{"n":{n},"t":null,"v":null,"r":{{}}}}\n' for n in range(10)))
    moves = [(2, 100), (3, 10), (7, 1)]
    assign_ordinals(spark, [to_spark_uri(str(spool))], to_spark_uri(f"{tmp_path}/out"), moves, 1000)
    read = spark.read.schema("n BIGINT, r STRUCT<>").json(to_spark_uri(f"{tmp_path}/out"))
    ordinals = sorted(row.n for row in read.collect())
    assert ordinals == [1000, 1001, 1002, 1103, 1114, 1115, 1116, 1117, 1119, 1120]


def test_files_of_an_overwrite_are_loaded_once_the_stream_is_complete(
    keyed: Warehouse, tmp_path: Path
) -> None:
    keyed.load(schema("a", ID), record("a", id=1), state(0))
    file = lines(tmp_path / "a.jsonl", {"id": 2})
    loader, spool = keyed.open(write_mode="overwrite")
    feed(loader, schema("a", ID), batch("a", file), state(1))
    loader.poll()
    assert keyed.rows("a") == [(1,)]
    assert keyed.states == []
    loader.finish(whole=True)
    loader.close()
    spool.close()
    assert keyed.rows("a") == [(2,)]
    assert keyed.states == [1]


def test_files_of_an_overwrite_are_loaded_with_the_schema_that_preceded_them(
    delta: Warehouse, tmp_path: Path
) -> None:
    nested = schema("a", {**ID, "a": {"type": "object", "properties": ID}}, "id")
    flat = schema("a", {**ID, "a": {"type": "integer"}}, "id")
    objects = lines(
        tmp_path / "objects.jsonl", *({"id": n, "a": {"id": n}} for n in range(3)), "", {"id": 3}
    )
    numbers = lines(tmp_path / "numbers.jsonl", *({"id": n, "a": n * 10} for n in (2, 5, 5)))
    states = delta.load(
        *(nested, record("a", id=0), batch("a", objects), record("a", id=1, a={"id": 11})),
        *(flat, record("a", id=2, a=2), batch("a", numbers), record("a", id=5, a=55), state(1)),
        write_mode="overwrite",
    )
    assert states == [1]
    assert delta.rows("a", "id", "a", "a__bigint") == [
        *((0, (0,), None), (1, (11,), None), (2, None, 20), (3, None, None), (5, None, 55)),
    ]
    assert delta.counts("a")["quarantined"] == 0


def test_rows_of_files_have_the_version_of_their_message(delta: Warehouse, tmp_path: Path) -> None:
    old = lines(tmp_path / "old.jsonl", {"id": 1})
    new = lines(tmp_path / "new.jsonl", {"id": 2})
    delta.load(
        schema("a", ID),
        batch("a", old, version=5),
        versioned("a", 5, id=3),
        batch("a", new, version=6),
        state(1),
    )
    assert delta.rows("a", "id", "_sdc_table_version") == [(1, 5), (2, 6), (3, 5)]


def test_delete_records_in_files_mark_rows_deleted(keyed: Warehouse, tmp_path: Path) -> None:
    schema_message = schema("a", ID_AND_NAME, "id")
    keyed.load(
        schema_message, record("a", id=1, name="one"), record("a", id=2, name="two"), state(1)
    )
    deletion = {"id": 1, "_sdc_deleted_at": "2024-01-01T00:00:00Z"}
    keyed.load(schema_message, batch("a", lines(tmp_path / "a.jsonl", deletion)), state(2))
    rows = {row.id: (row.name, row["_sdc_deleted_at"]) for row in keyed.read("a").collect()}
    assert rows[1][0] == "one"
    assert rows[1][1] is not None
    assert rows[2] == ("two", None)


def test_many_small_files_share_commits(delta: Warehouse, tmp_path: Path) -> None:
    files = [lines(tmp_path / f"{n}.jsonl", {"id": n}) for n in range(70)]
    delta.load(schema("a", ID), *(batch("a", file) for file in files), state(1))
    assert delta.counts("a")["commits"] == 2
    assert delta.rows("a") == sorted(((n,) for n in range(70)), key=repr)


def test_empty_file_and_empty_manifest_load_no_rows(delta: Warehouse, tmp_path: Path) -> None:
    empty = lines(tmp_path / "a.jsonl")
    assert delta.load(schema("a", ID), batch("a"), batch("a", empty), state(1)) == [1]
    assert delta.rows("a") == []


def test_file_listed_twice_is_loaded_twice(delta: Warehouse, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", {"id": 1})
    delta.load(schema("a", ID), batch("a", file, file), batch("a", file), state(1))
    assert delta.rows("a") == [(1,)] * 3


def test_files_are_deleted_after_their_commit_only_by_option(
    delta: Warehouse, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    file = lines(path, {"id": 1})
    delta.load(schema("a", ID), batch("a", file), state(1))
    assert path.exists()
    delta.load(schema("a", ID), batch("a", file), state(1), delete_batch_files=True)
    assert not path.exists()
    assert delta.rows("a") == [(1,), (1,)]
    file = lines(path, {"id": "x"})
    for limit, message in ((0, "max_quarantined"), (None, "none of its rows could be written")):
        with pytest.raises(QuarantineError, match=message):
            delta.load(
                schema("a", ID),
                batch("a", file),
                delete_batch_files=True,
                max_quarantined=limit,
            )
        assert path.exists()


def test_special_characters_in_file_names_are_literal(delta: Warehouse, tmp_path: Path) -> None:
    names = ["a b.jsonl", "c%41d.jsonl", "e[1]{2}.jsonl", "h#i.jsonl", "ü*?.jsonl", "p=1.jsonl"]
    manifest = []
    lines(tmp_path / "e1{2}.jsonl", {"id": 99})
    for number, name in enumerate(names):
        path = tmp_path / name
        file = lines(path, {"id": number})
        manifest += [file, str(path), os.path.relpath(path), f"file://{path}"]
    delta.load(schema("a", ID), batch("a", *manifest), state(1))
    assert delta.rows("a") == [(number,) for number in range(6) for _ in range(4)]


# Unusual lines


def test_invalid_rows_are_quarantined_with_their_original_bytes(
    delta: Warehouse, tmp_path: Path
) -> None:
    bad = [
        '{"id": 1.50, "name": "broken"}',
        '{"id": 2} {"id": 3}',
        '{"id": 4}, "name": {"x": 1}',
        '{"id": 5}, "n": {}',
        '{"id": 6, "name": "\\ud83d"}',
        '{"id": 7, "name": "\\ude00\\ud83d"}',
        '{"id": 8, "name": 01}',
    ]
    good = [
        "\ufeff" + '{"id": 10, "name": "\\ud83d\\ude00"}\r',
        "",
        '  {"id": 11, "name": "\\\\ud83d NaN \\" Infinity", "x": [NaN, -Infinity]}  ',
        '{"id": 1e1, "name": "\\u0000"}',
        '{"id": 13, "name": {"a": 1.50, "b": 12345678901234567890.123456789}}',
    ]
    file = lines(tmp_path / "a.jsonl", *good, *bad)
    states = delta.load(schema("a", ID_AND_NAME), record("a", id=0, name=None), batch("a", file))
    assert states == []
    assert delta.rows("a") == [
        (0, None),
        (10, "\0"),
        (10, "😀"),
        (11, '\\ud83d NaN " Infinity'),
        (13, '{"a": 1.50, "b": 12345678901234567890.123456789}'),
    ]
    quarantined = delta.read("a__quarantine").orderBy("ordinal").collect()
    assert [row.raw for row in quarantined] == bad
    counts = delta.counts("a")
    assert (counts["received"], counts["written"], counts["quarantined"]) == (12, 5, 7)


def test_nan_becomes_null_with_one_warning(
    delta: Warehouse, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    properties = {"id": {"type": "integer"}, "x": {"type": ["number", "null"]}}
    rows = ['{"id": 1, "x": NaN}', '{"id": 2, "x": -Infinity}', '{"id": 3, "x": 1.5}']
    delta.load(schema("a", properties), batch("a", lines(tmp_path / "a.jsonl", *rows)), state(1))
    assert delta.rows("a") == [(1, None), (2, None), (3, 1.5)]
    warnings = [entry.message for entry in caplog.records if "NaN" in entry.message]
    assert warnings == ["Stream a: in 2 rows of its batch files NaN or Infinity was read as null."]


def test_row_without_a_key_is_quarantined(delta: Warehouse, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", {"id": None, "name": "x"}, {"name": "y"}, {"id": 1})
    delta.load(schema("a", ID_AND_NAME, "id"), batch("a", file), state(1))
    assert delta.rows("a") == [(1, None)]
    assert delta.counts("a")["quarantined"] == 2


# Parquet


def test_parquet_values_are_loaded_like_json_values(delta: Warehouse, tmp_path: Path) -> None:
    zoned = datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
    table = pa.table(
        {
            "id": [1],
            "at": pa.array([zoned.replace(tzinfo=None)], pa.timestamp("us")),
            "zoned": pa.array([zoned], pa.timestamp("us", "Europe/Berlin")),
            "day": [date(2024, 1, 2)],
            "text_at": ["2024-01-02T03:04:05Z"],
            "price": [Decimal("12345678901234567890.12")],
            "whole": pa.array([2**64 - 1], pa.uint64()),
            "one": [1.0],
            "nan": [math.nan],
            "data": [b"\x00\xff"],
            "list": [[1.5, math.inf, None]],
            "struct": [{"x": math.nan, "y": 'é"\n'}],
            "free": ['{"a": 1.50}'],
            "packed": ['{"x": 2.5, "y": "z"}'],
            "flag": ["true"],
            "pairs": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "none": pa.array([None], pa.null()),
            "mixed": ['"x"'],
            "bare": ["x"],
            "null": ["null"],
            "quoted": ['"x"'],
            "a.b`c d": ["odd"],
        }
    )
    path = tmp_path / "a.parquet"
    parquet.write_table(table, path)
    number = {"type": ["number", "null"]}
    fields = {"x": number, "y": {"type": "string"}}
    moment = {"type": "string", "format": "date-time"}
    properties = {
        "id": {"type": "integer"},
        "at": moment,
        "zoned": moment,
        "day": {"type": "string", "format": "date"},
        "text_at": moment,
        "price": {"type": "number", "multipleOf": 0.01, "maximum": 1e22},
        "whole": {"type": "integer", "maximum": 2**64},
        "one": {"type": "integer"},
        "nan": number,
        "data": {"type": "string", "contentEncoding": "base64"},
        "list": {"type": "array", "items": number},
        "struct": {"type": "object", "properties": fields},
        "free": {"type": "object"},
        "packed": {"type": "object", "properties": fields},
        "flag": {"type": "boolean"},
        "pairs": {"type": "object"},
        "none": {"type": ["null", "string"]},
        "mixed": {"type": ["string", "integer"]},
        "bare": {},
        "null": {},
        "quoted": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "a.b`c d": {"type": "string"},
        "absent": {"type": ["null", "string"]},
    }
    delta.load(schema("a", properties), batch("a", str(path), encoding=PARQUET), state(1))
    (row,) = delta.read("a").collect()
    values = row.asDict(recursive=True)
    assert values["price"] == Decimal("12345678901234567890.12")
    assert (values["whole"], values["one"], values["nan"]) == (2**64 - 1, 1, None)
    assert bytes(values["data"]) == b"\x00\xff"
    assert values["list"] == [1.5, None, None]
    assert values["struct"] == {"x": None, "y": 'é"\n'}
    assert (values["free"], values["pairs"]) == ('{"a": 1.50}', '{"k":1}')
    assert values["packed"] == {"x": 2.5, "y": "z"}
    assert (values["flag"], values["none"], values["absent"]) == (True, None, None)
    assert [values[name] for name in ("mixed", "bare", "null", "quoted")] == [
        "x",
        "x",
        "null",
        '"x"',
    ]
    assert values["day"] == date(2024, 1, 2)
    (instants,) = (
        delta.read("a").selectExpr("string(at)", "string(zoned)", "string(text_at)").collect()
    )
    assert instants["at"] == instants["zoned"] == "2024-01-02 03:04:05.000006"
    assert instants["text_at"] == "2024-01-02 03:04:05"
    assert [value for name, value in values.items() if name.startswith("a.b")] == ["odd"]


def test_parquet_files_of_one_manifest_may_have_different_types(
    delta: Warehouse, tmp_path: Path
) -> None:
    rows: list[list[dict[str, Any]]] = [
        [{"id": 1, "name": "1"}],
        [{"id": 2, "name": 2}],
        [{"id": 1, "other": 1.5}],
        [{"id": 2, "name": None}],
    ]
    paths = []
    for number, file_rows in enumerate(rows):
        paths.append(str(tmp_path / f"{number}.parquet"))
        parquet.write_table(pa.Table.from_pylist(file_rows), paths[-1])
    delta.load(schema("a", ID_AND_NAME, "id"), batch("a", *paths, encoding=PARQUET), state(1))
    assert delta.rows("a") == [(1, None), (2, None)]


def test_parquet_rows_keep_the_order_of_the_file(delta: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = [{"id": n % 10, "name": str(n)} for n in range(5000)]
    parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=100)
    delta.load(schema("a", ID_AND_NAME, "id"), batch("a", str(path), encoding=PARQUET), state(1))
    assert delta.rows("a") == [(n, str(4990 + n)) for n in range(10)]


# Unreadable files


def unreadable_files(path: Path) -> list[tuple[str, Any, str]]:
    """Return unreadable files, their encodings, and the text of their errors."""
    compressed = gzip.compress(b'{"id": 1}\n' * 9999)
    (path / "torn.json.gz").write_bytes(compressed[: len(compressed) // 2])
    (path / "plain.json.gz").write_bytes(b'{"id": 1}\n')
    (path / "x.parquet").write_bytes(b"hello, this is no parquet")
    (path / "torn.jsonl").write_bytes(b'{"id": 1}\n\n{"id": 2}\n{"id": 3, "na')
    (path / "list.jsonl").write_bytes(b'[{"id": 1}]\n')
    (path / "singer.jsonl").write_bytes(b'{"type": "RECORD", "stream": "a", "record": {"id": 1}}\n')
    (path / "_hidden.jsonl").write_bytes(b'{"id": 1}\n')
    (path / "a.jsonl").write_bytes(b'{"id": 1}\n')
    return [
        ("gone.jsonl", JSONL, r"gone.jsonl cannot be read: it does not exist"),
        ("a.jsonl", {"format": "csv"}, "their format is 'csv'"),
        ("a.jsonl", {"compression": "gzip"}, "lacks 'format'"),
        ("a.jsonl", {"format": "jsonl", "compression": "bz2"}, "their compression is 'bz2'"),
        ("a.jsonl", GZIP, "ends in .gz"),
        ("plain.json.gz", JSONL, "its name ends in .gz"),
        ("_hidden.jsonl", JSONL, "begin with _ or ."),
        ("torn.json.gz", GZIP, "torn.json.gz cannot be read: it ends too early"),
        ("plain.json.gz", GZIP, "plain.json.gz cannot be read: Not a gzipped file"),
        ("x.parquet", PARQUET, "x.parquet cannot be read.*not a parquet file"),
        ("torn.jsonl", JSONL, "torn.jsonl cannot be read: line 4 is not a JSON object, or was cut"),
        ("list.jsonl", JSONL, "line 1 is not a JSON object"),
        ("singer.jsonl", JSONL, "contains Singer messages"),
        ("a.jsonl", PARQUET, "a.jsonl cannot be read.*not a parquet file"),
    ]


def feed_and_finish(loader: Loader, *messages: dict[str, Any]) -> None:
    """Feed messages and finish, as the target does after an error of the input."""
    try:
        feed(loader, *messages)
    finally:
        loader.finish(whole=False)


def test_unreadable_file_is_an_error_after_the_states_before_it(
    delta: Warehouse, tmp_path: Path
) -> None:
    for number, (name, encoding, message) in enumerate(unreadable_files(tmp_path)):
        loader, spool = delta.open()
        stream = f"s{number}"
        if number in {0, 10}:  # rejected by the loader, and by Spark
            feed(loader, schema("before", ID), record("before", id=number), state(number))
        feed(loader, schema(stream, ID))
        good = lines(tmp_path / "good.jsonl", {"id": 1})
        manifest = (good, str(tmp_path / name)) if encoding == JSONL else (str(tmp_path / name),)
        with pytest.raises((FilesError, UnsupportedError), match=f"(?s)Stream {stream}.*{message}"):
            feed_and_finish(loader, batch(stream, *manifest, encoding=encoding), state("behind"))
        loader.close()
        spool.close()
        assert "behind" not in delta.states
        assert delta.states in ([], [number])
        if number == 0:
            assert delta.states == [0]
        assert not delta.exists(stream) or delta.rows(stream) == []


def oversized_files(path: Path) -> list[tuple[str, Any, str]]:
    """Return files that exceed a limit on memory, their encodings, and the text of their errors."""
    good, long = b'{"id": 1}\n' * 999, b'{"id": "' + b"x" * 1000 + b'"}\n'
    (path / "a.jsonl").write_bytes(good + long)
    (path / "a.json.gz").write_bytes(gzip.compress(good) + gzip.compress(long))
    (path / "b.jsonl").write_bytes(b"\n" * 9999)
    parquet.write_table(pa.table({"id": ["a" * 500] * 2_000}), path / "a.parquet")
    return [
        ("a.jsonl", JSONL, "a.jsonl cannot be read: a line is longer than 1,000 bytes"),
        ("a.json.gz", GZIP, "a.json.gz cannot be read: a line is longer than 1,000 bytes"),
        ("b.jsonl", JSONL, "b.jsonl cannot be read: more than 62 blank lines"),
        ("a.parquet", PARQUET, "a.parquet cannot be read: column 'id' repeats its texts"),
    ]


def test_file_with_too_long_lines_is_rejected_before_spark_reads_it(
    delta: Warehouse, tmp_path: Path
) -> None:
    """SEC13: the error names the file, the limit and its setting; earlier rows are loaded."""
    for number, (name, encoding, message) in enumerate(oversized_files(tmp_path)):
        loader, spool = delta.open(batch_max_line_bytes=1000)
        stream, file = f"s{number}", str(tmp_path / name)
        feed(loader, schema("before", ID), record("before", id=number), state(number))
        feed(loader, schema(stream, ID))
        with pytest.raises(
            FilesError, match=rf"(?s)Stream {stream}.*{message}.*batch_max_line_bytes"
        ):
            feed_and_finish(loader, batch(stream, file, encoding=encoding), state("behind"))
        loader.close()
        spool.close()
        assert delta.states in ([], [number])
        assert not delta.exists(stream) or delta.rows(stream) == []
    loaded = batch("a", str(tmp_path / "a.json.gz"), encoding=GZIP)
    assert delta.load(schema("a", ID), loaded, state("all")) == ["all"]  # the usual limit is higher


def test_number_of_spark_jobs_does_not_depend_on_repeated_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    """SEC13: the cost of a manifest that lists one file many times grows only with its rows."""
    addresses = [to_spark_uri(f"{tmp_path}/{name}") for name in ("a.jsonl", "/b.jsonl")]
    assert [lines(tmp_path / f"{name}.jsonl", {"id": name}, {"id": 0}) for name in "ab"]
    jobs = []
    for times in (1, 40):
        files = [BatchFile(StreamId("a"), address, "jsonl", 7, 3) for address in addresses * times]
        spark.sparkContext.setJobGroup(f"{times} times", "")
        spooled = spool_lines_from_files(spark, files, to_spark_uri(f"{tmp_path}/out{times}"), 10)
        jobs.append(len(spark.sparkContext.statusTracker().getJobIdsForGroup(f"{times} times")))
        assert (spooled.rows, spooled.ordinal_offsets) == (4 * times, ((7, 4 * times),))
        read = spark.read.schema("n BIGINT, r STRUCT<id: STRING>").json(list(spooled.paths))
        rows = sorted((row.n, row.r.id) for row in read.collect())
        assert rows == list(enumerate([*"a0b0"] * times, 17))
    assert jobs[0] == jobs[1] > 0


def test_file_of_a_stream_without_schema_is_an_error(delta: Warehouse, tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", {"id": 1})
    with pytest.raises(Exception, match="before the SCHEMA message"):
        delta.load(batch("a", file))


def test_addresses_are_translated_to_the_schemes_of_spark() -> None:
    addresses = {
        "s3://bucket/a b.jsonl": "s3a://bucket/a b.jsonl",
        "S3N://bucket/a.jsonl": "s3a://bucket/a.jsonl",
        "s3a://bucket/a%20b.jsonl": "s3a://bucket/a%20b.jsonl",
        "gcs://bucket/a.jsonl": "gs://bucket/a.jsonl",
        "az://c@account.dfs.core.windows.net/a.jsonl": (
            "abfss://c@account.dfs.core.windows.net/a.jsonl"
        ),
        "hdfs://host:8020/a.jsonl": "hdfs://host:8020/a.jsonl",
        "abfss://c@account.dfs.core.windows.net/[a].jsonl": (
            "abfss://c@account.dfs.core.windows.net/[a].jsonl"
        ),
    }
    schemes = SCHEMES | {"hdfs"}
    limits = FileLimits(schemes=schemes)
    files = check_batch_files(
        BatchFiles(StreamId("a"), list(addresses), JSONL, version=3), 7, {}, limits
    )
    assert [file.address for file in files] == list(addresses.values())
    assert {(file.ordinal, file.version, file.nbytes) for file in files} == {(7, 3, 0)}
    assert files[-1].read_pattern.endswith(r"/\[a\].jsonl")
    assert files[-1].redacted_address == "abfss://account.dfs.core.windows.net/[a].jsonl"
    assert get_file_key("file:///a//b c") == get_file_key("file:/a/b%20c", escaped=True)
    assert get_file_key("s3a://bucket/a%20b") != get_file_key("s3a://bucket/a%20b", escaped=True)


def test_remove_file_deletes_no_folders(spark: SparkSession, tmp_path: Path) -> None:
    """The address of a file in a message may be a folder."""
    inner = tmp_path / "folder" / "keep.jsonl"
    inner.parent.mkdir()
    inner.write_text("{}")
    for address in (str(inner.parent), inner.parent.as_uri()):
        with pytest.raises(IsADirectoryError):
            remove_file(spark, address)
    assert inner.exists()
    remove_file(spark, inner.as_uri())
    assert not inner.exists()
    remove_file(spark, inner.as_uri())


# A tap of this project


def test_batch_files_and_records_of_a_tap_give_the_same_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Four tables, loaded from records and from files of each encoding, are equal."""
    kinds = {"records": None, "jsonl": JSONL, "gzip": GZIP, "parquet": PARQUET}
    messages = b"".join(
        run_sample_tap(tmp_path, name, encoding) for name, encoding in kinds.items()
    )
    assert messages.count(b'"type":"BATCH"') == 3
    config = {"path": str(tmp_path / "tables"), "master": "local[2]", "small_runs": True}
    (tmp_path / "target.json").write_text(json.dumps(config))
    code = "from target_spark.target import TargetSpark; TargetSpark.cli()"
    process = subprocess.run(
        [sys.executable, "-c", code, "--config", "target.json"],
        input=messages,
        capture_output=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr.decode()
    tables = [
        spark.read.format("delta").load(to_spark_uri(f"{tmp_path}/tables/{name}")).collect()
        for name in kinds
    ]
    records, *from_files = (sorted(rows, key=repr) for rows in tables)
    assert len(records) == 16
    assert all(rows == records for rows in from_files)
    assert len(list((tmp_path / "files").iterdir())) == 3


def run_sample_tap(folder: Path, alias: str, encoding: Any) -> bytes:
    """Return the sample tap's messages of stream airlines under another name."""
    config: dict[str, Any] = {"stream_maps": {"airlines": {"__alias__": alias}, "__else__": None}}
    if encoding is not None:
        storage = {"root": str(folder / "files"), "prefix": f"{alias}-"}
        config["batch_config"] = {"encoding": encoding, "storage": storage}
    (folder / "tap.json").write_text(json.dumps(config))
    code = "from tap_flights.tap import TapFlights; TapFlights.cli()"
    process = subprocess.run(
        [sys.executable, "-c", code, "--config", "tap.json"],
        capture_output=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'samples' / 'tap_flights'}"},
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr.decode()
    return process.stdout
