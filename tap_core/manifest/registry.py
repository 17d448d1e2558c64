"""Registry of component types, such as ``HttpRequester``, and of the modules that define them.

A component type is the name of a class in its module. The module is imported when a manifest first
uses the type. A type that is not in the registry is an error.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from importlib import import_module
from typing import Any, Final

__all__ = ["MODULES", "contains_component", "get_component_class", "is_component"]

_HERE = "tap_core.manifest.components"

_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "tap_core.incremental.cursor": (
        "DatetimeBasedCursor",
        "MinMaxDatetime",
    ),
    "tap_core.incremental.request_options": ("RequestOption",),
    f"{_HERE}.declarative_source": (
        "DeclarativeSource",
        "DeclarativeStream",
        "Spec",
        "CheckStream",
        "CheckDynamicStream",
        "DynamicStreamCheckConfig",
        "ConcurrencyLevel",
        "StateDelegatingStream",
        "ConditionalStreams",
    ),
    f"{_HERE}.config_rules": (
        "ConfigNormalizationRules",
        "ConfigMigration",
        "ConfigAddFields",
        "ConfigRemapField",
        "ConfigRemoveFields",
        "CustomConfigTransformation",
        "CustomValidationStrategy",
        "DpathValidator",
        "PredicateValidator",
        "ValidateAdheresToSchema",
    ),
    f"{_HERE}.resolvers": (
        "DynamicDeclarativeStream",
        "HttpComponentsResolver",
        "ConfigComponentsResolver",
        "StreamConfig",
        "ParametrizedComponentsResolver",
        "StreamParametersDefinition",
        "ComponentMappingDefinition",
    ),
    f"{_HERE}.cursors": (
        "IncrementingCountCursor",
        "CustomIncrementalSync",
    ),
    f"{_HERE}.retrievers": (
        "SimpleRetriever",
        "CustomRetriever",
    ),
    f"{_HERE}.async_retriever": (
        "AsyncRetriever",
        "AsyncJobStatusMap",
    ),
    f"{_HERE}.page_size_reduction": ("PageSizeReduction",),
    f"{_HERE}.window_splitting": ("RequestWindowSplitting",),
    f"{_HERE}.pagination_reset": (
        "PaginationReset",
        "PaginationResetLimits",
    ),
    f"{_HERE}.requester": (
        "HttpRequester",
        "RequestPath",
        "RequestBodyPlainText",
        "RequestBodyUrlEncodedForm",
        "RequestBodyJsonObject",
        "RequestBodyGraphQL",
    ),
    f"{_HERE}.authenticators": (
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
    ),
    f"{_HERE}.multiple_token_authenticator": ("RateLimitedMultipleTokenAuthenticator",),
    f"{_HERE}.token_quotas": (
        "QuotaStatusSource",
        "TokenQuota",
    ),
    f"{_HERE}.paginators": (
        "DefaultPaginator",
        "NoPagination",
        "PageIncrement",
        "OffsetIncrement",
        "CursorPagination",
    ),
    f"{_HERE}.error_handlers": (
        "DefaultErrorHandler",
        "CompositeErrorHandler",
        "HttpResponseFilter",
        "ConstantBackoffStrategy",
        "ExponentialBackoffStrategy",
        "WaitTimeFromHeader",
        "WaitTimeFromResponse",
        "WaitUntilTimeFromHeader",
    ),
    f"{_HERE}.api_budget": (
        "HTTPAPIBudget",
        "FixedWindowCallRatePolicy",
        "MovingWindowCallRatePolicy",
        "UnlimitedCallRatePolicy",
        "HttpRequestRegexMatcher",
        "Rate",
    ),
    f"{_HERE}.query_properties": (
        "QueryProperties",
        "PropertiesFromEndpoint",
        "PropertyChunking",
        "GroupByKeyMergeStrategy",
        "JsonSchemaPropertySelector",
    ),
    f"{_HERE}.record_selector": (
        "RecordSelector",
        "CombinedExtractor",
        "RecordFilter",
    ),
    f"{_HERE}.extractors": (
        "DpathExtractor",
        "RecordExpander",
        "ParentFieldPath",
    ),
    f"{_HERE}.file_extractors": ("ResponseToFileExtractor",),
    f"{_HERE}.decoders": (
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
    ),
    f"{_HERE}.transformations": (
        "AddFields",
        "AddedFieldDefinition",
        "RemoveFields",
        "KeysToLower",
        "KeysToSnakeCase",
        "KeysReplace",
        "KeyTransformation",
        "FlattenFields",
        "DpathFlattenFields",
    ),
    f"{_HERE}.schema_loaders": (
        "InlineSchemaLoader",
        "JsonFileSchemaLoader",
    ),
    f"{_HERE}.dynamic_schema_loader": (
        "DynamicSchemaLoader",
        "SchemaTypeIdentifier",
        "TypesMap",
        "ComplexFieldType",
    ),
    f"{_HERE}.partition_routers": (
        "ListPartitionRouter",
        "SubstreamPartitionRouter",
        "ParentStreamConfig",
        "GroupingPartitionRouter",
        "UnionPartitionRouter",
    ),
    "tap_core.manifest.state_translation": ("LegacyToPerPartitionStateMigration",),
    f"{_HERE}.custom": (
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
    ),
}
"""Component types by the module that defines them."""

MODULES: Final[Mapping[str, str]] = {
    name: module for module, names in _TYPES.items() for name in names
}
"""Module of each component type, by type name."""


def get_component_class(name: str) -> type | None:
    """Return the class of a component type such as ``HttpRequester``; None for an unknown type."""
    module = MODULES.get(name)
    return None if module is None else getattr(import_module(module), name)


def is_component(node: Mapping[str, Any], types: Container[str] = MODULES) -> bool:
    """Return True if the ``type`` of a mapping is one of the component types ``types``."""
    kind = node.get("type")
    return isinstance(kind, str) and kind in types


def contains_component(value: Any, types: Container[str] = MODULES) -> bool:
    """Return True if a value, or an item in it, is a mapping with one of the component types."""
    if isinstance(value, Mapping):
        items = value.values()
        return is_component(value, types) or any(contains_component(item, types) for item in items)
    return isinstance(value, list) and any(contains_component(item, types) for item in value)
