"""Conversion of a Fivetran configuration (strings by field name) to the settings of a tap.

The field names are those of the setup form. An empty value of an optional field counts as missing.
A string that cannot be converted is kept, so that the validation of the settings reports it.
Unknown names are kept. Uploaded files are in base64.
Source: Fivetran's Partner SDK development guide, "Supported setup form fields".
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from tap_core.config.enum_options import get_const, to_form_text
from tap_core.config.loading import coerce_text, get_json_types
from tap_core.config.schema_flattening import (
    FlattenedSchema,
    Schema,
    flatten_schema,
    get_branches,
    merge_subschemas,
)
from tap_core.config.validation import validate_config
from tap_core.exceptions import ConfigurationError
from tap_core.protocols.fivetran.form_fields import (
    FieldKind,
    FieldSpec,
    build_fields,
    iterate_names,
)
from tap_core.redaction import property_schema
from tap_core.schema.inline_references import inline_references
from tap_core.singerlib.json import load_json
from tap_core.types import JsonSchema

__all__ = ["parse_configuration"]

_SEPARATORS: Final = re.compile(r"[,\n]")
_MAX_CHARACTERS: Final = 1 << 20
"""Maximum characters of a configuration. Each log line is searched for its secrets."""


def parse_configuration(configuration: Mapping[str, str], schema: JsonSchema) -> dict[str, Any]:
    """Convert the configuration that Fivetran sent, a dict of strings, to the settings of a tap.

    For example, ``{"page.size": "5"}`` becomes ``{"page": {"size": 5}}``. An object may also be
    sent as JSON under its name. The form fields of its properties override this JSON.

    Args:
        configuration: Values as strings, keyed by the names of the form fields.
        schema: JSON Schema of the settings.

    Raises:
        ConfigurationError: The configuration has more than 1,048,576 characters.
    """
    if sum(len(name) + len(text) for name, text in configuration.items()) > _MAX_CHARACTERS:
        raise ConfigurationError(
            f"The configuration of a call may have at most {_MAX_CHARACTERS:,} characters."
        )
    document = inline_references(schema)
    fields = build_fields(document)
    field_names = set(iterate_names(fields))
    settings: dict[str, Any] = {}
    for name, text in configuration.items():
        if name not in field_names:
            _store_unlisted(settings, name, text, document)
    _store_answers(settings, fields, configuration)
    return _normalize_objects(settings, document)


# Values of form fields


def _store_answers(
    settings: dict[str, Any],
    fields: Iterable[FieldSpec],
    answers: Mapping[str, str],
    *,
    is_shown: bool = True,
) -> None:
    """Convert what the user entered in the fields of a setup form, and store it in ``settings``.

    Args:
        settings: The tap's settings, to be filled.
        fields: Fields of the form. Their dependent fields are stored too.
        answers: Values as strings, keyed by the names of the form fields.
        is_shown: False if the form hides these fields because of the value of another field.
    """
    for field in fields:
        # Handwritten configurations use the path, which lacks the names of alternatives.
        path = ".".join(field.path)
        name = field.name if field.name in answers else path
        text = answers.get(name, "")
        if name in answers and _is_entered(field, text, is_shown=is_shown):
            _store_value(settings, field.path, _convert_value(field, text))
        for group in field.dependents:
            shows_group = _is_shown_by(text, group.answer)
            if shows_group or not group.is_exclusive or name not in answers:
                _store_answers(settings, group.fields, answers, is_shown=is_shown and shows_group)


def _is_entered(field: FieldSpec, text: str, *, is_shown: bool) -> bool:
    """Return True if the user has entered the value that a setup form sends for a field.

    Args:
        field: The form field.
        text: Value that the form sent.
        is_shown: False if the form hides the field. Its initial value then does not count as
            entered.
    """
    is_empty = not text.strip()
    if is_shown:
        return field.is_required or not is_empty
    is_off = field.kind is FieldKind.TOGGLE and text.lower() == to_form_text(value=False)
    return not (is_empty or is_off or text == to_form_text(field.schema.get("default")))


def _is_shown_by(text: str, answer: str | bool | None) -> bool:
    """Return True if a form field with the value ``text`` shows its dependent fields.

    Args:
        text: Value of the form field.
        answer: Value for which the form shows the dependent fields; None for any non-empty value.
    """
    if answer is None:
        return bool(text.strip())
    return text == answer or (isinstance(answer, bool) and text.lower() == to_form_text(answer))


def _convert_value(field: FieldSpec, text: str) -> Any:
    """Convert the text of a form field to the value of its setting, such as ``"5"`` to ``5``."""
    option = next((item for item in field.options if item.text == text), None)
    if option is not None:
        return option.value if field.is_setting else {}
    if field.kind is FieldKind.FILE:
        return _decode_file(text, field.schema)
    return _convert_text(text, field.schema if field.is_setting else {"type": "object"})


def _store_value(settings: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Set the setting at ``path`` in nested ``settings``, and create missing objects on the path.

    Change nothing if a value on the path is not an object, or if an empty object would replace an
    existing object.
    """
    *above, name = path
    current: Any = settings
    for part in above:
        current = current.setdefault(part, {})
        if not isinstance(current, dict):
            return
    if value != {} or not isinstance(current.get(name), dict):
        current[name] = value


def _store_unlisted(settings: dict[str, Any], name: str, text: str, schema: Schema) -> None:
    """Store a value of a Fivetran configuration that belongs to no field of the setup form.

    An example is an object as JSON. Unknown settings are stored as text.

    Args:
        settings: The tap's settings, to be changed.
        name: Name of the setting, or its dotted path.
        text: Value, which is converted to the setting's type.
        schema: JSON Schema of all settings.
    """
    path = [name] if name in (schema.get("properties") or {}) else name.split(".")
    declared: Any = schema
    for part in path:
        declared = property_schema(declared, part) if isinstance(declared, Mapping) else None
    if not isinstance(declared, Mapping):
        settings[name] = text
    elif text.strip():
        _store_value(settings, tuple(path), _convert_text(text, declared))


# Conversion of strings


def _convert_text(text: str, schema: Schema) -> Any:
    """Convert a string to the type of a setting. If this fails, return the string unchanged.

    ``schema`` is the JSON Schema of the setting.
    """
    types = get_json_types(schema) - {"null"}
    if "array" in types and "string" not in types:
        return _convert_array(text, schema)
    if "array" in types:
        return _parse_array(text)
    try:
        return coerce_text(text, dict(schema))
    except (ValueError, RecursionError):
        return text


def _convert_array(text: str, schema: Schema) -> Any:
    array = _parse_array(text)
    items = schema.get("items")
    if array is not text or not isinstance(items, Mapping) or "string" not in get_json_types(items):
        return array
    return [part.strip() for part in _SEPARATORS.split(text) if part.strip()]


def _parse_array(text: str) -> Any:
    """Parse a string as a JSON array. If it is not one, return the string."""
    with suppress(json.JSONDecodeError, RecursionError):
        array = load_json(text)
        if isinstance(array, list):
            return array
    return text


def _decode_file(text: str, schema: Schema) -> str:
    """Return the content of an uploaded file as text, decoded from the base64 in ``text``.

    Return ``text`` unchanged if the content is binary or the setting itself is in base64.
    """
    if schema.get("contentEncoding") == "base64":
        return text
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode()
    except ValueError:
        return text


# Objects


def _normalize_objects(settings: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Add missing required objects to settings, and remove optional ones that were not filled in.

    Return the settings. ``schema`` is their JSON Schema, or that of a nested object in recursive
    calls.
    """
    flattened = flatten_schema(schema)
    for name, inner in flattened.properties.items():
        shape = merge_subschemas(inner)
        if not shape.get("properties") and not get_branches(shape):
            continue
        is_required = name in flattened.required and "default" not in shape
        values = settings.get(name, {} if is_required else None)
        if isinstance(values, dict):
            settings[name] = _normalize_objects(values, shape)
            if not is_required and _is_not_entered(settings[name], shape):
                del settings[name]
    branch = next(
        (each for each in flattened.branches if _matches_branch(each, flattened, settings)), None
    )
    return settings if branch is None else _normalize_objects(settings, branch)


def _matches_branch(branch: Schema, flattened: FlattenedSchema, values: Mapping[str, Any]) -> bool:
    """Return True if an object in the settings matches one alternative of a union of objects.

    It must contain each constant that the alternative declares, and no undeclared properties.

    Args:
        branch: Schema of the alternative.
        flattened: Schema of the object, which contains the union.
        values: The object.
    """
    properties = flatten_schema(branch).properties
    return values.keys() <= {*properties, *flattened.properties} and all(
        values.get(name) in constant
        for name, inner in properties.items()
        if (constant := get_const(merge_subschemas(inner)))
    )


def _is_not_entered(values: Mapping[str, Any], schema: Schema) -> bool:
    """Return True if the user has probably not filled in the form fields of an object.

    This is assumed if the object has only the initial values of the form, and if these values do
    not match the schema.
    """
    return _is_initial_value(values, schema) and bool(validate_config(values, dict(schema)))


def _is_initial_value(value: Any, schema: Any) -> bool:
    """Return True if a setting has the value that its form field shows at first.

    This is the default in the setting's ``schema``, or False. For an object, all properties must
    have such values.
    """
    shape = merge_subschemas(schema) if isinstance(schema, Mapping) else {}
    if isinstance(value, Mapping) and "default" not in shape:
        return all(
            _is_initial_value(inner, property_schema(shape, name)) for name, inner in value.items()
        )
    return value is False or to_form_text(value) == to_form_text(shape.get("default"))
