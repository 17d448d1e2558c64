"""Datetime cursor of an incremental stream: start, end, time windows and bookmark format.

A cursor is the record field by which an incremental stream is read, with its settings.
`DatetimeBasedCursor` is for streams written in Python and for manifests. Its fields are the keys of
``DatetimeBasedCursor`` in Airbyte's YAML reference. The caller passes the config, the bookmark and
the current time, because the cursor has no access to the stream and its state.
"""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tap_core.exceptions import LimitExceededError
from tap_core.http.request import HTTPRequest
from tap_core.incremental.datetime_formats import DatetimeFormat, get_format
from tap_core.incremental.durations import ISODuration, parse_duration
from tap_core.incremental.request_options import RequestOption
from tap_core.incremental.time_windows import (
    ClampPolicy,
    TimeWindow,
    parse_clamp,
    split_into_windows,
)
from tap_core.parsing.datetimes import utc_now
from tap_core.parsing.iso8601 import ParsedInstant, parse_instant

__all__ = ["DatetimeBasedCursor", "MinMaxDatetime"]

_NO_DURATION = ISODuration(0, dt.timedelta())


@dataclass(frozen=True)
class MinMaxDatetime:
    """Datetime with an optional minimum and maximum, for the start or end of a cursor.

    Each of the three is a string, or a function that takes the tap's config and returns a string.
    The format of the strings is ``datetime_format`` or, if this is empty, one of the cursor's
    datetime formats.
    """

    datetime: str | Callable[[Mapping[str, Any]], str]
    datetime_format: str = ""
    min_datetime: str | Callable[[Mapping[str, Any]], str] = ""
    max_datetime: str | Callable[[Mapping[str, Any]], str] = ""

    def __post_init__(self) -> None:
        if self.datetime_format:
            get_format(self.datetime_format)

    def instant(
        self, config: Mapping[str, Any], read: Callable[[Any], dt.datetime], now: dt.datetime
    ) -> dt.datetime:
        """Return the datetime, limited to the range from the minimum to the maximum.

        Args:
            config: Config of the tap.
            read: Function that parses a string in the cursor's formats; used if ``datetime_format``
                is empty.
            now: Current time.

        Raises:
            ValueError: The datetime, minimum or maximum does not match the format.
        """
        if self.datetime_format:
            read = _make_parser((get_format(self.datetime_format),))
        instant = _to_datetime(self.datetime, config, read, now)
        if floor := _resolve_setting(self.min_datetime, config):
            instant = max(instant, _to_datetime(floor, config, read, now))
        if ceiling := _resolve_setting(self.max_datetime, config):
            instant = min(instant, _to_datetime(ceiling, config, read, now))
        return instant


@dataclass(frozen=True)
class DatetimeBasedCursor:
    """Cursor that reads a stream in time windows, from the bookmark of the last sync until now.

    ``step``, ``cursor_granularity`` and ``lookback_window`` are ISO 8601 durations.
    ``start_datetime`` and ``end_datetime`` are a string in ``datetime_format``, ``"now"``, a
    `datetime.datetime`, a `MinMaxDatetime`, or a function that takes the tap's config and returns a
    string. ``cutoff`` selects the bookmark after a window: ``last_record`` is the cursor value of
    the last record, ``interval_end`` the end of the window if that is later. ``boundary`` applies
    to a record whose cursor value equals the bookmark: ``send`` emits it again, ``drop`` omits it.
    The other fields are the keys of the same name in Airbyte's YAML reference.

    Examples:
        >>> updates = DatetimeBasedCursor(
        ...     cursor_field="updated_at",
        ...     datetime_format="%Y-%m-%dT%H:%M:%SZ",
        ...     start_datetime=lambda config: config["start_date"],
        ...     start_time_option=RequestOption("request_parameter", "since"),
        ...     end_time_option=RequestOption("request_parameter", "until"),
        ... )

    Raises:
        ValueError: A format or duration is invalid; the field name or the start is empty; only one
            of ``step`` and ``cursor_granularity`` is set; or ``step`` is shorter than
            ``cursor_granularity``.
    """

    cursor_field: str
    datetime_format: str
    start_datetime: str | MinMaxDatetime | dt.datetime | Callable[[Mapping[str, Any]], str]
    end_datetime: str | MinMaxDatetime | dt.datetime | Callable[[Mapping[str, Any]], str] | None = (
        None
    )
    cursor_datetime_formats: list[str] | None = None
    step: str | None = None
    cursor_granularity: str | None = None
    lookback_window: str | None = None
    start_time_option: RequestOption | None = None
    end_time_option: RequestOption | None = None
    is_data_feed: bool = False
    is_client_side_incremental: bool = False
    is_compare_strictly: bool = False
    global_substream_cursor: bool = False
    allow_catalog_defined_cursor_field: bool = False
    partition_field_start: str | None = None
    partition_field_end: str | None = None
    clamping: dict[str, Any] | None = None
    cutoff: Literal["last_record", "interval_end"] = "last_record"
    boundary: Literal["send", "drop"] = "send"

    def __post_init__(self) -> None:
        checks: tuple[Callable[[], object], ...] = (
            self._check_fields,
            self._check_durations,
            lambda: self._lookback,
            lambda: self.formats,
            lambda: self.clamp,
        )
        errors = list(filter(None, map(_get_error, checks)))
        if texts := [str(error) for error in errors if not isinstance(error, TypeError)]:
            raise ValueError(" ".join(dict.fromkeys(texts)))
        if errors:  # a TypeError: a manifest's linter does not know the value of an option
            raise errors[0]
        if self.is_data_feed and (self.step or self.start_time_option or self.end_time_option):
            warnings.warn(
                f"The cursor '{self.cursor_field}' belongs to a feed (is_data_feed), which cannot"
                " be filtered by time: step, start_time_option and end_time_option are ignored.",
                stacklevel=3,
            )

    def _check_fields(self) -> None:
        if not self.cursor_field:
            raise ValueError("A cursor needs a cursor_field.")
        if not self.start_datetime:
            raise ValueError(f"The cursor '{self.cursor_field}' needs a start_datetime.")
        for name, value, choices in (
            ("cutoff", self.cutoff, ("last_record", "interval_end")),
            ("boundary", self.boundary, ("send", "drop")),
        ):
            if value not in choices:
                raise ValueError(f"{name} is {value!r}: it must be {' or '.join(choices)}.")

    def _check_durations(self) -> None:
        if (self.step is None) != (self.cursor_granularity is None):
            raise ValueError(
                "step and cursor_granularity belong together: give both or neither. step is"
                f" {self.step!r}, cursor_granularity is {self.cursor_granularity!r}."
            )
        step = self._step
        if self.granularity < dt.timedelta() or step is None:
            return
        if step.is_nothing:
            raise ValueError(f"The step {self.step!r} is zero.")
        if step.least < self.granularity:
            raise ValueError(
                f"The step {self.step!r} is shorter than the cursor_granularity"
                f" {self.cursor_granularity!r}: windows would end before they begin."
            )

    # Compiled fields

    @cached_property
    def format(self) -> DatetimeFormat:
        """Compiled ``datetime_format``, the format of request parameters and bookmarks."""
        return get_format(self.datetime_format)

    @cached_property
    def formats(self) -> tuple[DatetimeFormat, ...]:
        """Formats for parsing the cursor values of records; the first one that matches is used."""
        value_formats = [get_format(text) for text in self.cursor_datetime_formats or ()]
        return tuple(dict.fromkeys([*value_formats, self.format]))

    @cached_property
    def read(self) -> Callable[[Any], dt.datetime]:
        """Function that parses a cursor value of a record or a state to a datetime.

        It raises ValueError if the value has none of the formats.
        """
        return _make_parser(self.formats)

    @cached_property
    def granularity(self) -> dt.timedelta:
        """Smallest time unit of the API, from ``cursor_granularity``; zero if that is not set."""
        duration = (
            parse_duration(self.cursor_granularity) if self.cursor_granularity else _NO_DURATION
        )
        if duration.months:
            raise ValueError(
                f"The cursor_granularity {self.cursor_granularity!r} has no fixed length:"
                " give it in days or less."
            )
        return duration.rest

    @cached_property
    def _step(self) -> ISODuration | None:
        return parse_duration(self.step) if self.step else None

    @cached_property
    def _lookback(self) -> ISODuration:
        return parse_duration(self.lookback_window) if self.lookback_window else _NO_DURATION

    @cached_property
    def clamp(self) -> ClampPolicy | None:
        """Policy that aligns windows to calendar days, weeks or months; None for no alignment."""
        return parse_clamp(self.clamping) if self.clamping else None

    @property
    def filters_records(self) -> bool:
        """True if the SDK, not the API, must drop records outside the time window."""
        return self.is_data_feed or self.is_client_side_incremental

    # Intervals of a sync

    def start(self, config: Mapping[str, Any], now: dt.datetime | None = None) -> dt.datetime:
        """Return ``start_datetime`` as a datetime: a sync without a bookmark reads from there.

        Args:
            config: Config of the tap.
            now: Current time; by default the system time.

        Raises:
            ValueError: The start does not match a format, or a setting is missing.
        """
        return self._resolve_edge("start_datetime", config, now or utc_now())

    def end(self, config: Mapping[str, Any], now: dt.datetime | None = None) -> dt.datetime:
        """Return the datetime up to which a sync reads: ``end_datetime`` or, if not set, ``now``.

        Args:
            config: Config of the tap.
            now: Current time; by default the system time.

        Raises:
            ValueError: The end does not match a format, or a setting is missing.
        """
        return self._resolve_edge("end_datetime", config, now or utc_now())

    def _resolve_edge(self, name: str, config: Mapping[str, Any], now: dt.datetime) -> dt.datetime:
        """Return the start or the end of the cursor's range as a datetime.

        ``name`` is the field to read: ``start_datetime`` or ``end_datetime``. ``now`` is the
        current time.

        Raises:
            ValueError: The value is not a datetime, or a setting is missing.
        """
        edge = getattr(self, name)
        try:
            if isinstance(edge, MinMaxDatetime):
                resolved = edge.instant(config, self._read_setting, now)
            else:
                resolved = _to_datetime(edge, config, self._read_setting, now)
            # Steps from a time zone with summer time would be steps of its clock: when the clock
            # is put back, the repeated hour would be in no window.
            return resolved.replace(tzinfo=dt.timezone(resolved.utcoffset() or dt.timedelta()))
        except KeyError as error:
            raise ValueError(f"The {name} needs the setting {error}.") from None
        except ValueError as error:
            raise ValueError(f"The {name} is not a date-time: {error}") from None

    @cached_property
    def _read_setting(self) -> Callable[[Any], dt.datetime]:
        """Function that parses a datetime from the config: in the cursor's formats or ISO 8601."""
        return _make_parser((self.format, *self.formats), parse_instant)

    def lower_bound(self, start: dt.datetime, stored: dt.datetime | None) -> dt.datetime:
        """Return the datetime from which a sync reads.

        Args:
            start: Start of a sync without a bookmark.
            stored: Bookmark of the last sync, or None.

        Returns:
            The bookmark minus ``lookback_window``, but at least ``start``.
        """
        return start if stored is None else max(start, self._lookback.before(stored))

    def windows(
        self, lower: dt.datetime, end: dt.datetime, *, reads_end: bool = False
    ) -> Iterator[TimeWindow]:
        """Yield consecutive time windows of the length ``step`` from ``lower`` to ``end``.

        Without a ``step`` there is a single window. A data feed also has a single window, because
        it returns the newest records first and cannot be filtered by time. ``reads_end`` is True if
        an interrupted sync may have left unread records at ``lower``; see `split_into_windows`.
        """
        spans = split_into_windows(
            lower,
            end,
            step=None if self.is_data_feed else self._step,
            granularity=self.granularity,
            joins_last=self.is_compare_strictly,
            reads_end=reads_end,
            clamp=None if self.is_data_feed else self.clamp,
        )
        following = next(spans, None)
        while following is not None:
            (first, last), following = following, next(spans, None)
            start_time, end_time = self.format.write(first), self.format.write(last)
            yield TimeWindow(first, last, start_time, end_time, is_last=following is None)

    def put(self, request: HTTPRequest, window: TimeWindow) -> None:
        """Add the start and end of a window to a request, as the cursor's request options define.

        The request of a data feed is not changed, because a feed cannot be filtered by time.
        """
        if self.is_data_feed:
            return
        if self.start_time_option is not None:
            self.start_time_option.put(request, window.start_time)
        if self.end_time_option is not None:
            self.end_time_option.put(request, window.end_time)

    def fields(self, window: TimeWindow) -> dict[str, str]:
        """Return the start and end of a window as a dict, which templates read as partition values.

        The keys are ``start_time`` and ``end_time``, unless ``partition_field_start`` and
        ``partition_field_end`` override them.
        """
        return {
            self.partition_field_start or "start_time": window.start_time,
            self.partition_field_end or "end_time": window.end_time,
        }


def _get_error(check: Callable[[], object]) -> Exception | None:
    """Call ``check`` and return its error about a value, its type or its length, or None."""
    try:
        check()
    except (ValueError, TypeError, LimitExceededError) as error:
        return error
    return None


def _make_parser(
    formats: tuple[DatetimeFormat, ...],
    fallback: Callable[[Any], ParsedInstant | None] | None = None,
) -> Callable[[Any], dt.datetime]:
    """Return a function that parses a value as a datetime, with the first format that matches.

    If no format matches, the function calls ``fallback``. If ``fallback`` returns None too, the
    function raises ValueError.
    """
    first, other_parsers = formats[0].read, tuple(known_format.read for known_format in formats[1:])
    if not other_parsers and fallback is None:
        return first

    def read(value: Any) -> dt.datetime:
        try:
            return first(value)
        except ValueError:
            for other in other_parsers:
                with suppress(ValueError):
                    return other(value)
            parsed = fallback(value) if fallback is not None else None
            if parsed is not None:
                return parsed[0]
            raise

    return read


def _resolve_setting(value: Any, config: Mapping[str, Any]) -> Any:
    """Return ``value(config)`` if ``value`` is a function of the tap's config, else ``value``."""
    return value(config) if callable(value) else value


def _to_datetime(
    value: Any, config: Mapping[str, Any], read: Callable[[Any], dt.datetime], now: dt.datetime
) -> dt.datetime:
    """Convert the start or end of a cursor to a datetime.

    ``value`` is a datetime, a string, which ``read`` parses, or a function that takes the config
    and returns one of these. None and ``"now"`` mean ``now``, the current time.
    """
    value = _resolve_setting(value, config)
    if value is None or value == "now":
        return now
    return read(value)
