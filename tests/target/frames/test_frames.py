"""Spool lines as DataFrames: each line is a good or a bad row; no value becomes null silently."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's world does

from target_spark.columns import (
    METADATA_COLUMNS,
    ORDINAL,
    Column,
    ColumnOptions,
    ColumnSource,
    Integer,
    TableSchema,
    Timestamp,
    schema_from_json_schema,
)
from target_spark.frames import (
    BAD_ROWS_MARKER,
    BatchMetadata,
    SpoolFrame,
)
from target_spark.storage.row_ordinals import first_in_part
from target_spark.writers import MergeKeys, latest_by_key
from tests.target.columns.widening_of_all_types import merge_table_schemas

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark

RECEIVED = datetime(2024, 5, 1, 12, 0, 0, 5, tzinfo=timezone.utc)
BATCHED = datetime(2024, 5, 1, 12, 1, tzinfo=timezone.utc)
METADATA = BatchMetadata(RECEIVED, BATCHED, sync_started_at=1_714_564_800_000)

TYPES: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "i": ({"type": "integer"}, "7", ('"x"', "1.7", "true", "9223372036854775808", "{}")),
    "dec": ({"type": "number", "multipleOf": 0.01}, "1.50", ('"x"', "1.555", "[]")),
    "f": ({"type": "number"}, "1.5e-7", ('"x"', "1e400", '"NaN"')),
    "at": (
        {"type": "string", "format": "date-time"},
        '"2024-01-01T00:00:00.5+02:00"',
        ('"2024"', '"12:30"', "1700000000000", '"10000-01-01T00:00:00Z"'),
    ),
    "day": ({"type": "string", "format": "date"}, '"2024-02-29"', ('"2023-02-29"', "20240101")),
    "flag": ({"type": "boolean"}, "true", ('"true"', "1", "{}")),
    "bytes": ({"type": "string", "contentEncoding": "base64"}, '"QUI="', ('"QUI"', "5")),
    "obj": (
        {"type": "object", "properties": {"x": {"type": "integer"}}},
        '{"x":1}',
        ("5", "[1]", '"{}"'),
    ),
    "arr": ({"type": "array", "items": {"type": "integer"}}, "[1,null]", ("5", '{"x":1}', '["x"]')),
}  # fmt: skip
GOOD = {name: good for name, (_, good, _) in TYPES.items()}


def table_schema(
    properties: dict[str, Any], keys: tuple[str, ...] = (), *, metadata: bool = False
) -> TableSchema:
    return schema_from_json_schema(
        {"properties": properties}, keys, ColumnOptions(metadata=metadata)
    )


def line(n: int, record: str, extracted_at: str | None = None, version: int | None = None) -> str:
    return f'{{"n":{n},"t":{json.dumps(extracted_at)},"v":{json.dumps(version)},"r":{record}}}\n'


class FrameFactory:
    """Frames over records, whose ordinals start at 0."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._files = 0

    def frame(self, schema: TableSchema, records: Sequence[str]) -> SpoolFrame:
        return self.lines(schema, [line(n, record) for n, record in enumerate(records)])

    def lines(
        self, schema: TableSchema, *files: Sequence[str], metadata: BatchMetadata = METADATA
    ) -> SpoolFrame:
        paths = []
        for lines in files:
            self._files += 1
            path = self._folder / f"part-{self._files}"
            path.write_text("".join(lines), encoding="utf-8", newline="")
            paths.append(str(path))
        return SpoolFrame(self._spark, paths, schema, metadata)


@pytest.fixture
def frames(spark: SparkSession, tmp_path: Path) -> FrameFactory:
    return FrameFactory(spark, tmp_path)


def good_rows(frame: SpoolFrame, *, strict: bool = False) -> list[Row]:
    return sorted(frame.good(strict).collect(), key=lambda row: row[ORDINAL])


def strict_rows(frame: SpoolFrame) -> list[Row] | None:
    """Return the rows of the strict read, or None if it fails because of bad rows."""
    try:
        return good_rows(frame, strict=True)
    except PySparkException as error:
        if BAD_ROWS_MARKER not in str(error):
            raise
        return None


def bad_rows(frame: SpoolFrame) -> dict[int, Row]:
    return {row.ordinal: row for row in frame.bad().collect()}


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)


def instants(row: Row) -> dict[str, Any]:
    """Return a row as a dict, with datetimes in UTC instead of local time."""
    return {
        name: value.astimezone(timezone.utc) if isinstance(value, datetime) else value
        for name, value in row.asDict().items()
    }


def record(**values: str) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in values.items()) + "}"


# --------------------------------------------------------------- one bad value at a time


def places(name: str) -> list[tuple[str, str]]:
    """Return the positions of a column of a type: a record template and the path in a reason."""
    return [
        (f'{{"{name}":%s}}', name),
        (f'{{"s":{{"{name}":%s}}}}', f"s.{name}"),
        (f'{{"l":[{{}},null,{{"{name}":%s}}]}}', f"l[].{name}"),
        (f'{{"{name}_list":[%s]}}', f"{name}_list[]"),
    ]


EVERYWHERE = {
    **{name: schema for name, (schema, _, _) in TYPES.items()},
    **{
        f"{name}_list": {"type": "array", "items": schema} for name, (schema, _, _) in TYPES.items()
    },
    "s": {"type": "object", "properties": {name: schema for name, (schema, _, _) in TYPES.items()}},
    "l": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {n: schema for n, (schema, _, _) in TYPES.items()},
        },
    },
    "text": {"type": "string"},
}


def test_bad_value_is_reported_with_its_path_at_any_depth(frames: FrameFactory):
    cases = [
        (around % bad, path)
        for name, (_, _, bads) in TYPES.items()
        for around, path in places(name)
        for bad in bads
    ]
    fitting = [around % good for name, good in GOOD.items() for around, _ in places(name)]
    fitting += [around % "null" for name in GOOD for around, _ in places(name)]
    frame = frames.frame(table_schema(EVERYWHERE), [case[0] for case in cases] + fitting)
    bad = bad_rows(frame)
    good = good_rows(frame)
    assert set(bad) == set(range(len(cases)))
    assert [row[ORDINAL] for row in good] == list(range(len(cases), len(cases) + len(fitting)))
    assert frame.counts().rows == len(fitting)
    for n, (raw, path) in enumerate(cases):
        assert bad[n].raw == raw
        # Values that JSON's reader rejects are reported by column, all others by path.
        names = {path, path.partition(".")[0].partition("[")[0], f"{path}[]", f"{path}.x"}
        assert any(reason.partition(":")[0] in names for reason in bad[n].reasons), (
            raw,
            bad[n].reasons,
        )


def test_rows_contains_every_line_with_its_reasons(frames: FrameFactory):
    frame = frames.frame(table_schema({"i": TYPES["i"][0]}, ("i",)), ['{"i":1}', '{"i":"x"}', "{}"])
    assert [(row.i, row.reasons) for row in frame.rows.orderBy(ORDINAL).collect()] == [
        (1, None),
        (None, ["i: not an integer of 64 bits"]),
        (None, ["i: a key must have a value"]),
    ]


@pytest.mark.parametrize("name", TYPES)
def test_strict_read_fails_on_a_bad_value(frames: FrameFactory, name: str):
    properties = {name: schema for name, (schema, _, _) in TYPES.items()}
    records = [record(**GOOD), "{}", record(**{**GOOD, name: TYPES[name][2][0]})]
    with pytest.raises(PySparkException, match=BAD_ROWS_MARKER):
        frames.frame(table_schema(properties), records).good(strict=True).write.format("noop").mode(
            "overwrite"
        ).save()


@pytest.mark.every_nth_case(2)
@pytest.mark.parametrize("copies", [1, 12])
def test_strict_and_checked_reads_give_the_same_rows(frames: FrameFactory, copies: int):
    names = [(name, f"{name}{n}") for n in range(copies) for name in TYPES]
    schema = table_schema({copy: TYPES[name][0] for name, copy in names}, metadata=True)
    records = [record(**{copy: GOOD[name] for name, copy in names}), "{}"]
    frame = frames.frame(schema, records)
    assert good_rows(frame, strict=True) == good_rows(frame, strict=False)
    assert frame.bad().count() == 0
    assert [*schema.types, ORDINAL] == frame.good(strict=True).columns


def test_unusual_spellings_fail_the_strict_read_and_are_valid(frames: FrameFactory):
    records = ['{"i":1e3,"dec":15e-1,"at":"2024-01-01t00:00:00z"}', '{"i":1.0}']
    frame = frames.frame(
        table_schema({name: TYPES[name][0] for name in ("i", "dec", "at")}), records
    )
    with pytest.raises(PySparkException, match=BAD_ROWS_MARKER):
        frame.good(strict=True).collect()
    assert [row.i for row in good_rows(frame)] == [1000, 1]
    assert frame.bad().count() == 0


# ------------------------------------------------------------------------- whole lines


SPELLINGS = (
    *("0", "-0", "7", "-12", "9007199254740993", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "-9223372036854775809", "1.0", "1.7", "-0.0", "0.1", "1e3", "1E-2"),
    *(
        "1e400",
        "-1e400",
        "1e999999",
        "123456789012345678901234567890.5",
        "true",
        "null",
        "{}",
        "[]",
    ),
    *(
        '"5"',
        '"1.5"',
        '""',
        '" 5"',
        '"NaN"',
        '"Infinity"',
        '"-Infinity"',
        '"INF"',
        '"+INF"',
        '"0x1p3"',
    ),
    *("NaN", "Infinity", "+1", "01", ".5", "5.", "1d"),
)


@pytest.mark.parametrize(
    ("kind", "template"),
    [
        ("integer", "%s"),
        pytest.param("number", '[{"x":%s}]', marks=pytest.mark.thorough),
        pytest.param("integer", '[{"x":%s}]', marks=pytest.mark.thorough),
        pytest.param("number", "%s", marks=pytest.mark.thorough),
    ],
)
def test_strict_read_gives_exact_numbers_or_fails(frames: FrameFactory, kind: str, template: str):
    schema: dict[str, Any] = {"type": kind}
    if template != "%s":
        item = {"type": "object", "properties": {"x": schema}}
        schema = {"type": "array", "items": item}
    columns = table_schema({"a": schema})
    records = [f'{{"a":{template % text}}}' for text in SPELLINGS]
    exact = {row[ORDINAL]: row.a for row in good_rows(frames.frame(columns, records))}
    ways = {n: strict_rows(frames.frame(columns, [lone])) for n, lone in enumerate(records)}
    strict = {n: rows[0].a for n, rows in ways.items() if rows}
    assert strict == {n: exact[n] for n in strict}
    plain = {SPELLINGS.index(text) for text in ("0", "7", "-12", "9223372036854775807", "null")}
    assert plain <= strict.keys()


def test_row_with_a_null_key_is_bad(frames: FrameFactory):
    schema = table_schema({"a": {"type": "integer"}, "b": {"type": "string"}}, ("a", "b"))
    records = ['{"a":1,"b":"x"}', '{"a":1}', '{"a":null,"b":null}', '{"a":1,"b":""}']
    frame = frames.frame(schema, records)
    assert [row[ORDINAL] for row in good_rows(frame)] == [0, 3]
    assert {n: row.reasons for n, row in bad_rows(frame).items()} == {
        1: ["b: a key must have a value"],
        2: ["a: a key must have a value", "b: a key must have a value"],
    }
    with pytest.raises(PySparkException, match=BAD_ROWS_MARKER):
        frames.frame(schema, records[1:2]).good(strict=True).select("a").collect()


def test_null_and_missing_required_properties_are_null(frames: FrameFactory):
    schema = {"properties": {"a": {"type": "integer"}}, "required": ["a"]}
    frame = frames.frame(schema_from_json_schema(schema, (), ColumnOptions()), ["{}", '{"a":null}'])
    assert [row.a for row in good_rows(frame, strict=True)] == [None, None]


def test_record_that_is_no_object_is_bad(frames: FrameFactory):
    records = ["[]", '[{"a":1},{"a":2}]', "5", '"x"', "null", "true", '{"a":1}']
    frame = frames.frame(table_schema({"a": {"type": "integer"}}), records)
    assert [row.a for row in good_rows(frame)] == [1]
    assert {n: row.raw for n, row in bad_rows(frame).items()} == {
        n: "x" if raw == '"x"' else raw for n, raw in enumerate(records[:-1])
    }
    with pytest.raises(PySparkException, match=BAD_ROWS_MARKER):
        frames.frame(table_schema({"a": {"type": "integer"}}), ["null"]).good(strict=True).collect()


@pytest.mark.parametrize(
    "raw", ["{'a':1}", '{"a":1', '{"a":nan}', '{"a":007}', '{"a":"\t"}', "{a:1}", '{"a":1}]']
)
def test_line_that_is_not_json_is_bad_and_kept_whole(frames: FrameFactory, raw: str):
    frame = frames.frame(table_schema({"a": {"type": "string"}}), [raw, '{"a":"x"}'])
    assert [row.a for row in good_rows(frame)] == ["x"]
    bad = bad_rows(frame)
    assert set(bad) == {0}
    assert raw in bad[0].raw
    assert bad[0].reasons == ["the record does not have the structure that the schema declares"]


def test_stream_without_properties_keeps_whole_records(frames: FrameFactory):
    records = ['{"b": 1.50, "a":[]}', "[1]", "{}"]
    frame = frames.frame(table_schema({}), records)
    assert [row.record for row in good_rows(frame)] == [records[0], "{}"]
    assert bad_rows(frame)[1].reasons == ["not an object"]


# ---------------------------------------------------------------------- names and texts


ODD_NAMES = [
    "a.b",
    "a b",
    "A b",
    "select",
    "😀",
    "n",
    "r",
    "t",
    "v",
    "_corrupt",
    "a`b",
    "",
    "it's",
    'q"q',
    "i",
    "i0",
    "\\",
    "é",
]


@pytest.mark.thorough
def test_any_name_can_be_a_column_field_or_key(frames: FrameFactory):
    fields = {name: {"type": "integer"} for name in ODD_NAMES}
    nested = {"type": "object", "properties": fields}
    schema = table_schema(
        {**fields, "s": nested, "l": {"type": "array", "items": nested}}, tuple(ODD_NAMES)
    )
    values = {name: n for n, name in enumerate(ODD_NAMES)}
    good_record = {**values, "s": values, "l": [values]}
    wrong = [{**good_record, name: "x"} for name in ODD_NAMES] + [
        {**good_record, "s": {name: "x"}} for name in ODD_NAMES
    ]
    frame = frames.frame(
        schema, [json.dumps(values_of_record) for values_of_record in (good_record, *wrong)]
    )
    (row,) = good_rows(frame)
    for name in ODD_NAMES:
        assert row[schema.column_fed_by(name).name] == values[name]
    assert list(row["s"]) == list(row["l"][0]) == list(values.values())
    for n, bad in bad_rows(frame).items():
        name = ODD_NAMES[(n - 1) % len(ODD_NAMES)]
        path = name if n <= len(ODD_NAMES) else f"s.{name}"
        assert bad.reasons == [f"{path}: not an integer of 64 bits"]


def test_text_is_kept_byte_by_byte(frames: FrameFactory):
    texts = ["\r", "a\r\nb", "'", "\u2028", "\x00", "😀", " x ", "\\n", "null", ""]
    frame = frames.frame(
        table_schema({"a": {"type": "string"}}), [json.dumps({"a": t}) for t in texts]
    )
    assert [row.a for row in good_rows(frame, strict=True)] == texts


def test_text_column_keeps_any_json_as_written(frames: FrameFactory):
    raws = ['{"b": 1.50}', "[1e400, {}]", "12345678901234567890.10", "true"]
    frame = frames.frame(table_schema({"a": {}}), [f'{{"a":{raw}}}' for raw in raws])
    assert [row.a for row in good_rows(frame, strict=True)] == raws


@pytest.mark.thorough
def test_text_of_25_million_characters_is_read(frames: FrameFactory):
    schema = table_schema(
        {"a": {"type": "string"}, "b": {"type": "string", "contentEncoding": "base64"}}
    )
    frame = frames.frame(schema, [f'{{"a":"{"x" * 25_000_000}","b":"{"QUJD" * 5_000_000}"}}'])
    sizes = frame.good(strict=True).select(F.length("a"), F.length("b")).collect()
    assert [tuple(row) for row in sizes] == [(25_000_000, 15_000_000)]


def test_deeply_nested_record_is_read_as_text(frames: FrameFactory):
    deep = '{"a":' + "[" * 5000 + "]" * 5000 + "}"
    frame = frames.frame(table_schema({"a": {}}), [deep, '{"a":1}'])
    assert [len(row.a) for row in good_rows(frame)] == [10_000, 1]


# ----------------------------------------------------------------- order, time, metadata


def test_latest_row_of_a_key_is_that_of_the_greatest_ordinal(frames: FrameFactory):
    schema = table_schema({"k": {"type": "integer"}, "v": {"type": "string"}}, ("k",))
    # Spark reads larger files first.
    first = [line(n, f'{{"k":{n % 3},"v":"old"}}') for n in range(300)]
    last = [line(300, '{"k":1,"v":"new"}')]
    for files in ((first, last), (last, first)):
        rows = frames.lines(schema, *files).good(strict=True)
        latest = latest_by_key(rows, MergeKeys(("k",), ORDINAL)).collect()
        assert sorted((row.k, row.v) for row in latest) == [(0, "old"), (1, "new"), (2, "old")]


def test_metadata_columns_are_filled(frames: FrameFactory):
    schema = table_schema({"a": {"type": "integer"}}, metadata=True)
    lines = [
        line(4, '{"a":1}', "2024-04-30T10:00:00.25+02:00", 9),
        line(5, '{"a":2,"_sdc_deleted_at":"2024-04-01T00:00:00Z"}'),
        line(6, '{"a":3,"_sdc_deleted_at":"x"}'),
    ]
    frame = frames.lines(schema, lines)
    first, second = (instants(row) for row in good_rows(frame))
    assert [first[name] for name in METADATA_COLUMNS] == [
        utc(2024, 4, 30, 8, 0, 0, 250_000),
        RECEIVED,
        BATCHED,
        None,
        METADATA.sync_started_at * 2**20 + 4,
        9,
        METADATA.sync_started_at,
    ]
    assert second["_sdc_extracted_at"] == RECEIVED
    assert second["_sdc_deleted_at"] == utc(2024, 4, 1)
    assert second["_sdc_table_version"] is None
    assert second["_sdc_sequence"] == first["_sdc_sequence"] + 1
    assert list(bad_rows(frame)) == [6]


def test_bad_rows_have_their_extraction_time(frames: FrameFactory):
    lines = [line(1, '{"a":"x"}', "2024-04-30T10:00:00Z"), line(2, "[]", "not a time")]
    bad = bad_rows(frames.lines(table_schema({"a": {"type": "integer"}}), lines))
    assert {n: instants(row)["extracted_at"] for n, row in bad.items()} == {
        1: utc(2024, 4, 30, 10),
        2: None,
    }


def test_deletion_time_is_read_if_the_loader_added_its_column(frames: FrameFactory):
    added = Column("_sdc_deleted_at", "_sdc_deleted_at", Timestamp(), feed=ColumnSource.METADATA)
    schema = TableSchema((Column("a", "a", Integer()), added))
    frame = frames.frame(schema, ['{"a":1,"_sdc_deleted_at":"2024-04-01T00:00:00"}', '{"a":2}'])
    assert [instants(row)["_sdc_deleted_at"] for row in good_rows(frame, strict=True)] == [
        utc(2024, 4, 1),
        None,
    ]


def test_date_times_without_an_offset_are_utc_and_counted(frames: FrameFactory):
    time = {"type": "string", "format": "date-time"}
    nested = {"type": "object", "properties": {"x": time, "y": {"type": "array", "items": time}}}
    schema = table_schema({"a": time, "s": nested, "z": time})
    local, zoned = '"2024-01-01T00:00:00"', '"2024-01-01 00:00:00.5-03"'
    records = [
        f'{{"a":{local},"z":{zoned},"s":{{"x":{local},"y":[{local},{zoned},null]}}}}',
        f'{{"a":{local},"z":"2024-01-01T00:00:00Z","s":{{"x":"2024-01-01T00:00:00+01:00"}}}}',
        "{}",
    ]
    frame = frames.frame(schema, records)
    assert instants(good_rows(frame, strict=True)[0])["a"] == utc(2024, 1, 1)
    assert frame.counts().zoneless == {"a": 2, "s": 2}
    assert frame.counts().rows == 3


@pytest.mark.parametrize("copies", [1, 60])
def test_nested_objects_are_the_same_in_both_reads(frames: FrameFactory, copies: int):
    """An object that is null, absent or empty stays so at each level, with few and many columns."""
    scalars = {name: TYPES[name][0] for name in ("i", "dec", "f", "at", "day", "flag", "bytes")}
    inner = {"type": "object", "properties": {**scalars, "text": {}, "list": EVERYWHERE["l"]}}
    outer = {"type": "object", "properties": {"inner": inner, "at": TYPES["at"][0]}}
    schema = table_schema(
        {**{f"i{n}": {"type": "integer"} for n in range(copies)}, "o": outer, "p": outer}
    )
    values = record(**{name: GOOD[name] for name in scalars}, text='"t"')
    listed = f'{{"at":"2024-01-01T00:00:00","list":[null,{{}},{values}]}}'
    objects = ["null", "{}", '{"inner":null}', '{"inner":{}}', f'{{"inner":{listed}}}']
    objects += [f'{{"at":"2024-01-01T00:00:00","inner":{values}}}', f'{{"inner":{values}}}']
    records = ["{}", *(f'{{"o":{value},"i0":1}}' for value in objects)]
    frame = frames.frame(schema, records)
    strict = good_rows(frame, strict=True)
    counted = frame.counts()
    assert strict == good_rows(frame)
    assert frame.counts() == counted
    assert counted.zoneless == {"o": 2}
    all_null = dict.fromkeys([*scalars, "text", "list"])
    read_objects = [row.o and row.o.asDict(recursive=True) for row in strict]
    assert read_objects[:5] == [
        None,
        None,
        {"inner": None, "at": None},
        {"inner": None, "at": None},
        {"inner": all_null, "at": None},
    ]
    last = read_objects[-1]["inner"]
    assert (last["i"], last["text"]) == (7, "t")


def test_counts_before_an_action_raise_an_error(frames: FrameFactory):
    with pytest.raises(RuntimeError, match="after an action"):
        frames.frame(table_schema({"a": {}}), ["{}"]).counts()


# ---------------------------------------------------------------- evolved layouts


def test_columns_without_a_property_are_null(frames: FrameFactory):
    old = table_schema(
        {
            "a": {"type": "integer"},
            "s": {"type": "object", "properties": {"x": {"type": "integer"}}},
        }
    )
    new = table_schema(
        {"a": {"type": "string"}, "s": {"type": "object", "properties": {"x": {"type": "string"}}}}
    )
    grown, _ = merge_table_schemas(old, new)
    (row,) = good_rows(frames.frame(grown, ['{"a":"x","s":{"x":"y"}}']), strict=True)
    assert (row.a, row.a__string, row.s.x, row.s.x__string) == (None, "x", None, "y")


def test_frame_is_written_with_the_types_of_its_layout(
    frames: FrameFactory, tmp_path: Path, spark: SparkSession
):
    schema = table_schema(EVERYWHERE, metadata=True)
    frame = frames.frame(schema, [record(**GOOD)])
    frame.good(strict=True).drop(ORDINAL).write.parquet(str(tmp_path / "table"))
    assert frame.counts().rows == 1
    written = spark.read.parquet(str(tmp_path / "table")).schema
    for column in schema.columns:
        same = spark.sql(f"SELECT CAST(NULL AS {column.type.ddl}) AS c").schema["c"].dataType
        assert written[column.name].dataType == same


@pytest.mark.thorough
@pytest.mark.parametrize("count", [200, 800, 2000])
def test_thousands_of_columns_are_read(frames: FrameFactory, count: int):
    kinds = ("i", "dec", "f", "at", "day", "obj", "flag", "arr")
    names = [(kinds[n % len(kinds)], f"c{n}") for n in range(count)]
    last = count - len(kinds)
    schema = table_schema({column: TYPES[kind][0] for kind, column in names}, ("c0",))
    values = {column: GOOD[kind] for kind, column in names}
    struct, flag = f"c{last + 5}", f"c{last + 6}"
    bad = [{**values, "c3": '"2024"'}, {**values, struct: '{"x":"y"}'}, {**values, flag: "5"}]
    frame = frames.frame(
        schema, [record(**values_of_record) for values_of_record in (values, *bad)]
    )
    (row,) = good_rows(frame)
    assert (row.c0, row[f"c{last}"], row[struct].x) == (7, 7, 1)
    assert {n: bad.reasons[0].partition(":")[0] for n, bad in bad_rows(frame).items()} == {
        1: "c3",
        2: f"{struct}.x",
        3: flag,
    }


def test_rows_of_file_parts_get_their_reserved_ordinals(frames: FrameFactory):
    """That holds for good and bad rows, also for a line that is no JSON."""
    schema = table_schema({"a": {"type": "integer"}}, metadata=True)
    second, fifth = first_in_part(2), first_in_part(5)
    lines = [
        line(7, '{"a":7}'),
        line(fifth, '{"a":52}'),
        line(fifth + 1, '{"a":"x"}'),
        line(second, '{"a":20}'),
        line(second + 1, '"half'),
    ]
    metadata = replace(METADATA, starts={2: 50, 5: 52})
    frame = frames.lines(schema, lines, metadata=metadata)
    started = METADATA.sync_started_at * 2**20
    good = good_rows(frame)
    assert [(row.a, row[ORDINAL]) for row in good] == [(7, 7), (20, 50), (52, 52)]
    assert [row["_sdc_sequence"] - started for row in good] == [7, 50, 52]
    assert {n: row.raw for n, row in bad_rows(frame).items()} == {
        51: lines[4].rstrip(),
        53: '{"a":"x"}',
    }
