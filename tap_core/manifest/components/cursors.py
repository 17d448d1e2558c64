"""Cursors that are none of dates: whole numbers that grow, and classes beside the manifest.

Rules of the room: a cursor begins to read a context with what was kept of it, gives slices one
after the other, and is told of each record and of each slice that was sent. What it then wants
kept is kept as it says; where it says nothing, the bookmark is the highest value that was read.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, cast

from tap_core.http.request import HTTPRequest
from tap_core.incremental.datetime_formats import get_format
from tap_core.incremental.durations import parse_duration
from tap_core.incremental.request_options import RequestOption
from tap_core.manifest.cdk_compat.cursors import CdkDatetimeBasedCursor, DeclarativeCursor
from tap_core.manifest.cdk_compat.import_hook import load_class
from tap_core.manifest.cdk_compat.models import CdkStreamSlice
from tap_core.manifest.cdk_compat.models import Record as FaceRecord
from tap_core.manifest.cdk_compat.requesters import CdkRequestOption as FaceOption
from tap_core.manifest.cdk_compat.type_guards import is_dict
from tap_core.manifest.components.custom import Custom, add_declared_fields
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import CursorReader, DeclarativeStreamProtocol, TemplateScope
from tap_core.manifest.literals import has_template
from tap_core.state.comparison import ReplicationKeyComparator, ValueKind, parse_number
from tap_core.types import Record

__all__ = ["CustomIncrementalSync", "IncrementingCountCursor"]

_FILLED: Final = frozenset({"config", "parameters"})
_FORMATS: Final = ("datetime_format", "cursor_datetime_formats")


# Whole numbers


@dataclass(frozen=True, slots=True)
class _Numbers(ReplicationKeyComparator):
    """Compares numbers; a record that has none moves nothing."""

    stream: str = ""

    @property
    def is_declared(self) -> bool:
        """Whether the form of values was declared: those without it are passed over."""
        return True

    def is_usable(self, value: Any) -> bool:
        """Return whether a value can be a bookmark."""
        return not isinstance(value, bool) and parse_number(value) is not None

    def tell_unusable(self, value: Any) -> None:
        """Warn of a value that cannot be a bookmark, once per stream."""
        self.tell_once(
            "unusable",
            "Stream '%s': the cursor of a record is %.80r, which is no number. The record is"
            " sent, and does not move the bookmark.",
            self.stream,
            value,
        )


@dataclass(frozen=True, kw_only=True)
class IncrementingCountCursor:
    """Reads what has a greater number than the last sync has seen, that one included.

    (Airbyte's declarative component schema, IncrementingCountCursor.)
    """

    cursor_field: str
    start_value: int = 0
    start_value_option: RequestOption | None = None
    allow_catalog_defined_cursor_field: bool = False

    def order(self, stream: str, usual: ReplicationKeyComparator) -> ReplicationKeyComparator:  # noqa: ARG002  (as all cursors)
        """Return what compares the values of records."""
        return _Numbers(ValueKind.NUMBER, stream=stream)

    def reading(self, stream: DeclarativeStreamProtocol, kept: Mapping[str, Any]) -> CursorReader:  # noqa: ARG002  (as all cursors)
        """Begin to read a context; what is kept is a number under the cursor's field."""
        known = parse_number(kept.get(self.cursor_field))
        start = self.start_value if known is None else max(self.start_value, known)
        return _Counting(start, self.start_value_option)


class _Counting:
    """One slice, from a number on."""

    is_past = False
    state: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, start: Any, option: RequestOption | None) -> None:
        self._slice = CdkStreamSlice(
            partition={}, cursor_slice={"start": start, "end": float("inf")}
        )
        self._option = option

    def slices(self) -> Iterator[CdkStreamSlice]:
        """Yield the slice."""
        yield self._slice

    def put(self, request: HTTPRequest, scope: TemplateScope, one: CdkStreamSlice) -> None:  # noqa: ARG002  (the Protocol's)
        """Put the number into a request, where an option says so."""
        if self._option is not None:
            self._option.put(request, one["start"])

    def takes(self, record: Record, one: CdkStreamSlice) -> bool:  # noqa: ARG002
        """Return that every record is sent."""
        return True

    def close(self, one: CdkStreamSlice) -> None:
        """Keep nothing: the bookmark is the highest number."""


# Classes beside the manifest


@dataclass(frozen=True, slots=True)
class _Silent(ReplicationKeyComparator):
    """Compares nothing: such a cursor says itself what is kept."""

    @property
    def is_declared(self) -> bool:
        """Whether values are passed over: all are."""
        return True

    def is_usable(self, value: Any) -> bool:  # noqa: ARG002  (the base's)
        """Return that no value of a record is a bookmark."""
        return False

    def tell_unusable(self, value: Any) -> None:
        """Say nothing of it."""


@dataclass(frozen=True, kw_only=True)
class CustomIncrementalSync(Custom):
    """A cursor that is a class beside the manifest.

    It has an object for each slice of the partition routers. Its state is what
    ``get_stream_state()`` says behind each slice of its own.

    Raises:
        ManifestError: the class has not all that a cursor has, or not the fields that it
            needs; a format, a duration or a step without granularity cannot be.
    """

    METHODS: ClassVar[tuple[str, ...]] = (
        *("stream_slices", "set_initial_state", "get_stream_state", "close_slice"),
    )

    def __post_init__(self) -> None:
        """Refuse what could not run, before anything is asked."""
        super().__post_init__()
        cls = load_class(self.class_name, self.folder)
        for name in self.METHODS:
            if getattr(cls, name) is getattr(DeclarativeCursor, name):
                raise ManifestError(f"{self.class_name} has no {name}() of its own, and needs one.")
        self._check_fields(cls)
        if self.fields.get("global_substream_cursor"):
            raise ManifestError(
                f"{self.class_name} is a class of its own, so global_substream_cursor is not"
                " possible: leave it out, then each slice has a state, or use a"
                " DatetimeBasedCursor."
            )
        if issubclass(cls, CdkDatetimeBasedCursor):
            self._check_dates()

    def _check_fields(self, cls: Any) -> None:
        known = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
        needed = [
            one.name
            for one in known
            if one.init
            and one.default is dataclasses.MISSING
            and one.default_factory is dataclasses.MISSING
        ]
        missing = [name for name in ("cursor_field", *needed) if name not in self.fields]
        if missing := sorted(set(missing) - _FILLED):
            raise ManifestError(f"{self.class_name} needs {', '.join(missing)}.")

    def _check_dates(self) -> None:
        """Refuse formats and durations that are none."""
        given = self.fields
        if bool(given.get("step")) != bool(given.get("cursor_granularity")):
            raise ManifestError(
                "step and cursor_granularity belong together: give both or neither."
            )
        try:
            for name in _FORMATS:
                texts = given.get(name) or []
                for text in [texts] if isinstance(texts, str) else texts:
                    get_format(text)
            for name in ("step", "cursor_granularity", "lookback_window"):
                if (text := given.get(name)) and not has_template(text):
                    parse_duration(text)
        except ValueError as error:
            raise ManifestError(str(error)) from None

    def _more(self) -> Mapping[str, Any]:
        """Return options of requests that do not say their type: only the class has them."""
        return {
            name: FaceOption(parameters=self.parameters, **one)
            for name, one in self.fields.items()
            if is_dict(one) and "inject_into" in one
        }

    def order(self, stream: str, usual: ReplicationKeyComparator) -> ReplicationKeyComparator:  # noqa: ARG002  (as all cursors)
        """Return an order in which no record moves a bookmark; bookmarks compare as usual."""
        return _Silent(usual.kind)

    def reading(self, stream: DeclarativeStreamProtocol, kept: Mapping[str, Any]) -> CursorReader:
        """Begin to read a context, with an object of the class that takes over what was kept."""
        self.owner.stream = stream
        made = self._made()
        made.set_initial_state(kept)
        is_feed = bool(self.fields.get("is_data_feed"))
        filters = bool(self.fields.get("is_client_side_incremental"))
        return _Asked(made, stream.name, is_feed=is_feed, filters=filters)


class _Asked:
    """A cursor of others at work on one context."""

    def __init__(self, cursor: Any, stream: str, *, is_feed: bool, filters: bool) -> None:
        self.is_past = False
        """Whether the last record of a feed was one that need not be sent."""
        self._cursor = cursor
        self._stream = stream
        self._is_feed = is_feed
        self._filters = filters
        self._wants_last = _takes_record(cursor.close_slice)
        self._last: FaceRecord | None = None
        self.state: Mapping[str, Any] = {}
        """What was kept when the slice in hand began."""

    def slices(self) -> Iterator[CdkStreamSlice]:
        """Yield the slices; the next one is asked for when the one before is closed."""
        for given in self._cursor.stream_slices():
            one = given
            if not isinstance(one, CdkStreamSlice):
                one = CdkStreamSlice(partition={}, cursor_slice=dict(given or {}))
            self._last, self.is_past = None, False
            select = getattr(self._cursor, "select_state", None)
            known = select(one) if callable(select) else self._cursor.get_stream_state()
            self.state = dict(known or {})
            yield one

    def put(self, request: HTTPRequest, scope: TemplateScope, one: CdkStreamSlice) -> None:
        """Add what the cursor says of a slice to a request."""
        about = {
            "stream_state": self.state,
            "stream_slice": one,
            "next_page_token": scope.get("next_page_token"),
        }
        add_declared_fields(self._cursor, request, about)

    def takes(self, record: Record, one: CdkStreamSlice) -> bool:
        """Show a record to the cursor; return whether it is sent."""
        shown = FaceRecord(record, self._stream, one)
        if self._is_feed or self._filters:
            is_new = bool(self._cursor.should_be_synced(shown))
            self.is_past = self._is_feed and not is_new
            if self._filters and not is_new:
                return False
        observe = getattr(self._cursor, "observe", None)
        if observe is not None:
            observe(one, shown)
        if self._wants_last and not self._is_before_last(shown):
            self._last = shown
        return True

    def _is_before_last(self, shown: FaceRecord) -> bool:
        is_later = getattr(self._cursor, "is_greater_than_or_equal", None)
        if self._last is None or is_later is None:
            return False
        return bool(is_later(self._last, shown))

    def close(self, one: CdkStreamSlice) -> Mapping[str, Any]:
        """Close a slice; return what is to be kept."""
        self._cursor.close_slice(one, *([self._last] if self._wants_last else []))
        return cast("Mapping[str, Any]", self._cursor.get_stream_state() or {})


def _takes_record(close: Any) -> bool:
    """Return whether a method takes the latest record besides the slice, as it once was."""
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    given = [one for one in inspect.signature(close).parameters.values() if one.kind in kinds]
    return len(given) > 1
