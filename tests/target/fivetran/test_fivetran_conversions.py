"""Conversions between column types against plain Python: which values are kept, which are lost."""

from __future__ import annotations

import math
import random
import re
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from target_spark.fivetran.type_conversion import get_conversion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LOST = object()

CASES: list[tuple[str, str, str, object]] = [
    # Text, as Fivetran writes it in its files.
    ("boolean", "true", "string", "true"),
    ("smallint", "-32768S", "string", "-32768"),
    ("bigint", "9223372036854775807L", "string", "9223372036854775807"),
    ("decimal(38,10)", "0.0000001", "string", "0.0000001000"),
    ("double", "1e10D", "string", "1.0E10"),
    ("float", "float('3.4028235E38')", "string", "3.4028235E38"),
    ("double", "double('NaN')", "string", "NaN"),
    ("date", "date'0001-01-01'", "string", "0001-01-01"),
    ("date", "date'1582-10-10'", "string", "1582-10-10"),
    (
        "timestamp_ntz",
        "timestamp_ntz'2024-01-02 03:04:05.060000'",
        "string",
        "2024-01-02T03:04:05.06",
    ),
    ("timestamp", "timestamp'9999-12-31 23:59:59.999Z'", "string", "9999-12-31T23:59:59.999Z"),
    ("timestamp", "timestamp'0001-01-01 00:00:00Z'", "string", "0001-01-01T00:00:00Z"),
    ("binary", "X'00ff10'", "string", "AP8Q"),
    ("binary", "cast(repeat('a', 99) AS binary)", "string", "YWFh" * 33),
    ("struct<a: int, b: string>", "struct(1 AS a, null AS b)", "string", '{"a":1,"b":null}'),
    ("array<int>", "array(1, 2)", "string", "[1,2]"),
    # Parsed text.
    ("string", "'TRUE'", "boolean", "true"),
    ("string", "'yes'", "boolean", LOST),
    ("string", "'-32768'", "smallint", "-32768"),
    ("string", "'32768'", "smallint", LOST),
    ("string", "'007'", "int", LOST),
    ("string", "'1.0'", "int", "1"),
    ("string", "''", "int", LOST),
    ("string", "'9223372036854775808'", "bigint", LOST),
    ("string", "'1.50'", "decimal(3,1)", "1.5"),
    ("string", "'1.55'", "decimal(3,1)", LOST),
    ("string", "'1e2'", "decimal(5,0)", "100"),
    ("string", "'0.10'", "double", "0.1"),
    ("string", "'3.4028235E+38'", "float", "3.4028235E38"),
    ("string", "'9007199254740993'", "double", LOST),
    ("string", "'9007199254740992'", "double", "9.007199254740992E15"),
    ("string", "'-Infinity'", "double", "-Infinity"),
    ("string", "'NaN'", "float", "NaN"),
    ("string", "'1e39'", "float", LOST),
    ("string", "'4.9E-324'", "double", "4.9E-324"),
    ("string", "'1e-400'", "double", LOST),
    ("string", "'2007-12-03'", "date", "2007-12-03"),
    ("string", "'2007-12-03T10:15:30'", "date", LOST),
    ("string", "'2007-12-03T10:15:30.123Z'", "timestamp", "2007-12-03 10:15:30.123"),
    ("string", "'2024-01-08T18:52:07.754685370Z'", "timestamp", LOST),
    ("string", "'2007-12-03T10:15'", "timestamp_ntz", "2007-12-03 10:15:00"),
    ("string", "'2007-12-03T10:15:30+02:00'", "timestamp_ntz", LOST),
    ("string", "'not base64!'", "binary", LOST),
    # Numbers.
    ("bigint", "9223372036854775807L", "double", LOST),
    ("bigint", "9007199254740994L", "double", "9.007199254740994E15"),
    ("bigint", "-9223372036854775807L - 1L", "double", "-9.223372036854776E18"),
    ("int", "16777217", "float", LOST),
    ("bigint", "32768L", "smallint", LOST),
    ("bigint", "100L", "decimal(4,2)", LOST),
    ("double", "9.223372036854775807E18D", "bigint", LOST),
    ("double", "-2.5D", "bigint", LOST),
    ("double", "double('NaN')", "int", LOST),
    ("double", "0.1D", "decimal(38,10)", "0.1000000000"),
    ("float", "0.1F", "decimal(38,10)", "0.1000000000"),
    ("double", "double('Infinity')", "decimal(38,10)", LOST),
    ("double", "0.1D", "float", LOST),
    ("double", "double('NaN')", "float", "NaN"),
    ("double", "1e300D", "float", LOST),
    ("decimal(38,10)", "1.25", "decimal(10,1)", LOST),
    ("decimal(38,10)", "12.50", "decimal(38,37)", LOST),
    ("decimal(38,10)", "2.50", "decimal(38,37)", "2.5" + "0" * 36),
    ("decimal(38,10)", "1.5", "int", LOST),
    ("decimal(38,0)", "32767", "smallint", "32767"),
    ("boolean", "true", "decimal(1,1)", LOST),
    ("boolean", "true", "int", "1"),
    ("int", "2", "boolean", LOST),
    ("int", "0", "boolean", "false"),
    # Days and instants.
    ("date", "date'2024-03-10'", "timestamp", "2024-03-10 00:00:00"),
    ("timestamp", "timestamp'2024-03-10 00:00:00Z'", "date", "2024-03-10"),
    ("timestamp_ntz", "timestamp_ntz'2024-03-10 00:00:01'", "date", LOST),
    ("timestamp_ntz", "timestamp_ntz'2024-03-10 02:30:00'", "timestamp", "2024-03-10 02:30:00"),
    # Types without a conversion.
    ("date", "date'2024-03-10'", "int", LOST),
    ("binary", "X'01'", "int", LOST),
]


@pytest.fixture
def spark(compiled_spark: SparkSession) -> SparkSession:
    """A session in which Spark compiles the conversions, as it does by default."""
    return compiled_spark


def test_converted_value_is_exact_or_counted_as_lost(spark: SparkSession) -> None:
    """AlterTable loses no value: a value that the new type cannot hold is found beforehand."""
    columns = []
    for old, value, new, _ in CASES:
        conversion = get_conversion(f"CAST({value} AS {old})", old, new)
        columns.append(
            f"if({conversion.lost}, NULL, named_struct('v', CAST({conversion.value} AS STRING)))"
        )
    (row,) = spark.sql(f"SELECT {', '.join(columns)}").collect()
    wrong = []
    for (old, value, new, expected), converted in zip(CASES, row, strict=True):
        actual = LOST if converted is None else converted.v
        if actual != expected:
            wrong.append(f"{value} as {old} to {new}: {actual}, not {expected}")
    assert not wrong, "\n".join(wrong)


def test_null_converts_to_null_in_every_type(spark: SparkSession) -> None:
    pairs = {(old, new) for old, _, new, _ in CASES}
    parts = [get_conversion(f"CAST(NULL AS {old})", old, new) for old, new in pairs]
    columns = (f"NOT {conversion.lost} AND ({conversion.value}) IS NULL" for conversion in parts)
    (row,) = spark.sql(f"SELECT {', '.join(columns)}").collect()
    assert all(row)


def as_decimal(text: str, digits: int, scale: int) -> bool:
    value = Decimal(text)
    return abs(value) < 10 ** (digits - scale) and value == round(value, scale)


def test_random_numbers_convert_as_in_plain_python(spark: SparkSession) -> None:
    chance = random.Random(7)
    longs = [
        (1 if chance.random() < 0.5 else -1) * chance.getrandbits(chance.randint(1, 63))
        for _ in range(300)
    ]
    doubles = [math.ldexp(chance.random() - 0.5, chance.randint(-70, 70)) for _ in range(150)]
    doubles += [round(chance.uniform(-1e6, 1e6), chance.randint(0, 6)) for _ in range(150)]
    decimals = [Decimal(chance.getrandbits(chance.randint(1, 66))).scaleb(-6) for _ in range(300)]
    rows = ", ".join(
        f"({i}L, {d!r}D, CAST('{m}' AS decimal(30,6)), '{m:f}')"
        for i, d, m in zip(longs, doubles, decimals, strict=True)
    )
    spark.sql(f"SELECT * FROM VALUES {rows} AS t(i, d, m, t)").createOrReplaceTempView("numbers")  # noqa: S608
    pairs = [
        ("i", "bigint", "double"),
        ("i", "bigint", "decimal(10,2)"),
        ("d", "double", "bigint"),
        ("d", "double", "decimal(20,5)"),
        ("m", "decimal(30,6)", "double"),
        ("m", "decimal(30,6)", "decimal(12,3)"),
        ("t", "string", "double"),
        ("t", "string", "decimal(12,3)"),
    ]
    lost = ", ".join(get_conversion(*pair).lost for pair in pairs)
    converted = spark.sql(f"SELECT {lost} FROM numbers").collect()  # noqa: S608
    for row, i, d, m in zip(converted, longs, doubles, decimals, strict=True):
        is_exact = (
            int(float(i)) == i,
            as_decimal(str(i), 10, 2),
            d.is_integer() and abs(d) < 2**63,
            as_decimal(repr(d), 20, 5),
            Decimal(repr(float(m))) == m,
            as_decimal(str(m), 12, 3),
            Decimal(repr(float(m))) == m,
            as_decimal(str(m), 12, 3),
        )
        assert tuple(not is_lost for is_lost in row) == is_exact, (i, d, m)


def test_timestamps_round_trip_through_text(spark: SparkSession) -> None:
    text = get_conversion("at", "timestamp", "string").value
    back = get_conversion(f"({text})", "string", "timestamp").value
    rows = spark.range(-7, 30).selectExpr(
        "timestamp_micros(id * 7919191919191919 + 123456) AS at", "id"
    )
    results = rows.selectExpr(f"{text} AS t", f"{back} <=> at AS same").collect()
    assert all(row.same for row in results)
    assert all(re.fullmatch(r"[\d-]{10}T[\d:]{8}\.\d+Z", row.t) for row in results)
