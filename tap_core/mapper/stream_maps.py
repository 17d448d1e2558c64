"""Stream maps, which transform the records, the schema and the name of one stream.

Expressions are compiled when a map is created, so an invalid map raises an error before the first
record. Names, signatures and results are those of singer_sdk 0.54.
"""

from __future__ import annotations

import abc
import ast
import copy
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from tap_core.exceptions import MapExpressionError, StreamMapConfigError
from tap_core.mapper.constants import (
    MAPPER_ELSE_OPTION,
    MAPPER_FILTER_OPTION,
    MAPPER_KEY_PROPERTIES_OPTION,
    NULL_STRING,
)
from tap_core.mapper.expressions import ExpressionScope, compile_expression, parse_expression
from tap_core.mapper.fake_values import FakeValues
from tap_core.mapper.functions import map_functions
from tap_core.mapper.schema_inference import infer_property_schema
from tap_core.records.flatten import FlatteningOptions, compile_flattener, flatten_schema
from tap_core.types import JsonSchema, Record
from tap_core.typing import PropertiesList

if TYPE_CHECKING:
    from tap_core.mapper.expressions import Expression

__all__ = [
    "CustomStreamMap",
    "DefaultStreamMap",
    "RemoveRecordTransform",
    "SameRecordTransform",
    "StreamMap",
    "is_null_definition",
]

logger: logging.Logger = logging.getLogger(__name__)

_Run: TypeAlias = Callable[[Record], Any]


class StreamMap(abc.ABC):
    """Base class of stream maps, which change or drop the records of one stream.

    Mapped records are emitted as records of the stream ``stream_alias``.
    """

    may_mutate = True
    """True if `transform` may change the record that it receives, or a value in the record."""

    def __init__(
        self,
        stream_alias: str,
        raw_schema: JsonSchema,
        key_properties: Sequence[str] | None,
        flattening_options: FlatteningOptions | None,
    ) -> None:
        """Create a stream map.

        Args:
            stream_alias: Name of the mapped stream.
            raw_schema: JSON Schema of the stream before the map.
            key_properties: Primary keys of the stream before the map.
            flattening_options: Flattening settings, or None.

        Raises:
            ValueError: Flattening gives two properties the same name.
        """
        self.stream_alias = stream_alias
        self.raw_schema: JsonSchema = copy.deepcopy(raw_schema)
        self.raw_key_properties = key_properties
        self.flattening_options = flattening_options
        self.transformed_schema: JsonSchema = self.flatten_schema(raw_schema)
        self.transformed_key_properties = key_properties
        self._flatten: tuple[JsonSchema, _Run] | None = None

    @property
    def flattening_enabled(self) -> bool:
        """True if nested objects in records are flattened: their properties become columns."""
        options = self.flattening_options
        return options is not None and options.enabled and options.max_level > 0

    def flatten_schema(self, raw_schema: JsonSchema) -> JsonSchema:
        """Return the flattened schema; if flattening is disabled, return ``raw_schema`` itself."""
        options = self.flattening_options
        if options is None or not self.flattening_enabled:
            return raw_schema
        return flatten_schema(
            raw_schema,
            options.max_level,
            options.separator,
            max_key_length=options.max_key_length,
        )

    def flatten_record(self, record: Record) -> Record:
        """Return the flattened record; if flattening is disabled, return ``record`` itself."""
        flatten = self.flattener
        flattened: Record = record if flatten is None else flatten(record)
        return flattened

    @property
    def flattener(self) -> _Run | None:
        """Compiled function that flattens a record; None if flattening is disabled."""
        options = self.flattening_options
        if options is None or not self.flattening_enabled:
            return None
        if self._flatten is None or self._flatten[0] is not self.transformed_schema:
            flatten = compile_flattener(
                self.transformed_schema,
                options.max_level,
                options.separator,
                max_key_length=options.max_key_length,
            )
            self._flatten = self.transformed_schema, flatten
        return self._flatten[1]

    @abc.abstractmethod
    def transform(self, record: Record) -> Record | None:
        """Return the mapped and flattened record, or None to drop the record.

        A subclass maps the record and then calls ``super().transform(record)`` to flatten it.
        """
        return self.flatten_record(record)

    @abc.abstractmethod
    def get_filter_result(self, record: Record) -> bool:
        """Return True to keep a record, False to drop it."""

    @property
    def quick_transform(self) -> Callable[[Record], Record | None]:
        """Function with the same results as `transform`, but faster for many records."""
        return self.transform


class DefaultStreamMap(StreamMap):
    """Base class of the maps that are used for streams without an entry in ``stream_maps``."""


class RemoveRecordTransform(DefaultStreamMap):
    """Map that drops all records of a stream, so that the stream is not written."""

    may_mutate = False

    def transform(self, record: Record) -> None:
        """Return None for every record, which drops it."""

    def get_filter_result(self, record: Record) -> bool:  # noqa: ARG002 - not used here
        """Return False for every record, because all records are dropped."""
        return False


class SameRecordTransform(DefaultStreamMap):
    """Map that keeps all records; it only flattens them, if flattening is enabled."""

    may_mutate = False

    def transform(self, record: Record) -> Record | None:
        """Return the record, flattened if flattening is enabled."""
        return super().transform(record)

    def get_filter_result(self, record: Record) -> bool:  # noqa: ARG002 - not used here
        """Return True for every record, because no record is dropped."""
        return True

    @property
    def quick_transform(self) -> Callable[[Record], Record | None]:
        """Function with the same results as `transform`, but without the cost of a method call."""
        is_overridden = type(self).transform is not SameRecordTransform.transform
        return self.transform if is_overridden else (self.flattener or _return_unchanged)


class CustomStreamMap(StreamMap):
    """Stream map that computes properties by the expressions in the setting ``stream_maps``."""

    def __init__(
        self,
        stream_alias: str,
        map_config: dict[str, Any],
        faker_config: dict[str, Any],
        raw_schema: JsonSchema,
        key_properties: Sequence[str] | None,
        map_transform: Mapping[str, Any],
        flattening_options: FlatteningOptions | None,
        *,
        stream_name: str | None = None,
    ) -> None:
        """Compile the expressions of a map, and build the schema of the mapped stream.

        Args:
            stream_alias: Name of the mapped stream.
            map_config: Settings that expressions can read as ``config``.
            faker_config: Seed and locale of the Faker instance ``fake`` in expressions.
            raw_schema: JSON Schema of the stream before the map.
            key_properties: Primary keys of the stream before the map.
            map_transform: Expressions by property name; null removes the property.
            flattening_options: Flattening settings, or None.
            stream_name: Name of the stream before the map.

        Raises:
            MapExpressionError: An expression is invalid or not allowed.
            StreamMapConfigError: The map is invalid; for example it removes a key.
            NotImplementedError: ``__else__`` is not null.
        """
        super().__init__(stream_alias, raw_schema, key_properties, flattening_options)
        self.map_config = map_config
        self.faker_config = faker_config
        self.stream_name = stream_name
        definitions = dict(map_transform)
        rule = definitions.pop(MAPPER_FILTER_OPTION, None)
        if MAPPER_KEY_PROPERTIES_OPTION in definitions:
            self.transformed_key_properties = definitions.pop(MAPPER_KEY_PROPERTIES_OPTION)
        self._keeps_others = self._pop_else(definitions)
        self._filter = None if rule is None else self._build_filter(rule)
        self._steps = [
            self._build_step(name, definition) for name, definition in definitions.items()
        ]
        self.transformed_schema = self.flatten_schema(self._build_schema(definitions))
        expressions = [self._filter, *(expression for _, expression in self._steps)]
        self.may_mutate = (
            type(self).transform is not CustomStreamMap.transform
            or self._has_custom_filter
            or any(expression.mutates for expression in expressions if expression is not None)
        )

    # Records

    def transform(self, record: Record) -> Record | None:
        """Return the mapped and flattened record, or None if it is filtered out or empty."""
        result = self._transform(record)
        return super().transform(result) if result else None

    def get_filter_result(self, record: Record) -> bool:
        """Return True if ``__filter__`` is true for a record, or the map has no ``__filter__``."""
        return self._filter is None or bool(self._filter.run(record))

    @property
    def has_filter(self) -> bool:
        """True if the map has a ``__filter__``, or a subclass overrides `get_filter_result`."""
        return self._filter is not None or self._has_custom_filter

    @property
    def _has_custom_filter(self) -> bool:
        """True if a subclass overrides `get_filter_result`."""
        return type(self).get_filter_result is not CustomStreamMap.get_filter_result

    @cached_property
    def _transform(self) -> Callable[[Record], Record | None]:
        """Function that returns a mapped record, not yet flattened, or None to drop the record."""
        keep: _Run | None = self._filter.run if self._filter else None
        if self._has_custom_filter:
            keep = self.get_filter_result
        keeps_others, keys = self._keeps_others, tuple(self.transformed_key_properties or ())
        steps = [(name, step.run if step else None) for name, step in self._steps]

        def transform(record: Record) -> Record | None:
            if keep is not None and not keep(record):
                return None
            result = (
                record.copy()
                if keeps_others
                else {key: record[key] for key in keys if key in record}
            )
            for name, run in steps:
                if run is None:
                    result.pop(name, None)
                else:
                    result[name] = run(record)
            return result

        return transform

    @property
    def quick_transform(self) -> Callable[[Record], Record | None]:
        """Function with the same results as `transform`, but faster for many records."""
        if type(self).transform is not CustomStreamMap.transform:
            return self.transform
        change, flatten = self._transform, self.flattener

        def transform(record: Record) -> Record | None:
            result = change(record)
            return (flatten(result) if flatten else result) if result else None

        return transform

    # Expressions

    @staticmethod
    def _pop_else(definitions: dict[str, Any]) -> bool:
        """Remove the option ``__else__`` from a map's definition.

        Returns:
            True if properties without an expression are kept, False if they are removed.

        Raises:
            NotImplementedError: The option is not null.
        """
        if MAPPER_ELSE_OPTION not in definitions:
            return True
        value = definitions.pop(MAPPER_ELSE_OPTION)
        if is_null_definition(value):
            return False
        raise NotImplementedError(
            f"Option '{MAPPER_ELSE_OPTION}={value}' is not supported: it can only be null."
        )

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """Functions that expressions can call, by name; a subclass may add functions."""
        return map_functions()

    @cached_property
    def fake(self) -> Any:
        """Faker instance for expressions, or None if the package Faker is not installed."""
        return _make_faker(self.faker_config or {})

    def _build_filter(self, rule: Any) -> Expression:
        """Compile the option ``__filter__`` of a map; ``rule`` is its value, an expression."""
        if not isinstance(rule, str):
            raise StreamMapConfigError(
                f"Unexpected filter rule type '{type(rule).__name__}' in expression {rule!s}:"
                f" the {MAPPER_FILTER_OPTION} of stream '{self.stream_alias}' must be text."
            )
        location = f"the {MAPPER_FILTER_OPTION} of stream '{self.stream_alias}'"
        statement = parse_expression(rule, location)
        node: ast.AST = statement
        if isinstance(statement, (ast.Assign, ast.AugAssign)):
            warnings.warn(
                f"{rule}: in {location} an assignment is ignored and its right side used;"
                " to compare, write '=='.",
                UserWarning,
                stacklevel=4,
            )
            node = statement.value
        return self._compile(rule, node, location, None)

    def _build_step(self, name: str, definition: Any) -> tuple[str, Expression | None]:
        """Return the name of a mapped property and its compiled expression.

        The expression is None if ``definition``, its value in the settings, is null: the map then
        removes the property.
        """
        location = f"property '{name}' in the map of stream '{self.stream_alias}'"
        if is_null_definition(definition):
            if name in (self.transformed_key_properties or ()):
                raise StreamMapConfigError(
                    f"Removing key property '{name}' is not permitted in '{self.stream_alias}'"
                    f" stream map config. List the new keys in {MAPPER_KEY_PROPERTIES_OPTION},"
                    " or set it to null for none."
                )
            return name, None
        if not isinstance(definition, str):
            raise StreamMapConfigError(
                f"Unexpected type '{type(definition).__name__}' in stream map for"
                f" '{self.stream_alias}:{name}': it must be text or null."
            )
        return name, self._compile(
            definition, parse_expression(definition, location), location, name
        )

    def _compile(
        self, text: str, node: ast.AST, location: str, self_name: str | None
    ) -> Expression:
        """Compile an expression of this map, with ``config``, ``fake`` and the stream's names.

        Args:
            text: Text of the expression, for error messages.
            node: Syntax tree of the expression.
            location: Position of the expression in the settings, for error messages.
            self_name: Property whose value is ``self`` in the expression, or None.
        """
        value = node.value if isinstance(node, ast.Expr) else node
        if not isinstance(value, ast.expr):
            raise MapExpressionError(
                f"Failed to parse expression {text}. It is {location}: a statement has no value."
            )
        constants: dict[str, Any] = {
            "config": self.map_config,
            "__stream_name__": self.stream_alias,
            "__original_stream_name__": self.stream_name,
        }
        uses_faker = any(
            isinstance(name, ast.Name) and name.id == "fake" for name in ast.walk(value)
        )
        if uses_faker and self.fake is not None:
            constants["fake"] = FakeValues(self.fake)
        scope = ExpressionScope(self.functions, constants, own=self_name)
        return compile_expression(text, value, scope, location)

    # Schema

    def _build_schema(self, definitions: Mapping[str, Any]) -> JsonSchema:
        """Return the schema of the records that ``definitions`` produce, before flattening."""
        raw = self.raw_schema
        schema = copy.copy(raw) if self._keeps_others else PropertiesList().to_dict()
        properties = schema["properties"] = dict(schema.get("properties") or {})
        known = properties if self._keeps_others else raw.get("properties") or {}
        for name, definition in definitions.items():
            if is_null_definition(definition):
                properties.pop(name, None)
                if isinstance(schema.get("required"), list):
                    schema["required"] = [key for key in schema["required"] if key != name]
            else:
                existing = properties.get(name) or known.get(definition)
                record = {**raw, "properties": dict(known)}  # mapped so far
                properties.update(infer_property_schema(name, definition, existing, record))
        keys = self.transformed_key_properties or ()
        for key in keys:
            if key not in properties:
                raise StreamMapConfigError(
                    f"Invalid key properties for '{self.stream_alias}': [{','.join(keys)}]."
                    f" Property '{key}' was not detected in schema."
                )
        return schema


def _return_unchanged(record: Record) -> Record:
    return record


def is_null_definition(definition: Any) -> bool:
    """Return True if a definition in ``stream_maps`` is null or the text ``__NULL__``."""
    return definition is None or definition == NULL_STRING


def _make_faker(settings: Mapping[str, Any]) -> Any:
    """Return a Faker instance for expressions, with the seed and locale in the settings.

    ``settings`` is the value of ``faker_config``. Return None if the package Faker is not
    installed.
    """
    try:
        from faker import Faker
    except ModuleNotFoundError:
        return None
    if settings.get("seed") is not None:
        Faker.seed(settings["seed"])
    return Faker() if settings.get("locale") is None else Faker(settings["locale"])
