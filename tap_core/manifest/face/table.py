"""Which names of airbyte-cdk there are, and where each is written.

Rules of the room: one table, by name alone: airbyte-cdk has moved its classes between modules,
and a connector may import one from wherever it once stood.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

__all__ = ["NAMES", "named"]

_HERE: Final = __name__.rpartition(".")[0]

NAMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        [
            *("AirbyteMessage", "AirbyteTracedException", "Config", "DefaultBackoffException"),
            *("ErrorResolution", "FailureType", "HttpMethod", "Record", "RequestOptionType"),
            *("ResponseAction", "StreamSlice", "StreamState", "SyncMode", "Type"),
            "UserDefinedBackoffException",
        ],
        "values",
    ),
    **dict.fromkeys(
        [
            *("InterpolatedBoolean", "InterpolatedMapping", "InterpolatedRequestInputProvider"),
            *("InterpolatedRequestOptionsProvider", "InterpolatedString", "RequestInput"),
        ],
        "templates",
    ),
    **dict.fromkeys(
        [
            *("AddFields", "AddedFieldDefinition", "Decoder", "DpathExtractor", "JsonDecoder"),
            *("ParsedFieldDefinition", "RecordExtractor", "RecordFilter"),
            *("RecordTransformation", "TransformConfig", "TypeTransformer"),
        ],
        "records",
    ),
    **dict.fromkeys(
        [
            *("AbstractHeaderAuthenticator", "ApiKeyAuthenticator", "BasicHttpAuthenticator"),
            *("BearerAuthenticator", "DeclarativeAuthenticator", "DeclarativeOauth2Authenticator"),
            *("InterpolatedStringTokenProvider", "NoAuth", "SelectiveAuthenticator"),
            "TokenProvider",
        ],
        "auth",
    ),
    **dict.fromkeys(["HttpRequester", "RequestOption", "Requester"], "requests"),
    "SimpleRetriever": "retrievers",
    **dict.fromkeys(
        [
            *("SUCCESS_RESOLUTION", "BackoffStrategy", "ConstantBackoffStrategy"),
            *("DefaultErrorHandler", "DefaultHttpResponseFilter", "ErrorHandler"),
            *("ExponentialBackoffStrategy", "HttpResponseFilter"),
            "create_fallback_error_resolution",
        ],
        "errors",
    ),
    **dict.fromkeys(
        ["CursorPaginationStrategy", "OffsetIncrement", "PageIncrement", "PaginationStrategy"],
        "pages",
    ),
    **dict.fromkeys(
        [
            *("ListPartitionRouter", "ParentStreamConfig", "Partition", "PartitionRouter"),
            *("Stream", "StreamSlicer", "SubstreamPartitionRouter"),
        ],
        "slices",
    ),
    **dict.fromkeys(["LegacyToPerPartitionStateMigration", "StateMigration"], "migrations"),
    **dict.fromkeys(
        ["Cursor", "DatetimeBasedCursor", "DeclarativeCursor", "MinMaxDatetime"], "cursors"
    ),
    **dict.fromkeys(
        [
            *("InlineSchemaLoader", "JsonFileSchemaLoader", "SchemaLoader"),
            "_default_file_path",
        ],
        "schemas",
    ),
    **dict.fromkeys(
        [
            *("AirbyteDateTime", "DatetimeParser", "ab_datetime_format", "ab_datetime_now"),
            *("ab_datetime_parse", "ab_datetime_try_parse"),
        ],
        "dates",
    ),
}
"""Name to module."""


def named(name: str) -> Any:
    """Return what stands under a name; None for an unknown one."""
    module = NAMES.get(name)
    return None if module is None else getattr(import_module(f"{_HERE}.{module}"), name.lstrip("_"))
