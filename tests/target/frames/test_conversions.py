"""Conversions of JSON values to column types against a reference in plain Python.

The reference takes the text that JSON's reader gives (a string without its quotes, every other
value as written) and follows the rules in `frames.strict`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from target_spark.columns import ORDINAL, ColumnOptions, TableSchema, schema_from_json_schema
from target_spark.frames import BatchMetadata, SpoolFrame
from target_spark.frames.sql_casts import fast_cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
BAD = object()

NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
DATE_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[Tt ]([0-9]{2}):([0-9]{2})"
    r"(?::([0-9]{2})(?:\.([0-9]+))?)?(?: ?(?:[Zz]|([+-])([0-9]{2})(?::?([0-9]{2}))?))?)?"
)
MIDNIGHT = re.compile(r"[Tt ]00:00(:00(\.0+)?)?( ?([Zz]|[+-]00(:?00)?))?")


def integer(text: str) -> Any:
    value = convert_decimal(text, 38, 0)
    return BAD if value is BAD or not -(2**63) <= value < 2**63 else int(value)


def convert_decimal(text: str, precision: int, scale: int) -> Any:
    if not NUMBER.fullmatch(text):
        return BAD
    value = Decimal(text)
    _, digits, exponent = value.as_tuple()
    written = "".join(map(str, digits)).rstrip("0")
    decimal_places = -(exponent + len(digits) - len(written)) if written else 0
    fits = value.copy_abs() < Decimal(10) ** (precision - scale)
    return value if fits and decimal_places <= scale else BAD


def double(text: str) -> Any:
    if not NUMBER.fullmatch(text):
        return BAD
    value = float(text)
    return BAD if value in {float("inf"), float("-inf")} else value


def date_time(text: str) -> Any:
    """Return microseconds since 1970, or BAD."""
    match = DATE_TIME.fullmatch(text)
    if not match:
        return BAD
    fraction, sign, hours, minutes = match.groups()[6:]
    if (fraction or "")[6:].strip("0") or int(minutes or 0) > 59:
        return BAD
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    if offset > timedelta(hours=18):
        return BAD
    try:
        local = datetime(*(int(part or 0) for part in match.groups()[:6]), tzinfo=timezone.utc)
        instant = local + offset if sign == "-" else local - offset
    except (ValueError, OverflowError):
        return BAD
    micros = int((fraction or "")[:6].ljust(6, "0"))
    return (instant - EPOCH) // timedelta(microseconds=1) + micros


def day(text: str) -> Any:
    written, time = text[:10], text[10:]
    if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", written):
        return BAD
    if time and not MIDNIGHT.fullmatch(time):
        return BAD
    try:
        return date.fromisoformat(written)
    except ValueError:
        return BAD


def binary(text: str) -> Any:
    if not re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", text) or len(text) % 4:
        return BAD
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return BAD


REFERENCE: dict[str, tuple[dict[str, Any], Callable[[str], Any]]] = {
    "i": ({"type": "integer"}, integer),
    "big": ({"type": "integer", "maximum": 10**37}, lambda text: convert_decimal(text, 38, 0)),
    "money": (
        {"type": "string", "format": "singer.decimal", "precision": 12, "scale": 2},
        lambda text: convert_decimal(text, 12, 2),
    ),
    "fine": ({"type": "number", "multipleOf": 1e-9}, lambda text: convert_decimal(text, 38, 9)),
    "f": ({"type": "number"}, double),
    "at": ({"type": "string", "format": "date-time"}, date_time),
    "day": ({"type": "string", "format": "date"}, day),
    "bytes": ({"type": "string", "contentEncoding": "base64"}, binary),
    "text": ({"type": "string"}, lambda text: text),
}

OF_TEXT = ("big", "money", "fine", "at", "day", "bytes")
"""The properties that the strict plan converts from text."""

PLAIN = {
    "i": re.compile("-?[1-9][0-9]{0,17}"),
    "f": re.compile(r"-?[1-9][0-9]{0,17}(\.[0-9]{1,9})?"),
}
"""Numbers that the strict plan must accept."""

# ----------------------------------------------------------------------- JSON values

DIGITS = st.text("0123456789", max_size=6)
NUMBERS = st.one_of(
    st.integers(-(2**66), 2**66).map(str),
    st.integers(-20, 20).map(str),
    st.builds(
        "{}.{}".format,
        st.integers(-(10**12), 10**12),
        st.text("0123456789", min_size=1, max_size=14),
    ),
    st.builds(
        "{}{}e{}".format,
        st.integers(-(10**6), 10**6),
        st.sampled_from(["", ".0", ".5", ".25", ".10", ".123456789012345678"]),
        st.one_of(st.integers(-25, 45), st.integers(-400, 400)),
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(
        allow_nan=False, allow_infinity=False, places=9, min_value=-(10**28), max_value=10**28
    ).map(str),
)
CLOCKS = st.builds(
    "{}-{}-{}{}{}:{}:{}{}{}".format,
    st.sampled_from(
        ["2024", "0001", "0000", "9999", "10000", "1582", "1970", "24", "+2024", "-2024"]
    ),
    st.sampled_from(["01", "02", "12", "13", "1", "00"]),
    st.sampled_from(["01", "28", "29", "31", "32", "1", "00"]),
    st.sampled_from(["T", "T", "T", " ", "t", "_", ""]),
    st.sampled_from(["00", "12", "23", "24", "1"]),
    st.sampled_from(["00", "59", "60"]),
    st.sampled_from(["00", "30", "59", "60", "5"]),
    st.sampled_from(["", "", ".", ".5", ".123456", ".123456000", ".1234567", ".000000001", ",5"]),
    st.sampled_from(
        [
            "",
            "Z",
            "Z",
            "z",
            "+00:00",
            "-05:30",
            "+0530",
            "+05",
            "-18:00",
            "+18:01",
            "+24:00",
            " Z",
            " UTC",
            "[UTC]",
            "+5",
            "Europe/Paris",
            "NZ",
            "+05:60",
            "Z\n",
        ]
    ),
)
NEAR_MISSES = (
    "",
    " ",
    "12:30",
    "2024",
    "2024-01",
    "2024-01-01",
    "2024-01-01T00:00:00",
    "2024-01-01 00:00:00.000 +00:00",
    "2024-01-01T00:00:00+01:00",
    "2024-01-01T00:00:01Z",
    "2024-01-01T12:30",
    "2024-01-01 12:30 -05:30",
    "2024-01-01Z",
    "2024-01-01 +01:00",
    "2024-01-01T12",
    "2024-01-01T12:30:00.Z",
    "2024-02-30",
    "0000-01-01",
    "9999-12-31",
    "10000-01-01",
    "2024-1-1",
    " 2024-01-01",
    "2024-01-01 ",
    "2024-01-01\n",
    "now",
    "epoch",
    "today",
    "1700000000000",
    "1.7",
    "1.0",
    "1e3",
    "-0",
    "-0.0",
    "007",
    "+5",
    ".5",
    "5.",
    " 5",
    "5 ",
    "5\n",
    "0x10",
    "1_000",
    "1,000",
    "1d",
    "1f",
    "1L",
    "5D",
    "NaN",
    "Infinity",
    "-Infinity",
    "inf",
    "1e400",
    "-1e400",
    "1e-400",
    "0e5",
    "-0e-5",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "9.223372036854775807e18",
    "1.5e1",
    "15e-1",
    "150e-1",
    "9" * 38,
    "1" + "0" * 38,
    "0." + "0" * 40 + "1",
    "1." + "0" * 40,
    "9999999999.99",
    "9999999999.995",
    "10000000000",
    "QUJD",
    "QQ==",
    "QQ=",
    "QQ",
    "Q===",
    "QUI=",
    "QU-_",
    "QU JD",
    "true",
    "null",
    "٣",
    "１",
    "{}",
    "[]",
    "2024-01-01T00:00:00٫5Z",
)
OTHERS = ("true", "false", "null", "{}", '{"a":[1.50, 1e400]}', "[]", '["x"]')
STRINGS = st.one_of(
    NUMBERS,
    CLOCKS,
    st.sampled_from(NEAR_MISSES),
    st.text(max_size=6),
    st.dates().map(str),
    st.datetimes().map(lambda at: at.isoformat()),
    st.binary(max_size=9).map(lambda b: base64.b64encode(b).decode()),
)
VALUES = st.one_of(
    STRINGS.map(json.dumps),
    NUMBERS,
    st.sampled_from(OTHERS),
).filter(lambda raw: "\\ud" not in raw)


def read_text(raw: str) -> str | None:
    """Return the text that JSON's reader gives for a raw value."""
    if raw == "null":
        return None
    return json.loads(raw) if raw.startswith('"') else raw


def comparable(row: Any, name: str) -> Any:
    value = row[name]
    return bytes(value) if isinstance(value, bytearray) else value


def spool(path: Path, records: Sequence[str]) -> str:
    lines = (f'{{"n":{n},"t":null,"v":null,"r":{record}}}\n' for n, record in enumerate(records))
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


PLACES = {"": "%s", "o.p.": '{"o":{"p":%s}}'}
"""Records with a value at the top level or nested, by the prefix of the value's path."""


def make_table_schema(prefix: str) -> TableSchema:
    """Return the table schema of records that have a value of each type at a place."""
    properties: dict[str, Any] = {name: schema for name, (schema, _) in REFERENCE.items()}
    for part in reversed(prefix.split(".")[:-1]):
        properties = {part: {"type": "object", "properties": properties}}
    return schema_from_json_schema({"properties": properties}, (), ColumnOptions())


def read(
    spark: SparkSession, path: Path, prefix: str, cases: Sequence[tuple[str, str]], *, strict: bool
) -> tuple[dict[int, Any], SpoolFrame, Sequence[str]]:
    """Read pairs of a raw value and its property; return the good rows, all rows, the records."""
    records = [PLACES[prefix] % f'{{"{name}":{raw}}}' for raw, name in cases]
    lines = [spool(path, records)]
    frame = SpoolFrame(spark, lines, make_table_schema(prefix), BatchMetadata(NOW, NOW, 0))
    columns = (
        f"unix_micros({prefix}{name}) AS {name}" if name == "at" else f"{prefix}{name}"
        for name in REFERENCE
    )
    rows = frame.good(strict=strict).selectExpr(*columns, ORDINAL).collect()
    return {row[ORDINAL]: row for row in rows}, frame, records


def expect(raw: str, name: str) -> Any:
    text = read_text(raw)
    return None if text is None else REFERENCE[name][1](text)


def check(spark: SparkSession, path: Path, raws: Sequence[str]) -> None:
    """Check the conversion of each value to each column type, all in one frame, at each place."""
    cases = [(raw, name) for raw in raws for name in REFERENCE]
    for prefix in PLACES:
        good, frame, records = read(spark, path, prefix, cases, strict=False)
        bad = {row.ordinal: row for row in frame.bad().collect()}
        assert len(good) + len(bad) == len(records)
        for n, (raw, name) in enumerate(cases):
            expected = expect(raw, name)
            actual = comparable(good[n], name) if n in good else BAD
            assert (type(actual), actual) == (type(expected), expected), (prefix, name, raw)
            if expected is BAD:
                assert bad[n].raw == records[n]
                assert bad[n].reasons[0].startswith(f"{prefix}{name}: not ")


def find_usual(spark: SparkSession, raws: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of a raw value and a property that the strict plan must accept.

    A fast conversion must be null for every value that the reference refuses.
    """
    types = {column.source: column.type for column in make_table_schema("").columns}
    texts = [raw for raw in raws if raw.startswith('"')]
    columns = (
        f"unix_micros({cast}) AS at" if name == "at" else f"{cast} AS {name}"
        for name, cast in ((name, fast_cast("`text`", types[name])) for name in OF_TEXT)
    )
    frame = spark.createDataFrame(
        [(n, read_text(raw)) for n, raw in enumerate(texts)], "n INT, text STRING"
    )
    usual = [(raw, name) for raw in raws for name in ("i", "f") if PLAIN[name].fullmatch(raw)]
    for row in frame.selectExpr("n", *columns).collect():
        for name in OF_TEXT:
            actual, expected = comparable(row, name), expect(texts[row.n], name)
            assert actual is None or actual == expected, (name, texts[row.n])
            usual += [(texts[row.n], name)] if actual is not None else []
    return usual + [("null", name) for name in REFERENCE]


def check_strict(spark: SparkSession, path: Path, raws: Sequence[str]) -> None:
    """Check that the strict plan converts all usual spellings as the reference, at each place."""
    cases = find_usual(spark, raws)
    for prefix in PLACES:
        good, _, _ = read(spark, path, prefix, cases, strict=True)
        for n, (raw, name) in enumerate(cases):
            actual, expected = comparable(good[n], name), expect(raw, name)
            assert (type(actual), actual) == (type(expected), expected), (prefix, name, raw)


def test_malformed_and_boundary_values_convert_as_the_reference(
    spark: SparkSession, tmp_path: Path
):
    numbers = [text for text in NEAR_MISSES if NUMBER.fullmatch(text)]
    values = [*map(json.dumps, NEAR_MISSES), *numbers, *OTHERS]
    check(spark, tmp_path / "lines", values)
    check_strict(spark, tmp_path / "lines", values)


@pytest.mark.thorough
# Shrinking would start thousands of jobs; the assertion shows the value.
@settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(raws=st.lists(VALUES, min_size=150, max_size=400))
def test_random_values_convert_as_the_reference(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, raws: list[str]
):
    folder = tmp_path_factory.mktemp("spool")
    check(spark, folder / "lines", raws)
    check_strict(spark, folder / "lines", raws)
