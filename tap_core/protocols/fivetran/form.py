"""The form by which Fivetran asks for settings, as its message.

Rules of the room: each question is one field, and what an answer leads to a group of fields right
behind it. The settings that come with the SDK are not asked for. No default of a secret is shown.
Source: Fivetran's Partner SDK, common.proto, and its development guide, "Setup form guidelines".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tap_core.config import types_of
from tap_core.protocols.fivetran.choices import text_of
from tap_core.protocols.fivetran.folding import Schema
from tap_core.protocols.fivetran.messages import (
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
from tap_core.protocols.fivetran.questions import Below, Kind, Question, questions_of
from tap_core.protocols.fivetran.words import TextField
from tap_core.protocols.settings import own_settings

__all__ = ["form_of"]

_LARGEST_FILE: Final = 1 << 20
_KEYS: Final = (".pem", ".crt", ".cer", ".key")
_FILES: Final = (*_KEYS, ".der", ".p12", ".pfx", ".json", ".txt", ".xml", ".yaml", ".yml")
_EXAMPLES: Final[Mapping[str, str]] = {
    "date": "2024-01-31",
    "date-time": "2024-01-31T00:00:00Z",
    "time": "12:30:00",
}
"""Placeholders for texts of a format without examples of their own."""

_TEXTS: Final = "Several values are separated by commas or line breaks, or given as a JSON array."
_ARRAY: Final = "Given as a JSON array."
_OBJECT: Final = "Given as a JSON object."


def form_of(schema: Schema, tests: Mapping[str, str], *, selects_tables: bool = True) -> Any:
    """Return the ConfigurationFormResponse for settings of a JSON Schema.

    ``tests`` is the label of each test by its name. ``selects_tables``: whether the user can
    choose among schemas and tables.
    """
    own = own_settings(schema)
    properties = schema.get("properties") or {}
    asked = {name: inner for name, inner in properties.items() if name not in own}
    return ConfigurationFormResponse(
        schema_selection_supported=selects_tables,
        table_selection_supported=selects_tables,
        fields=_fields(questions_of({**schema, "properties": asked})),
        tests=[ConfigurationTest(name=name, label=label) for name, label in tests.items()],
    )


def _fields(questions: Iterable[Question]) -> Iterator[Any]:
    for question in questions:
        yield FormField(
            name=question.name,
            label=question.label,
            required=question.is_required,
            **_remarks(question),
            **_TYPES[question.kind](question),
        )
        for below in question.below:
            yield _group(question, below)


def _group(question: Question, below: Below) -> Any:
    """Return the fields that are shown after an answer, as one field."""
    condition = VisibilityCondition(condition_field=question.name)
    if isinstance(below.answer, bool):
        condition.bool_value = below.answer
    elif below.answer is None:
        condition.empty_value = False
    else:
        condition.string_value = below.answer
    name = "set" if below.answer is None else text_of(below.answer)
    return FormField(
        name=f"{question.name}={name}",
        label=below.label,
        conditional_fields=ConditionalFields(condition=condition, fields=_fields(below.questions)),
    )


# What stands around a field


def _remarks(question: Question) -> dict[str, str]:
    remarks = {
        "description": _description(question),
        "default_value": _default(question),
        "placeholder": _placeholder(question),
    }
    return {name: text for name, text in remarks.items() if text}


def _description(question: Question) -> str:
    said = str(question.schema.get("description") or "").strip()
    return " ".join(filter(None, (said, _how_to_write(question))))


def _how_to_write(question: Question) -> str:
    """Say how a text stands for what is no text."""
    types = types_of(question.schema) - {"null"}
    if question.kind not in {Kind.TEXT, Kind.PASSWORD} or "string" in types:
        return ""
    if "array" in types:
        items = question.schema.get("items")
        has_texts = isinstance(items, Mapping) and "string" in types_of(items)
        return _TEXTS if has_texts else _ARRAY
    return _OBJECT if "object" in types else ""


def _default(question: Question) -> str:
    if question.kind in {Kind.PASSWORD, Kind.FILE}:
        return ""
    text = text_of(question.schema.get("default"))
    is_answer = question.kind is not Kind.CHOICE or text in (each.text for each in question.options)
    return text if is_answer else ""


def _placeholder(question: Question) -> str:
    if question.kind not in {Kind.TEXT, Kind.PASSWORD}:
        return ""
    examples = question.schema.get("examples")
    first = examples[0] if isinstance(examples, list) and examples else examples
    return text_of(first) or _EXAMPLES.get(str(question.schema.get("format")), "")


# What kind of field it is


def _text(_question: Question) -> dict[str, Any]:
    return {"text_field": TextField.PlainText}


def _password(_question: Question) -> dict[str, Any]:
    return {"text_field": TextField.Password}


def _toggle(_question: Question) -> dict[str, Any]:
    return {"toggle_field": ToggleField()}


def _upload(question: Question) -> dict[str, Any]:
    is_pem = "pem" in str(question.schema.get("contentMediaType"))
    accepted = _KEYS if is_pem else _FILES
    return {
        "upload_field": UploadField(allowed_file_type=accepted, max_file_size_bytes=_LARGEST_FILE)
    }


def _dropdown(question: Question) -> dict[str, Any]:
    """Offer the answers, with labels and descriptions where they have any of their own."""
    if all(each.label == each.text and not each.description for each in question.options):
        texts = [option.text for option in question.options]
        return {"dropdown_field": DropdownField(dropdown_field=texts)}
    fields = [
        DescriptiveDropDownField(
            value=option.text, label=option.label, description=option.description
        )
        for option in question.options
    ]
    offered = DescriptiveDropDownFields(descriptive_dropdown_field=fields)
    return {"descriptive_dropdown_fields": offered}


_TYPES: Final = {
    Kind.TEXT: _text,
    Kind.PASSWORD: _password,
    Kind.TOGGLE: _toggle,
    Kind.FILE: _upload,
    Kind.CHOICE: _dropdown,
}
