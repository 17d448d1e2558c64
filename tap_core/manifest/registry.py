"""Registry of the component types and the modules that define them.

A type is the name of a class in the module that the table names. The module is imported when a
manifest uses the type. A type that is not in the table is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

__all__ = ["MODULES", "get_component_class"]

_INCREMENTAL = "tap_core.incremental.cursor"
_HERE = "tap_core.manifest.components"

MODULES: Final[Mapping[str, str]] = {
    **dict.fromkeys(["DatetimeBasedCursor", "MinMaxDatetime"], _INCREMENTAL),
    "RequestOption": "tap_core.incremental.request_options",
    # Source and streams
    **dict.fromkeys(
        [
            "DeclarativeSource",
            "DeclarativeStream",
            "Spec",
            "CheckStream",
            "CheckDynamicStream",
            "DynamicStreamCheckConfig",
            "ConcurrencyLevel",
            "StateDelegatingStream",
        ],
        f"{_HERE}.declarative_source",
    ),
    **dict.fromkeys(
        [
            "DynamicDeclarativeStream",
            "HttpComponentsResolver",
            "ConfigComponentsResolver",
            "StreamConfig",
            "ParametrizedComponentsResolver",
            "StreamParametersDefinition",
            "ComponentMappingDefinition",
        ],
        f"{_HERE}.resolvers",
    ),
    **dict.fromkeys(["IncrementingCountCursor", "CustomIncrementalSync"], f"{_HERE}.cursors"),
    **dict.fromkeys(["SimpleRetriever", "CustomRetriever"], f"{_HERE}.retrievers"),
    **dict.fromkeys(["AsyncRetriever", "AsyncJobStatusMap"], f"{_HERE}.async_retriever"),
    "PageSizeReduction": f"{_HERE}.page_size_reduction",
    "RequestWindowSplitting": f"{_HERE}.window_splitting",
    **dict.fromkeys(["PaginationReset", "PaginationResetLimits"], f"{_HERE}.pagination_reset"),
    # Requests
    **dict.fromkeys(
        [
            "HttpRequester",
            "RequestPath",
            "RequestBodyPlainText",
            "RequestBodyUrlEncodedForm",
            "RequestBodyJsonObject",
            "RequestBodyGraphQL",
        ],
        f"{_HERE}.requester",
    ),
    **dict.fromkeys(
        [
            "ApiKeyAuthenticator",
            "BearerAuthenticator",
            "BasicHttpAuthenticator",
            "OAuthAuthenticator",
            "RefreshTokenUpdater",
            "SessionTokenAuthenticator",
            "LegacySessionTokenAuthenticator",
            "SessionTokenRequestApiKeyAuthenticator",
            "SessionTokenRequestBearerAuthenticator",
            "JwtAuthenticator",
            "JwtHeaders",
            "JwtPayload",
            "SelectiveAuthenticator",
            "NoAuth",
        ],
        f"{_HERE}.authenticators",
    ),
    "RateLimitedMultipleTokenAuthenticator": f"{_HERE}.quota_tokens",
    **dict.fromkeys(["QuotaStatusSource", "TokenQuota"], f"{_HERE}.token_quotas"),
    **dict.fromkeys(
        [
            "DefaultPaginator",
            "NoPagination",
            "PageIncrement",
            "OffsetIncrement",
            "CursorPagination",
        ],
        f"{_HERE}.paginators",
    ),
    **dict.fromkeys(
        [
            "DefaultErrorHandler",
            "CompositeErrorHandler",
            "HttpResponseFilter",
            "ConstantBackoffStrategy",
            "ExponentialBackoffStrategy",
            "WaitTimeFromHeader",
            "WaitTimeFromResponse",
            "WaitUntilTimeFromHeader",
        ],
        f"{_HERE}.error_handlers",
    ),
    **dict.fromkeys(
        [
            "HTTPAPIBudget",
            "FixedWindowCallRatePolicy",
            "MovingWindowCallRatePolicy",
            "UnlimitedCallRatePolicy",
            "HttpRequestRegexMatcher",
            "Rate",
        ],
        f"{_HERE}.api_budget",
    ),
    **dict.fromkeys(
        [
            "QueryProperties",
            "PropertiesFromEndpoint",
            "PropertyChunking",
            "GroupByKeyMergeStrategy",
            "JsonSchemaPropertySelector",
        ],
        f"{_HERE}.query_properties",
    ),
    # Records
    **dict.fromkeys(
        [
            "RecordSelector",
            "CombinedExtractor",
            "RecordFilter",
        ],
        f"{_HERE}.record_selector",
    ),
    **dict.fromkeys(
        [
            "DpathExtractor",
            "RecordExpander",
            "ParentFieldPath",
        ],
        f"{_HERE}.extractors",
    ),
    "ResponseToFileExtractor": f"{_HERE}.file_extractors",
    **dict.fromkeys(
        [
            "JsonDecoder",
            "JsonlDecoder",
            "IterableDecoder",
            "JsonItemsDecoder",
            "CsvDecoder",
            "XmlDecoder",
            "GzipDecoder",
            "ZipfileDecoder",
            "CompositeRawDecoder",
            "JsonParser",
            "JsonLineParser",
            "CsvParser",
            "GzipParser",
        ],
        f"{_HERE}.decoders",
    ),
    **dict.fromkeys(
        [
            "AddFields",
            "AddedFieldDefinition",
            "RemoveFields",
            "KeysToLower",
            "KeysToSnakeCase",
            "KeysReplace",
            "KeyTransformation",
            "FlattenFields",
            "DpathFlattenFields",
        ],
        f"{_HERE}.transformations",
    ),
    **dict.fromkeys(
        [
            "InlineSchemaLoader",
            "JsonFileSchemaLoader",
        ],
        f"{_HERE}.schema_loaders",
    ),
    **dict.fromkeys(
        [
            "DynamicSchemaLoader",
            "SchemaTypeIdentifier",
            "TypesMap",
            "ComplexFieldType",
        ],
        f"{_HERE}.dynamic_schema_loader",
    ),
    # Slices
    **dict.fromkeys(
        [
            "ListPartitionRouter",
            "SubstreamPartitionRouter",
            "ParentStreamConfig",
            "GroupingPartitionRouter",
            "UnionPartitionRouter",
        ],
        f"{_HERE}.partition_routers",
    ),
    "LegacyToPerPartitionStateMigration": "tap_core.manifest.state_translation",
    # Custom components, in a components.py next to the manifest
    **dict.fromkeys(
        [
            "CustomAuthenticator",
            "CustomBackoffStrategy",
            "CustomDecoder",
            "CustomErrorHandler",
            "CustomPaginationStrategy",
            "CustomPartitionRouter",
            "CustomRecordExtractor",
            "CustomRecordFilter",
            "CustomRequester",
            "CustomSchemaLoader",
            "CustomSchemaNormalization",
            "CustomStateMigration",
            "CustomTransformation",
        ],
        f"{_HERE}.custom",
    ),
}
"""Module of each component type, by type name."""


def get_component_class(name: str) -> type | None:
    """Import and return the class of a component type; None if the type is unknown."""
    module = MODULES.get(name)
    return None if module is None else getattr(import_module(module), name)
