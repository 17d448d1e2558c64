"""Conversion of result rows to records: values and page sizes."""

from __future__ import annotations

import tracemalloc
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import ip_address
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects import postgresql

from tap_core.protocols.singer.writer import encode_body
from tap_core.records.conform import compile_conformer, to_json_compatible
from tap_core.sql.result_reader import (
    FIRST_PAGE_ROWS,
    MAX_PAGE_BYTES,
    MAX_PAGE_ROWS,
    PAGE_BYTES,
    compile_row_reader,
    get_processors,
    get_text_columns,
    iterate_pages,
)
from tap_core.typing.inspect import TypeConformanceLevel


class Unknown(sa.types.UserDefinedType[object]):
    """A column type without a `python_type`."""

    cache_ok = True

    @property
    def python_type(self):
        raise NotImplementedError


ZONES = st.sampled_from([None, timezone.utc, timezone(timedelta(hours=-3, minutes=-30))])
COLUMNS = {
    "at": (sa.DateTime(), st.datetimes(timezones=ZONES)),
    "day": (sa.Date(), st.dates()),
    "clock": (sa.Time(), st.times()),
    "span": (sa.Interval(), st.timedeltas(timedelta(-10_000), timedelta(10_000))),
    "raw": (sa.LargeBinary(), st.binary()),
    "bit": (sa.LargeBinary(), st.sampled_from([b"\x00", b"\x01"])),
    "id": (sa.Uuid(), st.uuids()),
    "text": (sa.Text(), st.text()),
    "count": (sa.Integer(), st.integers(-(10**30), 10**30)),
    "price": (sa.Numeric(), st.decimals(allow_nan=False, allow_infinity=False)),
    "odd": (sa.types.NullType(), st.one_of(st.integers(), st.datetimes(), st.binary())),
}
SCHEMA = {name: {"type": ["string", "null"]} for name in COLUMNS}
SCHEMA["bit"] = {"type": ["boolean", "null"]}
SCHEMA["count"] = SCHEMA["price"] = {"type": ["number", "null"]}
TABLE = {name: sa.Column(name, kind) for name, (kind, _) in COLUMNS.items()}


@settings(deadline=None)
@given(st.lists(st.tuples(*(st.none() | values for _, values in COLUMNS.values())), max_size=3))
def test_column_text_conversion_gives_the_same_values_as_conforming_records(rows):
    conform = compile_conformer(
        {"properties": SCHEMA}, TypeConformanceLevel.RECURSIVE, lambda _: None
    )
    plain = compile_row_reader(list(COLUMNS))(rows)
    written = compile_row_reader(list(COLUMNS), get_text_columns(TABLE, SCHEMA))(rows)
    assert plain == [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    assert [to_json_compatible(conform(record)) for record in plain] == [
        to_json_compatible(conform(record)) for record in written
    ]


def test_values_converted_to_text_are_encoded_as_expected():
    values = (
        datetime(2024, 1, 2, 3, 4, 5),  # noqa: DTZ001 - a column without a time zone
        date(2024, 1, 2),
        time(3, 4, 5, 6),
        timedelta(days=1, hours=2),
        b"\x00\xff",
        b"\x01",
        UUID(int=1),
        "x",
        1,
        Decimal("1.50"),
        None,
    )
    [record] = compile_row_reader(list(COLUMNS), get_text_columns(TABLE, SCHEMA))([values])
    assert encode_body(record) == (
        b'{"at":"2024-01-02T03:04:05.000000+00:00","day":"2024-01-02","clock":"03:04:05.000006",'
        b'"span":"1970-01-02T02:00:00+00:00","raw":"00ff","bit":true,'
        b'"id":"00000000-0000-0000-0000-000000000001","text":"x","count":1,"price":1.50,'
        b'"odd":null}'
    )


def test_columns_missing_from_the_schema_are_not_converted_to_text():
    assert get_text_columns(TABLE, {}) == {}
    assert get_text_columns(TABLE, {"at": True}) == {}


@pytest.mark.parametrize("kind", [postgresql.INET, Unknown])
def test_values_of_database_specific_types_become_text(kind):
    texts = get_text_columns({"ip": sa.Column("ip", kind)}, {"ip": {"type": "string"}})
    values = [ip_address("10.0.0.1"), "::1", None, 5, [1], {"a": 1}]
    records = compile_row_reader(["ip"], texts)([(value,) for value in values])
    assert [record["ip"] for record in records] == ["10.0.0.1", *values[1:]]


@pytest.mark.parametrize("names", [["one"], ["a\"b'c\n", "{x}", "VALUE", "v0"], []])
def test_column_names_may_contain_any_characters(names):
    row = tuple(range(len(names)))
    assert compile_row_reader(names)([row]) == [dict(zip(names, row, strict=True))]


def test_page_size_grows_to_its_maximum():
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        result = connection.execute(sa.text(NUMBERS), {"n": 2500, "size": 1})
        pages = [len(page) for page in iterate_pages(result)]
    assert pages == [FIRST_PAGE_ROWS, MAX_PAGE_ROWS, MAX_PAGE_ROWS, 2500 - FIRST_PAGE_ROWS - 2000]
    engine.dispose()


def test_wide_rows_are_read_in_small_pages_with_bounded_memory():
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        result = connection.execute(sa.text(NUMBERS), {"n": 400, "size": 250_000})
        tracemalloc.start()
        count = sum(len(compile_row_reader(["i", "b"])(page)) for page in iterate_pages(result))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    engine.dispose()
    assert count == 400
    assert peak < 25_000_000  # of 100 MB


NUMBERS = """
with recursive numbers(i) as (select 1 union all select i + 1 from numbers where i < :n)
select i, zeroblob(:size) as b from numbers
"""


def test_result_processors_of_the_column_types_are_applied():
    engine = sa.create_engine("sqlite://")
    columns = [sa.Column("j", sa.JSON), sa.Column("at", sa.DateTime), sa.Column("n", sa.Integer)]
    table = sa.Table("t", sa.MetaData(), *columns)
    time = datetime(2024, 1, 2, 3, 4, 5)  # noqa: DTZ001 - SQLite has no time zones
    nulls = {"j": None, "at": None, "n": None}
    texts = get_text_columns(dict(table.c), {"at": {"type": "string"}})
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(table.insert(), [{"j": {"a": [1]}, "at": time, "n": 1}, nulls])
        expected = [dict(row) for row in connection.execute(table.select()).mappings()]
        result = connection.execute(table.select())
        names, processors = list(result.keys()), get_processors(result)
        [page] = iterate_pages(result)
    engine.dispose()
    assert compile_row_reader(names, None, processors)(page) == expected
    first, second = compile_row_reader(names, texts, processors)(page)
    assert first == {"j": {"a": [1]}, "at": "2024-01-02T03:04:05.000000+00:00", "n": 1}
    assert second == nulls


def test_result_without_a_driver_cursor_is_read_through_fetchmany():
    class Result:
        def fetchmany(self, size):
            return [(7,)] * min(size, 3) if size == FIRST_PAGE_ROWS else []

    assert get_processors(Result()) == ()
    assert list(iterate_pages(Result())) == [[(7,)] * 3]


@pytest.mark.parametrize(("seconds", "limit"), [(0.0, PAGE_BYTES), (1.0, MAX_PAGE_BYTES)])
def test_slow_fetches_make_pages_larger(monkeypatch, seconds, limit):
    sizes, now = [], [0.0]

    class Result:
        def fetchmany(self, size):
            sizes.append(size)
            now[0] += seconds
            return [("x" * 10_000,)] * size if len(sizes) < 12 else []

    monkeypatch.setattr("tap_core.sql.result_reader.perf_counter", lambda: now[0])
    for page in iterate_pages(Result()):
        now[0] += 0.0001 * len(page)
    assert sizes == sorted(sizes)
    assert 0.9 * limit < sizes[-1] * 10_000 <= limit
