"""Streams that are made of a template: where their values come from, and where these are put.

Rules of the room: said here, done by `tap_core.manifest.dynamic_streams`. A resolver gives, for
each
stream, what the templates of its mappings see; what the template of the stream says is no
component before they have filled it.
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
"""Gives the records of a declared retriever, each with its slice."""


@dataclass(frozen=True, kw_only=True)
class ComponentMappingDefinition:
    """A value, and where in the template it is put."""

    field_path: list[InterpolatedValue]
    value: InterpolatedValue
    value_type: Literal["string", "number", "integer", "boolean"] | None = None
    create_or_update: bool = False
    condition: Condition | None = None

    def __post_init__(self) -> None:
        """Refuse a path that leads nowhere, and what is no value."""
        if not self.field_path:
            raise ManifestError("field_path is empty: say where in the template the value goes.")
        if _has_component(self.value):
            raise ManifestError(
                "a component cannot stand here: give it as a text that is read as YAML"
                " (`value: |`)."
            )

    @staticmethod
    def shows(node: Mapping[str, Any]) -> Collection[str]:  # noqa: ARG004  the same for all
        """Return what only its templates may name."""
        return ("components_values", "stream_template_config")

    @staticmethod
    def literal_types(options: Mapping[str, Any]) -> Mapping[str, tuple[type, ...]]:
        """Return what a literal of ``value`` may be; any other one stays a text."""
        return {"value": VALUE_TYPES.get(options.get("value_type"), ())}

    @property
    def names(self) -> frozenset[str]:
        """What its templates name."""
        return find_template_names([self.field_path, self.value, self.condition])


@dataclass(frozen=True, kw_only=True)
class _Resolver:
    """What all have in common: the mappings."""

    components_mapping: list[ComponentMappingDefinition]

    HAS_CONDITIONS: ClassVar[bool] = False
    CREATES: ClassVar[bool] = True
    """Whether ``create_or_update`` counts."""
    READS_YAML: ClassVar[bool] = True
    """Whether a value that is a text is read as YAML."""
    BRINGS_DATA: ClassVar[bool] = True
    """Whether its values are those of others: data, in which no template counts."""
    SEES: ClassVar[frozenset[str]] = _SEEN

    def __post_init__(self) -> None:
        """Refuse mappings that say what no mapping of this resolver can."""
        kind = type(self).__name__
        for place, one in enumerate(self.components_mapping):
            if one.condition is not None and not self.HAS_CONDITIONS:
                raise ManifestError(
                    f"components_mapping[{place}] has a condition: only a ConfigComponentsResolver"
                    " heeds one."
                )
            if unseen := sorted(one.names - self.SEES):
                raise ManifestError(
                    f"a template of components_mapping[{place}] names {', '.join(unseen)}: with a"
                    f" {kind} there are {', '.join(sorted(self.SEES))}."
                )

    def keeps_text(self, mapping: ComponentMappingDefinition) -> bool:  # noqa: ARG002
        """Return whether a text that a mapping gives stays one, whatever it reads as."""
        return not self.READS_YAML


@dataclass(frozen=True, kw_only=True)
class HttpComponentsResolver(_Resolver):
    """A stream for each record that an API gives."""

    retriever: Annotated[Mapping[str, Any], "node"]

    CREATES: ClassVar[bool] = False
    READS_YAML: ClassVar[bool] = False
    SEES: ClassVar[frozenset[str]] = _SEEN | _SLICE

    def scopes(self, read: ParsedValue) -> Iterator[TemplateScope]:
        """Yield what the mappings see of each stream."""
        for one, record in read(self.retriever):
            yield {"components_values": record, "stream_slice": one}


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """Where the settings have the values of streams, and what is added to these."""

    configs_pointer: list[InterpolatedValue]
    default_values: Annotated[Any, "draft"] = None

    def values(self, config: Mapping[str, Any]) -> list[Any]:
        """Return the values, one for each stream; a setting that is no list is one."""
        path: list[Any] = resolve(self.configs_pointer, {"config": config})
        found = make_getter(path)(dict(config))
        if found is MISSING or found is None:
            found = []
        usual = map(_written, self.default_values or ())
        return [*(found if isinstance(found, list) else [found]), *usual]


@dataclass(frozen=True, kw_only=True)
class ConfigComponentsResolver(_Resolver):
    """A stream for each value that the settings have; for each combination where they are several.

    (airbyte-cdk's component schema, ConfigComponentsResolver and StreamConfig.)
    """

    stream_config: StreamConfig | list[StreamConfig]
    config: Mapping[str, Any] = field(default_factory=dict)

    HAS_CONDITIONS: ClassVar[bool] = True

    def scopes(self, read: ParsedValue) -> Iterator[TemplateScope]:  # noqa: ARG002  nothing is asked for
        """Yield what the mappings see of each stream."""
        given = self.stream_config
        parts = given if isinstance(given, list) else [given]
        for combination in product(*(enumerate(one.values(self.config)) for one in parts)):
            yield {"components_values": _joined(combination)}

    def keeps_text(self, mapping: ComponentMappingDefinition) -> bool:
        """Return whether a text that a mapping gives stays one: where it asks for a text."""
        return mapping.value_type == "string"


@dataclass(frozen=True, kw_only=True)
class StreamParametersDefinition:
    """The values of streams, as they stand in the manifest."""

    list_of_parameters_for_stream: Annotated[Any, "draft"]

    def __post_init__(self) -> None:
        """Refuse what is no list of mappings."""
        given = self.list_of_parameters_for_stream
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise ManifestError("list_of_parameters_for_stream is a list of mappings.")


@dataclass(frozen=True, kw_only=True)
class ParametrizedComponentsResolver(_Resolver):
    """A stream for each entry of a list in the manifest."""

    stream_parameters: StreamParametersDefinition

    BRINGS_DATA: ClassVar[bool] = False

    def scopes(self, read: ParsedValue | None = None) -> Iterator[TemplateScope]:  # noqa: ARG002  the same
        """Yield what the mappings see of each stream."""
        for one in self.stream_parameters.list_of_parameters_for_stream:
            yield {"components_values": _written(one)}


@dataclass(frozen=True, kw_only=True)
class DynamicDeclarativeStream:
    """Streams that are one template, filled in several ways."""

    stream_template: Annotated[Mapping[str, Any], "draft"]
    components_resolver: (
        HttpComponentsResolver | ConfigComponentsResolver | ParametrizedComponentsResolver
    )
    name: str = ""
    use_parent_parameters: bool = True


def find_template_names(given: Any) -> frozenset[str]:
    """Return what the templates of a field name."""
    if isinstance(given, dict):
        given = [*given, *given.values()]
    if isinstance(given, list):
        return frozenset[str]().union(*map(find_template_names, given))
    template = getattr(given, "template", None)
    return template.names if template is not None else frozenset()


def _written(one: Any) -> Any:
    """Return an entry of a list in the manifest, its components with their parameters."""
    return to_plain(expand_parameters(one))


def _has_component(given: Any) -> bool:
    if isinstance(given, dict):
        given = list(given.values())
    if isinstance(given, list):
        return any(map(_has_component, given))
    return is_dataclass(given) and not callable(given)


def _joined(combination: Iterable[tuple[int, Any]]) -> dict[str, Any]:
    """Return one mapping of the values of several lists, each given with its number.

    A plain value has a name made of its list's number, and comes with its own.
    """
    made: dict[str, Any] = {}
    for place, (number, value) in enumerate(combination):
        if isinstance(value, dict):
            made.update(to_plain(value))
        else:
            made.setdefault(f"source_config_{place}", (number, value))
    return made
