"""Spool lines read with Arrow have the same rows, types and counts as those read by Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from target_spark.columns import ColumnOptions, ColumnSource, TableSchema, schema_from_json_schema
from target_spark.frames import BatchMetadata, SpoolFrame
from target_spark.frames.arrow_batch import UnsupportedBatchError, read_arrow_batch
from tests.extract.sample_taps import KINDS, KINDS_SCHEMA
from tests.target.frames.test_conversions import BAD, NOW, REFERENCE, VALUES, read_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTIES = {name: each for name, (each, _) in REFERENCE.items()}
INNER = {"type": "object", "properties": PROPERTIES, "additionalProperties": False}
METADATA = BatchMetadata(NOW, NOW + timedelta(seconds=1.5), 1_700_000_000_000, 7)
TIMES = (None, "2024-05-01T12:00:00.5Z", "2024-05-01 12:00:00+02:00", "2024-05-01", "soon")


def make_schema(properties: dict[str, Any], **options: Any) -> TableSchema:
    return schema_from_json_schema({"properties": properties}, (), ColumnOptions(**options))


def write_lines(path: Path, records: list[str], times: list[str | None] | None = None) -> str:
    """Write a spool file in which every row has a time, a version and its position."""
    times_of_records = times or [TIMES[0]] * len(records)
    lines = (
        f'{{"n":{n * 3},"t":{json.dumps(time)},"v":{n if n % 2 else "null"},"r":{record}}}\n'
        for n, (record, time) in enumerate(zip(records, times_of_records, strict=True))
    )
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def check_equal(spark: SparkSession, path: str, table_schema: TableSchema, rows: int) -> None:
    """Check that both readers give the same rows, types and counts. Raw ids differ by chance."""
    batch = read_arrow_batch([path], table_schema, METADATA)
    frame = SpoolFrame(spark, [path], table_schema, METADATA)
    good = frame.good(strict=False)
    actual, expected = spark.createDataFrame(batch.table), good.collect()
    assert len(expected) == rows
    assert actual.schema.simpleString() == good.schema.simpleString()
    for left, right in zip(
        actual.collect(), sorted(expected, key=lambda row: row[-1]), strict=True
    ):
        assert without_random_ids(left) == without_random_ids(right)
    assert batch.zoneless == frame.counts(rows).zoneless


def without_random_ids(row: Any) -> dict[str, Any]:
    values: dict[str, Any] = row.asDict()
    if "_airbyte_raw_id" in values:
        values["_airbyte_raw_id"] = (
            values["_airbyte_raw_id"][-12:],
            len(values["_airbyte_raw_id"]),
        )
    return values


def fits(name: str, raw: str) -> bool:
    text = read_text(raw)
    return text is None or REFERENCE[name][1](text) is not BAD


FITTING = {name: VALUES.filter(lambda raw, name=name: fits(name, raw)) for name in REFERENCE}
"""JSON values that fit a column of each type, in all spellings."""


@st.composite
def objects(draw: st.DrawFn) -> str:
    names = draw(st.lists(st.sampled_from(list(REFERENCE)), unique=True))
    return "{" + ",".join(f'"{name}":{draw(FITTING[name])}' for name in names) + "}"


RECORDS = st.builds(
    '{{"o":{},"l":{},{}'.format,
    st.one_of(st.just("null"), objects()),
    st.one_of(
        st.just("null"), st.lists(objects(), max_size=2).map(lambda each: f"[{','.join(each)}]")
    ),
    objects().map(lambda text: text[1:] if text != "{}" else '"unknown":1}'),
)


@pytest.mark.thorough
@pytest.mark.spark
@settings(
    max_examples=4,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(records=st.lists(RECORDS, min_size=20, max_size=60), data=st.data())
def test_rows_that_fit_are_equal_to_those_of_spark(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, records: list[str], data: Any
):
    schema = {**PROPERTIES, "o": INNER, "l": {"type": "array", "items": INNER}}
    options = data.draw(st.sampled_from([{"metadata": True, "history": True}, {"airbyte": True}]))
    times = data.draw(
        st.lists(st.sampled_from(TIMES), min_size=len(records), max_size=len(records))
    )
    path = write_lines(tmp_path_factory.mktemp("spool") / "lines", records, times)
    if "airbyte" in options:  # its sources always write full times
        path = write_lines(Path(path), records, [TIMES[n % 2] for n in range(len(records))])
    check_equal(spark, path, make_schema(schema, **options), len(records))


@pytest.mark.spark
def test_every_type_is_read_as_by_spark(spark: SparkSession, tmp_path: Path):
    table_schema = schema_from_json_schema(KINDS_SCHEMA, ("id",), ColumnOptions(metadata=True))
    emptied = replace(table_schema.columns[1], feed=ColumnSource.EMPTIED)
    unfed = replace(table_schema.columns[2], feed=ColumnSource.NOTHING)
    columns = (table_schema.columns[0], emptied, unfed, *table_schema.columns[3:])
    records = [
        json.dumps(KINDS, default=float),
        '{"id":2,"_sdc_deleted_at":"2024-01-01"}',
        '{"id":3,"items":[],"list":null}',
    ]
    path = write_lines(tmp_path / "lines", records)
    check_equal(spark, path, replace(table_schema, columns=columns), 3)


@settings(max_examples=100, deadline=None)
@given(raw=VALUES, name=st.sampled_from(list(REFERENCE)))
def test_value_that_does_not_fit_is_refused(
    tmp_path_factory: pytest.TempPathFactory, raw: str, name: str
):
    path = write_lines(tmp_path_factory.mktemp("spool") / "lines", [f'{{"{name}":{raw}}}'])
    if fits(name, raw):
        assert read_arrow_batch([path], make_schema(PROPERTIES), METADATA).table.num_rows == 1
    else:
        with pytest.raises(UnsupportedBatchError, match=f"{name}: not "):
            read_arrow_batch([path], make_schema(PROPERTIES), METADATA)


@pytest.mark.parametrize(
    ("record", "options"),
    [
        ('{"k":null}', {}),
        ("{}", {}),
        ("[]", {}),
        ("{", {}),
        ('{"k":1,"s":"\\ud800"}', {}),
        ('{"k":1,"_sdc_deleted_at":"soon"}', {"metadata": True}),
        ('{"k":1,"free":' + "[" * 100_000 + "]" * 100_000 + "}", {}),
    ],
)
def test_row_that_only_spark_can_divide_is_refused(
    tmp_path: Path, record: str, options: dict[str, bool]
):
    schema = {"k": {"type": "integer"}, "s": {"type": "string"}, "free": {}}
    table_schema = schema_from_json_schema({"properties": schema}, ("k",), ColumnOptions(**options))
    path = write_lines(tmp_path / "lines", ['{"k":1}', record])
    with pytest.raises(UnsupportedBatchError):
        read_arrow_batch([path], table_schema, METADATA)


@pytest.mark.parametrize("name", ['a "b"', "a\\b", "a\nb"])
def test_property_with_an_unusual_name_is_refused(tmp_path: Path, name: str):
    inner = {"type": "object", "properties": {name: {}}, "additionalProperties": False}
    for properties in ({name: {"type": "integer"}}, {"o": inner}):
        path = write_lines(tmp_path / "lines", ["{}"])
        with pytest.raises(UnsupportedBatchError, match="unusual name"):
            read_arrow_batch([path], make_schema(properties), METADATA)


def test_folder_that_spark_has_written_is_refused_with_the_reason(tmp_path: Path):
    with pytest.raises(UnsupportedBatchError, match="files or tables that Spark reads"):
        read_arrow_batch([str(tmp_path)], make_schema({"i": {"type": "integer"}}), METADATA)


def test_text_that_a_partition_stores_as_null_is_refused(tmp_path: Path):
    table_schema = replace(make_schema({"s": {"type": "string"}}), text_partitions=("s",))
    for text, is_refused in (("x", False), ("", True), ("__HIVE_DEFAULT_PARTITION__", True)):
        path = write_lines(tmp_path / "lines", [json.dumps({"s": text})])
        if is_refused:
            with pytest.raises(UnsupportedBatchError, match="partition"):
                read_arrow_batch([path], table_schema, METADATA)
        else:
            assert read_arrow_batch([path], table_schema, METADATA).table.num_rows == 1


def test_narrow_integers_of_an_existing_table_are_checked(tmp_path: Path):
    from target_spark.columns import Integer

    wide = make_schema({"i": {"type": "integer"}})
    table_schema = replace(wide, columns=(replace(wide.columns[0], type=Integer(16)),))
    path = write_lines(tmp_path / "lines", ['{"i":32767}', '{"i":"-5"}'])
    batch = read_arrow_batch([path], table_schema, METADATA)
    assert batch.table.column("i") == pa.chunked_array([pa.array([32767, -5], pa.int16())])
    with pytest.raises(UnsupportedBatchError, match="16 bits"):
        read_arrow_batch([write_lines(tmp_path / "lines", ['{"i":32768}'])], table_schema, METADATA)
