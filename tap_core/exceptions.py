"""Tree of all errors that the SDK raises on purpose.

There is one class per condition that a caller may want to catch. The message is written where the
error is raised and says what happened, where, and what to do; it never contains the value of a
secret setting. Names and base classes are those of ``singer_sdk.exceptions``, so that ``except``
clauses of existing plugins keep working; classes marked * are additions of this project.

::

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
    │   │   └── InvalidRecord            .error_message, .record
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
    """Base class of all errors that the SDK raises on purpose while it configures or syncs."""


# Configuration


class ConfigurationError(SingerSDKError):
    """The user's settings, files or flags are invalid."""


class ConfigValidationError(ConfigurationError):
    """Settings do not match their JSON Schema.

    ``errors`` has one sentence for each error, with the path of the setting. ``schema`` is the JSON
    Schema of the settings.
    """

    def __init__(
        self,
        message: str,
        *,
        errors: list[str] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> None:
        """Create the error. ``message`` is a summary; ``errors`` has a sentence for each error."""
        super().__init__(message)
        self.errors: list[str] = errors or []
        self.schema: dict[str, Any] | None = schema


class ConfigFileError(ConfigValidationError):
    """A settings file is missing, is not JSON, or does not contain a JSON object."""


class MapperNotInitialized(ConfigurationError):  # noqa: N818  singer_sdk's name
    """The stream maps were accessed before ``setup_mapper()`` had run."""

    def __init__(self) -> None:
        """Create the error with a message that names the method to call first."""
        super().__init__("There is no mapper yet: call setup_mapper() first.")


class StateFileError(ConfigurationError):
    """A state file is missing or contains no valid state. The message names file and line."""


class StreamSetupError(ConfigurationError, ValueError):
    """A stream cannot be synced with its state, catalog or schema."""


class CatalogFileError(ConfigurationError):
    """A catalog file is missing or contains no valid catalog."""


class UnsupportedFeatureError(ConfigurationError):
    """A Singer feature was requested that this version of the SDK does not support."""


# Discovery


class DiscoveryError(SingerSDKError):
    """The streams or their schemas could not be determined."""


class EmptySchemaTypeError(DiscoveryError):
    """A property's schema has no type where one is needed."""

    def __init__(self, *args: object) -> None:
        """Create the error; ``args`` are added to its general message."""
        super().__init__(
            "A property's type was asked for, but its schema is empty. "
            "Is the property missing from the stream's schema?",
            *args,
        )


class MissingMethodError(DiscoveryError, NotImplementedError):
    """A class of the plugin does not define a method that it must define."""


class InvalidReplicationKeyException(DiscoveryError):  # noqa: N818  singer_sdk's name
    """The replication key is not a property of the stream, or a record has no value for it."""


class SchemaNotFoundError(DiscoveryError):
    """The requested schema does not exist."""


class SchemaNotValidError(DiscoveryError):
    """The document found is not a valid JSON Schema."""


class UnsupportedSchemaFormatError(DiscoveryError):
    """The document that should contain schemas has an unsupported format."""


UnsupportedOpenAPISpec = UnsupportedSchemaFormatError


# Mapping


class MappingError(SingerSDKError):
    """A stream map cannot be applied."""


class ConformedNameClashException(MappingError):  # noqa: N818  singer_sdk's name
    """Two different names became the same column name when they were normalized."""


class MapExpressionError(MappingError):
    """An expression of a stream map could not be evaluated."""


class StreamMapConfigError(MappingError):
    """The configuration of a stream map is not valid."""


# Sync


class SyncError(SingerSDKError):
    """An error occurred during a sync."""

    failure_type: str | None = None
    """Whose fault it is, in Airbyte's words, where whoever raised it knows: ``config_error``,
    ``system_error`` or ``transient_error``."""


class FatalSyncError(SyncError):
    """An error that ends the whole sync."""


class BatchFileError(FatalSyncError):
    """A batch file could not be written or could not be read completely. The message names it."""


class FatalAPIError(FatalSyncError):
    """A request failed and a retry would not help; ``response`` is the response or None."""

    def __init__(self, *args: object, response: Any = None) -> None:
        """Create the error. ``response`` is the failed ``requests.Response``, or None."""
        super().__init__(*args)
        self.response = response


class InvalidStreamSortException(FatalSyncError):  # noqa: N818  singer_sdk's name
    """A stream that is declared as sorted returned a replication key value out of order."""


class PartitionsFailedError(FatalSyncError):
    """Some partitions of a stream failed; the other partitions are complete."""


class MissingKeyPropertiesError(FatalSyncError):
    """A record lacks one of its key properties."""


class RecordsWithoutSchemaException(FatalSyncError):  # noqa: N818  singer_sdk's name
    """A record arrived before the schema of its stream."""


class TapStreamConnectionFailure(FatalSyncError):  # noqa: N818  singer_sdk's name
    """The connection of a stream failed or was lost."""


class TooManyRecordsException(FatalSyncError):  # noqa: N818  singer_sdk's name
    """A query returned more records than allowed."""


class UndeclaredRecordError(FatalSyncError):
    """A record does not match the declared schema of its stream, as the reader requires."""

    failure_type = "config_error"


class UnsupportedBatchEncodingError(FatalSyncError, NotImplementedError):
    """A batch file has an unknown format or compression."""


class RetriableSyncError(SyncError):
    """An error after which a retry of the same step may succeed."""


class RetriableAPIError(RetriableSyncError):
    """A request failed and may be retried; ``response`` is the response or None."""

    def __init__(self, message: str, response: Any = None) -> None:
        """Create the error. ``response`` is the failed ``requests.Response``, or None.

        The headers of the response decide on retries. The type is ``Any`` so that this module does
        not import requests.
        """
        super().__init__(message)
        self.response = response


class SkippableSyncError(SyncError):
    """An error that may be logged and skipped; the sync continues."""


class SkippableAPIError(SkippableSyncError):
    """A request failed and its data may be skipped."""


class InvalidRecord(SkippableSyncError):  # noqa: N818  singer_sdk's name
    """A record does not match its schema, or cannot be represented in Python."""

    def __init__(self, error_message: str, record: dict[str, Any]) -> None:
        """Create the error. ``error_message`` is the reason and ``record`` the invalid record."""
        super().__init__(f"Record Message Validation Error: {error_message}")
        self.error_message = error_message
        self.record = record


class DataError(SyncError):
    """Data is invalid: a value, a schema or its size cannot be processed."""


class InvalidDateTimeError(DataError, ValueError):
    """A property is a date or time according to its schema, but its value cannot be parsed."""


class InvalidJSONSchema(DataError):  # noqa: N818  singer_sdk's name
    """A stream's schema is not a valid JSON Schema."""


class LimitExceededError(DataError):
    """Input would take more time or memory than allowed. The message names the limit."""


# Signals that end a sync


class SyncLifecycleSignal(SingerSDKError):  # noqa: N818  singer_sdk's name
    """Base class of exceptions that end a sync early without an error."""


class RequestedAbortException(SyncLifecycleSignal):
    """The sync was asked to end. A state from which it can resume is written first, if possible."""


class MaxRecordsLimitException(RequestedAbortException):
    """The stream's ``ABORT_AT_RECORD_COUNT`` was reached."""


class AbortedSyncExceptionBase(SyncLifecycleSignal, abc.ABC):
    """Base class of the exceptions for an aborted stream. Only its subclasses are raised."""


class AbortedSyncFailedException(AbortedSyncExceptionBase):
    """The stream was aborted, and a later sync cannot resume from its state."""


class AbortedSyncPausedException(AbortedSyncExceptionBase):
    """The stream was aborted after writing a state from which a later sync can resume."""


# Singer messages


class SingerError(Exception):
    """Base class of errors in Singer messages, as opposed to errors of plugins."""


class SingerReadError(SingerError):
    """A message could not be read."""


class InvalidInputLine(SingerReadError):  # noqa: N818  singer_sdk's name
    """An input line is not a message: invalid JSON, or not an object."""


class TruncatedInputLine(InvalidInputLine):
    """The input ended within a line, usually because its writer has failed."""


class UnknownMessageType(InvalidInputLine):
    """An input message has no ``type``, or an unknown one."""


# Warnings


class SingerSDKDeprecationWarning(DeprecationWarning):
    """The feature still works but will be removed; the message names the replacement."""


class SingerSDKPendingDeprecationWarning(PendingDeprecationWarning):
    """The feature will be deprecated; no date for its removal is set."""


class SingerSDKPythonEOLWarning(FutureWarning):
    """The running Python version is near or past its end of support."""
