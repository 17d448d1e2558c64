"""Conversion of record values to their schema types (``schema_normalization: Default``).

The conversion is compiled once per schema. A value is converted if the schema has one type for it,
besides null, and the value can be read as that type. Any other value stays unchanged, and so do
fields that are not in the schema; no record is rejected. The rules are those of airbyte-cdk 7.39:
for the type ``integer`` a fraction is cut off. Only for the type ``number`` the rules differ, so
that no digits are lost: a fraction stays a ``Decimal``, and an integer stays an integer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias, cast

from tap_core.manifest.decimal_conversion import decimals_to_floats
from tap_core.types import Record

__all__ = ["make_conversion", "make_normalizer", "resolve_reference"]

_Convert: TypeAlias = Callable[[Any], Any]
_ConversionFactory: TypeAlias = Callable[[Mapping[str, Any]], _Convert | None]

_SCALAR_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "null"})

_MAX_REFERENCES: Final = 50
"""Maximum number of references to follow from one schema, because they may form a cycle."""

_SCALARS: Final = (str, int, float, bool, Decimal, type(None))

_MOST_DIGITS: Final = 1_000
"""Maximum number of digits of a Decimal that is converted to an integer."""

_TRUE_WORDS: Final = frozenset({"y", "yes", "t", "true", "on", "1"})

_FALSE_WORDS: Final = frozenset({"n", "no", "f", "false", "off", "0"})


def resolve_reference(schema: Any, root: Any) -> Mapping[str, Any]:
    """Return a JSON Schema with its ``$ref`` followed; {} if the reference has no target.

    ``root`` is the document that contains the schema.
    """
    for _ in range(_MAX_REFERENCES):
        path = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(path, str):
            break
        schema = root
        for step in path.lstrip("#/").split("/"):
            schema = schema.get(step, {}) if isinstance(schema, Mapping) else {}
    return cast(Mapping[str, Any], schema) if isinstance(schema, Mapping) else {}


class _Compiler:
    """Compiler from a JSON Schema to functions that convert record values to the schema's types.

    A recursive definition is compiled once.
    """

    def __init__(self, root: Mapping[str, Any], convert_by: _ConversionFactory) -> None:
        self._root = root
        self._convert_by = convert_by
        self._compiled: dict[int, _Convert] = {}

    def compile_nested(self, schema: Any) -> _Convert:
        """Return a function that converts values in an object or list to their types, in place."""
        schema = resolve_reference(schema, self._root)
        convert = self._compiled.get(id(schema))
        if convert is None:
            steps: list[_Convert] = []
            convert = self._compiled[id(schema)] = lambda value: _apply_steps(steps, value)
            properties = schema.get("properties")
            if isinstance(properties, Mapping):
                steps.append(self._compile_object(cast(Mapping[str, Any], properties)))
            items = schema.get("items")
            if isinstance(items, Mapping):
                steps.append(self._compile_list(items))
        return convert

    def _compile_object(self, properties: Mapping[str, Any]) -> _Convert:
        fields = [
            (name, self._convert_by(schema), self._compile_nested_or_none(schema))
            for name, schema in properties.items()
            if isinstance(schema, Mapping)
        ]
        fields = [
            (name, convert, convert_nested)
            for name, convert, convert_nested in fields
            if convert or convert_nested
        ]

        def change(value: Any) -> None:
            if not isinstance(value, dict):
                return
            for name, convert, convert_nested in fields:
                if name in value:
                    if convert:
                        value[name] = convert(value[name])
                    if convert_nested:
                        convert_nested(value[name])

        return change

    def _compile_list(self, items: Mapping[str, Any]) -> _Convert:
        convert, convert_nested = self._convert_by(items), self._compile_nested_or_none(items)

        def change(value: Any) -> None:
            if not isinstance(value, list):
                return
            if convert:
                value[:] = map(convert, value)
            if convert_nested:
                for item in value:
                    convert_nested(item)

        return change

    def _compile_nested_or_none(self, schema: Mapping[str, Any]) -> _Convert | None:
        """Return a function that converts values in an object or list to their types, in place.

        Return None if the schema has neither ``properties`` nor ``items``.
        """
        schema = resolve_reference(schema, self._root)
        return self.compile_nested(schema) if {"properties", "items"} & schema.keys() else None


def _apply_steps(steps: list[_Convert], value: Any) -> None:
    for step in steps:
        step(value)


def make_conversion(schema: Mapping[str, Any]) -> _Convert | None:
    """Return a function that converts one value to the schema's type; None for no conversion."""
    declared = schema.get("type", [])
    types: list[Any] = declared if isinstance(declared, list) else [declared]
    # As in airbyte-cdk, "null" alone is a type like any other.
    others = [type_ for type_ in types if type_ != "null" or not isinstance(declared, list)]
    if len(others) != 1:
        return None
    convert = _make_list_conversion(schema) if others[0] == "array" else _CONVERSIONS.get(others[0])
    if convert is None or "null" not in types:
        return convert
    return lambda value: None if value is None else convert(value)


def _make_list_conversion(schema: Mapping[str, Any]) -> _Convert | None:
    """Return a function that converts a scalar ``x`` to ``[x]``, for a schema of type ``array``.

    Return None if the ``type`` of the list items is set and is not a list of scalar types, as in
    airbyte-cdk.
    """
    items = schema.get("items")
    types: Any = items.get("type", ()) if isinstance(items, Mapping) else ()
    if isinstance(types, str) or not _SCALAR_TYPES.issuperset(types):
        return None
    return lambda value: [value] if isinstance(value, _SCALARS) else value


def _to_string(value: Any) -> str:
    return str(decimals_to_floats(value))


def _to_number(value: Any) -> Any:
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        return value
    try:
        float(value)  # rejects some texts that Decimal reads, such as "1__0" and "._1"
        number = Decimal(value)
    except (ValueError, InvalidOperation):
        return value
    return number if number.is_finite() else value


def _to_integer(value: Any) -> Any:
    if isinstance(value, Decimal) and value.adjusted() > _MOST_DIGITS:
        return value
    try:
        return int(value)
    except (ValueError, TypeError, OverflowError):
        return value


def _to_boolean(value: Any) -> Any:
    if not isinstance(value, str):
        return bool(value)
    word = value.lower().strip()
    return True if word in _TRUE_WORDS else False if word in _FALSE_WORDS else value


_CONVERSIONS: Final[Mapping[str, _Convert]] = {
    "string": _to_string,
    "number": _to_number,
    "integer": _to_integer,
    "boolean": _to_boolean,
}


def make_normalizer(
    schema: Mapping[str, Any], convert_by: _ConversionFactory = make_conversion
) -> Callable[[Record], None]:
    """Return a function that converts the values of a record by the schema, in place.

    ``convert_by`` returns the function that converts the values of a property with a given schema.
    """
    return _Compiler(schema, convert_by).compile_nested(schema)
