"""Conversion of the server's values to JSON values.

The server sends values as text. Most types are not converted further, so they lose no precision.
`READERS` has the types whose text differs from the format of the JSON value.
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

__all__ = ["ReaderType", "get_reader", "prepare_connection"]

Reader: TypeAlias = Callable[[Any], Any]
"""Function that converts the server's text (None for NULL) to a JSON value."""

FIRST = "0001-01-01T00:00:00.000000+00:00"
LAST = "9999-12-31T23:59:59.999999+00:00"
"""First and last date-time of ISO 8601, which replace infinity and years outside this range."""

# Settings of each connection, which override those of the user and of the database: time stamps in
# UTC, and floats with all digits. A transaction is idle while a slow target stores rows.
SESSION_SETTINGS = {
    "client_encoding": "UTF8",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "idle_in_transaction_session_timeout": "0",
}
SET_APPLICATION_NAME = """set_config('application_name',
    coalesce(nullif(current_setting('application_name'), ''), 'tap-postgres'), false)"""

# Types that psycopg would convert to Python objects, and that are read as text instead.
TEXT_TYPES = (
    *("date", "time", "timetz", "timestamp", "timestamptz", "interval"),
    *("bytea", "uuid", "inet", "cidr", "record"),
    *("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    *("int4multirange", "int8multirange", "nummultirange"),
    *("datemultirange", "tsmultirange", "tstzmultirange"),
)
DATES = (sqltypes.Date, sqltypes.DateTime)
NUMBERS = (sqltypes.Numeric, sqltypes.Float)


class ReaderType(sqltypes.UserDefinedType[Any]):
    """SQLAlchemy type of a column whose values are converted by a reader, if there is one."""

    cache_ok = True

    def __init__(self, read: Reader | None = None) -> None:
        """Initialize the type with a reader; None for values that are not converted."""
        self.read = read

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        """Return the reader, which SQLAlchemy calls for each value."""
        return self.read


def prepare_connection(connection: Connection[Any], *, numbers_as_string: bool) -> None:
    """Configure a new connection: its session settings, and the types that it returns as text.

    Args:
        connection: Connection of psycopg.
        numbers_as_string: True to return floats and decimals as text, too.
    """
    numbers = ("float4", "float8", "numeric") if numbers_as_string else ()
    for name in (*TEXT_TYPES, *numbers):
        connection.adapters.register_loader(name, TextLoader)
    settings = [
        f"set_config('{name}', '{value}', false)" for name, value in SESSION_SETTINGS.items()
    ]
    before, connection.autocommit = connection.autocommit, True  # else a rollback unsets them
    connection.execute(f"SELECT {SET_APPLICATION_NAME}, {', '.join(settings)}".encode())
    connection.autocommit = before


def get_reader(
    kind: TypeEngine[Any], *, dates_as_string: bool, numbers_as_string: bool
) -> Reader | None:
    """Return the reader of a column type, or None if its values are not converted."""
    if isinstance(kind, pg.ARRAY):
        read = get_reader(
            kind.item_type, dates_as_string=dates_as_string, numbers_as_string=numbers_as_string
        )
        return None if read is None else _make_array_reader(read)
    if isinstance(kind, DATES) and dates_as_string:
        return None
    if isinstance(kind, NUMBERS):
        return read_number if numbers_as_string else None
    if isinstance(kind, (sqltypes.DateTime, sqltypes.Time)) and kind.timezone:
        return read_timestamptz if isinstance(kind, sqltypes.DateTime) else read_timetz
    return next((read for type_, read in READERS.items() if isinstance(kind, type_)), None)


def _make_array_reader(read: Reader) -> Reader:
    """Return the reader of an array of any number of dimensions, from the reader of its items."""

    def read_items(value: Any) -> Any:
        return list(map(read_items, value)) if isinstance(value, list) else read(value)

    return read_items


def read_date(text: str | None) -> str | None:
    """Return a date unchanged; one without a year of four digits becomes the nearest bound."""
    return text if text is None or len(text) == 10 else _clamp(text)[:10]  # noqa: PLR2004


def read_timestamp(text: str | None) -> str | None:
    """Return ``2024-02-29 12:30:00.5`` as ``2024-02-29T12:30:00.500000+00:00``.

    This is the SDK's format of date-times; a time without a zone is taken as UTC.
    """
    if text is None:
        return None
    if text[10:11] != " " or text[-1] == "C":
        return _clamp(text)
    if len(text) == len("2024-02-29 12:30:00.500000"):
        return f"{text[:10]}T{text[11:]}+00:00"
    return f"{text[:10]}T{text[11:19]}{(text[19:] or '.').ljust(7, '0')}+00:00"


def read_timestamptz(text: str | None) -> str | None:
    """Return ``2024-02-29 12:30:00.5+00`` as ``2024-02-29T12:30:00.500000+00:00``.

    The text is always in UTC, by `SESSION_SETTINGS`.
    """
    if text is None:
        return None
    if text[10:11] != " " or text[-1] == "C":
        return _clamp(text)
    if len(text) == len("2024-02-29 12:30:00.500000+00"):
        return f"{text[:10]}T{text[11:]}:00"
    return f"{text[:10]}T{text[11:19]}{(text[19:-3] or '.').ljust(7, '0')}+00:00"


def read_timetz(text: str | None) -> str | None:
    """Return ``12:30:00+02`` as ``12:30:00+02:00``, the extended format of ISO 8601."""
    return f"{text}:00" if text and text[-3] in "+-" else text


def read_hex(text: str | None) -> str | None:
    """Return the hexadecimal digits of bytes, without the prefix that the server adds."""
    return text if text is None else text[2:]


def read_json(text: str | None) -> Any:
    """Return a JSON value; numbers with a fraction or exponent are decimals."""
    if text is None:
        return None
    try:
        return _decode(text)
    except msgspec.DecodeError:  # a lone surrogate, which only Python's decoder accepts
        return json.loads(text, parse_float=Decimal)


def read_number(text: str | None) -> str | None:
    """Return the text of a number, or None for NaN and infinity."""
    return None if text is None or text[-1] in "Ny" else text


READERS: dict[type[TypeEngine[Any]], Reader] = {
    sqltypes.Date: read_date,
    sqltypes.DateTime: read_timestamp,
    sqltypes.LargeBinary: read_hex,
    sqltypes.JSON: read_json,
}

_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def _clamp(text: str) -> str:
    """Return `FIRST` or `LAST` for a date or timestamp outside their range."""
    _warn_of_bounds()
    return FIRST if text.startswith("-") or text.endswith("C") else LAST


@cache
def _warn_of_bounds() -> None:
    logging.getLogger("tap-postgres").warning(
        "Some dates cannot be written in ISO 8601, such as 'infinity': they become %s or %s. Set"
        " dates_as_string to keep the server's text.",
        FIRST[:10],
        LAST[:10],
    )
