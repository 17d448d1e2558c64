"""From what the server sends to the values of a record: exactly those that JSON has.

The server writes text, and most of it is taken as it is: nothing is lost where nothing is
converted, and psycopg reads text in C. What has to be written in another way is `READERS`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias

import msgspec
from psycopg import Connection
from psycopg.types.string import TextLoader
from sqlalchemy import types as sqltypes
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.types import TypeEngine

__all__ = ["AsText", "prepare", "reader_of"]

Reader: TypeAlias = Callable[[Any], Any]
"""From the server's text (None for NULL) to a value of JSON."""

FIRST = "0001-01-01T00:00:00.000000+00:00"
LAST = "9999-12-31T23:59:59.999999+00:00"
"""The bounds of ISO 8601's years, in place of infinities and of years that it has not."""

# How the server writes is set once per connection, whatever the user's or the database's own
# settings are: instants in UTC, and each float with all of its digits.
SESSION = {
    "client_encoding": "UTF8",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "3",
}
NAMED = """set_config('application_name',
    coalesce(nullif(current_setting('application_name'), ''), 'tap-postgres'), false)"""

# Types that psycopg would make Python objects of; what it has no object for is text anyway.
TEXTS = (
    *("date", "time", "timetz", "timestamp", "timestamptz", "interval"),
    *("bytea", "uuid", "inet", "cidr", "record"),
    *("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    *("int4multirange", "int8multirange", "nummultirange"),
    *("datemultirange", "tsmultirange", "tstzmultirange"),
)
DATES = (sqltypes.Date, sqltypes.DateTime)
NUMBERS = (sqltypes.Numeric, sqltypes.Float)


class AsText(sqltypes.UserDefinedType[Any]):
    """A column whose values come as psycopg has them, and through a reader if there is one."""

    cache_ok = True

    def __init__(self, read: Reader | None = None) -> None:
        """Take the reader."""
        self.read = read

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        """Return the reader: SQLAlchemy calls it for each value."""
        return self.read


def prepare(connection: Connection[Any], *, numbers_as_string: bool) -> None:
    """Have a new connection write and read all values as `reader_of` takes them."""
    numbers = ("float4", "float8", "numeric") if numbers_as_string else ()
    for name in (*TEXTS, *numbers):
        connection.adapters.register_loader(name, TextLoader)
    settings = (f"set_config('{name}', '{value}', false)" for name, value in SESSION.items())
    before, connection.autocommit = connection.autocommit, True  # else a rollback unsets them
    connection.execute(f"SELECT {NAMED}, {', '.join(settings)}".encode())
    connection.autocommit = before


def reader_of(
    kind: TypeEngine[Any], *, dates_as_string: bool, numbers_as_string: bool
) -> Reader | None:
    """Return how values of a column's type are read; None for as they are."""
    if isinstance(kind, pg.ARRAY):
        read = reader_of(
            kind.item_type, dates_as_string=dates_as_string, numbers_as_string=numbers_as_string
        )
        return None if read is None else _of_each(read)
    if isinstance(kind, DATES) and dates_as_string:
        return None
    if isinstance(kind, NUMBERS):
        return read_number if numbers_as_string else None
    if isinstance(kind, (sqltypes.DateTime, sqltypes.Time)) and kind.timezone:
        return read_zoned_instant if isinstance(kind, sqltypes.DateTime) else read_zoned_time
    return next((read for type_, read in READERS.items() if isinstance(kind, type_)), None)


def _of_each(read: Reader) -> Reader:
    """Return the reader of an array of any dimensions."""

    def read_items(value: Any) -> Any:
        return list(map(read_items, value)) if isinstance(value, list) else read(value)

    return read_items


def read_day(text: str | None) -> str | None:
    """Return a date as it is, unless it has no year of four digits."""
    return text if text is None or len(text) == 10 else _bound(text)[:10]  # noqa: PLR2004


def read_instant(text: str | None) -> str | None:
    """Return ``2024-02-29 12:30:00.5`` as ``2024-02-29T12:30:00.500000+00:00``.

    That is how the SDK writes date-times: one without a zone is taken as UTC.
    """
    if text is None:
        return None
    if text[10:11] != " " or text[-1] == "C":
        return _bound(text)
    if len(text) == len("2024-02-29 12:30:00.500000"):
        return f"{text[:10]}T{text[11:]}+00:00"
    return f"{text[:10]}T{text[11:19]}{(text[19:] or '.').ljust(7, '0')}+00:00"


def read_zoned_instant(text: str | None) -> str | None:
    """Return ``2024-02-29 12:30:00.5+00``, which is always UTC (`SESSION`), in the same way."""
    if text is None:
        return None
    if text[10:11] != " " or text[-1] == "C":
        return _bound(text)
    if len(text) == len("2024-02-29 12:30:00.500000+00"):
        return f"{text[:10]}T{text[11:]}:00"
    return f"{text[:10]}T{text[11:19]}{(text[19:-3] or '.').ljust(7, '0')}+00:00"


def read_zoned_time(text: str | None) -> str | None:
    """Return ``12:30:00+02`` with the zone's minutes, which ISO 8601's extended form has."""
    return f"{text}:00" if text and text[-3] in "+-" else text


def read_hex(text: str | None) -> str | None:
    """Return the hexadecimal digits of bytes, without the mark that the server puts before."""
    return text if text is None else text[2:]


def read_json(text: str | None) -> Any:
    """Return a document, with all digits of its numbers."""
    if text is None:
        return None
    try:
        return _decode(text)
    except msgspec.DecodeError:  # half a character, which only Python's own reads
        return json.loads(text, parse_float=Decimal)


def read_number(text: str | None) -> str | None:
    """Return the digits of a number, and null for NaN and infinity."""
    return None if text is None or text[-1] in "Ny" else text


READERS: dict[type[TypeEngine[Any]], Reader] = {
    sqltypes.Date: read_day,
    sqltypes.DateTime: read_instant,
    sqltypes.LargeBinary: read_hex,
    sqltypes.JSON: read_json,
}

_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def _bound(text: str) -> str:
    """Return the bound of ISO 8601's years that a date or timestamp lies beyond."""
    _warn_of_bounds()
    return FIRST if text.startswith("-") or text.endswith("C") else LAST


@cache
def _warn_of_bounds() -> None:
    logging.getLogger("tap-postgres").warning(
        "There are dates that ISO 8601 has not, such as 'infinity': they become %s or %s. Set"
        " dates_as_string to have them as they are.",
        FIRST[:10],
        LAST[:10],
    )
