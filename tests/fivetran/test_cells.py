"""Conversion of batch file cells: the limits of each type, and invalid text."""

from __future__ import annotations

import base64
import math
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tap_core.protocols.fivetran.enums import DataType
from target_spark.fivetran.cell_conversion import CellConversionError, arrow_type, convert_column
from target_spark.fivetran.table_schema import DestinationColumn

BOOLEAN, SHORT, INT, LONG = DataType.BOOLEAN, DataType.SHORT, DataType.INT, DataType.LONG
DECIMAL, FLOAT, DOUBLE = DataType.DECIMAL, DataType.FLOAT, DataType.DOUBLE
DATE, NAIVE, UTC = DataType.NAIVE_DATE, DataType.NAIVE_DATETIME, DataType.UTC_DATETIME
BINARY, TIME, STRING = DataType.BINARY, DataType.NAIVE_TIME, DataType.STRING

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)


def values(type: DataType, *texts: str | None, digits: tuple[int, int] | None = None) -> Any:
    """Return the values of texts. The converted array also has a null at each end."""
    column = DestinationColumn("c", type, decimal=digits, column="c")
    array = convert_column(column, pa.array([None, *texts, None], pa.string()))
    assert array.type == arrow_type(column)
    first, *converted, last = array.to_pylist()
    assert first is last is None
    return converted


def value(type: DataType, text: str, digits: tuple[int, int] | None = None) -> Any:
    """Return the value of a text, converted twice in one array with equal results."""
    first, second = values(type, text, text, digits=digits)
    assert repr(first) == repr(second)
    return first


def instant(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)


EXACT = [
    (BOOLEAN, "true", True),
    (BOOLEAN, "FALSE", False),
    (SHORT, "-32768", -32768),
    (SHORT, "32767", 32767),
    (INT, "-2147483648", -(2**31)),
    (INT, "2147483647", 2**31 - 1),
    (LONG, "-9223372036854775808", -(2**63)),
    (LONG, "9223372036854775807", 2**63 - 1),
    (LONG, "9007199254740993", 2**53 + 1),
    (FLOAT, "3.4028235E+38", 3.4028234663852886e38),
    (FLOAT, "3.4028237E+38", 3.4028234663852886e38),  # as in Fivetran's guide
    (FLOAT, "-3.4028237E38", -3.4028234663852886e38),
    (FLOAT, "1.17549435E-38", 1.1754943508222875e-38),
    (FLOAT, "-Infinity", -math.inf),
    (DOUBLE, "1.7976931348623157E308", 1.7976931348623157e308),
    (DOUBLE, "-2.2250738585072014E-308", -2.2250738585072014e-308),
    (DOUBLE, "4.9E-324", 5e-324),
    (DOUBLE, "0.1", 0.1),
    (DOUBLE, "Infinity", math.inf),
    (DATE, "0001-01-01", date(1, 1, 1)),
    (DATE, "1582-10-10", date(1582, 10, 10)),
    (DATE, "9999-12-31", date(9999, 12, 31)),
    (NAIVE, "0001-01-01T00:00:00", datetime(1, 1, 1)),  # noqa: DTZ001
    (NAIVE, "2024-01-08T18:52", datetime(2024, 1, 8, 18, 52)),  # noqa: DTZ001
    (NAIVE, "2024-01-08 18:52:07.7", datetime(2024, 1, 8, 18, 52, 7, 700_000)),  # noqa: DTZ001
    (NAIVE, "9999-12-31T23:59:59.999999999", datetime.max),  # noqa: DTZ901
    (UTC, "2024-01-08T18:52Z", instant(2024, 1, 8, 18, 52)),
    (UTC, "2024-01-08T18:52:07.754685370Z", instant(2024, 1, 8, 18, 52, 7, 754_685)),
    (UTC, "1969-12-31T23:59:59.999999999Z", EPOCH - MICROSECOND),
    (UTC, "1969-12-31T23:59:59.9999999999+00:00", EPOCH - MICROSECOND),
    (UTC, "2024-03-31T02:30:00Z", instant(2024, 3, 31, 2, 30)),
    (UTC, "2024-01-08T18:52:07.7546859+05:30", instant(2024, 1, 8, 13, 22, 7, 754_685)),
    (UTC, "2024-01-08T18:52:07-0100", instant(2024, 1, 8, 19, 52, 7)),
    (UTC, "2024-01-08T18:52:07", instant(2024, 1, 8, 18, 52, 7)),
    (UTC, "9999-12-31T23:59:59.999Z", instant(9999, 12, 31, 23, 59, 59, 999_000)),
    (UTC, "0001-01-01T00:00:00Z", instant(1, 1, 1)),
    (TIME, "10:15", "10:15"),
    (TIME, "10:15:30", "10:15:30"),
    (TIME, "23:59:59.999999999", "23:59:59.999999999"),
    (BINARY, "", b""),
    (BINARY, "AAE=", b"\x00\x01"),
    (BINARY, "AAE", b"\x00\x01"),
    (BINARY, base64.b64encode(bytes(range(256))).decode(), bytes(range(256))),
    (STRING, "0x10", "0x10"),
    (DataType.JSON, '{"a": 1.0, "a": 2}', '{"a": 1.0, "a": 2}'),
    (DataType.XML, "<a/>", "<a/>"),
]


@pytest.mark.parametrize("type, text, want", EXACT)
def test_values_at_the_limits_of_each_type_are_exact(
    type: DataType, text: str, want: object
) -> None:
    """F40: nothing is rounded; digits after the microseconds are cut, also before 1970."""
    assert value(type, text) == want


def test_nan_is_a_float_and_a_double() -> None:
    """F40: NaN is a value of FLOAT and DOUBLE."""
    assert math.isnan(value(FLOAT, "NaN"))
    assert math.isnan(value(DOUBLE, "NaN"))


WRONG = [
    (BOOLEAN, "1 0 t yes truefalse"),
    (SHORT, "32768 -32769 1.0 0x1 +1 1_0 ١"),
    (INT, "2147483648 0X1F 1e3"),
    (LONG, "9223372036854775808 -9223372036854776000"),
    (FLOAT, "3.41E38 -1e39 1,5 one 0x1p3"),
    (DOUBLE, "1e400 -1e309 1.0d"),
    (DATE, "0000-12-31 2023-02-29 +10000-01-01 -0001-01-01 2024-1-1 2024-01-08T00:00:00"),
    (NAIVE, "2024-01-08T18:52:07Z 2024-01-08T24:00:00 2024-01-08T18:52:60 0000-12-31T23:59:59"),
    (
        NAIVE,
        "2024-01-08T18:52:07.754685abc 2024-01-08T18:52:07.754685.3 2024-01-08T18:52:07.75468é",
    ),
    (UTC, "9999-12-31T23:59:59-05:00 0001-01-01T00:00:00+01:00 2024-01-08T18:52:07ZZ Z 2024-01-08"),
    (UTC, "2024-01-08T18:52:07.754685370ZZ 2024-01-08T18:52:07.754685370+1 2024-01-08T18:52:07z"),
    (TIME, "24:00 10:60 9:15 10:15:30. 10:15:30.1234567890 10:15:30Z"),
    (BINARY, "A A=== a-b_ AA==AA== AA=A é"),
]


@pytest.mark.parametrize(
    "type, text", [(each, text) for each, texts in WRONG for text in (*texts.split(), " ")]
)
def test_text_that_is_not_a_value_of_the_type_is_an_error(type: DataType, text: str) -> None:
    """F40: the error gives the row of the cell and not its text."""
    good = {BOOLEAN: "true", DATE: "2024-01-08", TIME: "10:15", BINARY: "AAE="}.get(type, "1")
    good = {NAIVE: "2024-01-08T18:52", UTC: "2024-01-08T18:52Z"}.get(type, good)
    texts = pa.array([None, good, good, None, text, good, text], pa.string())
    with pytest.raises(CellConversionError) as caught:
        convert_column(DestinationColumn("c", type, column="c"), texts)
    assert caught.value.row == 4
    assert len(text) < 3 or text not in str(caught.value)


@pytest.mark.parametrize("type", [each for each in DataType if each is not DataType.UNSPECIFIED])
def test_column_may_have_no_cells_or_only_nulls(type: DataType) -> None:
    """F40: null is a value of every type."""
    column = DestinationColumn("c", type, column="c")
    for texts in ([], [None, None]):
        assert convert_column(column, pa.array(texts, pa.string())).to_pylist() == texts


@pytest.mark.parametrize("type", [BOOLEAN, LONG, DECIMAL, DOUBLE, DATE, NAIVE, UTC, TIME, BINARY])
def test_empty_text_is_a_value_of_binary_but_of_no_other_parsed_type(type: DataType) -> None:
    if type is BINARY:
        assert value(type, "") == b""
    else:
        with pytest.raises(CellConversionError):
            value(type, "")


# ------------------------------------------------------------------ compared with Python

digits_of = st.integers(1, 38).flatmap(
    lambda precision: st.tuples(st.just(precision), st.integers(0, min(precision, 37)))
)
decimals = st.decimals(allow_nan=False, allow_infinity=False, places=None) | st.builds(
    lambda digits, scale: Decimal(digits).scaleb(-scale, Context(prec=60)),
    st.integers(-(10**40), 10**40),
    st.integers(-3, 40),
)


@given(number=decimals, digits=digits_of, plain=st.booleans())
@example(number=Decimal("9" * 28 + "." + "9" * 10), digits=(38, 10), plain=True)
@example(number=Decimal("-1." + "2" * 37), digits=(38, 37), plain=True)
@example(number=Decimal("1.5000"), digits=(2, 1), plain=True)
@example(number=Decimal("0E+50"), digits=(38, 10), plain=False)
@example(number=Decimal("1E-39"), digits=(1, 0), plain=False)
@example(number=Decimal("162720286469643817.0023006700008090"), digits=(38, 33), plain=True)
@example(number=Decimal("1." + "0" * 45), digits=(38, 1), plain=True)
def test_decimal_is_exact_or_refused(number: Decimal, digits: tuple[int, int], plain: bool) -> None:
    """F40: in every notation, with at most as many digits as the column has."""
    assume(number.adjusted() < 60)
    precision, scale = digits
    text = f"{number:f}" if plain else str(number)
    with localcontext(Context(prec=200)):
        fits = number == number.quantize(Decimal(1).scaleb(-scale))
        fits = fits and abs(number) < Decimal(10) ** (precision - scale)
    if fits:
        assert value(DECIMAL, text, digits) == number
    else:
        with pytest.raises(
            CellConversionError, match=f"not a DECIMAL of {precision} digits, {scale} of"
        ):
            value(DECIMAL, text, digits)


@given(st.integers(-(2**64), 2**64), st.sampled_from([(SHORT, 15), (INT, 31), (LONG, 63)]))
def test_integer_is_exact_or_refused(number: int, integer: tuple[DataType, int]) -> None:
    """F40: an integer outside the range of its type is refused."""
    kind, bits = integer
    if -(2**bits) <= number < 2**bits:
        assert value(kind, str(number)) == number
    else:
        with pytest.raises(CellConversionError):
            value(kind, str(number))


@given(st.floats(allow_nan=False))
def test_double_round_trips(number: float) -> None:
    """F40: every bit is kept, also the sign of zero."""
    text = repr(number).replace("inf", "Infinity").replace("e", "E")
    result = value(DOUBLE, text)
    assert (result, math.copysign(1, result)) == (number, math.copysign(1, number))


@given(st.floats(allow_nan=False, width=32))
def test_float_round_trips(number: float) -> None:
    """F40: every bit is kept, from the shortest text and from nine digits."""
    for text in (repr(number), f"{number:.9g}"):
        assert value(FLOAT, text.replace("inf", "Infinity")) == number


@given(
    moments=st.lists(st.datetimes(), min_size=1, max_size=5),
    beyond=st.text("0123456789", max_size=3),
    zone=st.sampled_from(["Z", "+00:00", ""]),
)
def test_timestamp_round_trips_to_the_microsecond(
    moments: list[datetime], beyond: str, zone: str
) -> None:
    """F40: in every year, with and without digits beyond the microseconds."""
    texts = [f"{moment.isoformat(timespec='microseconds')}{beyond}" for moment in moments]
    assert values(NAIVE, *texts) == moments
    mixed = [f"{text}{zone if number else 'Z'}" for number, text in enumerate(texts)]
    assert [moment.replace(tzinfo=None) for moment in values(UTC, *mixed)] == moments


@given(st.lists(st.binary(max_size=40), max_size=5), st.booleans())
def test_bytes_round_trip(expected: list[bytes], padded: bool) -> None:
    """F40: with and without base64 padding."""
    texts = [base64.b64encode(data).decode() for data in expected]
    assert values(BINARY, *(text if padded else text.rstrip("=") for text in texts)) == expected
