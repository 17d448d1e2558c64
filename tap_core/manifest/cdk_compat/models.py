"""Value types with airbyte-cdk's names: slices, records, resolutions, enums and exceptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import requests

from tap_core.manifest.interfaces import ResponseAction

__all__ = [
    "AirbyteMessage",
    "AirbyteTracedException",
    "CdkErrorResolution",
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
    """Immutable stream slice: partition values, a cursor interval and extra fields.

    As a mapping, a slice has the items of the partition and of the cursor interval
    (``cursor_slice``), but not the extra fields.
    """

    def __init__(
        self,
        *,
        partition: Mapping[str, Any],
        cursor_slice: Mapping[str, Any],
        extra_fields: Mapping[str, Any] | None = None,
    ) -> None:
        shared = sorted(partition.keys() & cursor_slice.keys())
        if shared:
            keys = ", ".join(shared)
            raise ValueError(f"Keys in both the partition and the cursor slice: {keys}.")
        self._partition = partition
        self._cursor_slice = cursor_slice
        self._extra_fields = extra_fields or {}
        self._stream_slice: dict[str, Any] = {**partition, **cursor_slice}

    @property
    def partition(self) -> Mapping[str, Any]:
        """Values that identify a partition and its state, such as the id of a parent record."""
        partition = self._partition
        return partition.partition if isinstance(partition, CdkStreamSlice) else partition

    @property
    def cursor_slice(self) -> Mapping[str, Any]:
        """Start and end of the cursor interval, such as ``{"start_time": …, "end_time": …}``."""
        cursor_slice = self._cursor_slice
        return (
            cursor_slice.cursor_slice if isinstance(cursor_slice, CdkStreamSlice) else cursor_slice
        )

    @property
    def extra_fields(self) -> Mapping[str, Any]:
        """Values for templates, such as fields of the parent record; not part of the state."""
        return self._extra_fields

    def __repr__(self) -> str:
        return repr(self._stream_slice)

    def __getitem__(self, key: str) -> Any:
        return self._stream_slice[key]

    def __len__(self) -> int:
        return len(self._stream_slice)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stream_slice)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CdkStreamSlice):
            return self._stream_slice == other._stream_slice
        return isinstance(other, dict) and self._stream_slice == other

    def __hash__(self) -> int:
        # values may be unhashable dicts
        return hash(repr(sorted(self._stream_slice.items(), key=repr)))

    def __json_serializable__(self) -> Any:
        """Return the partition and the cursor interval as one dict, for a JSON encoder."""
        return self._stream_slice


class Record(Mapping[str, Any]):
    """Read-only mapping of a record's fields, with the stream's name and slice as attributes."""

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
        return repr(self.data)

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.data == other.data

    __hash__ = None  # type: ignore[assignment]  # its fields may be unhashable


class SyncMode(Enum):
    """Sync mode of a stream in Airbyte's catalog: full refresh or incremental."""

    full_refresh = "full_refresh"
    incremental = "incremental"


class FailureType(Enum):
    """Cause of a failure in Airbyte's error messages: system, config or transient error."""

    system_error = "system_error"
    config_error = "config_error"
    transient_error = "transient_error"


class Type(Enum):
    """Type of an Airbyte protocol message."""

    RECORD = "RECORD"
    STATE = "STATE"
    LOG = "LOG"
    TRACE = "TRACE"


@dataclass
class AirbyteMessage:
    """Airbyte message, which connectors import for type hints; no stream yields one."""

    type: Type
    record: Any = None


class HttpMethod(Enum):
    """HTTP method that a requester may use for its requests."""

    DELETE = "DELETE"
    GET = "GET"
    PATCH = "PATCH"
    POST = "POST"


class RequestOptionType(Enum):
    """Part of a request, such as its headers, in which a RequestOption sets a value."""

    request_parameter = "request_parameter"
    header = "header"
    path = "path"
    body_data = "body_data"
    body_json = "body_json"


@dataclass
class CdkErrorResolution:
    """Result of an error handler for a response: action, failure type and message."""

    response_action: ResponseAction | None = None
    failure_type: FailureType | None = None
    error_message: str | None = None


class AirbyteTracedException(Exception):  # noqa: N818  (airbyte-cdk's name)
    """Exception with one message for the user and an internal message for developers."""

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
    """HTTP error after which the request is to be sent again, with the default wait."""

    def __init__(self, request: Any, response: Any, error_message: str = "", **_: Any) -> None:
        super().__init__(error_message, request=request, response=response)


class UserDefinedBackoffException(DefaultBackoffException):
    """HTTP error after which the request is to be sent again, after ``backoff`` seconds."""

    def __init__(self, backoff: float, request: Any, response: Any, **kwargs: Any) -> None:
        super().__init__(request, response, **kwargs)
        self.backoff: float = backoff
