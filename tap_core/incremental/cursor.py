"""Datetime cursor of an incremental stream: start, end, windows and bookmark formats.

The same class serves Python streams and manifests; its fields are the keys of Airbyte's YAML
reference (DatetimeBasedCursor). It knows neither stream nor state: the caller passes settings, the
stored value and the current time. Errors that need no settings are raised on construction.
"""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tap_core.http.request import HTTPRequest
from tap_core.incremental.datetime_formats import DatetimeFormat, get_format
from tap_core.incremental.durations import ISODuration, parse_duration
from tap_core.incremental.request_options import RequestOption
from tap_core.incremental.windows import ClampPolicy, TimeWindow, parse_clamp, split_into_windows
from tap_core.parsing.datetimes import utc_now
from tap_core.parsing.instants import ParsedInstant, parse_instant

__all__ = ["DatetimeBasedCursor", "MinMaxDatetime"]

_NO_DURATION = ISODuration(0, dt.timedelta())


@dataclass(frozen=True)
class MinMaxDatetime:
    """Datetime that is limited to an optional minimum and maximum.

    Each of the three is a text, or a function that takes the configuration and returns a text. All
    are in the format ``datetime_format`` or, if it is not set, in a format of the cursor, as in
    Airbyte.
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
        """Return the datetime, limited to its minimum and maximum.

        Args:
            config: Configuration of the tap.
            read: Parser for the cursor's formats, used if ``datetime_format`` is not set.
            now: Current time.

        Raises:
            ValueError: One of the three values does not match the format.
        """
        if self.datetime_format:
            read = _reader((get_format(self.datetime_format),))
        instant = _instant(self.datetime, config, read, now)
        if floor := _resolve_setting(self.min_datetime, config):
            instant = max(instant, _instant(floor, config, read, now))
        if ceiling := _resolve_setting(self.max_datetime, config):
            instant = min(instant, _instant(ceiling, config, read, now))
        return instant


@dataclass(frozen=True)
class DatetimeBasedCursor:
    """Cursor that reads a stream in time windows, from the end of the last sync until now.

    ``step``, ``cursor_granularity`` and ``lookback_window`` are ISO 8601 durations.
    ``start_datetime`` and ``end_datetime`` are a string in ``datetime_format``, ``"now"``, a
    `datetime.datetime`, a `MinMaxDatetime`, or a function that takes the settings and returns a
    string. ``cutoff`` selects the bookmark at the end of a window: the value of the last record
    (``last_record``), or the end of the window if that is later (``interval_end``). ``boundary``
    selects if a record whose value equals the bookmark is sent again (``send``) or dropped
    (``drop``).

    >>> updates = DatetimeBasedCursor(
    ...     cursor_field="updated_at",
    ...     datetime_format="%Y-%m-%dT%H:%M:%SZ",
    ...     start_datetime=lambda config: config["start_date"],
    ...     start_time_option=RequestOption("request_parameter", "since"),
    ...     end_time_option=RequestOption("request_parameter", "until"),
    ... )

    Raises:
        ValueError: A format or duration is invalid, the field or the start is missing, only one of
            ``step`` and ``cursor_granularity`` is set, or the step is shorter than the granularity.
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
        parts = ("_check_fields", "_check_durations", "_lookback", "formats", "clamp")
        if faults := list(filter(None, map(self._fault, parts))):
            raise ValueError(" ".join(dict.fromkeys(faults)))
        if self.is_data_feed and (self.step or self.start_time_option or self.end_time_option):
            warnings.warn(
                f"The cursor '{self.cursor_field}' belongs to a feed (is_data_feed), which cannot"
                " be filtered by time: step, start_time_option and end_time_option are ignored.",
                stacklevel=3,
            )

    def _fault(self, name: str) -> str | None:
        """Call the method, or read the property, called ``name``.

        Return the text of its ValueError, or None if it raises none.
        """
        try:
            part = getattr(self, name)
            _ = part() if callable(part) else part
        except ValueError as error:
            return str(error)
        return None

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
                raise ValueError(f"{name} is {value!r}: it is {' or '.join(choices)}.")

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
        """Format of request values and bookmarks."""
        return get_format(self.datetime_format)

    @cached_property
    def formats(self) -> tuple[DatetimeFormat, ...]:
        """Formats for parsing values, in the order in which they are tried."""
        value_formats = [get_format(text) for text in self.cursor_datetime_formats or ()]
        return tuple(dict.fromkeys([*value_formats, self.format]))

    @cached_property
    def read(self) -> Callable[[Any], dt.datetime]:
        """Function that parses a value of a record or state.

        It raises ValueError if no format matches.
        """
        return _reader(self.formats)

    @cached_property
    def granularity(self) -> dt.timedelta:
        """Smallest time unit of the API; zero if ``cursor_granularity`` is not set."""
        duration = (
            parse_duration(self.cursor_granularity) if self.cursor_granularity else _NO_DURATION
        )
        if duration.months:
            raise ValueError(
                f"The cursor_granularity {self.cursor_granularity!r} has no fixed length:"
                " say it in days or less."
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
        """Policy that aligns windows to days, weeks or months; None if they are not aligned."""
        return parse_clamp(self.clamping) if self.clamping else None

    @property
    def filters(self) -> bool:
        """True if the SDK drops records outside of the window, because the API does not filter."""
        return self.is_data_feed or self.is_client_side_incremental

    # Intervals of a sync

    def start(self, config: Mapping[str, Any], now: dt.datetime | None = None) -> dt.datetime:
        """Return the start of the first sync.

        Args:
            config: Configuration of the tap.
            now: Current time; by default the system time.

        Raises:
            ValueError: The start does not match the format.
        """
        return self._edge("start_datetime", config, now or utc_now())

    def end(self, config: Mapping[str, Any], now: dt.datetime | None = None) -> dt.datetime:
        """Return the end of the sync: ``end_datetime`` if it is set, else the current time.

        Args:
            config: Configuration of the tap.
            now: Current time; by default the system time.

        Raises:
            ValueError: The end does not match the format.
        """
        return self._edge("end_datetime", config, now or utc_now())

    def _edge(self, name: str, config: Mapping[str, Any], now: dt.datetime) -> dt.datetime:
        """Return ``start_datetime`` or ``end_datetime``, selected by ``name``, as a datetime."""
        edge = getattr(self, name)
        try:
            if isinstance(edge, MinMaxDatetime):
                return edge.instant(config, self._read_setting, now)
            return _instant(edge, config, self._read_setting, now)
        except KeyError as error:
            raise ValueError(f"The {name} needs the setting {error}.") from None
        except ValueError as error:
            raise ValueError(f"The {name} is not a date-time: {error}") from None

    @cached_property
    def _read_setting(self) -> Callable[[Any], dt.datetime]:
        """Function that parses a datetime in the configuration.

        It tries the formats of the cursor first, then all forms of ISO 8601.
        """
        return _reader((self.format, *self.formats), parse_instant)

    def lower_bound(self, start: dt.datetime, stored: dt.datetime | None) -> dt.datetime:
        """Return the datetime from which a sync reads.

        It is the ``stored`` bookmark minus the lookback window, but not before ``start``. Without a
        bookmark it is ``start``.
        """
        return start if stored is None else max(start, self._lookback.before(stored))

    def windows(self, lower: dt.datetime, end: dt.datetime) -> Iterator[TimeWindow]:
        """Yield the time windows from ``lower`` to ``end``.

        A data feed, which returns the newest records first, has a single window.
        """
        spans = split_into_windows(
            lower,
            end,
            step=None if self.is_data_feed else self._step,
            granularity=self.granularity,
            joins_last=self.is_compare_strictly,
            clamp=None if self.is_data_feed else self.clamp,
        )
        following = next(spans, None)
        while following is not None:
            (first, last), following = following, next(spans, None)
            start_time, end_time = self.format.write(first), self.format.write(last)
            yield TimeWindow(first, last, start_time, end_time, is_last=following is None)

    def put(self, request: HTTPRequest, window: TimeWindow) -> None:
        """Add the start and end of a window to a request.

        The cursor's request options define where. A data feed has no such parameters.
        """
        if self.is_data_feed:
            return
        if self.start_time_option is not None:
            self.start_time_option.put(request, window.start_time)
        if self.end_time_option is not None:
            self.end_time_option.put(request, window.end_time)

    def fields(self, window: TimeWindow) -> dict[str, str]:
        """Return the start and end of a window as text, by their names in a stream's partitions."""
        return {
            self.partition_field_start or "start_time": window.start_time,
            self.partition_field_end or "end_time": window.end_time,
        }


def _reader(
    formats: tuple[DatetimeFormat, ...],
    otherwise: Callable[[Any], ParsedInstant | None] | None = None,
) -> Callable[[Any], dt.datetime]:
    """Return a function that parses a value by the first format that matches.

    If no format matches, the function returns the result of ``otherwise``. If that is None as well,
    it raises ValueError.
    """
    first, others = formats[0].read, tuple(known_format.read for known_format in formats[1:])
    if not others and otherwise is None:
        return first

    def read(value: Any) -> dt.datetime:
        try:
            return first(value)
        except ValueError:
            for other in others:
                with suppress(ValueError):
                    return other(value)
            found = otherwise(value) if otherwise is not None else None
            if found is not None:
                return found[0]
            raise

    return read


def _resolve_setting(value: Any, config: Mapping[str, Any]) -> Any:
    """Return the result of a setting that is a function; return any other setting unchanged."""
    return value(config) if callable(value) else value


def _instant(
    value: Any, config: Mapping[str, Any], read: Callable[[Any], dt.datetime], now: dt.datetime
) -> dt.datetime:
    """Return the datetime for a text, a datetime, or a function that returns one of these.

    None and ``"now"`` mean the current time.
    """
    value = _resolve_setting(value, config)
    if value is None or value == "now":
        return now
    return read(value)
