"""Every error that the SDK raises on purpose, as one tree.

Rules of the room: one class per thing that a caller may want to catch; the message is
made where the error is raised and says what happened, where, and the way out. Values of
secret settings never stand in a message. Names and parents are those of
``singer_sdk.exceptions``, so that ``except`` clauses of existing plugins keep working;
the ones marked * are this project's own.

::

    SingerSDKError
    ├── ConfigurationError
    │   ├── ConfigValidationError        .errors, .schema
    │   │   └── ConfigFileError *        a --config file that cannot be read
    │   ├── MapperNotInitialized
    │   ├── StateFileError *             a --state file that cannot be read
    │   ├── StreamSetupError *           a state, catalog or schema that a stream cannot use
    │   ├── CatalogFileError *           a --catalog file that cannot be read
    │   └── UnsupportedFeatureError *    asked for, known, not built yet
    ├── DiscoveryError
    │   ├── EmptySchemaTypeError
    │   ├── InvalidReplicationKeyException
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
    │   │   │   └── UnsupportedBatchEncodingError *  its format or compression is not known
    │   │   ├── FatalAPIError
    │   │   ├── InvalidStreamSortException
    │   │   ├── MissingKeyPropertiesError
    │   │   ├── PartitionsFailedError *  contexts that were synced elsewhere, and failed
    │   │   ├── RecordsWithoutSchemaException
    │   │   ├── TapStreamConnectionFailure
    │   │   ├── TooManyRecordsException
    │   │   └── UndeclaredRecordError *  a record that is not as its stream declares
    │   ├── RetriableSyncError
    │   │   └── RetriableAPIError        .response
    │   ├── SkippableSyncError
    │   │   ├── SkippableAPIError
    │   │   └── InvalidRecord            .error_message, .record
    │   │       └── UnreadableRecordError *  nested too deeply, or with too large a number
    │   └── DataError
    │       ├── InvalidDateTimeError *   a date or time that cannot be read
    │       ├── InvalidJSONSchema
    │       └── LimitExceededError *     input that costs more time or memory than it may
    └── SyncLifecycleSignal
        ├── RequestedAbortException
        │   └── MaxRecordsLimitException
        └── AbortedSyncExceptionBase     (abstract)
            ├── AbortedSyncFailedException
            └── AbortedSyncPausedException

    SingerError
    └── SingerReadError
        └── InvalidInputLine             a line on the wire that is not a message
            ├── TruncatedInputLine *     the input ended within a line
            └── UnknownMessageType *     JSON, but of no type that is known

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
    "UnreadableRecordError",
    "UnsupportedBatchEncodingError",
    "UnsupportedFeatureError",
    "UnsupportedOpenAPISpec",
    "UnsupportedSchemaFormatError",
]


class SingerSDKError(Exception):
    """The root: whatever the SDK raises on purpose while it configures or syncs."""


# Configuration


class ConfigurationError(SingerSDKError):
    """What the user gave (settings, files, flags) cannot be used as it is."""


class ConfigValidationError(ConfigurationError):
    """Settings that their JSON Schema refuses.

    ``errors`` holds one sentence per fault, each with the path of the setting;
    ``schema`` is what they were checked against.
    """

    def __init__(
        self,
        message: str,
        *,
        errors: list[str] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> None:
        """Keep the single faults beside the summary."""
        super().__init__(message)
        self.errors: list[str] = errors or []
        self.schema: dict[str, Any] | None = schema


class ConfigFileError(ConfigValidationError):
    """A configuration file that is missing, not JSON, or not a JSON object."""


class MapperNotInitialized(ConfigurationError):  # noqa: N818  singer_sdk's name
    """The stream maps were asked for before ``setup_mapper()`` had run."""

    def __init__(self) -> None:
        """Say what to call first."""
        super().__init__("There is no mapper yet: call setup_mapper() first.")


class StateFileError(ConfigurationError):
    """A state file that is missing or holds no state; the message names file and line."""


class StreamSetupError(ConfigurationError, ValueError):
    """A stream cannot be synced with the state, the catalog or the schema that it has."""


class CatalogFileError(ConfigurationError):
    """A catalog file that is missing or holds no catalog."""


class UnsupportedFeatureError(ConfigurationError):
    """Something that the Singer world knows and this version does not do."""


# Discovery


class DiscoveryError(SingerSDKError):
    """The streams or schemas of a source could not be established."""


class EmptySchemaTypeError(DiscoveryError):
    """A property has a schema without any type where a type is needed."""

    def __init__(self, *args: object) -> None:
        """Take further details after the general sentence."""
        super().__init__(
            "A property's type was asked for, but its schema is empty. "
            "Is the property missing from the stream's schema?",
            *args,
        )


class InvalidReplicationKeyException(DiscoveryError):  # noqa: N818  singer_sdk's name
    """The replication key is not among the properties of the stream."""


class SchemaNotFoundError(DiscoveryError):
    """There is no schema for what was asked."""


class SchemaNotValidError(DiscoveryError):
    """What was found is not a JSON Schema."""


class UnsupportedSchemaFormatError(DiscoveryError):
    """The document that should give schemas is of a kind that is not understood."""


UnsupportedOpenAPISpec = UnsupportedSchemaFormatError


# Mapping


class MappingError(SingerSDKError):
    """A stream map cannot be applied."""


class ConformedNameClashException(MappingError):  # noqa: N818  singer_sdk's name
    """Two names became one when they were conformed."""


class MapExpressionError(MappingError):
    """An expression of a stream map could not be evaluated."""


class StreamMapConfigError(MappingError):
    """The configuration of a stream map is not valid."""


# Sync


class SyncError(SingerSDKError):
    """Something went wrong while data were moving."""

    failure_type: str | None = None
    """Whose fault it is, in Airbyte's words, where whoever raised it knows: ``config_error``,
    ``system_error`` or ``transient_error``."""


class FatalSyncError(SyncError):
    """The whole sync must end."""


class BatchFileError(FatalSyncError):
    """A file of rows cannot be written, or not be read to its end; names the file."""


class UnsupportedBatchEncodingError(BatchFileError, NotImplementedError):
    """A file of rows has a format or a compression that is not known."""


class FatalAPIError(FatalSyncError):
    """A request failed in a way that another try will not cure; ``response`` is what came."""

    def __init__(self, *args: object, response: Any = None) -> None:
        """Keep the response beside the message; its type as for `RetriableAPIError`."""
        super().__init__(*args)
        self.response = response


class InvalidStreamSortException(FatalSyncError):  # noqa: N818  singer_sdk's name
    """A stream that is declared sorted brought a smaller replication key value."""


class PartitionsFailedError(FatalSyncError):
    """Contexts of a stream that were synced elsewhere failed; those beside them are done."""


class MissingKeyPropertiesError(FatalSyncError):
    """A record lacks one of the properties that identify it."""


class RecordsWithoutSchemaException(FatalSyncError):  # noqa: N818  singer_sdk's name
    """A record came before the schema of its stream."""


class TapStreamConnectionFailure(FatalSyncError):  # noqa: N818  singer_sdk's name
    """The connection of a stream failed or was lost."""


class TooManyRecordsException(FatalSyncError):  # noqa: N818  singer_sdk's name
    """A query brought more records than it may."""


class UndeclaredRecordError(FatalSyncError):
    """A record that is not as its stream declares, where no others are taken."""

    failure_type = "config_error"


class RetriableSyncError(SyncError):
    """The same step may succeed when it is tried again."""


class RetriableAPIError(RetriableSyncError):
    """A request failed that may be sent again; ``response`` is what came, if any."""

    def __init__(self, message: str, response: Any = None) -> None:
        """Keep the response: backoff rules read its headers.

        Its type is requests' ``Response``; this floor does not know that library.
        """
        super().__init__(message)
        self.response = response


class SkippableSyncError(SyncError):
    """May be logged and skipped; the sync goes on."""


class SkippableAPIError(SkippableSyncError):
    """A failed request that may be left out."""


class InvalidRecord(SkippableSyncError):  # noqa: N818  singer_sdk's name
    """A record that its schema refuses."""

    def __init__(self, error_message: str, record: dict[str, Any]) -> None:
        """Keep the bare reason and the record itself."""
        super().__init__(f"Record Message Validation Error: {error_message}")
        self.error_message = error_message
        self.record = record


class UnreadableRecordError(InvalidRecord):
    """A record that Python cannot hold: nested too deeply, or with too large a number."""


class DataError(SyncError):
    """The data break a rule of quality."""


class InvalidDateTimeError(DataError, ValueError):
    """A property of a record that is a date or time by its schema cannot be read as one."""


class InvalidJSONSchema(DataError):  # noqa: N818  singer_sdk's name
    """A stream's schema is not a valid JSON Schema."""


class LimitExceededError(DataError):
    """Input would take more time or memory than a limit allows; the message names the limit."""


# Signals that steer a sync


class SyncLifecycleSignal(SingerSDKError):  # noqa: N818  singer_sdk's name
    """Not a fault: raised to end a sync early in an orderly way."""


class RequestedAbortException(SyncLifecycleSignal):
    """Someone asked for the end; a resumable state goes out first where it can."""


class MaxRecordsLimitException(RequestedAbortException):
    """The stream's ``ABORT_AT_RECORD_COUNT`` was reached."""


class AbortedSyncExceptionBase(SyncLifecycleSignal, abc.ABC):
    """A stream was aborted; raise one of the two below, which say how it stands."""


class AbortedSyncFailedException(AbortedSyncExceptionBase):
    """Aborted without a state from which the stream could go on."""


class AbortedSyncPausedException(AbortedSyncExceptionBase):
    """Aborted with a resumable state already sent; more rows are left in the source."""


# The wire


class SingerError(Exception):
    """The root of what is wrong with messages, apart from plugins."""


class SingerReadError(SingerError):
    """A message could not be read."""


class InvalidInputLine(SingerReadError):  # noqa: N818  singer_sdk's name
    """A line on the wire that is not a message: broken JSON, or not an object."""


class TruncatedInputLine(InvalidInputLine):
    """The input ended within a line: its writer died or was cut off."""


class UnknownMessageType(InvalidInputLine):
    """A JSON object whose ``type`` is missing or is none that is known."""


# Warnings


class SingerSDKDeprecationWarning(DeprecationWarning):
    """This way still works; another one is to be preferred and is named."""


class SingerSDKPendingDeprecationWarning(PendingDeprecationWarning):
    """As above, without a date on which the old way ends."""


class SingerSDKPythonEOLWarning(FutureWarning):
    """The running Python is near the end of its support, or past it."""
