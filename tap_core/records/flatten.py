"""Flattening of nested objects to columns: ``{"a": {"b": 1}}`` becomes ``{"a__b": 1}``.

Schema and options are compiled to one function of a record; the column of a key is computed once
per path. Remaining nested values (lists, objects below the last level, objects that are columns
of the flattened schema) are written as JSON text. Names and results are those of the Meltano
Singer SDK 0.54, so that tables keep their columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from types import NoneType
from typing import Any, TypeAlias, TypedDict

from tap_core.exceptions import ConfigValidationError
from tap_core.records.conform import get_property_schema, to_json_compatible
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

_UNSET = -1
_KEYS = 4096
"""Maximum number of cached keys per object, because objects may have arbitrary keys."""

_PLAIN: frozenset[type] = frozenset((str, int, float, bool, NoneType))


class PluginFlatteningConfig(TypedDict, total=False):
    """Settings of flattening."""

    flattening_enabled: bool
    flattening_max_depth: int
    flattening_max_key_length: int
    flattening_separator: str


@dataclass
class FlatteningOptions:
    """Options of flattening; ``max_level`` 0 flattens nothing.

    Raises:
        ConfigValidationError: Flattening is enabled without a maximum level.
    """

    _: KW_ONLY
    enabled: bool
    max_level: int = _UNSET
    separator: str = DEFAULT_FLATTENING_SEPARATOR
    max_key_length: int = DEFAULT_MAX_KEY_LENGTH

    def __post_init__(self) -> None:
        """Check that a level is set."""
        if self.enabled and self.max_level == _UNSET:
            raise ConfigValidationError(
                "Flattening is misconfigured",
                errors=["flattening_max_depth is required when flattening is enabled"],
            )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FlatteningOptions:
        """Return the options from a plugin's settings; null is treated as missing."""
        given = {
            "max_level": data.get("flattening_max_depth"),
            "max_key_length": data.get("flattening_max_key_length"),
            "separator": data.get("flattening_separator"),
        }
        known = {name: value for name, value in given.items() if value is not None}
        return cls(enabled=bool(data.get("flattening_enabled")), **known)


def get_flattening_options(plugin_config: Mapping[str, Any]) -> FlatteningOptions:
    """Return the flattening options from a plugin's settings."""
    return FlatteningOptions.from_dict(plugin_config)


# Keys


def flatten_key(
    key_name: str,
    parent_keys: Sequence[str],
    separator: str = DEFAULT_FLATTENING_SEPARATOR,
    *,
    max_key_length: int = DEFAULT_MAX_KEY_LENGTH,
) -> str:
    """Join a key to its parent keys; if the result is too long, shorten them from the left.

    >>> flatten_key("foo", ["bar", "baz"])
    'bar__baz__foo'
    >>> flatten_key("foo", ["long_name", "baz"], max_key_length=14)
    'ln__baz__foo'
    """
    parts = [*parent_keys, key_name]
    for number, part in enumerate(parts):
        if len(separator.join(parts)) < max_key_length:
            break
        parts[number] = _shortened(part)
    return separator.join(parts)


def _shortened(key: str) -> str:
    """Return the initials of a key's words, or its first three characters."""
    camel = re.sub(r"(?:^|_)(.)", lambda found: found.group(1).upper(), key)
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
    """Return a copy of ``schema`` whose objects are flattened down to ``max_level``.

    Raises:
        ValueError: Two properties get the same name.
    """
    result = deepcopy(schema)
    columns = _Columns(max_level, separator, max_key_length)
    result["properties"] = columns.of(result, ())
    return result


@dataclass(frozen=True)
class _Columns:
    """Columns that result from flattening the objects of a schema."""

    max_level: int
    separator: str
    max_key_length: int

    def of(self, schema: JsonSchema, parents: tuple[str, ...]) -> JsonSchema:
        """Return the schema of each column that an object becomes, by column name."""
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
            if self._opens(definition, len(parents)):
                yield from self.of(definition, (*parents, name)).items()
            elif (column := self._column(definition)) is not None:
                key = flatten_key(name, parents, self.separator, max_key_length=self.max_key_length)
                yield key, column

    def _opens(self, definition: JsonSchema, level: int) -> bool:
        """Return True if an object at this nesting level is split into several columns."""
        is_object = "object" in definition.get("type", ())
        return is_object and "properties" in definition and level < self.max_level

    def _column(self, definition: JsonSchema) -> JsonSchema | None:
        """Return the schema of a property that remains one column, or None to omit it."""
        if "type" not in definition:
            return _column_of_choices(definition)
        kinds = definition["type"]
        if "array" in kinds or ("object" in kinds and self.max_level > 0):
            return {"type": ["string", "null"] if "null" in kinds else "string"}
        return definition


def _column_of_choices(definition: JsonSchema) -> JsonSchema | None:
    """Return the schema of a property without a type.

    Of alternatives (``oneOf``, ``anyOf``, as the first keyword) the first one is used if it is a
    string, an array or an object; for other types the property is omitted. A property without
    alternatives becomes a string.
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
    """Flatten one record without a compiled function."""
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
    """Return the function that flattens one record to a new one.

    An object is flattened if its key is not a column of ``flattened_schema``; without a schema
    nothing is flattened.
    """
    columns = (flattened_schema or {}).get("properties") or {}

    def place(parents: tuple[str, ...], name: str) -> _Place:
        key = flatten_key(name, parents, separator, max_key_length=max_key_length)
        if not flattened_schema or key in columns or len(parents) >= max_level:
            return key, None
        return key, _Level((*parents, name), place)

    top = _Level((), place)

    def flatten(record: Record) -> Record:
        result: Record = {}
        _spread(record, top, result)
        return result

    return flatten


_Place: TypeAlias = "tuple[str, _Level | None]"
"""Column name of a key, and the level of the object under it; None keeps the value whole."""


class _Level(dict[str, _Place]):
    """Column names for the keys of one object at one nesting path, computed on first access."""

    def __init__(
        self, path: tuple[str, ...], place: Callable[[tuple[str, ...], str], _Place]
    ) -> None:
        super().__init__()
        self._path = path
        self._place = place

    def __missing__(self, name: str) -> _Place:
        found = self._place(self._path, name)
        if len(self) < _KEYS:
            self[name] = found
        return found


def _spread(values: Mapping[str, Any], level: _Level, result: Record) -> None:
    """Add the values of an object, with its nested objects flattened, to ``result``."""
    for name, value in values.items():
        key, below = level[name]
        if type(value) in _PLAIN:
            result[key] = value
        elif below is not None and isinstance(value, MutableMapping):
            _spread(value, below, result)
        else:
            result[key] = _as_json(value) if isinstance(value, (dict, list)) else value


def _as_json(value: Any) -> str:
    """Return remaining nested values as JSON text; lone surrogates are replaced."""
    try:
        return serialize_json(value)
    except UnicodeEncodeError:
        return serialize_json(to_json_compatible(value))
