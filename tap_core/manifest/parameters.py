"""Propagation of ``$parameters`` to components, and default component types.

A component inherits the parameters of all components around it. If an option has no value and a
parameter has its name, the option gets the parameter's value. Templates can also use parameters. A
JSON Schema is not a component, so it is not changed (Airbyte's YAML reference, "$parameters").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tap_core.manifest.nodes import UNKNOWN, ListNode, MappingNode

__all__ = ["apply_own_parameters", "expand_component", "expand_parameters", "find_parameter_names"]

_PARAMETERS: Final = "$parameters"

_OF_DATETIME_CURSORS: Final[Mapping[str, str]] = {
    "start_datetime": "MinMaxDatetime",
    "end_datetime": "MinMaxDatetime",
    "start_time_option": "RequestOption",
    "end_time_option": "RequestOption",
}

_IMPLIED: Final[Mapping[str, Mapping[str, str]]] = {
    "DeclarativeSource": {
        "check": "CheckStream",
        "dynamic_streams": "DynamicDeclarativeStream",
        "spec": "Spec",
        "streams": "DeclarativeStream",
    },
    "DeclarativeStream": {
        "retriever": "SimpleRetriever",
        "schema_loader": "JsonFileSchemaLoader",
        "state_migrations": "LegacyToPerPartitionStateMigration",
    },
    "ConditionalStreams": {"streams": "DeclarativeStream"},
    "Spec": {"config_normalization_rules": "ConfigNormalizationRules"},
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
    "ParametrizedComponentsResolver": {
        "stream_parameters": "StreamParametersDefinition",
        "components_mapping": "ComponentMappingDefinition",
    },
    "CheckStream": {"dynamic_streams_check_configs": "DynamicStreamCheckConfig"},
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
    "DatetimeBasedCursor": _OF_DATETIME_CURSORS,
    "CustomIncrementalSync": {
        **_OF_DATETIME_CURSORS,
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
"""Default type of a component, by the type of its parent component and the option's name."""

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
"""Default type of a component with a ``class_name``, by parent type and option name."""


def expand_component(
    node: MappingNode,
    path: str,
    implied: str | None,
    inherited: Mapping[str, Any],
    *,
    parents_win: bool = False,
) -> MappingNode:
    """Return a component with default types and ``$parameters`` filled in, at all levels.

    Args:
        node: Component.
        path: Path of keys to the component.
        implied: Type of the component if it declares none.
        inherited: Parameters of the enclosing components.
        parents_win: True if ``inherited`` overrides the component's own parameters.
    """
    kind, own_parameters = node.get("type") or implied, node.get(_PARAMETERS)
    parameters = _merge_parameters(own_parameters, inherited, parents_win=parents_win)
    component = _copy_node(node, path)
    if kind == "object" or isinstance(kind, (list, dict)):  # a JSON Schema
        return component
    component.parameters = parameters
    if kind is None:
        return _expand_nested_components(component, parents_win=parents_win)
    component["type"] = kind
    filled = {key: value for key, value in parameters.items() if not component.get(key)}
    component.update(filled)
    component.filled = node.filled.union(filled, _find_inherited_options(own_parameters, component))
    for key, value in component.items():
        if isinstance(value, (MappingNode, ListNode)):
            below = {name: item for name, item in parameters.items() if name != key}
            component[key] = _expand_option(component, key, below, parents_win=parents_win)
    return component


def _merge_parameters(
    own: Any, inherited: Mapping[str, Any], *, parents_win: bool
) -> Mapping[str, Any]:
    """Return the parameters of a component merged with those of its enclosing components.

    If ``parents_win`` is True, inherited parameters override the component's ``own`` ones.
    """
    if own is UNKNOWN:
        own = {UNKNOWN: UNKNOWN}
    if not isinstance(own, Mapping):
        return inherited
    return {**own, **inherited} if parents_win else {**inherited, **own}


def _find_inherited_options(own: Any, component: MappingNode) -> list[Any]:
    """Return the names of options that may have got their value from ``$parameters``.

    The value of such an option equals the parameter of the same name. ``own`` are the component's
    parameters.
    """
    if not isinstance(own, Mapping):
        return []
    return [key for key, value in own.items() if component.get(key) == value]


def _copy_node(node: MappingNode, path: str) -> MappingNode:
    copied = MappingNode(node, line=node.line, lines=node.lines)
    copied.path = path
    copied.pop(_PARAMETERS, None)
    return copied


def _expand_option(
    component: MappingNode, key: Any, parameters: Mapping[str, Any], *, parents_win: bool
) -> Any:
    """Return the value of the option ``key`` with its nested components expanded.

    Default types and ``$parameters`` are filled in. If ``parents_win`` is True, ``parameters``
    override those that a nested component declares.
    """
    value, path = component[key], f"{component.path}.{key}".lstrip(".")

    def expand(node: Any, node_path: str) -> Any:
        if not isinstance(node, MappingNode):
            return node
        implied = _get_default_type(node, str(component["type"]), key)
        return expand_component(node, node_path, implied, parameters, parents_win=parents_win)

    if isinstance(value, MappingNode):
        return expand(value, path)
    items = [expand(item, f"{path}[{index}]") for index, item in enumerate(value)]
    return ListNode(items, lines=value.lines)


def _get_default_type(node: MappingNode, parent_type: str, option: str) -> str | None:
    table = _IMPLIED_CUSTOM if "class_name" in node else _IMPLIED
    return table.get(parent_type, {}).get(option)


def _expand_nested_components(mapping: MappingNode, *, parents_win: bool) -> MappingNode:
    """Expand the components inside a mapping that has no ``type`` itself. Return the mapping.

    The mapping is changed in place. Each component inside gets its default type and the inherited
    ``$parameters``. If ``parents_win`` is True, inherited parameters override those that a
    component declares.
    """
    for key, value in mapping.items():
        if isinstance(value, MappingNode) and value.get("type"):
            path = f"{mapping.path}.{key}"
            mapping[key] = expand_component(
                value, path, None, mapping.parameters, parents_win=parents_win
            )
    return mapping


def expand_parameters(node: Any) -> Any:
    """Return a copy of a manifest node in which each component has the key ``$parameters``.

    The key contains the component's own and inherited parameters. A stream template needs it,
    because parameters are filled in again in each stream that is generated from the template.
    """
    if isinstance(node, ListNode):
        return ListNode([expand_parameters(item) for item in node], lines=list(node.lines))
    if not isinstance(node, MappingNode):
        return node
    copied = MappingNode(
        {key: expand_parameters(item) for key, item in node.items()},
        line=node.line,
        lines=node.lines,
    )
    copied.filled = node.filled
    if node.parameters and "type" in node:
        parameters = {name: expand_parameters(value) for name, value in node.parameters.items()}
        copied[_PARAMETERS] = MappingNode(parameters, line=node.line)
    return copied


def apply_own_parameters(node: MappingNode) -> MappingNode:
    """Return a mapping with the key ``$parameters`` added, as airbyte-cdk adds it.

    airbyte-cdk treats any mapping with a ``type``, such as a request body, as a component. It fills
    in the parameters and also stores them under this key.
    """
    if not node.parameters or "type" not in node or UNKNOWN in node.parameters:
        return node
    copied = MappingNode(node, line=node.line, lines=node.lines)
    copied[_PARAMETERS] = MappingNode(node.parameters, line=node.line)
    return copied


def find_parameter_names(node: Any) -> Iterator[Any]:
    """Yield the names of all ``$parameters`` that a node and its nested nodes declare."""
    if isinstance(node, MappingNode):
        own = node.get(_PARAMETERS)
        yield from own if isinstance(own, MappingNode) else ()
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from find_parameter_names(inner)
