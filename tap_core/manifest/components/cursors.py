"""Cursors other than DatetimeBasedCursor: integer counters, and Python classes of the connector.

A cursor creates one reader per partition from the stored state. The reader yields the slices of the
partition. It is called for each record and at the end of each slice. The state of a custom cursor
is the result of ``get_stream_state()`` after a slice; the state of a counter is the highest value
of the cursor field.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeAlias, cast

from tap_core.http.request import HTTPRequest
from tap_core.incremental.datetime_formats import get_format
from tap_core.incremental.durations import parse_duration
from tap_core.incremental.request_options import RequestOption
from tap_core.manifest.cdk_compat.cursors import (
    CdkDatetimeBasedCursor,
    DeclarativeCursor,
    check_step,
)
from tap_core.manifest.cdk_compat.custom_code_import import load_class
from tap_core.manifest.cdk_compat.models import CdkStreamSlice
from tap_core.manifest.cdk_compat.models import Record as CdkRecord
from tap_core.manifest.cdk_compat.requesters import CdkRequestOption
from tap_core.manifest.cdk_compat.type_guards import is_dict
from tap_core.manifest.components.custom import Custom, add_declared_fields
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import DeclarativeStreamProtocol, TemplateScope
from tap_core.manifest.literals import has_template
from tap_core.state.replication_key_comparator import (
    ReplicationKeyComparator,
    ValueKind,
    parse_number,
)
from tap_core.types import Record

__all__ = [
    "CountReader",
    "CursorReader",
    "CustomCursorReader",
    "CustomIncrementalSync",
    "IncrementingCountCursor",
]

_INJECTED_FIELDS: Final = frozenset({"config", "parameters"})
"""Fields of a custom cursor class that this SDK sets itself, not the manifest."""
_FORMAT_FIELDS: Final = ("datetime_format", "cursor_datetime_formats")


# Integers


@dataclass(frozen=True, slots=True)
class _NumberComparator(ReplicationKeyComparator):
    """Comparator of the numeric cursor values of a stream, which finds the highest one.

    A value that is not a number is ignored with a warning.
    """

    @property
    def has_declared_cursor(self) -> bool:
        """True: cursor values must be numbers; a value that is not a number is ignored."""
        return True

    def is_usable(self, value: Any) -> bool:
        """Return True if a cursor value is a number and can therefore become the bookmark."""
        return not isinstance(value, bool) and parse_number(value) is not None

    def warn_unusable(self, value: Any) -> None:
        """Log a warning about a cursor value that is not a number, once per stream."""
        self.warn_once(
            "unusable",
            "the cursor value of a record is %.80r, which is not a number. The record is emitted,"
            " but does not move the bookmark.",
            value,
        )


@dataclass(frozen=True, kw_only=True)
class IncrementingCountCursor:
    """Cursor over an integer field: each sync starts at the highest value of the previous sync.

    Records with exactly that value are read again. Source: Airbyte declarative component schema,
    IncrementingCountCursor.
    """

    cursor_field: str
    start_value: int = 0
    start_value_option: RequestOption | None = None
    allow_catalog_defined_cursor_field: bool = False

    def make_comparator(
        self,
        stream: str,
        default: ReplicationKeyComparator,  # noqa: ARG002
    ) -> ReplicationKeyComparator:
        """Return a comparator that compares the stream's bookmarks and cursor values as numbers.

        ``default``, the comparator of streams without this cursor, is not used.
        """
        return _NumberComparator(ValueKind.NUMBER, stream=stream)

    def make_reader(
        self,
        stream: DeclarativeStreamProtocol,  # noqa: ARG002  (every cursor takes it)
        state: Mapping[str, Any],
    ) -> CountReader:
        """Return a reader that starts at the higher of `start_value` and the value in ``state``.

        If ``state`` contains no number, the reader starts at `start_value`.
        """
        stored = parse_number(state.get(self.cursor_field))
        start = self.start_value if stored is None else max(self.start_value, stored)
        return CountReader(start, self.start_value_option)


class CountReader:
    """Reader of a stream with an IncrementingCountCursor.

    It reads a single stream slice: all values of the cursor field from a start number on.
    """

    is_past = False
    state: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, start: Any, option: RequestOption | None) -> None:
        self._slice = CdkStreamSlice(
            partition={}, cursor_slice={"start": start, "end": float("inf")}
        )
        self._option = option

    def slices(self) -> Iterator[CdkStreamSlice]:
        """Yield the only stream slice, ``{"start": <start number>, "end": infinity}``."""
        yield self._slice

    def put(self, request: HTTPRequest, scope: TemplateScope, stream_slice: CdkStreamSlice) -> None:  # noqa: ARG002  (every reader takes it)
        """Add the start number to a request, if the manifest sets `start_value_option`."""
        if self._option is not None:
            self._option.put(request, stream_slice["start"])

    def observe(self, record: Record, stream_slice: CdkStreamSlice) -> bool:  # noqa: ARG002
        """Return True: every record is emitted, because this cursor filters no records."""
        return True

    def close(self, stream_slice: CdkStreamSlice) -> None:
        """Return None, because a bookmark is the only state of this cursor."""


# Custom classes


@dataclass(frozen=True, slots=True)
class _IgnoringComparator(ReplicationKeyComparator):
    """Comparator that ignores cursor values, for streams with a custom cursor.

    The state of such a stream comes from the cursor's Python class.
    """

    @property
    def has_declared_cursor(self) -> bool:
        """True: cursor values are ignored, so that a missing one is no error."""
        return True

    def is_usable(self, value: Any) -> bool:  # noqa: ARG002  (the base class's parameter)
        """Always return False: the state comes from the cursor's class, not from cursor values."""
        return False

    def warn_unusable(self, value: Any) -> None:
        """Do nothing, because cursor values are ignored on purpose."""

    def parse_bound(self, text: str) -> None:
        """Return None, because only the connector's Python class knows where the cursor starts."""


@dataclass(frozen=True, kw_only=True)
class CustomIncrementalSync(Custom):
    """Cursor that delegates to a Python class of the connector.

    Each partition has a separate instance of the class. The state is the result of its
    ``get_stream_state()``, called after each slice.

    Raises:
        ManifestError: The class lacks a cursor method, a required field is missing, a datetime
            format or duration is invalid, or only one of `step` and `cursor_granularity` is set.
    """

    METHODS: ClassVar[tuple[str, ...]] = (
        "stream_slices",
        "set_initial_state",
        "get_stream_state",
        "close_slice",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        cls = load_class(self.class_name, self.folder)
        for name in self.METHODS:
            if getattr(cls, name) is getattr(DeclarativeCursor, name):
                raise ManifestError(f"{self.class_name} must override {name}().")
        self._check_fields(cls)
        if self.fields.get("global_substream_cursor"):
            raise ManifestError(
                f"{self.class_name} is a custom cursor, so global_substream_cursor is not"
                " possible: remove it, so that each slice has a state, or use a"
                " DatetimeBasedCursor."
            )
        if issubclass(cls, CdkDatetimeBasedCursor):
            self._check_dates()

    def _check_fields(self, cls: Any) -> None:
        options = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
        needed = [
            option.name
            for option in options
            if option.init
            and option.default is dataclasses.MISSING
            and option.default_factory is dataclasses.MISSING
        ]
        missing = {"cursor_field", *needed} - self.fields.keys() - _INJECTED_FIELDS
        if missing:
            raise ManifestError(f"{self.class_name} needs {', '.join(sorted(missing))}.")

    def _check_dates(self) -> None:
        """Raise ManifestError if a datetime format or a duration in the fields is invalid.

        Also raise it if only one of `step` and `cursor_granularity` is set.
        """
        fields = self.fields
        try:
            check_step(fields.get("step"), fields.get("cursor_granularity"))
            for name in _FORMAT_FIELDS:
                texts = fields.get(name) or []
                for text in [texts] if isinstance(texts, str) else texts:
                    get_format(text)
            for name in ("step", "cursor_granularity", "lookback_window"):
                if (text := fields.get(name)) and not has_template(text):
                    parse_duration(text)
        except ValueError as error:
            raise ManifestError(str(error)) from None

    def _get_extra_fields(self) -> Mapping[str, Any]:
        """Return the cursor's request options as airbyte-cdk objects, by field name.

        They are mappings in the manifest, because a request option needs no ``type`` there.
        """
        return {
            name: CdkRequestOption(parameters=self.parameters, **option)
            for name, option in self.fields.items()
            if is_dict(option) and "inject_into" in option
        }

    def make_comparator(
        self,
        stream: str,
        default: ReplicationKeyComparator,
    ) -> ReplicationKeyComparator:
        """Return a comparator that ignores cursor values, so that they never become bookmarks.

        ``default`` is the comparator that a stream without this cursor uses.
        """
        return _IgnoringComparator(default.kind, stream)

    def make_reader(
        self, stream: DeclarativeStreamProtocol, state: Mapping[str, Any]
    ) -> CustomCursorReader:
        """Return the reader of one partition, with a new instance of the cursor's Python class.

        The instance resumes from ``state``, the stored state of the partition.
        """
        self.owner.stream = stream
        cursor = self._instantiate()
        cursor.set_initial_state(state)
        is_feed = bool(self.fields.get("is_data_feed"))
        filters = bool(self.fields.get("is_client_side_incremental"))
        return CustomCursorReader(cursor, stream.name, is_feed=is_feed, filters=filters)


class CustomCursorReader:
    """Reader of one partition of a stream, whose slices and state come from a custom cursor."""

    def __init__(self, cursor: Any, stream: str, *, is_feed: bool, filters: bool) -> None:
        self.is_past = False
        """True if a data feed has reached a record older than the state, so that reading stops."""
        self._cursor = cursor
        self._stream = stream
        self._is_feed = is_feed
        self._filters = filters
        self._takes_latest = _accepts_record(cursor.close_slice)
        self._latest: CdkRecord | None = None
        self.state: Mapping[str, Any] = {}
        """State at the beginning of the current slice; templates call it ``stream_state``."""

    def slices(self) -> Iterator[CdkStreamSlice]:
        """Yield the stream slices of the connector's cursor class, one at a time.

        The next slice is requested from the class only after the previous one was closed.
        """
        for stream_slice in self._cursor.stream_slices():
            if not isinstance(stream_slice, CdkStreamSlice):
                cursor_slice = dict(stream_slice or {})
                stream_slice = CdkStreamSlice(partition={}, cursor_slice=cursor_slice)  # noqa: PLW2901
            self._latest = None
            self.is_past = False
            select = getattr(self._cursor, "select_state", None)
            state = select(stream_slice) if callable(select) else self._cursor.get_stream_state()
            self.state = dict(state or {})
            yield stream_slice

    def put(self, request: HTTPRequest, scope: TemplateScope, stream_slice: CdkStreamSlice) -> None:
        """Add query parameters, headers and body fields of the connector's class to a request."""
        arguments = {
            "stream_state": self.state,
            "stream_slice": stream_slice,
            "next_page_token": scope.get("next_page_token"),
        }
        add_declared_fields(self._cursor, request, arguments)

    def observe(self, record: Record, stream_slice: CdkStreamSlice) -> bool:
        """Pass a record to the cursor class; return False if the class filters the record out.

        Only a cursor with client-side filtering (``is_client_side_incremental``) filters records.
        """
        cdk_record = CdkRecord(record, self._stream, stream_slice)
        if self._is_feed or self._filters:
            is_new = bool(self._cursor.should_be_synced(cdk_record))
            self.is_past = self._is_feed and not is_new
            if self._filters and not is_new:
                return False
        observe = getattr(self._cursor, "observe", None)
        if observe is not None:
            observe(stream_slice, cdk_record)
        if self._takes_latest and not self._is_before_latest(cdk_record):
            self._latest = cdk_record
        return True

    def _is_before_latest(self, record: CdkRecord) -> bool:
        is_later = getattr(self._cursor, "is_greater_than_or_equal", None)
        if self._latest is None or is_later is None:
            return False
        return bool(is_later(self._latest, record))

    def close(self, stream_slice: CdkStreamSlice) -> Mapping[str, Any]:
        """Call ``close_slice`` of the connector's class after a slice, and return the new state."""
        self._cursor.close_slice(stream_slice, *([self._latest] if self._takes_latest else []))
        return cast("Mapping[str, Any]", self._cursor.get_stream_state() or {})


CursorReader: TypeAlias = CountReader | CustomCursorReader
"""Reader of one partition, for all cursors except DatetimeBasedCursor."""


def _accepts_record(close: Any) -> bool:
    """Return True if a ``close_slice`` method has a second parameter, for the latest record.

    Older versions of airbyte-cdk pass the latest record of the stream slice.
    """
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    parameters = inspect.signature(close).parameters.values()
    return sum(parameter.kind in kinds for parameter in parameters) > 1
