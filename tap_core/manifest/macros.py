"""Functions and filters that the templates of a manifest can use.

Names, arguments and results are those of Airbyte's YAML reference ("Macros" and "Filters"), so that
the templates of existing manifests give the same results.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote_plus
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tap_core.incremental.datetime_formats import get_format
from tap_core.incremental.durations import ISODuration, parse_duration
from tap_core.limits.bounded_operations import TEMPLATE_LENGTH, check_time_format
from tap_core.limits.regex import compile_pattern, search
from tap_core.parsing.datetimes import parse_datetime, utc_now

__all__ = ["FILTERS", "MACROS", "NON_DETERMINISTIC"]

_EPOCH_FORMATS: Final = frozenset({"%s", "%s_as_float", "%ms", "%epoch_microseconds"})
"""Datetime formats that count from 1970, which ``strftime`` does not support."""
_SHORT_DATE: Final = re.compile(r"\d{4}(?:-\d\d)?", re.ASCII)
_JANUARY_FIRST: Final = "-01-01"


# Functions


def _today_with_timezone(timezone: str) -> date:
    try:
        return datetime.now(ZoneInfo(timezone)).date()
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"'{timezone}' is not a time zone name such as Pacific/Tarawa.") from None


def _timestamp(dt: float | str) -> int | float:
    return int(dt) if isinstance(dt, (int, float)) else _parse_datetime(dt).timestamp()


def _parse_datetime(s: str) -> datetime:
    """Parse an ISO 8601 date or datetime to UTC; a year, or year and month, is also valid."""
    s = s + ""  # raises TypeError for None, UndefinedError for an undefined value
    if _SHORT_DATE.fullmatch(s):
        s += _JANUARY_FIRST[(len(s) - 4) :]  # the part after the 4 digits of the year
    return parse_datetime(s).astimezone(timezone.utc)


def _max(*args: Any) -> Any:  # without the options of Python's max
    return max(*args)


def _min(*args: Any) -> Any:
    return min(*args)


def _day_delta(num_days: int, format: str = "%Y-%m-%dT%H:%M:%S.%f%z") -> str:
    check_time_format(format)
    return (utc_now() + timedelta(days=num_days)).strftime(format)


@dataclass(frozen=True)
class _Months:
    """Duration in months or years, which a template adds to a date or subtracts from it."""

    length: ISODuration
    sign: int

    def __radd__(self, other: date) -> date:
        return self._from(other, self.sign)

    __add__ = __radd__

    def __rsub__(self, other: date) -> date:
        return self._from(other, -self.sign)

    def _from(self, other: date, times: int) -> date:
        if isinstance(other, datetime):
            return self.length.after(other, times)
        midnight = datetime(other.year, other.month, other.day, tzinfo=timezone.utc)
        return self.length.after(midnight, times).date()


def _duration(datestring: str) -> timedelta | _Months:
    length = parse_duration(datestring.removeprefix("-"))
    sign = -1 if datestring.startswith("-") else 1
    return _Months(length, sign) if length.months else sign * length.rest


def _format_datetime(
    dt: str | date | int,
    format: str,
    input_format: str | None = None,
) -> str:
    check_time_format(format)
    check_time_format(input_format)
    instant = _to_instant(dt, input_format)
    if format in _EPOCH_FORMATS:
        aware = instant if isinstance(instant, datetime) else _parse_datetime(instant.isoformat())
        return get_format(format).write(aware)
    if "%_ms" in format and isinstance(instant, datetime):
        format = format.replace("%_ms", f"{instant.microsecond // 1_000:03}")  # noqa: A001
    return instant.strftime(format)


def _to_instant(dt: str | date | int, input_format: str | None) -> date:
    if isinstance(dt, date):
        return dt
    if isinstance(dt, int):
        return get_format(input_format or "%s").read(dt)
    if input_format is None:
        return _parse_datetime(dt)
    if input_format in _EPOCH_FORMATS:
        return get_format(input_format).read(dt)
    instant = datetime.strptime(dt, input_format.replace("%_ms", "%f"))  # noqa: DTZ007  see below
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=timezone.utc)


def _sanitize_url(value: str) -> str:
    return quote_plus(value)


def _camel_case_to_snake_case(value: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", value).lower()


def _generate_uuid() -> str:
    return str(uuid.uuid4())


MACROS: Final[Mapping[str, Callable[..., Any]]] = {
    "now_utc": utc_now,
    "today_utc": lambda: utc_now().date(),
    "today_with_timezone": _today_with_timezone,
    "timestamp": _timestamp,
    "str_to_datetime": _parse_datetime,
    "max": _max,
    "min": _min,
    "day_delta": _day_delta,
    "duration": _duration,
    "format_datetime": _format_datetime,
    "sanitize_url": _sanitize_url,
    "camel_case_to_snake_case": _camel_case_to_snake_case,
    "generate_uuid": _generate_uuid,
    "json_loads": json.loads,  # in airbyte-cdk only for JwtAuthenticator
}
"""Functions that templates can call, by name."""

NON_DETERMINISTIC: Final = frozenset(
    {"now_utc", "today_utc", "today_with_timezone", "day_delta", "generate_uuid"}
)
"""Names of functions whose result may differ at each call."""


# Filters


def _hash(value: Any, hash_type: str = "md5", salt: str | None = None) -> str:
    if hash_type not in hashlib.algorithms_guaranteed or hash_type.startswith("shake"):
        raise ValueError(f"'{hash_type}' is not a hash such as md5 or sha256.")
    digest = hashlib.new(hash_type, str(value).encode(), usedforsecurity=False)
    if salt:
        digest.update(str(salt).encode())
    return digest.hexdigest()


def _base64encode(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def _base64decode(value: str) -> str:
    return base64.b64decode(value.encode()).decode()


def _base64binascii_decode(value: str) -> str:
    """Encode a text as base64; airbyte-cdk's filter of this name encodes too, despite the name."""
    return base64.standard_b64encode(value.encode("ascii")).decode("ascii")


def _to_quoted_json(value: Any) -> str:
    """Return a value as JSON between triple quotes; return a text unchanged.

    Without the quotes the rendered JSON would be parsed as a Python literal.
    """
    if isinstance(value, str):
        return value
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)
    return f'"""{text}"""'


def _regex_search(value: str, regex: str) -> str | None:
    match = search(regex, value)
    return match[1] if match and match.groups() else ""


def _regex_replace(value: str, regex: str, replacement: str) -> str:
    return compile_pattern(regex).sub(replacement, value, TEMPLATE_LENGTH.whole)


def _hmac(value: Any, key: str, hash_type: str = "sha256") -> str:
    if hash_type != "sha256":
        raise ValueError(f"hmac supports only sha256, not '{hash_type}'.")
    return hmac.new(str(key).encode(), str(value).encode(), "sha256").hexdigest()


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "hash": _hash,
    "base64encode": _base64encode,
    "base64decode": _base64decode,
    "base64binascii_decode": _base64binascii_decode,
    "string": _to_quoted_json,
    "regex_search": _regex_search,
    "regex_replace": _regex_replace,
    "hmac": _hmac,
}
"""Jinja filters that templates can use, by name."""
