"""Flattening of nested objects to columns: ``{"a": {"b": 1}}`` becomes ``{"a__b": 1}``.

Schema and options are compiled once to a function that flattens one record. Lists, and objects
deeper than the maximum level, become JSON text. Column names equal those of singer_sdk 0.54, so
existing tables keep their columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias, TypedDict

from tap_core.exceptions import ConfigValidationError
from tap_core.records.compiled_flattener import (
    QuickFlattener,
    compile_quick_flattener,
    flatten_nothing,
)
from tap_core.records.conform import get_property_schema
from tap_core.records.value_rules import PLAIN_TYPES
from tap_core.singerlib.json import serialize_json
from tap_core.types import JsonSchema, Record

__all__ = [
    "DEFAULT_FLATTENING_SEPARATOR",
    "DEFAULT_MAX_KEY_LENGTH",
    "FlatteningOptions",
    "PluginFlatteningConfig",
    "compile_flattener",
    "flatten_key",
    "flatten_record",
    "flatten_schema",
    "get_flattening_options",
]

DEFAULT_FLATTENING_SEPARATOR = "__"
DEFAULT_MAX_KEY_LENGTH = 255

_NO_MAX_LEVEL = -1
_FIRST_COMPILATION = 16
_COMPILATION_GROWTH = 16
"""Factor by which the number of records between two compilations of a `QuickFlattener` grows.

Only records that the compiled functions could not flatten are counted.
"""
_MAX_CACHED_KEYS = 4096
"""Maximum number of cached column names per object, because objects may have arbitrary keys."""


class PluginFlatteningConfig(TypedDict, total=False):
    """Settings for flattening, with the names in a plugin's config."""

    flattening_enabled: bool
    flattening_max_depth: int
    flattening_max_key_length: int
    flattening_separator: str


@dataclass
class FlatteningOptions:
    """Settings for flattening nested objects into columns.

    Args:
        enabled: True if nested objects are flattened.
        max_level: Number of nesting levels to flatten; 0 flattens nothing.
        separator: Text between the names of an object and its property in a column name.
        max_key_length: Column names of this many characters or more are shortened.

    Raises:
        ConfigValidationError: Flattening is enabled without a maximum level.
    """

    _: KW_ONLY
    enabled: bool
    max_level: int = _NO_MAX_LEVEL
    separator: str = DEFAULT_FLATTENING_SEPARATOR
    max_key_length: int = DEFAULT_MAX_KEY_LENGTH

    def __post_init__(self) -> None:
        """Raise ConfigValidationError if flattening is enabled without a maximum level."""
        if self.enabled and self.max_level == _NO_MAX_LEVEL:
            raise ConfigValidationError(
                "Flattening is misconfigured",
                errors=["flattening_max_depth is required when flattening is enabled"],
            )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FlatteningOptions:
        """Return the options from a plugin's config; a missing or null setting gets its default."""
        settings = {
            "max_level": data.get("flattening_max_depth"),
            "max_key_length": data.get("flattening_max_key_length"),
            "separator": data.get("flattening_separator"),
        }
        options = {name: value for name, value in settings.items() if value is not None}
        return cls(enabled=bool(data.get("flattening_enabled")), **options)


def get_flattening_options(plugin_config: Mapping[str, Any]) -> FlatteningOptions:
    """Return the flattening options from the ``flattening_*`` settings of a plugin's config."""
    return FlatteningOptions.from_dict(plugin_config)


# Keys


def flatten_key(
    key_name: str,
    parent_keys: Sequence[str],
    separator: str = DEFAULT_FLATTENING_SEPARATOR,
    *,
    max_key_length: int = DEFAULT_MAX_KEY_LENGTH,
) -> str:
    """Return the column name of a nested property: the names of its parents and its own, joined.

    A column name of ``max_key_length`` or more characters is shortened: first the parents' names,
    from the left, then the property's own name, until the column name is short enough.

    >>> flatten_key("foo", ["bar", "baz"])
    'bar__baz__foo'
    >>> flatten_key("foo", ["long_name", "baz"], max_key_length=14)
    'ln__baz__foo'
    """
    parts = [*parent_keys, key_name]
    for number, part in enumerate(parts):
        if len(separator.join(parts)) < max_key_length:
            break
        parts[number] = _abbreviate(part)
    return separator.join(parts)


def _abbreviate(key: str) -> str:
    """Abbreviate a property name: ``long_name`` becomes ``ln``, ``customer`` becomes ``cus``."""
    camel = re.sub(r"(?:^|_)(.)", lambda match: match[1].upper(), key)
    initials = re.sub(r"[a-z]", "", camel)
    return (initials if len(initials) > 1 else key[:3]).lower()


# Schemas


def flatten_schema(
    schema: JsonSchema,
    max_level: int,
    separator: str = DEFAULT_FLATTENING_SEPARATOR,
    *,
    max_key_length: int = DEFAULT_MAX_KEY_LENGTH,
) -> JsonSchema:
    """Return a copy of a schema with the properties of nested objects as top-level properties.

    Args:
        schema: JSON Schema of a record.
        max_level: Number of nesting levels to flatten. Deeper objects become strings (JSON text).
        separator: Text between the names of an object and its property in a column name.
        max_key_length: Column names of this many characters or more are shortened.

    Raises:
        ValueError: Two properties get the same column name.
    """
    result = deepcopy(schema)
    columns = _Columns(max_level, separator, max_key_length)
    result["properties"] = columns.of(result, ())
    return result


@dataclass(frozen=True)
class _Columns:
    """Converter of a nested JSON Schema to flat columns; its fields are the flattening options."""

    max_level: int
    separator: str
    max_key_length: int

    def of(self, schema: JsonSchema, parents: tuple[str, ...]) -> JsonSchema:
        """Return the columns of an object's properties, as a dict from column name to schema.

        ``parents`` are the names of the enclosing objects, from the top level down.

        Raises:
            ValueError: Two properties get the same column name.
        """
        pairs = list(self._pairs(schema, parents))
        doubled = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        if doubled:
            raise ValueError(f"Duplicate column name produced in schema: {min(doubled)}")
        return dict(pairs)

    def _pairs(
        self, schema: JsonSchema, parents: tuple[str, ...]
    ) -> Iterator[tuple[str, JsonSchema]]:
        for name, declared in (schema.get("properties") or {}).items():
            definition = get_property_schema(declared)
            if self._is_split(definition, len(parents)):
                yield from self.of(definition, (*parents, name)).items()
            elif (column := self._column(definition)) is not None:
                key = flatten_key(name, parents, self.separator, max_key_length=self.max_key_length)
                yield key, column

    def _is_split(self, definition: JsonSchema, level: int) -> bool:
        """Return True if a property at nesting depth ``level`` is split into several columns."""
        is_object = "object" in definition.get("type", ())
        return is_object and "properties" in definition and level < self.max_level

    def _column(self, definition: JsonSchema) -> JsonSchema | None:
        """Return the schema of a property's only column, or None if it has no column.

        Arrays and nested objects become strings, because they are written as JSON text.
        """
        if "type" not in definition:
            return _column_of_choices(definition)
        kinds = definition["type"]
        if "array" in kinds or ("object" in kinds and self.max_level > 0):
            return {"type": ["string", "null"] if "null" in kinds else "string"}
        return definition


def _column_of_choices(definition: JsonSchema) -> JsonSchema | None:
    """Return the column schema of a property whose schema has no ``type``, as singer_sdk does.

    If the schema begins with a list of alternatives, such as ``anyOf``, the first alternative
    decides: the column has its type if it is a string, an array or an object. For another type,
    return None, because the property has no column. Without alternatives, the column is a string.
    """
    choices = next(iter(definition.values()), None)
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict) or "type" not in first:
        return {"type": ["null", "string"]}
    if first["type"] not in ("string", "array", "object"):
        return None
    return {**first, "type": ["null", first["type"]]}


# Records


def flatten_record(
    record: Record,
    flattened_schema: JsonSchema,
    max_level: int,
    separator: str = DEFAULT_FLATTENING_SEPARATOR,
    *,
    max_key_length: int = DEFAULT_MAX_KEY_LENGTH,
) -> Record:
    """Return a flattened copy of one record; `compile_flattener` is faster for many records.

    ``flattened_schema`` is the result of `flatten_schema` for the same ``max_level``, ``separator``
    and ``max_key_length``.
    """
    flatten = compile_flattener(
        flattened_schema, max_level, separator, max_key_length=max_key_length
    )
    return flatten(record)


def compile_flattener(
    flattened_schema: JsonSchema | None,
    max_level: int,
    separator: str = DEFAULT_FLATTENING_SEPARATOR,
    *,
    max_key_length: int = DEFAULT_MAX_KEY_LENGTH,
) -> Callable[[Record], Record]:
    """Compile a function that returns a flattened copy of a record.

    Args:
        flattened_schema: Result of `flatten_schema`. An object that is a column in this schema is
            not split into several columns. With None, no object is split.
        max_level: Number of nesting levels to flatten. Deeper objects become JSON text.
        separator: Text between the names of an object and its property in a column name.
        max_key_length: Column names of this many characters or more are shortened.
    """
    columns = (flattened_schema or {}).get("properties") or {}

    def locate(parents: tuple[str, ...], name: str) -> _Column:
        key = flatten_key(name, parents, separator, max_key_length=max_key_length)
        if not flattened_schema or key in columns or len(parents) >= max_level:
            return key, None
        return key, _Level((*parents, name), locate)

    def get_column(parents: tuple[str, ...], name: str) -> tuple[str, bool]:
        key, below = locate(parents, name)
        return key, below is not None

    top = _Level((), locate)
    quick: QuickFlattener = flatten_nothing
    unmatched, until_compilation = 0, _FIRST_COMPILATION

    def flatten(record: Record) -> Record:
        nonlocal quick, unmatched, until_compilation
        flattened = quick(record)
        if flattened is not None:
            return flattened
        unmatched += 1  # several threads may share the function, so a record may go uncounted
        if unmatched >= until_compilation:
            until_compilation *= _COMPILATION_GROWTH
            quick = compile_quick_flattener(record, get_column, _as_json_if_nested)
        result: Record = {}
        _flatten_into(record, top, result)
        return result

    return flatten


_Column: TypeAlias = "tuple[str, _Level | None]"
"""Column name of a property, and the columns of its object; None if it is not split."""


class _Level(dict[str, _Column]):
    """Cache of the column names of an object's properties, each computed on first access."""

    def __init__(
        self, path: tuple[str, ...], compute: Callable[[tuple[str, ...], str], _Column]
    ) -> None:
        super().__init__()
        self._path = path
        self._compute = compute

    def __missing__(self, name: str) -> _Column:
        entry = self._compute(self._path, name)
        if len(self) < _MAX_CACHED_KEYS:
            self[name] = entry
        return entry


def _flatten_into(values: Mapping[str, Any], level: _Level, result: Record) -> None:
    """Flatten an object and its nested objects, and add the values to ``result`` by column name.

    ``level`` has the column names of the object's properties.
    """
    for name, value in values.items():
        key, below = level[name]
        if type(value) in PLAIN_TYPES:
            result[key] = value
        elif below is not None and isinstance(value, MutableMapping):
            _flatten_into(value, below, result)
        else:
            result[key] = _as_json_if_nested(value)


def _as_json_if_nested(value: Any) -> Any:
    """Return a list or object as JSON text, and any other value unchanged."""
    return serialize_json(value) if isinstance(value, (dict, list)) else value
