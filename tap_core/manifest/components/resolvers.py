"""Components resolvers, which create the streams of ``dynamic_streams`` from a stream template.

For each stream, a resolver yields template variables. Component mappings use them to set values in
the stream template. `tap_core.manifest.dynamic_streams` then builds the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from tap_core.manifest.dpath import MISSING, make_getter
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    SLICE_NAMES,
    Condition,
    InterpolatedValue,
    TemplateScope,
    find_variable_names,
    resolve,
)
from tap_core.manifest.literals import get_literal_types
from tap_core.manifest.nodes import to_plain
from tap_core.manifest.parameters import expand_parameters
from tap_core.manifest.registry import contains_component

__all__ = [
    "ComponentMappingDefinition",
    "ConfigComponentsResolver",
    "DynamicDeclarativeStream",
    "HttpComponentsResolver",
    "ParametrizedComponentsResolver",
    "RecordReader",
    "StreamConfig",
    "StreamParametersDefinition",
]

_COMMON_NAMES: Final = frozenset(
    {"config", "parameters", "components_values", "stream_template_config"}
)

RecordReader: TypeAlias = Callable[[Mapping[str, Any]], Iterable[tuple[Mapping[str, Any], Any]]]
"""Function that reads a retriever, declared by a manifest node; it yields (slice, record) pairs."""


@dataclass(frozen=True, kw_only=True)
class ComponentMappingDefinition:
    """Component mapping: a value, and the path at which it is set in the stream template."""

    field_path: list[InterpolatedValue]
    value: InterpolatedValue
    value_type: Literal["string", "number", "integer", "boolean"] | None = None
    create_or_update: bool = False
    condition: Condition | None = None

    def __post_init__(self) -> None:
        """Raise ManifestError if `field_path` is empty or `value` is a component."""
        if not self.field_path:
            raise ManifestError("field_path is empty: say where in the template the value goes.")
        if contains_component(self.value):
            raise ManifestError(
                "value cannot be a component: write it as a string that is parsed as YAML"
                " (`value: |`)."
            )

    @staticmethod
    def get_restricted_names(node: Mapping[str, Any]) -> Collection[str]:  # noqa: ARG004  (the result is constant)
        """Return the template variables that only component mappings may use.

        They are ``components_values`` and ``stream_template_config``.
        """
        return ("components_values", "stream_template_config")

    get_literal_types = staticmethod(get_literal_types)

    @property
    def names(self) -> frozenset[str]:
        """Names of the variables that the templates of this mapping use."""
        return find_variable_names([self.field_path, self.value, self.condition])


@dataclass(frozen=True, kw_only=True)
class _Resolver:
    """Base class of components resolvers, which create streams from a stream template.

    It raises ManifestError if a component mapping uses a template variable or an option that the
    resolver does not support.
    """

    components_mapping: list[ComponentMappingDefinition]

    HAS_CONDITIONS: ClassVar[bool] = False
    """True if ``condition`` of a mapping is supported."""
    CREATES: ClassVar[bool] = True
    """True if ``create_or_update`` of a mapping is supported."""
    BRINGS_DATA: ClassVar[bool] = True
    """True if values come from the API or the config; braces in them do not mark a template."""
    NAMES: ClassVar[frozenset[str]] = _COMMON_NAMES
    """Names of the variables that the templates of a mapping may use."""

    def __post_init__(self) -> None:
        """Raise ManifestError if a mapping has an unsupported condition or template variable."""
        for index, mapping in enumerate(self.components_mapping):
            if mapping.condition is not None and not self.HAS_CONDITIONS:
                raise ManifestError(
                    f"components_mapping[{index}] has a condition: only a ConfigComponentsResolver"
                    " supports one."
                )
            if unavailable := sorted(mapping.names - self.NAMES):
                raise ManifestError(
                    f"a template of components_mapping[{index}] uses {', '.join(unavailable)}: a"
                    f" {type(self).__name__} provides only {', '.join(sorted(self.NAMES))}."
                )

    def keeps_text(self, mapping: ComponentMappingDefinition) -> bool:  # noqa: ARG002
        """Return True if a string value of a component mapping is not parsed as YAML."""
        return False


@dataclass(frozen=True, kw_only=True)
class HttpComponentsResolver(_Resolver):
    """Components resolver that creates one stream per record returned by an API."""

    retriever: Annotated[Mapping[str, Any], "node"]

    CREATES: ClassVar[bool] = False
    NAMES: ClassVar[frozenset[str]] = _COMMON_NAMES.union(SLICE_NAMES)

    def scopes(self, read: RecordReader) -> Iterator[TemplateScope]:
        """Yield the template variables for each stream to create.

        An API record becomes the variable ``components_values``. ``read`` is a function that yields
        (stream slice, record) pairs of a retriever.
        """
        for stream_slice, record in read(self.retriever):
            yield {"components_values": record, "stream_slice": stream_slice}

    def keeps_text(self, mapping: ComponentMappingDefinition) -> bool:  # noqa: ARG002
        """Return True, because no value of a mapping is parsed as YAML."""
        return True


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """Path to a list in the config; the resolver creates one stream for each item of the list.

    `default_values` are additional items.
    """

    configs_pointer: list[InterpolatedValue]
    default_values: Annotated[Any, "draft"] = None

    def values(self, config: Mapping[str, Any]) -> list[Any]:
        """Return the items of the config list at the path, followed by `default_values`.

        Each item creates one stream. A config value that is not a list is a single item.
        """
        path: list[Any] = resolve(self.configs_pointer, {"config": config})
        values = make_getter(path)(dict(config))
        if values is MISSING or values is None:
            values = []
        defaults = map(_expand_entry, self.default_values or ())
        return [*(values if isinstance(values, list) else [values]), *defaults]


@dataclass(frozen=True, kw_only=True)
class ConfigComponentsResolver(_Resolver):
    """Components resolver that creates one stream per item of a list in the config.

    With several lists it creates one stream for each combination of their items. Source:
    airbyte-cdk component schema, ConfigComponentsResolver and StreamConfig.
    """

    stream_config: StreamConfig | list[StreamConfig]
    config: Mapping[str, Any] = field(default_factory=dict)

    HAS_CONDITIONS: ClassVar[bool] = True

    def scopes(self, read: RecordReader) -> Iterator[TemplateScope]:  # noqa: ARG002  (nothing is requested)
        """Yield the template variables for each stream to create.

        An item of the config becomes the variable ``components_values``. ``read`` is not used,
        because nothing is requested from the API.
        """
        lists = self.stream_config if isinstance(self.stream_config, list) else [self.stream_config]
        for combination in product(*(enumerate(config.values(self.config)) for config in lists)):
            yield {"components_values": _merge_items(combination)}

    def keeps_text(self, mapping: ComponentMappingDefinition) -> bool:
        """Return True if a component mapping has ``value_type: string``.

        Its string value is then not parsed as YAML.
        """
        return mapping.value_type == "string"


@dataclass(frozen=True, kw_only=True)
class StreamParametersDefinition:
    """List in the manifest; each item is a mapping with the template values of one stream."""

    list_of_parameters_for_stream: Annotated[Any, "draft"]

    def __post_init__(self) -> None:
        """Raise ManifestError if `list_of_parameters_for_stream` is not a list of mappings."""
        items = self.list_of_parameters_for_stream
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise ManifestError("list_of_parameters_for_stream must be a list of mappings.")


@dataclass(frozen=True, kw_only=True)
class ParametrizedComponentsResolver(_Resolver):
    """Components resolver that creates one stream per item of a list in the manifest."""

    stream_parameters: StreamParametersDefinition

    BRINGS_DATA: ClassVar[bool] = False

    def scopes(self, read: RecordReader | None = None) -> Iterator[TemplateScope]:  # noqa: ARG002  (nothing is requested)
        """Yield the template variables for each stream to create.

        An item of the list becomes the variable ``components_values``. ``read`` is not used,
        because nothing is requested from the API.
        """
        for entry in self.stream_parameters.list_of_parameters_for_stream:
            yield {"components_values": _expand_entry(entry)}


@dataclass(frozen=True, kw_only=True)
class DynamicDeclarativeStream:
    """Dynamic stream: a stream template, and a resolver that creates streams from the template."""

    stream_template: Annotated[Mapping[str, Any], "draft"]
    components_resolver: (
        HttpComponentsResolver | ConfigComponentsResolver | ParametrizedComponentsResolver
    )
    name: str = ""
    use_parent_parameters: bool = True


def _expand_entry(entry: Any) -> Any:
    """Convert an item of a resolver's list to plain dicts and lists.

    The ``$parameters`` of the item are first passed on to the components inside the item.
    """
    return to_plain(expand_parameters(entry))


def _merge_items(combination: Iterable[tuple[int, Any]]) -> dict[str, Any]:
    """Merge one item from each config list into one dict of template values.

    ``combination`` contains (index in its list, item) pairs, in the order of the lists. An item
    that is a mapping adds its keys to the dict. Any other item of list number N, from 0, is stored
    as (index, item) under the key ``source_config_N``.
    """
    values: dict[str, Any] = {}
    for list_number, (index, item) in enumerate(combination):
        if isinstance(item, dict):
            values.update(to_plain(item))
        else:
            values.setdefault(f"source_config_{list_number}", (index, item))
    return values
