"""Base classes for custom cursors, which split a stream into slices and track its state.

These are the cursors of airbyte-cdk 6, the last version in which connectors can provide their own
cursors. A subclass may override every method, also private ones, since published connectors do. The
stream calls `set_initial_state` and iterates over `stream_slices`; after each slice it calls
`close_slice` and stores the result of `get_stream_state`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, cast

from tap_core.manifest.cdk_compat.datetimes import DatetimeParser
from tap_core.manifest.cdk_compat.interpolation import InterpolatedString
from tap_core.manifest.cdk_compat.models import CdkStreamSlice, RequestOptionType
from tap_core.manifest.cdk_compat.partition_routers import StreamSlicer

if TYPE_CHECKING:
    from isodate import Duration

__all__ = [
    "CdkDatetimeBasedCursor",
    "CdkMinMaxDatetime",
    "Cursor",
    "DeclarativeCursor",
    "check_step",
]

_DEFAULT_FORMAT = "%Y-%m-%dT%H:%M:%S.%f%z"
_OUT_OF_RANGE = (OverflowError, ValueError)
"""Errors of timedelta and of isodate's Duration for a result outside of the years 1 to 9999."""

_DATETIME_OPTIONS = ("datetime", "datetime_format", "min_datetime", "max_datetime")


class DeclarativeCursor(StreamSlicer):
    """Base class of cursors, which split a stream into slices and track its state."""

    def set_initial_state(self, stream_state: Mapping[str, Any]) -> None:
        """Set the state from which the sync resumes; the first sync of a stream passes {}."""
        raise NotImplementedError

    def observe(self, stream_slice: CdkStreamSlice, record: Any) -> None:
        """Update the cursor with a record before the record is emitted; does nothing by default."""

    def close_slice(self, stream_slice: CdkStreamSlice, *args: Any) -> None:
        """Update the state; called after all records of a stream slice were emitted.

        ``args`` is empty, unless the overriding method takes a second argument, as in older
        versions of airbyte-cdk. Such a method receives the latest record of the slice.
        """
        raise NotImplementedError

    def get_stream_state(self) -> Mapping[str, Any]:
        """Return the current state, which the stream stores after each completed stream slice."""
        raise NotImplementedError

    def select_state(self, stream_slice: CdkStreamSlice | None = None) -> Mapping[str, Any] | None:  # noqa: ARG002  (airbyte-cdk's signature)
        """Return the state that templates read as ``stream_state`` while a stream slice is read.

        The default is the state of the whole stream.
        """
        return self.get_stream_state()

    def should_be_synced(self, record: Any) -> bool:  # noqa: ARG002  (airbyte-cdk's signature)
        """Return True to emit a record, False to drop it; True by default.

        The method is called only for data feeds (``is_data_feed``) and for streams with client-side
        incremental sync.
        """
        return True


Cursor = DeclarativeCursor
"""Name of `DeclarativeCursor` in older versions of airbyte-cdk."""


@dataclass
class CdkMinMaxDatetime:
    """Datetime from a template, which is raised to a minimum or lowered to a maximum if declared.

    Its type in manifests is MinMaxDatetime.
    """

    datetime: Any
    parameters: InitVar[Mapping[str, Any]]
    datetime_format: str = ""
    min_datetime: Any = ""
    max_datetime: Any = ""

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        self.datetime = InterpolatedString.create(self.datetime, parameters=parameters)
        for name in ("min_datetime", "max_datetime"):
            if text := getattr(self, name):
                setattr(self, name, InterpolatedString.create(text, parameters=parameters))

    @classmethod
    def create(cls, value: Any, parameters: Mapping[str, Any]) -> CdkMinMaxDatetime:
        """Create an instance from a datetime string or a mapping of options.

        An existing instance is returned unchanged.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, Mapping):
            options = {name: option for name, option in value.items() if name in _DATETIME_OPTIONS}
            return cls(parameters=parameters, **options)
        return cls(datetime=value, parameters=parameters)

    def get_datetime(self, config: Mapping[str, Any], **additional_parameters: Any) -> dt.datetime:
        """Render the templates and return the datetime, limited to the minimum and the maximum.

        Raises:
            ValueError: The datetime, the minimum or the maximum does not match ``datetime_format``.
        """

        def read(template: Any) -> dt.datetime:
            text = template.eval(config, **additional_parameters)
            return DatetimeParser().parse(text, self.datetime_format or _DEFAULT_FORMAT)

        instant = read(self.datetime)
        if self.min_datetime:
            instant = max(instant, read(self.min_datetime))
        if self.max_datetime:
            instant = min(instant, read(self.max_datetime))
        return instant


def check_step(step: Any, granularity: Any) -> None:
    """Raise ValueError if only one of ``step`` and ``cursor_granularity`` of a cursor is set."""
    if bool(step) != bool(granularity):
        raise ValueError("step and cursor_granularity belong together: set both or neither.")


@dataclass
class CdkDatetimeBasedCursor(DeclarativeCursor):
    """Cursor that splits the period since the last sync into time windows of length `step`.

    Without `step` there is one window. The state is ``{cursor_field: value}``, where the value is
    the highest cursor value of all records in completed windows.
    """

    start_datetime: Any
    cursor_field: Any
    datetime_format: str
    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]
    _highest_observed_cursor_field_value: Any = field(repr=False, default=None)
    _cursor: Any = field(repr=False, default=None)
    end_datetime: Any = None
    step: Any = None
    cursor_granularity: str | None = None
    start_time_option: Any = None
    end_time_option: Any = None
    partition_field_start: str | None = None
    partition_field_end: str | None = None
    lookback_window: Any = None
    message_repository: Any = None
    is_compare_strictly: bool | None = False
    cursor_datetime_formats: list[str] = field(default_factory=list)

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        """Prepare the templates, datetimes and durations of the options for later use.

        Raises:
            ValueError: Only one of `step` and `cursor_granularity` is set.
        """
        check_step(self.step, self.cursor_granularity)

        def make_template(text: Any) -> Any:
            return InterpolatedString.create(text, parameters=parameters)

        self._timezone = dt.timezone.utc
        self._parser = DatetimeParser()
        self._start_datetime = self._make_edge(self.start_datetime, parameters)
        self._end_datetime = (
            self._make_edge(self.end_datetime, parameters) if self.end_datetime else None
        )
        self._step: Any = (
            self._parse_timedelta(make_template(self.step).eval(self.config)) if self.step else None
        ) or dt.timedelta.max
        self._cursor_granularity: Any = self._parse_timedelta(self.cursor_granularity)
        self.cursor_field = self._cursor_field = make_template(self.cursor_field)
        self._lookback_window = (
            make_template(self.lookback_window) if self.lookback_window else None
        )
        self._partition_field_start = make_template(self.partition_field_start or "start_time")
        self._partition_field_end = make_template(self.partition_field_end or "end_time")
        self.cursor_datetime_formats = self.cursor_datetime_formats or [self.datetime_format]

    def _make_edge(self, declared: Any, parameters: Mapping[str, Any]) -> CdkMinMaxDatetime:
        edge = CdkMinMaxDatetime.create(declared, parameters)
        edge.datetime_format = edge.datetime_format or self.datetime_format
        return edge

    @property
    def _key(self) -> str:
        return str(self.cursor_field.eval(self.config))

    # The state

    def get_stream_state(self) -> Mapping[str, Any]:
        """Return the state ``{cursor_field: value}``; {} before the first window is completed."""
        return {self._key: self._cursor} if self._cursor else {}

    def set_initial_state(self, stream_state: Mapping[str, Any]) -> None:
        """Set the cursor value from the state ``{cursor_field: value}``; {} starts a first sync."""
        self._cursor = stream_state.get(self._key) if stream_state else None

    def observe(self, stream_slice: CdkStreamSlice, record: Any) -> None:
        """Store a record's cursor value if it is in the slice's window and the highest so far."""
        value = record.get(self._key)
        if not value:
            return
        start = cast(str, stream_slice.get(self._partition_field_start.eval(self.config)))
        end = cast(str, stream_slice.get(self._partition_field_end.eval(self.config)))
        highest = self._highest_observed_cursor_field_value
        is_higher = not highest or self.parse_date(value) > self.parse_date(highest)
        if self._is_within_daterange_boundaries(record, start, end) and is_higher:
            self._highest_observed_cursor_field_value = value

    def close_slice(self, stream_slice: CdkStreamSlice, *args: Any) -> None:  # noqa: ARG002  (airbyte-cdk's signature)
        """Store the highest cursor value observed so far as the state of the stream.

        Raises:
            ValueError: The slice has a partition; this cursor does not support partitions.
        """
        if stream_slice.partition:
            raise ValueError(
                f"The slice {stream_slice} has a partition, which this cursor does not support."
            )
        values = filter(None, (self._highest_observed_cursor_field_value, self._cursor))
        self._cursor = max(values, key=self.parse_date, default=None)

    def get_cursor_datetime_from_state(self, stream_state: Mapping[str, Any]) -> dt.datetime | None:
        """Return the cursor value in a state as a datetime; None if it is missing or invalid."""
        value = stream_state.get(self._key)
        with suppress(ValueError):
            return self.parse_date(str(value)) if value else None
        return None

    # Windows

    def stream_slices(self) -> Iterable[CdkStreamSlice]:
        """Return one stream slice per time window, from the stored cursor value until the end.

        The first window starts `lookback_window` before the stored value, but not before
        `start_datetime`.
        """
        end = self.select_best_end_datetime()
        start = self._calculate_earliest_possible_value(end)
        return self._partition_daterange(start, end, self._step)

    def select_best_end_datetime(self) -> dt.datetime:
        """Return the end of the period to read: `end_datetime` or now, the earlier of the two."""
        return self._select_best_end_datetime()

    def _select_best_end_datetime(self) -> dt.datetime:
        """Return `end_datetime` or now, the earlier of the two.

        Older connectors override this method instead of `select_best_end_datetime`.
        """
        now = dt.datetime.now(tz=self._timezone)
        return min(self._end_datetime.get_datetime(self.config), now) if self._end_datetime else now

    def _calculate_earliest_possible_value(self, end_datetime: dt.datetime) -> dt.datetime:
        lookback = self._lookback_window.eval(self.config) if self._lookback_window else None
        lookback_time = self._parse_timedelta(lookback)
        earliest = min(self._start_datetime.get_datetime(self.config), end_datetime)
        known = self._calculate_cursor_datetime_from_state(self.get_stream_state())
        with suppress(*_OUT_OF_RANGE):
            known = known - lookback_time
        return max(earliest, known)

    def _calculate_cursor_datetime_from_state(self, stream_state: Mapping[str, Any]) -> dt.datetime:
        if self._key in stream_state:
            return self.parse_date(stream_state[self._key])
        return dt.datetime.min.replace(tzinfo=dt.timezone.utc)

    def _partition_daterange(
        self, start: dt.datetime, end: dt.datetime, step: dt.timedelta | Duration
    ) -> list[CdkStreamSlice]:
        first = self._partition_field_start.eval(self.config)
        last = self._partition_field_end.eval(self.config)
        windows: list[CdkStreamSlice] = []
        while self._is_within_date_range(start, end):
            following = self._evaluate_next_start_date_safely(start, step)
            until = self._get_date(following - self._cursor_granularity, end, min)
            times = {first: self._format_datetime(start), last: self._format_datetime(until)}
            windows.append(CdkStreamSlice(partition={}, cursor_slice=times))
            start = following
        return windows

    def _is_within_date_range(self, start: dt.datetime, end: dt.datetime) -> bool:
        return start < end if self.is_compare_strictly else start <= end

    def _evaluate_next_start_date_safely(self, start: dt.datetime, step: Any) -> dt.datetime:
        try:
            return cast(dt.datetime, start + step)
        except _OUT_OF_RANGE:
            return dt.datetime.max.replace(tzinfo=dt.timezone.utc)

    def _get_date(
        self,
        cursor_value: dt.datetime,
        default_date: dt.datetime,
        comparator: Callable[[dt.datetime, dt.datetime], dt.datetime],
    ) -> dt.datetime:
        return comparator(cursor_value, default_date)

    def parse_date(self, date: Any) -> dt.datetime:
        """Parse a cursor value with the first of the cursor's datetime formats that matches it.

        Raises:
            ValueError: No format matches.
        """
        for date_format in [*self.cursor_datetime_formats, self.datetime_format]:
            with suppress(ValueError):
                return self._parser.parse(date, date_format)
        raise ValueError(f"No format in {self.cursor_datetime_formats} matches {date!r}.")

    def _format_datetime(self, dt: dt.datetime) -> str:
        return self._parser.format(dt, self.datetime_format)

    @classmethod
    def _parse_timedelta(cls, time_str: str | None) -> Any:
        from isodate import parse_duration

        return parse_duration(time_str) if time_str else dt.timedelta()

    # Requests

    def _get_request_option(
        self, option_type: RequestOptionType, stream_slice: Any
    ) -> Mapping[str, Any]:
        return self._get_request_options(option_type, stream_slice)

    def _get_request_options(
        self, option_type: RequestOptionType, stream_slice: Any
    ) -> Mapping[str, Any]:
        options: MutableMapping[str, Any] = {}
        if not stream_slice:
            return options
        for option, name in (
            (self.start_time_option, self._partition_field_start),
            (self.end_time_option, self._partition_field_end),
        ):
            if option is not None and option.inject_into == option_type:
                value = stream_slice.get(name.eval(self.config))
                option.inject_into_request(options, value, self.config)
        return options

    # Records

    def should_be_synced(self, record: Any) -> bool:
        """Return True if a record's cursor value is missing or within the period of this sync."""
        if not record.get(self._key):
            return True
        end = self.select_best_end_datetime()
        start = self._calculate_earliest_possible_value(end)
        return self._is_within_daterange_boundaries(record, start, end)

    def _is_within_daterange_boundaries(
        self,
        record: Any,
        start_datetime_boundary: dt.datetime | str,
        end_datetime_boundary: dt.datetime | str,
    ) -> bool:
        value = record.get(self._key)
        if not value:
            return False
        start, end = (
            self.parse_date(boundary) if isinstance(boundary, str) else boundary
            for boundary in (start_datetime_boundary, end_datetime_boundary)
        )
        return start <= self.parse_date(value) <= end

    def is_greater_than_or_equal(self, first: Any, second: Any) -> bool:
        """Return True if the first record's cursor value is at least the second record's.

        If one of the values is missing, return True only if the first record has a value.
        """
        values = first.get(self._key), second.get(self._key)
        if all(values):
            return self.parse_date(values[0]) >= self.parse_date(values[1])
        return bool(values[0])

    def _send_log(self, level: Any, message: str) -> None:
        """Discard the warning about a record without a cursor value; the stream logs one."""
