"""``$parameters`` handed down, and types that go without saying.

Rules of the room: pure. A parameter reaches every component below the one that has it, where it
fills the option of its name unless that has a value of its own, and is there for templates. A
JSON Schema is no component, and left alone. (Airbyte's YAML reference, "$parameters".)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tap_core.manifest.tree import Items, Node

__all__ = ["component", "parameter_names"]

_PARAMETERS: Final = "$parameters"

_IMPLIED: Final[Mapping[str, Mapping[str, str]]] = {
    "DeclarativeSource": {
        "check": "CheckStream",
        "spec": "Spec",
        "streams": "DeclarativeStream",
    },
    "DeclarativeStream": {
        "retriever": "SimpleRetriever",
        "schema_loader": "JsonFileSchemaLoader",
    },
    "DynamicDeclarativeStream": {
        "stream_template": "DeclarativeStream",
        "components_resolver": "ConfigComponentsResolver",
    },
    "HttpComponentsResolver": {
        "retriever": "SimpleRetriever",
        "components_mapping": "ComponentMappingDefinition",
    },
    "ConfigComponentsResolver": {
        "stream_config": "StreamConfig",
        "components_mapping": "ComponentMappingDefinition",
    },
    "SimpleRetriever": {
        "requester": "HttpRequester",
        "record_selector": "RecordSelector",
        "paginator": "NoPagination",
    },
    "HttpRequester": {"error_handler": "DefaultErrorHandler"},
    "CompositeErrorHandler": {"error_handlers": "DefaultErrorHandler"},
    "DefaultErrorHandler": {"response_filters": "HttpResponseFilter"},
    "DefaultPaginator": {"decoder": "JsonDecoder", "page_size_option": "RequestOption"},
    "CursorPagination": {"decoder": "JsonDecoder"},
    "RecordSelector": {"extractor": "DpathExtractor", "record_filter": "RecordFilter"},
    "DpathExtractor": {"decoder": "JsonDecoder", "record_expander": "RecordExpander"},
    "RecordExpander": {"parent_fields": "ParentFieldPath"},
    "DatetimeBasedCursor": {
        "start_datetime": "MinMaxDatetime",
        "end_datetime": "MinMaxDatetime",
        "start_time_option": "RequestOption",
        "end_time_option": "RequestOption",
    },
    "CustomIncrementalSync": {
        "start_datetime": "MinMaxDatetime",
        "end_datetime": "MinMaxDatetime",
        "start_time_option": "RequestOption",
        "end_time_option": "RequestOption",
        "parent_stream_configs": "ParentStreamConfig",
    },
    "ListPartitionRouter": {"request_option": "RequestOption"},
    "SubstreamPartitionRouter": {"parent_stream_configs": "ParentStreamConfig"},
    "CustomPartitionRouter": {"parent_stream_configs": "ParentStreamConfig"},
    "ParentStreamConfig": {"stream": "DeclarativeStream", "request_option": "RequestOption"},
    "AddFields": {"fields": "AddedFieldDefinition"},
    "DynamicSchemaLoader": {"retriever": "SimpleRetriever"},
    "SchemaTypeIdentifier": {"types_map": "TypesMap"},
}
"""Type and option to the type of what stands there without one."""

_IMPLIED_CUSTOM: Final[Mapping[str, Mapping[str, str]]] = {
    "CompositeErrorHandler": {"backoff_strategies": "CustomBackoffStrategy"},
    "DeclarativeStream": {
        "incremental_sync": "CustomIncrementalSync",
        "retriever": "CustomRetriever",
        "transformations": "CustomTransformation",
    },
    "DefaultErrorHandler": {"backoff_strategies": "CustomBackoffStrategy"},
    "DefaultPaginator": {"pagination_strategy": "CustomPaginationStrategy"},
    "HttpRequester": {
        "authenticator": "CustomAuthenticator",
        "error_handler": "CustomErrorHandler",
    },
    "RecordSelector": {"extractor": "CustomRecordExtractor"},
    "SimpleRetriever": {"partition_router": "CustomPartitionRouter"},
}
"""The same for what has a ``class_name``."""


def component(node: Node, path: str, implied: str | None, given: Mapping[str, Any]) -> Node:
    """Return a component with its type and parameters, and so all below it.

    ``implied`` is its type where it has none; ``given`` are the parameters from above.
    """
    kind = node.get("type") or implied
    own = node.get(_PARAMETERS)
    parameters = {**given, **own} if isinstance(own, Mapping) else given
    made = _copied(node, path)
    if kind == "object" or isinstance(kind, (list, dict)):
        return made
    made.parameters = parameters
    if kind is None:
        return _inner(made, implied, parameters)
    made["type"] = kind
    filled = {key: value for key, value in parameters.items() if not made.get(key)}
    made.update(filled)
    made.filled = frozenset(filled)
    for key, value in made.items():
        if isinstance(value, (Node, Items)):
            below = {name: one for name, one in parameters.items() if name != key}
            made[key] = _below(value, (str(kind), key), f"{path}.{key}".lstrip("."), below)
    return made


def _copied(node: Node, path: str) -> Node:
    made = Node(node, line=node.line, lines=node.lines)
    made.path = path
    made.pop(_PARAMETERS, None)
    return made


def _below(
    value: Node | Items, field: tuple[str, str], path: str, parameters: Mapping[str, Any]
) -> Any:
    if isinstance(value, Node):
        return component(value, path, _implied(value, field), parameters)
    return Items(
        [
            component(one, f"{path}[{place}]", _implied(one, field), parameters)
            if isinstance(one, Node)
            else one
            for place, one in enumerate(value)
        ],
        lines=value.lines,
    )


def _implied(node: Node, field: tuple[str, str]) -> str | None:
    kind, name = field
    table = _IMPLIED_CUSTOM if "class_name" in node else _IMPLIED
    return table.get(kind, {}).get(name)


def _inner(made: Node, implied: str | None, parameters: Mapping[str, Any]) -> Node:
    """Hand parameters to components that stand in a mapping which is none itself."""
    for key, value in made.items():
        if isinstance(value, Node) and value.get("type"):
            made[key] = component(value, f"{made.path}.{key}", implied, parameters)
    return made


def parameter_names(node: Any) -> Iterator[Any]:
    """Yield the names in all ``$parameters`` of a part of a document."""
    if isinstance(node, Node):
        own = node.get(_PARAMETERS)
        yield from own if isinstance(own, Node) else ()
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from parameter_names(inner)
