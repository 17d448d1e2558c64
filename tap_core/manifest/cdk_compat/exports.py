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

_NAMES_BY_MODULE: Final[Mapping[str, tuple[str, ...]]] = {
    "models": (
        *("AirbyteMessage", "AirbyteTracedException", "Config", "DefaultBackoffException"),
        *("ErrorResolution", "FailureType", "HttpMethod", "Record", "RequestOptionType"),
        *("ResponseAction", "StreamSlice", "StreamState", "SyncMode", "Type"),
        "UserDefinedBackoffException",
    ),
    "interpolation": (
        *("InterpolatedBoolean", "InterpolatedMapping", "InterpolatedRequestInputProvider"),
        *("InterpolatedRequestOptionsProvider", "InterpolatedString", "RequestInput"),
    ),
    "records": (
        *("AddFields", "AddedFieldDefinition", "Decoder", "DpathExtractor", "JsonDecoder"),
        *("ParsedFieldDefinition", "RecordExtractor", "RecordFilter"),
        *("RecordTransformation", "TransformConfig", "TypeTransformer"),
    ),
    "authenticators": (
        *("AbstractHeaderAuthenticator", "ApiKeyAuthenticator", "BasicHttpAuthenticator"),
        *("BearerAuthenticator", "DeclarativeAuthenticator", "DeclarativeOauth2Authenticator"),
        *("InterpolatedStringTokenProvider", "NoAuth", "SelectiveAuthenticator"),
        "TokenProvider",
    ),
    "config_rules": ("ConfigTransformation", "ValidationStrategy"),
    "requesters": ("HttpRequester", "RequestOption", "Requester"),
    "retrievers": ("SimpleRetriever",),
    "error_handlers": (
        *("SUCCESS_RESOLUTION", "BackoffStrategy", "ConstantBackoffStrategy"),
        *("DefaultErrorHandler", "DefaultHttpResponseFilter", "ErrorHandler"),
        *("ExponentialBackoffStrategy", "HttpResponseFilter"),
        "create_fallback_error_resolution",
    ),
    "paginators": (
        *("CursorPaginationStrategy", "OffsetIncrement", "PageIncrement", "PaginationStrategy"),
    ),
    "partition_routers": (
        *("ListPartitionRouter", "ParentStreamConfig", "Partition", "PartitionRouter"),
        *("Stream", "StreamSlicer", "SubstreamPartitionRouter"),
    ),
    "state_migrations": ("LegacyToPerPartitionStateMigration", "StateMigration"),
    "cursors": ("Cursor", "DatetimeBasedCursor", "DeclarativeCursor", "MinMaxDatetime"),
    "schema_loaders": (
        *("InlineSchemaLoader", "JsonFileSchemaLoader", "SchemaLoader", "_default_file_path"),
    ),
    "datetimes": (
        *("AirbyteDateTime", "DatetimeParser", "ab_datetime_format", "ab_datetime_now"),
        *("ab_datetime_parse", "ab_datetime_try_parse"),
    ),
}

NAMES: Final[Mapping[str, str]] = {
    name: module for module, names in _NAMES_BY_MODULE.items() for name in names
}
"""Module of this package that defines an airbyte-cdk name, by that name."""


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
