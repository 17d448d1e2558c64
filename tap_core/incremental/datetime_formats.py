"""Datetime formats of APIs, compiled from format strings such as ``%Y-%m-%dT%H:%M:%SZ``.

- A format string has the directives of Python's ``strptime`` and Airbyte's ``%_ms`` (milliseconds),
  or is one of ``%s``, ``%ms``, ``%s_as_float`` and ``%epoch_microseconds``: the seconds,
  milliseconds or microseconds since 1970.
- Values without an offset are UTC. Datetimes are written in UTC, unless the format has ``%z``.
- Common ISO 8601 formats are parsed without the slow ``strptime``, with the same results.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

from tap_core.limits.bounded_operations import check_time_format
from tap_core.parsing.datetimes import assume_utc

__all__ = ["DatetimeFormat", "get_format"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNITS = {
    "%s": timedelta(seconds=1),
    "%ms": timedelta(milliseconds=1),
    "%epoch_microseconds": timedelta(microseconds=1),
}
_FLOAT = "%s_as_float"
_MAX_SECONDS = 10**12
"""Seconds since 1970 that are beyond the range of `datetime.datetime` in any case."""
_DIRECTIVE = re.compile(r"%(?:_ms|.|$)", re.DOTALL)
_KNOWN_DIRECTIVES = frozenset(f"%{letter}" for letter in "aAwdbBmyYHIpMSfzZjUWcxXGuV%") | {"%_ms"}
_YEAR_DIRECTIVES = frozenset(("%Y", "%y", "%c", "%x", "%G"))
_ISO = re.compile(
    r"%Y-%m-%d(?:(?P<separator>[T ])%H:%M:%S(?P<fraction>\.%(?:f|_ms))?(?P<zone>%z|[^%.]*))?"
)
_FIRST_UNPADDED_YEAR = 1_000
_DATE_END = 10
"""Number of characters of a date such as ``2024-02-29``."""
_SECONDS_END = 19
"""Number of characters of a date-time up to its seconds, such as ``2024-02-29T13:14:15``."""
_MICRO_DIGITS = 6
_LONGEST_VALUE = 1_000
"""Maximum number of characters of a text to parse with ``strptime``."""
_ROUND_TRIP_SAMPLE = datetime(2024, 2, 29, 13, 14, 15, 678_000, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class DatetimeFormat:
    """Compiled datetime format, which parses and writes datetimes; create it with `get_format`."""

    text: str
    _read: Callable[[str], datetime]
    write: Callable[[datetime], str]
    """Function that writes a datetime, which must have a time zone, in this format."""
    is_count: bool = False
    """True if values are seconds, milliseconds or microseconds since 1970, as numbers."""
    is_plain: bool = False
    """True for ISO 8601 with a time. Texts of the same zone and length sort like datetimes."""

    def read(self, value: Any) -> datetime:
        """Parse a value of a record, a state or a setting to a datetime with a time zone.

        Python datetimes and dates are accepted too. A value without a time zone is assumed to be in
        UTC.

        Raises:
            ValueError: The value does not match the format.
        """
        if type(value) is str:
            return self._read(value)
        if isinstance(value, datetime):
            return assume_utc(value)
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
        if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
            return self._read(_format_number(value, is_whole=self.text in _UNITS))
        raise ValueError(f"A {type(value).__name__} is not a date-time.")


@lru_cache(maxsize=512)
def get_format(text: str) -> DatetimeFormat:
    """Compile a format string such as ``%Y-%m-%d``; results are cached.

    Raises:
        ValueError: The format string has an unknown directive or no year, or a datetime written
            in this format cannot be parsed again.
        LimitExceededError: The format string is too long.
    """
    check_time_format(text)
    unit = _UNITS.get(text)
    if unit is not None:
        return DatetimeFormat(
            text, partial(_read_count, unit), partial(_write_count, unit), is_count=True
        )
    if text == _FLOAT:
        return DatetimeFormat(text, _read_seconds, _write_seconds, is_count=True)
    _check_directives(text)
    slow, iso = partial(_parse_with_strptime, text), _ISO.fullmatch(text)
    if iso is None:
        compiled = DatetimeFormat(text, slow, partial(_write, text))
    else:
        compiled = DatetimeFormat(
            text,
            _make_iso_reader(iso, slow),
            partial(_write, text),
            is_plain=bool(iso["separator"]),
        )
    _check_round_trip(compiled)
    return compiled


def _check_directives(text: str) -> None:
    """Raise ValueError if a format string has an unknown directive, or no year."""
    directives = _DIRECTIVE.findall(text)
    for directive in directives:
        if directive not in _KNOWN_DIRECTIVES:
            raise ValueError(
                f"The date-time format {text!r} has {directive!r}, which is not a directive"
                " that can be read and written. %s, %ms, %s_as_float and %epoch_microseconds"
                " must be used alone; for the others see Python's strptime."
            )
    if _YEAR_DIRECTIVES.isdisjoint(directives):
        raise ValueError(f"The date-time format {text!r} has no year (%Y).")


def _check_round_trip(compiled: DatetimeFormat) -> None:
    """Raise ValueError if a datetime written with ``compiled`` cannot be parsed again with it."""
    try:
        compiled.read(compiled.write(_ROUND_TRIP_SAMPLE))
    except (ValueError, re.error) as error:
        raise ValueError(
            f"The date-time format {compiled.text!r} cannot read the text that it writes: {error}"
        ) from None


# Counts since 1970


def _format_number(value: float | Decimal, *, is_whole: bool) -> str:
    """Convert a number of seconds to text without an exponent; ``is_whole`` drops the fraction."""
    if isinstance(value, int):
        return str(value)
    digits = format(Decimal(str(value)), "f")
    return digits.partition(".")[0] if is_whole else digits


def _read_count(unit: timedelta, text: str) -> datetime:
    try:
        return _EPOCH + int(text) * unit
    except (OverflowError, ValueError):
        raise ValueError(f"{text!r} is not a count of {unit} since 1970.") from None


def _write_count(unit: timedelta, instant: datetime) -> str:
    return str((instant - _EPOCH) // unit)


def _read_seconds(text: str) -> datetime:
    try:
        seconds = Decimal(text)
        if abs(seconds) < _MAX_SECONDS:  # an integer of 1e999990 would take minutes
            return _EPOCH + timedelta(microseconds=int(seconds * 1_000_000))
    except ArithmeticError:
        pass
    raise ValueError(f"{text!r} is not a count of seconds since 1970.")


def _write_seconds(instant: datetime) -> str:
    return str(instant.timestamp())


# Texts


def _write(text: str, instant: datetime) -> str:
    return _format_datetime(text, instant) if "%z" in text else _write_utc(text, instant)


@lru_cache(maxsize=1_024)
def _write_utc(text: str, instant: datetime) -> str:
    """Write a datetime in UTC, in the format of the format string ``text``; cache the result."""
    return _format_datetime(text, instant.astimezone(timezone.utc))


def _format_datetime(text: str, instant: datetime) -> str:
    """Write a datetime in its own time zone, in the format of the format string ``text``.

    In addition to ``strftime``, support ``%_ms`` and pad years to four digits.
    """
    milliseconds = f"{instant.microsecond // 1_000:03}"

    def replace(directive: re.Match[str]) -> str:
        if directive[0] == "%_ms":
            return milliseconds
        # The C library writes years before 1000 without leading zeros.
        needs_padding = directive[0] == "%Y" and instant.year < _FIRST_UNPADDED_YEAR
        return f"{instant.year:04}" if needs_padding else directive[0]

    return instant.strftime(_DIRECTIVE.sub(replace, text))


@lru_cache(maxsize=1_024)
def _parse_with_strptime(text: str, value: str) -> datetime:
    if len(value) > _LONGEST_VALUE:  # a space of a format matches any number of spaces
        raise ValueError(f"A text of {len(value):,} characters is not a date-time.")
    python_format = _DIRECTIVE.sub(lambda match: "%f" if match[0] == "%_ms" else match[0], text)
    return assume_utc(datetime.strptime(value, python_format))  # noqa: DTZ007  made aware here


def _make_iso_reader(
    iso: re.Match[str], slow: Callable[[str], datetime]
) -> Callable[[str], datetime]:
    """Return a fast parser for a datetime format that is a form of ISO 8601.

    ``iso`` is the match of the pattern `_ISO` with the format string. The fast parser calls
    ``slow``, which uses ``strptime``, for a text that it cannot parse.
    """
    separator, zone, has_fraction = iso["separator"] or "", iso["zone"] or "", bool(iso["fraction"])
    read_any = partial(_read_iso, slow, separator, zone, has_fraction)
    if has_fraction or zone == "%z":
        return read_any
    end = _SECONDS_END if separator else _DATE_END
    length = end + len(zone)

    def read(text: str) -> datetime:
        if len(text) == length and text.endswith(zone):
            try:
                moment = datetime.fromisoformat(text[:end])
            except ValueError:
                return slow(text)
            if _has_separators(text, separator):
                return moment.replace(tzinfo=timezone.utc)
        return read_any(text)

    return read


def _has_separators(text: str, separator: str) -> bool:
    """Return True if a text has its separators at the positions of ``2024-02-29T13:14:15``.

    ``separator`` stands between date and time: ``T``, a space, or empty for a date.
    """
    # `datetime.fromisoformat` also accepts other forms of ISO 8601, such as 20240229.
    return text[7:8] == "-" and (
        not separator
        or (text[_DATE_END:].startswith(separator) and text[13:14] == text[16:17] == ":")
    )


def _read_iso(
    slow: Callable[[str], datetime], separator: str, zone: str, has_fraction: bool, text: str
) -> datetime:
    """Parse a datetime in an ISO 8601 format; call ``slow`` for a text in another format.

    Args:
        slow: Parser with ``strptime``.
        separator: Separator between date and time; empty for a date.
        zone: End of the format: ``%z``, a constant text such as ``Z``, or empty.
        has_fraction: True if the format has a fraction of a second.
        text: Text to parse.
    """
    end = _SECONDS_END if separator else _DATE_END
    try:
        moment = datetime.fromisoformat(text[:end])
    except ValueError:
        return slow(text)
    if not _has_separators(text, separator):
        return slow(text)
    tail, offset = text[end:], timezone.utc
    if zone == "%z":
        offset_start, offset = _parse_zone(tail) or (len(tail), offset)
        if offset_start == len(tail):
            return _reject_or_parse(text, slow, is_certain="+" not in tail and "-" not in tail)
        tail = tail[:offset_start]
    elif tail.endswith(zone):
        tail = tail[: len(tail) - len(zone)]
    else:
        return _reject_or_parse(text, slow, is_certain=not zone[:1].isdigit())
    micros = _parse_microseconds(tail, has_fraction=has_fraction)
    if micros is None:
        return _reject_or_parse(text, slow, is_certain=not zone[:1].isdigit())
    return moment.replace(microsecond=micros, tzinfo=offset)


def _reject_or_parse(text: str, slow: Callable[[str], datetime], *, is_certain: bool) -> datetime:
    """Handle a datetime whose end does not match its format: call ``slow`` or raise ValueError.

    ``slow`` is a parser with ``strptime``, which accepts more texts. If ``is_certain`` is True,
    ``strptime`` would reject this text too, so the ValueError is raised without calling it.
    """
    if is_certain:
        raise ValueError(f"{text!r} does not match the end of the format.")
    return slow(text)


def _parse_microseconds(tail: str, *, has_fraction: bool) -> int | None:
    """Return the microseconds in ``tail``, a fraction such as ``.25``, or None if it is invalid.

    If ``has_fraction`` is False, the format has no fraction, and only an empty text is valid.
    """
    if not has_fraction:
        return None if tail else 0
    digits = tail[1:]
    if tail[:1] != "." or not digits.isdecimal() or not digits.isascii():
        return None
    return int(digits.ljust(_MICRO_DIGITS, "0")) if len(digits) <= _MICRO_DIGITS else None


@lru_cache(maxsize=256)
def _parse_offset(text: str) -> timezone | None:
    """Return the time zone for an offset such as ``+01:00``, or None for any other text."""
    match = re.fullmatch(r"([+-])(\d\d):?([0-5]\d)", text, re.ASCII)
    if match is None:
        return None
    length = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-length if match[1] == "-" else length) if length < timedelta(days=1) else None


def _parse_zone(tail: str) -> tuple[int, timezone] | None:
    """Return the position in ``tail`` at which its UTC offset begins, and the offset as time zone.

    For ``.5+01:00`` the position is 2. Return None if the text does not end with an offset.
    """
    if tail[-1:] == "Z":
        return len(tail) - 1, timezone.utc
    for length in (6, 5):
        offset = _parse_offset(tail[-length:]) if len(tail) >= length else None
        if offset is not None:
            return len(tail) - length, offset
    return None
