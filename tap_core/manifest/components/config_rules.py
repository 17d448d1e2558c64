"""Rules of a manifest's spec that convert and check the config before streams are created.

`convert` runs the migrations, then the transformations, each on the result of the previous one. The
rules are built without a config, so that their templates are rendered when they run.

Source: Airbyte's declarative component schema, ``config_normalization_rules`` of Spec.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from tap_core.exceptions import ConfigurationError
from tap_core.manifest.builder import Builder
from tap_core.manifest.components.custom import Custom
from tap_core.manifest.components.transformations import (
    AddedFieldDefinition,
    AddFields,
    RemoveFields,
)
from tap_core.manifest.dpath import find_all
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Condition,
    InterpolatedMapping,
    InterpolatedText,
    InterpolatedValue,
    resolve,
)
from tap_core.manifest.loader import Manifest
from tap_core.manifest.nodes import MappingNode, to_plain
from tap_core.manifest.type_hints import PlainText
from tap_core.schema.validators import get_validator_class
from tap_core.singerlib.json import UnreadableJSONError, load_json

__all__ = [
    "ConfigAddFields",
    "ConfigMigration",
    "ConfigNormalizationRules",
    "ConfigRemapField",
    "ConfigRemoveFields",
    "CustomConfigTransformation",
    "CustomValidationStrategy",
    "DpathValidator",
    "PredicateValidator",
    "ValidateAdheresToSchema",
    "build_config_rules",
]


# Transformations


@dataclass(frozen=True)
class ConfigAddFields:
    """Transformation that adds fields to the config, or replaces their values."""

    fields: list[AddedFieldDefinition]
    condition: Condition | None = None

    def change(self, config: dict[str, Any]) -> None:
        """Add the fields to ``config`` in place; a template can use the fields added before."""
        AddFields(self.fields, self.condition).transform(config, {"config": config})


@dataclass(frozen=True)
class ConfigRemoveFields:
    """Transformation that removes the fields at the given paths from the config."""

    field_pointers: list[list[PlainText]]
    condition: Condition | None = None

    def change(self, config: dict[str, Any]) -> None:
        """Remove the fields from ``config`` in place, unless the option `condition` is false."""
        if self.condition is None or resolve(self.condition, {"config": config}):
            RemoveFields(self.field_pointers).transform(config, {})


@dataclass(frozen=True)
class ConfigRemapField:
    """Transformation that replaces a config value by the new value which `map` lists for it."""

    map: InterpolatedMapping
    field_path: list[InterpolatedText]

    def __post_init__(self) -> None:
        """Raise ManifestError if the option `field_path` is empty."""
        if not self.field_path:
            raise ManifestError("field_path is empty: name the field whose value is replaced.")

    def change(self, config: dict[str, Any]) -> None:
        """Replace the value at `field_path` in ``config``; keep a value that is not in `map`."""
        scope = {"config": config}
        *parents, name = [str(resolve(key, scope)) for key in self.field_path]
        holder: Any = config
        for parent in parents:
            holder = holder.get(parent) if isinstance(holder, dict) else None
        new_values = resolve(self.map, scope)
        if not isinstance(holder, dict) or not isinstance(new_values, Mapping):
            return
        value = holder.get(name)
        if isinstance(value, str | int | float | bool) and value in new_values:
            holder[name] = new_values[value]


class CustomConfigTransformation(Custom):
    """Transformation that passes the config to ``transform(config)`` of the connector's class."""

    METHODS: ClassVar[tuple[str, ...]] = ("transform",)

    def change(self, config: dict[str, Any]) -> None:
        """Call ``transform(config)`` of the connector's class. It changes ``config`` itself."""
        self.instance.transform(config)


_Transformation: TypeAlias = (
    ConfigRemapField | ConfigAddFields | ConfigRemoveFields | CustomConfigTransformation
)


# Validators


@dataclass(frozen=True)
class ValidateAdheresToSchema:
    """Validation of a value by a JSON Schema; a string is parsed as JSON first."""

    base_schema: Any

    def validate(self, value: Any) -> None:
        """Raise ValueError if the value does not match the schema; the message omits the value."""
        schema = self.base_schema
        schema = json.loads(schema) if isinstance(schema, str) else to_plain(schema)
        if isinstance(value, str):
            try:
                value = load_json(value, parse_float=float)
            except json.JSONDecodeError as error:
                reason = error if isinstance(error, UnreadableJSONError) else "it is not JSON"
                raise ValueError(str(reason)) from None
        for fault in get_validator_class()(schema).iter_errors(value):
            path = "".join(f"[{key!r}]" for key in fault.absolute_path)
            where = f" at {path}" if path else ""
            expected = json.dumps(fault.validator_value, default=str)
            raise ValueError(f"it does not match the schema{where}: {fault.validator} {expected}")


class CustomValidationStrategy(Custom):
    """Validation that passes a value to ``validate(value)`` of the connector's class."""

    METHODS: ClassVar[tuple[str, ...]] = ("validate",)

    def validate(self, value: Any) -> None:
        """Pass a value to the connector's class, which raises an error if the value is invalid."""
        self.instance.validate(value)


_Strategy: TypeAlias = ValidateAdheresToSchema | CustomValidationStrategy


@dataclass(frozen=True)
class DpathValidator:
    """Validator of the values at a path in the config; a missing value is valid."""

    field_path: list[InterpolatedText]
    validation_strategy: _Strategy

    def check(self, config: Mapping[str, Any]) -> None:
        """Raise ConfigurationError if a value in ``config`` at `field_path` is not valid."""
        path = [str(resolve(key, {"config": config})) for key in self.field_path]
        for value in find_all(path)(config):
            _validate(self.validation_strategy, value, f"The setting '{'.'.join(path)}'")


@dataclass(frozen=True)
class PredicateValidator:
    """Validator of the option `value`, usually a template that combines several settings."""

    value: InterpolatedValue
    validation_strategy: _Strategy

    def check(self, config: Mapping[str, Any]) -> None:
        """Raise ConfigurationError if `value`, rendered with ``config``, is not valid."""
        value = resolve(self.value, {"config": config})
        _validate(self.validation_strategy, value, "A value of the settings")


def _validate(strategy: _Strategy, value: Any, name: str) -> None:
    try:
        strategy.validate(value)
    except ValueError as error:
        raise ConfigurationError(f"{name} is not valid: {error}.") from error


# Rules


@dataclass(frozen=True)
class ConfigMigration:
    """List of transformations that convert the config of an older connector version."""

    transformations: list[_Transformation] = field(default_factory=list)
    description: str | None = None


@dataclass(frozen=True)
class ConfigNormalizationRules:
    """Conversions and checks of the config, in the order in which they are applied."""

    config_migrations: list[ConfigMigration] = field(default_factory=list)
    transformations: list[_Transformation] = field(default_factory=list)
    validations: list[DpathValidator | PredicateValidator] = field(default_factory=list)

    def convert(self, config: dict[str, Any]) -> None:
        """Apply all migrations, then all transformations, to ``config`` in place."""
        migrations = [
            change for migration in self.config_migrations for change in migration.transformations
        ]
        for transformation in (*migrations, *self.transformations):
            transformation.change(config)

    def check(self, config: Mapping[str, Any]) -> None:
        """Raise ConfigurationError if a converted config does not pass a validator."""
        for validator in self.validations:
            validator.check(config)


def build_config_rules(manifest: Manifest) -> ConfigNormalizationRules | None:
    """Return the ``config_normalization_rules`` of a manifest's spec, or None if it has none."""
    spec = manifest.get_part("spec")
    if not isinstance(spec, MappingNode) or not spec.get("config_normalization_rules"):
        return None
    node = manifest.tree["spec"]["config_normalization_rules"]
    rules: ConfigNormalizationRules = Builder(manifest).build(node, ConfigNormalizationRules)
    return rules
