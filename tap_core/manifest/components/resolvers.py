"""Component resolvers of dynamic streams: the values that fill a stream template.

This module only declares; `tap_core.manifest.dynamic_streams` builds the streams. A resolver
yields, for each stream, the scope of the templates in its component mappings. The stream template
is not built into components before the mappings have filled it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from itertools import product
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from tap_core.manifest.document import to_plain
from tap_core.manifest.dpath import MISSING, make_getter
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import Condition, InterpolatedValue, TemplateScope, resolve
from tap_core.manifest.literals import VALUE_TYPES
from tap_core.manifest.parameters import expand_parameters

__all__ = [
    "ComponentMappingDefinition",
    "ConfigComponentsResolver",
    "DynamicDeclarativeStream",
    "HttpComponentsResolver",
    "ParametrizedComponentsResolver",
    "ParsedValue",
    "StreamConfig",
    "StreamParametersDefinition",
    "find_template_names",
]

_SEEN: Final = frozenset({"config", "parameters", "components_values", "stream_template_config"})
_SLICE: Final = frozenset({"stream_slice", "stream_partition", "stream_interval"})

ParsedValue: TypeAlias = Callable[[Mapping[str, Any]], Iterable[tuple[Mapping[str, Any], Any]]]
"""Function that yields the records of a declared retriever, each with its slice."""


@dataclass(frozen=True, kw_only=True)
class ComponentMappingDefinition:
    """Value and the path in the stream template at which it is set."""

    field_path: list[InterpolatedValue]
    value: InterpolatedValue
    value_type: Literal["string", "number", "integer", "boolean"] | None = None
    create_or_update: bool = False
    condition: Condition | None = None

    def __post_init__(self) -> None:
        """Reject an empty path, and a component as the value."""
        if not self.field_path:
            raise ManifestError("field_path is empty: say where in the template the value goes.")
        if _has_component(self.value):
            raise ManifestError(
                "value cannot be a component: write it as a string that is parsed as YAML"
                " (`value: |`)."
            )

    @staticmethod
    def shows(node: Mapping[str, Any]) -> Collection[str]:  # noqa: ARG004  the same for all
        """Return the names that only this component's templates may use."""
        return ("components_values", "stream_template_config")

    @staticmethod
    def literal_types(options: Mapping[str, Any]) -> Mapping[str, tuple[type, ...]]:
        """Return the allowed types of a literal in ``value``; other literals stay strings."""
        return {"value": VALUE_TYPES.get(options.get("value_type"), ())}

    @property
    def names(self) -> frozenset[str]:
        """Names that the mapping's templates use."""
        return find_template_names([self.field_path, self.value, self.condition])


@dataclass(frozen=True, kw_only=True)
class _Resolver:
    """Base of the component resolvers, with their mappings."""

    components_mapping: list[ComponentMappingDefinition]

    HAS_CONDITIONS: ClassVar[bool] = False
    CREATES: ClassVar[bool] = True
    """True if ``create_or_update`` is supported."""
    READS_YAML: ClassVar[bool] = True
    """True if a string value is parsed as YAML."""
    BRINGS_DATA: ClassVar[bool] = True
    """True if the values are external data, in which templates are not evaluated."""
    SEES: ClassVar[frozenset[str]] = _SEEN

    def __post_init__(self) -> None:
        """Reject mappings with a condition or template names that the resolver does not support."""
        kind = type(self).__name__
        for place, one in enumerate(self.components_mapping):
            if one.condition is not None and not self.HAS_CONDITIONS:
                raise ManifestError(
                    f"components_mapping[{place}] has a condition: only a ConfigComponentsResolver"
                    " supports one."
                )
            if unseen := sorted(one.names - self.SEES):
                raise ManifestError(
                    f"a template of components_mapping[{place}] uses {', '.join(unseen)}: a"
                    f" {kind} provides only {', '.join(sorted(self.SEES))}."
                )

    def keeps_text(self, mapping: ComponentMappingDefinition) -> bool:  # noqa: ARG002
        """Return True if a string from the mapping stays a string and is not parsed as YAML."""
        return not self.READS_YAML


@dataclass(frozen=True, kw_only=True)
class HttpComponentsResolver(_Resolver):
    """Resolver that makes a stream of each record that an API returns."""

    retriever: Annotated[Mapping[str, Any], "node"]

    CREATES: ClassVar[bool] = False
    READS_YAML: ClassVar[bool] = False
    SEES: ClassVar[frozenset[str]] = _SEEN | _SLICE

    def scopes(self, read: ParsedValue) -> Iterator[TemplateScope]:
        """Yield the template scope of each stream."""
        for one, record in read(self.retriever):
            yield {"components_values": record, "stream_slice": one}


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """Pointer to the list of stream values in the settings, with additional default values."""

    configs_pointer: list[InterpolatedValue]
    default_values: Annotated[Any, "draft"] = None

    def values(self, config: Mapping[str, Any]) -> list[Any]:
        """Return the values, one per stream; a setting that is not a list is a single value."""
        path: list[Any] = resolve(self.configs_pointer, {"config": config})
        found = make_getter(path)(dict(config))
        if found is MISSING or found is None:
            found = []
        usual = map(_expand_entry, self.default_values or ())
        return [*(found if isinstance(found, list) else [found]), *usual]


@dataclass(frozen=True, kw_only=True)
class ConfigComponentsResolver(_Resolver):
    """Resolver that makes a stream of each value in the settings.

    With several lists there is a stream for each combination of their values.

    Source: airbyte-cdk component schema, ConfigComponentsResolver and StreamConfig.
    """

    stream_config: StreamConfig | list[StreamConfig]
    config: Mapping[str, Any] = field(default_factory=dict)

    HAS_CONDITIONS: ClassVar[bool] = True

    def scopes(self, read: ParsedValue) -> Iterator[TemplateScope]:  # noqa: ARG002  nothing is asked for
        """Yield the template scope of each stream."""
        given = self.stream_config
        parts = given if isinstance(given, list) else [given]
        for combination in product(*(enumerate(one.values(self.config)) for one in parts)):
            yield {"components_values": _joined(combination)}

    def keeps_text(self, mapping: ComponentMappingDefinition) -> bool:
        """Return True if the mapping's `value_type` is ``string``."""
        return mapping.value_type == "string"


@dataclass(frozen=True, kw_only=True)
class StreamParametersDefinition:
    """Values of the streams, listed in the manifest."""

    list_of_parameters_for_stream: Annotated[Any, "draft"]

    def __post_init__(self) -> None:
        """Reject a value that is not a list of mappings."""
        given = self.list_of_parameters_for_stream
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise ManifestError("list_of_parameters_for_stream must be a list of mappings.")


@dataclass(frozen=True, kw_only=True)
class ParametrizedComponentsResolver(_Resolver):
    """Resolver that makes a stream of each entry of a list in the manifest."""

    stream_parameters: StreamParametersDefinition

    BRINGS_DATA: ClassVar[bool] = False

    def scopes(self, read: ParsedValue | None = None) -> Iterator[TemplateScope]:  # noqa: ARG002  the same
        """Yield the template scope of each stream."""
        for one in self.stream_parameters.list_of_parameters_for_stream:
            yield {"components_values": _expand_entry(one)}


@dataclass(frozen=True, kw_only=True)
class DynamicDeclarativeStream:
    """Stream template and the resolver that makes streams of it."""

    stream_template: Annotated[Mapping[str, Any], "draft"]
    components_resolver: (
        HttpComponentsResolver | ConfigComponentsResolver | ParametrizedComponentsResolver
    )
    name: str = ""
    use_parent_parameters: bool = True


def find_template_names(given: Any) -> frozenset[str]:
    """Return the names that the templates in a field use."""
    if isinstance(given, dict):
        given = [*given, *given.values()]
    if isinstance(given, list):
        return frozenset[str]().union(*map(find_template_names, given))
    template = getattr(given, "template", None)
    return template.names if template is not None else frozenset()


def _expand_entry(one: Any) -> Any:
    """Return a list entry of the manifest as plain values, with `$parameters` expanded."""
    return to_plain(expand_parameters(one))


def _has_component(given: Any) -> bool:
    if isinstance(given, dict):
        given = list(given.values())
    if isinstance(given, list):
        return any(map(_has_component, given))
    return is_dataclass(given) and not callable(given)


def _joined(combination: Iterable[tuple[int, Any]]) -> dict[str, Any]:
    """Return the merge of one value per list; each value is paired with its index in its list.

    A value that is not a mapping gets the key ``source_config_<number of the list>``, and stays
    paired with its index.
    """
    made: dict[str, Any] = {}
    for place, (number, value) in enumerate(combination):
        if isinstance(value, dict):
            made.update(to_plain(value))
        else:
            made.setdefault(f"source_config_{place}", (number, value))
    return made
