"""Exceptions of the SDK.

Names and base classes are those of ``singer_sdk.exceptions``, so that ``except`` clauses of
existing plugins keep working. Classes marked * are additions of this project. Messages never
contain the value of a secret setting.

    SingerSDKError
    ├── ConfigurationError
    │   ├── ConfigValidationError        .errors, .schema
    │   │   └── ConfigFileError *        a --config file that cannot be read
    │   ├── MapperNotInitialized
    │   ├── StateFileError *             a --state file that cannot be read
    │   ├── StreamSetupError *           a state, catalog or schema that a stream cannot use
    │   ├── CatalogFileError *           a --catalog file that cannot be read
    │   └── UnsupportedFeatureError *    a known feature that this version lacks
    ├── DiscoveryError
    │   ├── EmptySchemaTypeError
    │   ├── InvalidReplicationKeyException
    │   ├── MissingMethodError *         a class lacks a method that it must define
    │   ├── SchemaNotFoundError
    │   ├── SchemaNotValidError
    │   └── UnsupportedSchemaFormatError (= UnsupportedOpenAPISpec)
    ├── MappingError
    │   ├── ConformedNameClashException
    │   ├── MapExpressionError
    │   └── StreamMapConfigError
    ├── SyncError
    │   ├── FatalSyncError
    │   │   ├── BatchFileError *         a file of rows that cannot be written or read
    │   │   ├── FatalAPIError            .response
    │   │   │   ├── AccessTokenError *   no access token could be obtained; tap_core.authenticators
    │   │   │   ├── NotJSONError *       a response that is not JSON; tap_core.http.response
    │   │   │   ├── ResponseTooLargeError *, ResponseTooSlowError *  tap_core.http.response_limits
    │   │   │   └── UntrustedHostError * credentials for another host; tap_core.http.origins
    │   │   ├── InvalidStreamSortException
    │   │   ├── MissingKeyPropertiesError
    │   │   ├── PaginationLoopError *    the same page again and again; also a RuntimeError
    │   │   ├── PartitionsFailedError *  partitions that failed in other threads or processes
    │   │   ├── RecordsWithoutSchemaException
    │   │   ├── TapStreamConnectionFailure
    │   │   ├── TooManyRecordsException
    │   │   ├── UndeclaredRecordError *  a record that does not match its declared schema
    │   │   └── UnsupportedBatchEncodingError *  the format or compression of a batch file
    │   ├── RetriableSyncError
    │   │   └── RetriableAPIError        .response
    │   │       └── TruncatedBodyError * a JSON response that was cut off; tap_core.http.response
    │   ├── SkippableSyncError
    │   │   ├── SkippableAPIError
    │   │   └── InvalidRecord            .error_message, .record, .stream_name
    │   └── DataError
    │       ├── InvalidDateTimeError *   a date or time that cannot be read
    │       ├── InvalidJSONSchema
    │       └── LimitExceededError *     input that would take too much time or memory
    └── SyncLifecycleSignal
        ├── RequestedAbortException
        │   └── MaxRecordsLimitException
        └── AbortedSyncExceptionBase     (abstract)
            ├── AbortedSyncFailedException
            └── AbortedSyncPausedException

    SingerError
    └── SingerReadError
        └── InvalidInputLine             an input line that is not a message
            ├── TruncatedInputLine *     the input ended within a line
            └── UnknownMessageType *     a JSON object of unknown type

    Warnings (Python's categories are the parents)
    SingerSDKDeprecationWarning, SingerSDKPendingDeprecationWarning,
    SingerSDKPythonEOLWarning
"""

from __future__ import annotations

import abc
from typing import Any

__all__ = [
    "AbortedSyncExceptionBase",
    "AbortedSyncFailedException",
    "AbortedSyncPausedException",
    "BatchFileError",
    "CatalogFileError",
    "ConfigFileError",
    "ConfigValidationError",
    "ConfigurationError",
    "ConformedNameClashException",
    "DataError",
    "DiscoveryError",
    "EmptySchemaTypeError",
    "FatalAPIError",
    "FatalSyncError",
    "InvalidDateTimeError",
    "InvalidInputLine",
    "InvalidJSONSchema",
    "InvalidRecord",
    "InvalidReplicationKeyException",
    "InvalidStreamSortException",
    "LimitExceededError",
    "MapExpressionError",
    "MapperNotInitialized",
    "MappingError",
    "MaxRecordsLimitException",
    "MissingKeyPropertiesError",
    "MissingMethodError",
    "PaginationLoopError",
    "PartitionsFailedError",
    "RecordsWithoutSchemaException",
    "RequestedAbortException",
    "RetriableAPIError",
    "RetriableSyncError",
    "SchemaNotFoundError",
    "SchemaNotValidError",
    "SingerError",
    "SingerReadError",
    "SingerSDKDeprecationWarning",
    "SingerSDKError",
    "SingerSDKPendingDeprecationWarning",
    "SingerSDKPythonEOLWarning",
    "SkippableAPIError",
    "SkippableSyncError",
    "StateFileError",
    "StreamMapConfigError",
    "StreamSetupError",
    "SyncError",
    "SyncLifecycleSignal",
    "TapStreamConnectionFailure",
    "TooManyRecordsException",
    "TruncatedInputLine",
    "UndeclaredRecordError",
    "UnknownMessageType",
    "UnsupportedBatchEncodingError",
    "UnsupportedFeatureError",
    "UnsupportedOpenAPISpec",
    "UnsupportedSchemaFormatError",
]


class SingerSDKError(Exception):
    """Base class of the SDK's errors in configuration, discovery, mapping and sync."""


# Configuration


class ConfigurationError(SingerSDKError):
    """Raised if the user's settings, files or command-line options are invalid."""


class ConfigValidationError(ConfigurationError):
    """Raised if settings do not match their JSON Schema.

    ``errors`` has one sentence per invalid setting, with its path. ``schema`` is the JSON Schema of
    the settings.
    """

    def __init__(
        self,
        message: str,
        *,
        errors: list[str] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> None:
        """Create the error. ``message`` is a summary; the other arguments become attributes."""
        super().__init__(message)
        self.errors: list[str] = errors or []
        self.schema: dict[str, Any] | None = schema


class ConfigFileError(ConfigValidationError):
    """Raised if a settings file is missing, is not JSON, or does not contain a JSON object."""


class MapperNotInitialized(ConfigurationError):  # noqa: N818  singer_sdk's name
    """Raised if a plugin's stream maps are accessed before ``setup_mapper()`` is called."""

    def __init__(self) -> None:
        super().__init__("There is no mapper yet: call setup_mapper() first.")


class StateFileError(ConfigurationError):
    """Raised if a state file is missing or invalid. The message names file and line."""


class StreamSetupError(ConfigurationError, ValueError):
    """Raised if a stream cannot be synced because its state, catalog or schema is unsuitable."""


class CatalogFileError(ConfigurationError):
    """Raised if a catalog file is missing or contains no valid catalog."""


class UnsupportedFeatureError(ConfigurationError):
    """Raised if a feature is requested that this version of the SDK does not support."""


# Discovery


class DiscoveryError(SingerSDKError):
    """Raised if a tap's streams or their schemas cannot be determined."""


class EmptySchemaTypeError(DiscoveryError):
    """Raised if the JSON Schema of a property is empty although its type is needed."""

    def __init__(self, *args: object) -> None:
        """Create the error; its message is the standard text, followed by ``args``."""
        super().__init__(
            "A property's type was asked for, but its schema is empty. "
            "Is the property missing from the stream's schema?",
            *args,
        )


class MissingMethodError(DiscoveryError, NotImplementedError):
    """Raised if a plugin's class does not define a method that it must define."""


class InvalidReplicationKeyException(DiscoveryError):  # noqa: N818  singer_sdk's name
    """Raised if the replication key is not a property of the stream, or is missing in a record."""


class SchemaNotFoundError(DiscoveryError):
    """Raised if a schema file or a component of an OpenAPI document does not exist."""


class SchemaNotValidError(DiscoveryError):
    """Raised if a loaded document is not a valid JSON Schema."""


class UnsupportedSchemaFormatError(DiscoveryError):
    """Raised if a document with schemas has an unsupported format, such as an OpenAPI version."""


UnsupportedOpenAPISpec = UnsupportedSchemaFormatError
"""Name of `UnsupportedSchemaFormatError` in singer_sdk."""


# Mapping


class MappingError(SingerSDKError):
    """Raised if a stream map cannot be applied. Base class of mapping errors."""


class ConformedNameClashException(MappingError):  # noqa: N818  singer_sdk's name
    """Raised if normalization turns two different property names into the same column name."""


class MapExpressionError(MappingError):
    """Raised if an expression of a stream map cannot be evaluated."""


class StreamMapConfigError(MappingError):
    """Raised if the configuration of a stream map is invalid."""


# Sync


class SyncError(SingerSDKError):
    """Raised if an error occurs during a sync; base class of more specific errors."""

    failure_type: str | None = None
    """Airbyte's failure type (``config_error``, ``system_error`` or ``transient_error``), or None
    if unknown."""


class FatalSyncError(SyncError):
    """Base class of errors that end the whole sync."""


class BatchFileError(FatalSyncError):
    """Raised if a batch file cannot be written or read completely. The message names the file."""


class FatalAPIError(FatalSyncError):
    """Raised if an HTTP request fails and a retry would not help.

    ``response`` is the response, or None.
    """

    def __init__(self, *args: object, response: Any = None) -> None:
        """Create the error. ``response`` is the failed ``requests.Response``, or None."""
        super().__init__(*args)
        self.response = response


class InvalidStreamSortException(FatalSyncError):  # noqa: N818  singer_sdk's name
    """Raised if a stream declared as sorted returns a replication key value out of order."""


class PartitionsFailedError(FatalSyncError):
    """Raised after a sync if some partitions of a stream failed; all other partitions were read."""


class PaginationLoopError(FatalSyncError, RuntimeError):
    """Raised if a paginator requests the same page again and again.

    It is a `RuntimeError` as well, because singer_sdk raises a RuntimeError in this case.
    """


class MissingKeyPropertiesError(FatalSyncError):
    """Raised if a record lacks one of the stream's key properties."""


class RecordsWithoutSchemaException(FatalSyncError):  # noqa: N818  singer_sdk's name
    """Raised if a target receives a record before the schema of its stream."""


class TapStreamConnectionFailure(FatalSyncError):  # noqa: N818  singer_sdk's name
    """Raised by a tap's code if a stream cannot connect to its source, or loses the connection."""


class TooManyRecordsException(FatalSyncError):  # noqa: N818  singer_sdk's name
    """Raised if a query returns more records than allowed. The SDK does not raise it; taps may."""


class UndeclaredRecordError(FatalSyncError):
    """Raised if a target's setting ``strict`` is true and a record does not match its schema."""

    failure_type = "config_error"


class UnsupportedBatchEncodingError(FatalSyncError, NotImplementedError):
    """Raised if a batch file has an unknown format or compression."""


class RetriableSyncError(SyncError):
    """Base class of errors after which a retry of the same step may succeed."""


class RetriableAPIError(RetriableSyncError):
    """Raised if an HTTP request fails and may be retried; ``response`` is the response or None."""

    def __init__(self, message: str, response: Any = None) -> None:
        """Create the error. ``response`` is the failed ``requests.Response``, or None.

        The headers of the response, such as ``Retry-After``, determine the time of the retry.
        """
        # The type is Any so that this module does not import requests.
        super().__init__(message)
        self.response = response


class SkippableSyncError(SyncError):
    """Base class of errors that may be logged and skipped, so that the sync continues."""


class SkippableAPIError(SkippableSyncError):
    """Raised if an HTTP request fails and the sync may continue without its data."""


class InvalidRecord(SkippableSyncError):  # noqa: N818  singer_sdk's name
    """Raised if a record does not match its schema, or cannot be represented in Python."""

    stream_name: str | None = None
    """Name of the stream, which the sink sets."""

    def __init__(self, error_message: str, record: dict[str, Any]) -> None:
        """Create the error. ``error_message`` is the reason and ``record`` the invalid record."""
        super().__init__(f"Record Message Validation Error: {error_message}")
        self.error_message = error_message
        self.record = record

    @property
    def reason(self) -> str:
        """Reason with the name of the stream, such as ``stream 'users': age: 'x' is not …``."""
        stream = f"stream '{self.stream_name}': " if self.stream_name else ""
        return f"{stream}{self.error_message}"

    def __str__(self) -> str:
        return f"Record Message Validation Error: {self.reason}"


class DataError(SyncError):
    """Raised if data cannot be processed, for example because a value is invalid or too large."""


class InvalidDateTimeError(DataError, ValueError):
    """Raised if the value of a date or time property cannot be parsed."""


class InvalidJSONSchema(DataError):  # noqa: N818  singer_sdk's name
    """Raised if a stream's schema is not a valid JSON Schema."""


class LimitExceededError(DataError):
    """Raised if input would take more time or memory than allowed. The message names the limit."""


# Signals that end a sync


class SyncLifecycleSignal(SingerSDKError):  # noqa: N818  singer_sdk's name
    """Base class of exceptions that end a sync early without an error."""


class RequestedAbortException(SyncLifecycleSignal):
    """Raised to end a sync on request, after writing a state to resume from, if possible."""


class MaxRecordsLimitException(RequestedAbortException):
    """Raised if a stream has read ``Stream.ABORT_AT_RECORD_COUNT`` records, as in ``--test``."""


class AbortedSyncExceptionBase(SyncLifecycleSignal, abc.ABC):
    """Abstract base class of exceptions that are raised if the sync of a stream is aborted."""


class AbortedSyncFailedException(AbortedSyncExceptionBase):
    """Raised if a stream was aborted and a later sync cannot resume from its state."""


class AbortedSyncPausedException(AbortedSyncExceptionBase):
    """Raised if a stream was aborted and a later sync can resume from the written state."""


# Singer messages


class SingerError(Exception):
    """Base class of errors in Singer messages, such as invalid input lines."""


class SingerReadError(SingerError):
    """Base class of errors that occur while Singer messages are read."""


class InvalidInputLine(SingerReadError):  # noqa: N818  singer_sdk's name
    """Raised if an input line is not a Singer message: invalid JSON, or not an object."""


class TruncatedInputLine(InvalidInputLine):
    """Raised if the input ends within a line, usually because the tap has failed."""


class UnknownMessageType(InvalidInputLine):
    """Raised if an input message has no ``type``, or an unknown one."""


# Warnings


class SingerSDKDeprecationWarning(DeprecationWarning):
    """Warning for a feature that will be removed; the message names the replacement."""


class SingerSDKPendingDeprecationWarning(PendingDeprecationWarning):
    """Warning for a feature that will be deprecated; no date for its removal is set."""


class SingerSDKPythonEOLWarning(FutureWarning):
    """Warning that the running Python version is near or past its end of support."""
