"""Validation of a configuration against its JSON Schema, with one message per error.

- A message begins with the path of the setting (``a[0]: …``), unless the error concerns the whole
  configuration.
- A message never contains a value that is secret, may contain a secret, or is long.
- ``jsonschema`` is slow to import, so simple rules are tried first (`is_trivially_valid`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from numbers import Number
from typing import Any, TypeAlias

from tap_core.config.loading import get_json_types
from tap_core.config.similar_names import find_similar, suggest
from tap_core.exceptions import ConfigurationError
from tap_core.redaction import is_secret, property_schema
from tap_core.redaction.config import is_showable
from tap_core.schema.validators import find_schema_errors, get_validator_class
from tap_core.types import JsonSchema

__all__ = [
    "check_changes",
    "find_null_bytes",
    "is_trivially_valid",
    "setting_path",
    "suggest_misspelled_settings",
    "validate_config",
]

_Fault: TypeAlias = Any
"""Alias for ``jsonschema.ValidationError``, so that jsonschema need not be imported."""


def validate_config(
    config: Mapping[str, Any],
    schema: JsonSchema,
    *,
    skip: Iterable[str] = (),
) -> list[str]:
    """Return a message for every error in a configuration, sorted by the path of the setting.

    If the schema is not valid, so that nothing can be checked, return a message about it.

    Args:
        config: The configuration.
        schema: JSON Schema of the settings.
        skip: Names of settings to exclude, because their errors were already reported.
    """
    skipped = set(skip)
    checked = {**config, **dict.fromkeys(skipped)}
    if is_trivially_valid(checked, schema):
        return []
    try:
        errors = list(get_validator_class()(schema).iter_errors(_with_floats(checked)))
    except Exception:  # jsonschema raises several kinds for an invalid schema
        for path, message in find_schema_errors(schema):
            return [f"the schema of the settings, at '{setting_path(path)}': {message}"]
        raise
    return [
        _format_error(error, schema)
        for error in sorted(errors, key=lambda error: [str(part) for part in error.path])
        if not error.path or error.path[0] not in skipped
    ]


def find_null_bytes(value: Any, *path: str | int) -> Iterator[str]:
    """Yield a message for each text in a setting's value that contains a null byte.

    No path, address or header may contain one. A text of null bytes only may be a delimiter, and is
    valid.

    Args:
        value: Value of the setting, or the whole configuration.
        path: Names and positions that lead to the value.
    """
    if isinstance(value, str) and "\0" in value and value.strip("\0"):
        yield f"{setting_path(path)}: the text contains a null byte (U+0000): remove it"
    items = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else items:
        yield from find_null_bytes(item, *path, key)


def check_changes(
    config: Mapping[str, Any], changes: Mapping[str, Any], schema: JsonSchema
) -> dict[str, Any]:
    """Validate new values of settings, and return those that differ from the current ones.

    Args:
        config: The current configuration.
        changes: New values by setting name.
        schema: JSON Schema of the settings.

    Raises:
        ConfigurationError: A setting is not in the schema, or the changed configuration is invalid.
    """
    changed = {
        name: value
        for name, value in changes.items()
        if name not in config or config[name] != value
    }
    declared = schema.get("properties") or {}
    faults = [f"there is no setting '{name}'" for name in changed if name not in declared]
    if changed and (faults := faults or validate_config({**config, **changed}, schema)):
        raise ConfigurationError(f"Settings cannot be changed: {'; '.join(faults)}.")
    return changed


def _with_floats(value: Any) -> Any:
    """Return a copy of a setting's value with Decimals as floats, which jsonschema expects."""
    if isinstance(value, dict):
        return {key: _with_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_floats(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def setting_path(parts: Iterable[str | int]) -> str:
    """Return the path of a setting as text: ``["a", "b", 0]`` -> ``a.b[0]``."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return path.removeprefix(".")


# Sentences


def _format_error(error: _Fault, schema: JsonSchema) -> str:
    """Return the message for a validation error: setting's path and fault, without secrets."""
    path = setting_path(error.absolute_path)
    if _shows_secret(error, schema):
        message = _without_value(error)
    elif "propertyNames" in error.absolute_schema_path:
        message = f"the name {error.message}{_suggest_own_setting(error.instance, path, schema)}"
    else:
        message = _with_value(error)
    return f"{path}: {message}" if path else message


def _suggest_own_setting(name: str, path: str, schema: JsonSchema) -> str:
    """Return advice about an invalid name inside the setting ``path``; "" if no advice is known.

    A name that is a top-level setting is probably at the wrong place.
    """
    is_setting = name in (schema.get("properties") or {})
    return f". '{name}' is a setting of its own: move it out of '{path}'" if is_setting else ""


def _with_value(error: _Fault) -> str:
    """Return the message for a validation error, which may contain the invalid value.

    If possible, it suggests a similar valid name.
    """
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        hints = (suggest(name, known) for name in error.instance if name not in known)
        hint = next(filter(None, hints), "")
        return f"{error.message}{'.' if hint else ''}{hint}"
    if error.validator != "enum":
        return str(error.message)
    known, value = _list_choices(error), error.instance
    hint = suggest(value, filter(_is_text, known)) if _is_text(value) else ""
    return f"{value!r} is not one of {known!r}{'.' if hint else ''}{hint}"


def _list_choices(error: _Fault) -> list[Any]:
    """Return the values that a violated ``enum`` allows, except null, for an error message."""
    return [value for value in error.validator_value if value is not None]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _shows_secret(error: _Fault, schema: JsonSchema) -> bool:
    """Return True if jsonschema's message for a validation error might contain a secret."""
    if error.validator in {"required", "additionalProperties", "dependentRequired"}:
        return False  # messages of these rules contain names of settings only
    if isinstance(error.schema, Mapping) and is_secret("", error.schema):
        return True
    if not is_showable(error.instance) or _is_structured_text(error):
        return True
    path = list(error.absolute_path)
    return _is_secret_path(path, schema) or _holds_secret(error.instance, _schema_at(path, schema))


def _is_structured_text(error: _Fault) -> bool:
    """Return True if an invalid value is a string, but the setting must be an object or array.

    Such a string may be the JSON text of secret settings, so messages must not show it.
    """
    allowed = get_json_types(error.schema) if isinstance(error.schema, Mapping) else set()
    is_structured = bool({"object", "array"} & allowed)
    return isinstance(error.instance, str) and is_structured and "string" not in allowed


def _is_secret_path(path: list[str | int], schema: JsonSchema) -> bool:
    """Return True if the setting at a path, or any setting that contains it, is secret."""
    return any(
        is_secret(str(part), _schema_at(path[: depth + 1], schema))
        for depth, part in enumerate(path)
    )


def _schema_at(path: list[str | int], schema: JsonSchema) -> JsonSchema:
    """Return the schema of the setting at a path in ``schema``, or ``{}`` if it is not declared."""
    subschema: Any = schema
    for part in path:
        subschema = (
            subschema.get("items") if isinstance(part, int) else property_schema(subschema, part)
        )
        if not isinstance(subschema, dict):
            return {}
    return subschema if isinstance(subschema, dict) else {}


def _holds_secret(value: Any, schema: JsonSchema) -> bool:
    """Return True if a setting's value is an object or array with a secret at any depth in it."""
    if isinstance(value, Mapping):
        return any(
            is_secret(str(key), _schema_at([key], schema))
            or _holds_secret(item, _schema_at([key], schema))
            for key, item in value.items()
        )
    if isinstance(value, list):
        return any(_holds_secret(item, _schema_at([0], schema)) for item in value)
    return False


def _without_value(error: _Fault) -> str:
    """Return the message for a validation error without the invalid value, which may be secret."""
    if error.validator == "enum":
        return f"the value (not shown) does not fit enum {_list_choices(error)!r}"
    if error.validator in {"type", "format", "pattern"}:
        return f"the value (not shown) does not fit {error.validator} {error.validator_value!r}"
    return f"the value (not shown) does not fit the rule '{error.validator}'"


# Fast path


def is_trivially_valid(value: Any, schema: Any) -> bool:
    """Return True if a quick check proves that a value is valid, without the jsonschema library.

    False means that the value may be invalid, or that the schema has a keyword that the quick check
    does not support. Supported are ``type``, ``properties``, ``required``, ``items`` as one schema,
    ``enum``, ``const`` and a boolean ``additionalProperties``.
    """
    if schema is True:
        return True
    if not isinstance(schema, dict) or not schema.keys() <= _SUPPORTED:
        return False
    return all(
        rule(value, schema[keyword], schema)
        for keyword, rule in _SIMPLE_RULES.items()
        if keyword in schema
    )


def _fits_type(value: Any, types: Any, _schema: JsonSchema) -> bool:
    names = [types] if isinstance(types, str) else types
    return isinstance(names, list) and any(_is_json_type(value, name) for name in names)


def _is_json_type(value: Any, name: str) -> bool:
    if isinstance(value, bool) or name == "boolean":
        return isinstance(value, bool) and name == "boolean"
    kinds = _PYTHON_TYPES.get(name)
    return kinds is not None and isinstance(value, kinds)


def _fits_properties(value: Any, properties: Any, _schema: JsonSchema) -> bool:
    if not isinstance(value, dict):
        return True
    return all(
        is_trivially_valid(value[name], definition)
        for name, definition in properties.items()
        if name in value
    )


def _fits_required(value: Any, required: Any, _schema: JsonSchema) -> bool:
    return not isinstance(value, dict) or all(name in value for name in required)


def _fits_additional(value: Any, allowed: Any, schema: JsonSchema) -> bool:
    if allowed is True or not isinstance(value, dict):
        return True
    return allowed is False and value.keys() <= schema.get("properties", {}).keys()


def _fits_items(value: Any, items: Any, _schema: JsonSchema) -> bool:
    return not isinstance(value, list) or all(is_trivially_valid(item, items) for item in value)


def _fits_enum(value: Any, allowed: Any, _schema: JsonSchema) -> bool:
    # Only texts are compared, because 1 == True in Python, but not in JSON.
    return isinstance(value, str) and value in allowed


def _fits_const(value: Any, allowed: Any, _schema: JsonSchema) -> bool:
    return isinstance(value, str) and value == allowed


_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float, Number),
    "array": list,
    "object": dict,
    "null": type(None),
}
_SIMPLE_RULES: dict[str, Callable[[Any, Any, JsonSchema], bool]] = {
    "type": _fits_type,
    "properties": _fits_properties,
    "required": _fits_required,
    "additionalProperties": _fits_additional,
    "items": _fits_items,
    "enum": _fits_enum,
    "const": _fits_const,
}
_WITHOUT_EFFECT = {"$schema", "title", "description", "default", "examples", "secret"}
_WITHOUT_EFFECT |= {"writeOnly", "readOnly", "deprecated", "format", "$comment", "x-sql-datatype"}
_SUPPORTED = _SIMPLE_RULES.keys() | _WITHOUT_EFFECT


# Unknown settings


def suggest_misspelled_settings(
    config: Any, schema: JsonSchema, *path: str | int
) -> Iterator[tuple[str, str]]:
    """Yield ``(path, suggested path)`` for each setting whose name seems misspelled.

    A setting seems misspelled if the schema does not declare it, but declares a similar name that
    has no value in ``config``. Objects whose ``additionalProperties`` is a schema are not checked.

    Args:
        config: The whole configuration, or the value of a setting.
        schema: JSON Schema of ``config``.
        path: Names that lead to the value.
    """
    if not isinstance(config, Mapping):
        return
    known = schema.get("properties", {})
    if known and not isinstance(schema.get("additionalProperties"), dict):
        unset = [name for name in known if name not in config]
        for name in config:
            near = None if name in known else find_similar(str(name), unset)
            if near is not None:
                yield setting_path((*path, name)), setting_path((*path, near))
    for name, inner in known.items():
        if isinstance(inner, dict) and name in config:
            yield from suggest_misspelled_settings(config[name], inner, *path, name)
