"""Setup form for the settings of a tap, as Fivetran's message ConfigurationFormResponse.

Each form field becomes one FormField message, followed by the groups of fields that depend on its
value. Settings that the SDK adds are not part of the form. Defaults of secrets are omitted.
Source: Fivetran's Partner SDK, common.proto, and its development guide, "Setup form guidelines".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tap_core.config.enum_options import to_form_text
from tap_core.config.loading import get_json_types
from tap_core.config.schema_flattening import Schema
from tap_core.protocols.config_schema import find_sdk_settings
from tap_core.protocols.fivetran.enums import TextField
from tap_core.protocols.fivetran.form_fields import (
    DependentFields,
    FieldKind,
    FieldSpec,
    build_fields,
)
from tap_core.protocols.fivetran.proto_messages import (
    ConditionalFields,
    ConfigurationFormResponse,
    ConfigurationTest,
    DescriptiveDropDownField,
    DescriptiveDropDownFields,
    DropdownField,
    FormField,
    ToggleField,
    UploadField,
    VisibilityCondition,
)

__all__ = ["build_form"]

_MAX_FILE_BYTES: Final = 1 << 20
_PEM_FILES: Final = (".pem", ".crt", ".cer", ".key")
_FILES: Final = (*_PEM_FILES, ".der", ".p12", ".pfx", ".json", ".txt", ".xml", ".yaml", ".yml")
_EXAMPLES: Final[Mapping[str, str]] = {
    "date": "2024-01-31",
    "date-time": "2024-01-31T00:00:00Z",
    "time": "12:30:00",
}
"""Placeholders for strings with a format, if the schema has no examples."""

_LIST_HINT: Final = (
    "Several values are separated by commas or line breaks, or given as a JSON array."
)
_ARRAY_HINT: Final = "Given as a JSON array."
_OBJECT_HINT: Final = "Given as a JSON object."


def build_form(schema: Schema, tests: Mapping[str, str], *, selects_tables: bool = True) -> Any:
    """Return the ConfigurationFormResponse message, which describes the setup form of a connector.

    Args:
        schema: JSON Schema of the settings.
        tests: Labels of the connection tests by name.
        selects_tables: True if the user can select schemas and tables.
    """
    hidden = find_sdk_settings(schema)
    properties = schema.get("properties") or {}
    visible = {name: inner for name, inner in properties.items() if name not in hidden}
    return ConfigurationFormResponse(
        schema_selection_supported=selects_tables,
        table_selection_supported=selects_tables,
        fields=_build_messages(build_fields({**schema, "properties": visible})),
        tests=[ConfigurationTest(name=name, label=label) for name, label in tests.items()],
    )


def _build_messages(fields: Iterable[FieldSpec]) -> Iterator[Any]:
    """Yield Fivetran's FormField messages for the fields of a setup form.

    If other fields depend on the value of a field, a message for each group of them follows.
    """
    for field in fields:
        yield FormField(
            name=field.name,
            label=field.label,
            required=field.is_required,
            **_build_texts(field),
            **_build_type(field),
        )
        for group in field.dependents:
            yield _build_group(field, group)


def _build_group(field: FieldSpec, group: DependentFields) -> Any:
    """Return the FormField message for a group of form fields that are shown conditionally.

    Args:
        field: Form field whose value decides if the group is shown.
        group: The group, with the value for which it is shown.
    """
    condition = VisibilityCondition(condition_field=field.name)
    if isinstance(group.answer, bool):
        condition.bool_value = group.answer
    elif group.answer is None:
        condition.empty_value = False  # shown if the field has a value
    else:
        condition.string_value = group.answer
    name = "set" if group.answer is None else to_form_text(group.answer)
    return FormField(
        name=f"{field.name}={name}",
        label=group.label,
        conditional_fields=ConditionalFields(
            condition=condition, fields=_build_messages(group.fields)
        ),
    )


# Texts of a field


def _build_texts(field: FieldSpec) -> dict[str, str]:
    """Return the description, default value and placeholder of a form field, if not empty."""
    texts = {
        "description": _build_description(field),
        "default_value": _build_default(field),
        "placeholder": _build_placeholder(field),
    }
    return {name: text for name, text in texts.items() if text}


def _build_description(field: FieldSpec) -> str:
    description = str(field.schema.get("description") or "").strip()
    return " ".join(filter(None, (description, _get_format_hint(field))))


def _get_format_hint(field: FieldSpec) -> str:
    """Return a hint on how to enter a list or an object as text, or "" for other settings."""
    types = get_json_types(field.schema) - {"null"}
    if field.kind not in {FieldKind.TEXT, FieldKind.PASSWORD} or "string" in types:
        return ""
    if "array" in types:
        items = field.schema.get("items")
        has_texts = isinstance(items, Mapping) and "string" in get_json_types(items)
        return _LIST_HINT if has_texts else _ARRAY_HINT
    return _OBJECT_HINT if "object" in types else ""


def _build_default(field: FieldSpec) -> str:
    if field.kind in {FieldKind.PASSWORD, FieldKind.FILE}:
        return ""
    text = to_form_text(field.schema.get("default"))
    is_valid = field.kind is not FieldKind.CHOICE or text in (
        option.text for option in field.options
    )
    return text if is_valid else ""


def _build_placeholder(field: FieldSpec) -> str:
    if field.kind not in {FieldKind.TEXT, FieldKind.PASSWORD}:
        return ""
    examples = field.schema.get("examples")
    first = examples[0] if isinstance(examples, list) and examples else examples
    return to_form_text(first) or _EXAMPLES.get(str(field.schema.get("format")), "")


# Types of fields


def _build_type(field: FieldSpec) -> dict[str, Any]:
    """Return the keyword argument of a FormField message that sets the type of the field."""
    if field.kind is FieldKind.CHOICE:
        return _build_dropdown(field)
    if field.kind is FieldKind.TOGGLE:
        return {"toggle_field": ToggleField()}
    if field.kind is FieldKind.FILE:
        accepted = _PEM_FILES if "pem" in str(field.schema.get("contentMediaType")) else _FILES
        upload = UploadField(allowed_file_type=accepted, max_file_size_bytes=_MAX_FILE_BYTES)
        return {"upload_field": upload}
    is_password = field.kind is FieldKind.PASSWORD
    return {"text_field": TextField.Password if is_password else TextField.PlainText}


def _build_dropdown(field: FieldSpec) -> dict[str, Any]:
    """Return the keyword argument of a FormField message that makes the field a dropdown.

    Options with labels or descriptions use Fivetran's descriptive dropdown.
    """
    if all(option.label == option.text and not option.description for option in field.options):
        texts = [option.text for option in field.options]
        return {"dropdown_field": DropdownField(dropdown_field=texts)}
    fields = [
        DescriptiveDropDownField(
            value=option.text, label=option.label, description=option.description
        )
        for option in field.options
    ]
    dropdown = DescriptiveDropDownFields(descriptive_dropdown_field=fields)
    return {"descriptive_dropdown_fields": dropdown}
