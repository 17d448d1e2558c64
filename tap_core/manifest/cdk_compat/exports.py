"""Table of the supported airbyte-cdk names and of the modules of this package that define them.

The table is keyed by name only, without airbyte-cdk's module: airbyte-cdk has moved its classes
between modules, and a connector may import a class from any of its former modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

__all__ = ["NAMES", "resolve_export"]

_PACKAGE: Final = __name__.rpartition(".")[0]

NAMES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        [
            *("AirbyteMessage", "AirbyteTracedException", "Config", "DefaultBackoffException"),
            *("ErrorResolution", "FailureType", "HttpMethod", "Record", "RequestOptionType"),
            *("ResponseAction", "StreamSlice", "StreamState", "SyncMode", "Type"),
            "UserDefinedBackoffException",
        ],
        "models",
    ),
    **dict.fromkeys(
        [
            *("InterpolatedBoolean", "InterpolatedMapping", "InterpolatedRequestInputProvider"),
            *("InterpolatedRequestOptionsProvider", "InterpolatedString", "RequestInput"),
        ],
        "interpolation",
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
        "authenticators",
    ),
    **dict.fromkeys(["ConfigTransformation", "ValidationStrategy"], "config_rules"),
    **dict.fromkeys(["HttpRequester", "RequestOption", "Requester"], "requesters"),
    "SimpleRetriever": "retrievers",
    **dict.fromkeys(
        [
            *("SUCCESS_RESOLUTION", "BackoffStrategy", "ConstantBackoffStrategy"),
            *("DefaultErrorHandler", "DefaultHttpResponseFilter", "ErrorHandler"),
            *("ExponentialBackoffStrategy", "HttpResponseFilter"),
            "create_fallback_error_resolution",
        ],
        "error_handlers",
    ),
    **dict.fromkeys(
        ["CursorPaginationStrategy", "OffsetIncrement", "PageIncrement", "PaginationStrategy"],
        "paginators",
    ),
    **dict.fromkeys(
        [
            *("ListPartitionRouter", "ParentStreamConfig", "Partition", "PartitionRouter"),
            *("Stream", "StreamSlicer", "SubstreamPartitionRouter"),
        ],
        "partition_routers",
    ),
    **dict.fromkeys(["LegacyToPerPartitionStateMigration", "StateMigration"], "state_migrations"),
    **dict.fromkeys(
        ["Cursor", "DatetimeBasedCursor", "DeclarativeCursor", "MinMaxDatetime"], "cursors"
    ),
    **dict.fromkeys(
        [
            *("InlineSchemaLoader", "JsonFileSchemaLoader", "SchemaLoader"),
            "_default_file_path",
        ],
        "schema_loaders",
    ),
    **dict.fromkeys(
        [
            *("AirbyteDateTime", "DatetimeParser", "ab_datetime_format", "ab_datetime_now"),
            *("ab_datetime_parse", "ab_datetime_try_parse"),
        ],
        "datetimes",
    ),
}
"""Module of this package that defines each supported airbyte-cdk name."""


def resolve_export(name: str) -> Any:
    """Return this package's class or function for an airbyte-cdk name; None if it is not supported.

    For example, ``'HttpRequester'`` returns `CdkHttpRequester`. The prefix ``Cdk`` is used where
    another class of tap_core has the same name.
    """
    module = NAMES.get(name)
    if module is None:
        return None
    defining = import_module(f"{_PACKAGE}.{module}")
    return getattr(defining, f"Cdk{name}", None) or getattr(defining, name.lstrip("_"))
