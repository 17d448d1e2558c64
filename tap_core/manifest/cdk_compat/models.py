"""Plain values under airbyte-cdk's names: slices, records, words.

Rules of the room: values only; nothing is read or sent. A slice cannot be changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import requests

__all__ = [
    "AirbyteMessage",
    "AirbyteTracedException",
    "CdkErrorResolution",
    "CdkResponseAction",
    "CdkStreamSlice",
    "Config",
    "DefaultBackoffException",
    "FailureType",
    "HttpMethod",
    "Record",
    "RequestOptionType",
    "StreamState",
    "SyncMode",
    "Type",
    "UserDefinedBackoffException",
]

Config: TypeAlias = Mapping[str, Any]
StreamState: TypeAlias = Mapping[str, Any]


class CdkStreamSlice(Mapping[str, Any]):
    """A slice: what tells it apart (``partition``), its interval (``cursor_slice``), and more."""

    def __init__(
        self,
        *,
        partition: Mapping[str, Any],
        cursor_slice: Mapping[str, Any],
        extra_fields: Mapping[str, Any] | None = None,
    ) -> None:
        both = sorted(partition.keys() & cursor_slice.keys())
        if both:
            raise ValueError(f"{', '.join(both)}: a key of the partition, and of the interval.")
        self._partition = partition
        self._cursor_slice = cursor_slice
        self._extra_fields = extra_fields or {}
        self._stream_slice: dict[str, Any] = {**partition, **cursor_slice}

    @property
    def partition(self) -> Mapping[str, Any]:
        """What tells the slice apart, also in the state."""
        found = self._partition
        while isinstance(found, CdkStreamSlice):
            found = found.partition
        return found

    @property
    def cursor_slice(self) -> Mapping[str, Any]:
        """Start and end of the interval."""
        found = self._cursor_slice
        while isinstance(found, CdkStreamSlice):
            found = found.cursor_slice
        return found

    @property
    def extra_fields(self) -> Mapping[str, Any]:
        """What is known of the slice besides."""
        return self._extra_fields

    def __repr__(self) -> str:
        """Return the slice as a dict would show it."""
        return repr(self._stream_slice)

    def __getitem__(self, key: str) -> Any:
        """Return a value of the partition or of the interval."""
        return self._stream_slice[key]

    def __len__(self) -> int:
        """Return how many values there are."""
        return len(self._stream_slice)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys."""
        return iter(self._stream_slice)

    def __eq__(self, other: object) -> bool:
        """Return whether the other, a dict or a slice, has the same values."""
        if isinstance(other, CdkStreamSlice):
            return self._stream_slice == other._stream_slice
        return isinstance(other, dict) and self._stream_slice == other

    def __hash__(self) -> int:
        """Return a hash of the values as text: they may hold dicts."""
        return hash(repr(sorted(self._stream_slice.items(), key=repr)))

    def __json_serializable__(self) -> Any:
        """Return a dict of the values."""
        return self._stream_slice


class Record(Mapping[str, Any]):
    """A record, the stream that it is of, and its slice."""

    def __init__(
        self,
        data: Mapping[str, Any],
        stream_name: str = "",
        associated_slice: CdkStreamSlice | None = None,
        file_reference: Any = None,
    ) -> None:
        self.data: Mapping[str, Any] = data
        self.stream_name: str = stream_name
        self.associated_slice: CdkStreamSlice | None = associated_slice
        self.file_reference: Any = file_reference

    def __repr__(self) -> str:
        """Return the record as a dict would show it."""
        return repr(self.data)

    def __getitem__(self, key: str) -> Any:
        """Return the value of a field."""
        return self.data[key]

    def __len__(self) -> int:
        """Return how many fields there are."""
        return len(self.data)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the fields."""
        return iter(self.data)

    def __eq__(self, other: object) -> bool:
        """Return whether the other is a record with the same fields."""
        return isinstance(other, Record) and self.data == other.data

    __hash__ = None  # type: ignore[assignment]  # its fields may hold anything


class SyncMode(Enum):
    """How a stream is read."""

    full_refresh = "full_refresh"
    incremental = "incremental"


class FailureType(Enum):
    """Whose fault a failure is."""

    system_error = "system_error"
    config_error = "config_error"
    transient_error = "transient_error"


class Type(Enum):
    """The kinds of Airbyte's messages."""

    RECORD = "RECORD"
    STATE = "STATE"
    LOG = "LOG"
    TRACE = "TRACE"


@dataclass
class AirbyteMessage:
    """A message; streams here give records themselves, so none is ever met."""

    type: Type
    record: Any = None


class HttpMethod(Enum):
    """Methods of requests."""

    DELETE = "DELETE"
    GET = "GET"
    PATCH = "PATCH"
    POST = "POST"


class RequestOptionType(Enum):
    """Where a value goes in a request."""

    request_parameter = "request_parameter"
    header = "header"
    path = "path"
    body_data = "body_data"
    body_json = "body_json"


class CdkResponseAction(Enum):
    """What is to be done about an answer."""

    SUCCESS = "SUCCESS"
    RETRY = "RETRY"
    FAIL = "FAIL"
    IGNORE = "IGNORE"
    RESET_PAGINATION = "RESET_PAGINATION"
    RATE_LIMITED = "RATE_LIMITED"
    REDUCE_PAGE_SIZE = "REDUCE_PAGE_SIZE"
    SPLIT_REQUEST_WINDOW = "SPLIT_REQUEST_WINDOW"
    REFRESH_TOKEN_THEN_RETRY = "REFRESH_TOKEN_THEN_RETRY"  # noqa: S105  (no secret)


@dataclass
class CdkErrorResolution:
    """What an error handler says of an answer."""

    response_action: CdkResponseAction | None = None
    failure_type: FailureType | None = None
    error_message: str | None = None


class AirbyteTracedException(Exception):  # noqa: N818  (airbyte-cdk's name)
    """A failure with words for a person, and others for whoever looks into it."""

    def __init__(
        self,
        internal_message: str | None = None,
        message: str | None = None,
        failure_type: FailureType = FailureType.system_error,
        exception: BaseException | None = None,
        stream_descriptor: Any = None,
    ) -> None:
        super().__init__(message or internal_message)
        self.internal_message: str | None = internal_message
        self.message: str | None = message
        self.failure_type: FailureType = failure_type
        self._exception = exception
        self._stream_descriptor = stream_descriptor


class DefaultBackoffException(requests.HTTPError):
    """An answer after which the request is to be tried again."""

    def __init__(self, request: Any, response: Any, error_message: str = "", **_: Any) -> None:
        super().__init__(error_message, request=request, response=response)


class UserDefinedBackoffException(DefaultBackoffException):
    """The same, with the seconds to wait before."""

    def __init__(self, backoff: float, request: Any, response: Any, **more: Any) -> None:
        super().__init__(request, response, **more)
        self.backoff: float = backoff
