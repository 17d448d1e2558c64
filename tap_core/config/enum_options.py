"""Dropdown options for settings with a fixed list of values (``enum`` or ``const``).

A configuration form shows a string value unchanged, and any other value as JSON. Titles and
descriptions of values come from ``oneOf`` with ``const``, or from extension keywords that other
form libraries use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tap_core.config.schema_flattening import Schema
from tap_core.singerlib.json import dump_json

__all__ = ["Option", "get_const", "get_options", "to_form_text"]

_TITLES: Final = ("enumNames", "x-enumNames", "x-enum-titles")
_DESCRIPTIONS: Final = ("x-enumDescriptions", "x-enum-descriptions")


@dataclass(frozen=True, slots=True)
class Option:
    """Option of a dropdown field in a configuration form.

    Attributes:
        text: Value of the form field, such as "5".
        value: Value of the setting, such as 5.
        label: Text that the form shows for the option.
        description: Help text of the option, or "".
    """

    text: str
    value: Any
    label: str
    description: str = ""


def to_form_text(value: Any) -> str:
    """Convert a setting's value to the text of a form field: True -> "true", None -> ""."""
    if isinstance(value, str):
        return value
    return "" if value is None else dump_json(value)


def get_const(schema: Schema) -> tuple[Any, ...]:
    """Return a tuple with the only value that a schema allows: ``{"const": 5}`` -> ``(5,)``.

    Return an empty tuple if the schema allows several values.
    """
    if "const" in schema:
        return (schema["const"],)
    allowed = schema.get("enum")
    return tuple(allowed) if isinstance(allowed, list) and len(allowed) == 1 else ()


def get_options(schema: Schema) -> tuple[Option, ...]:
    """Return a dropdown option for each value that a setting's schema lists, except null and ""."""
    by_text: dict[str, Option] = {}
    for option in (*_list_enum_options(schema), *_list_union_options(schema)):
        if option.text:
            by_text.setdefault(option.text, option)
    return tuple(by_text.values())


def _list_enum_options(schema: Schema) -> Iterator[Option]:
    """Yield a dropdown option for each value in ``enum`` or ``const`` of a setting's schema."""
    values = schema["enum"] if isinstance(schema.get("enum"), list) else get_const(schema)
    titles, descriptions = _get_texts(schema, _TITLES), _get_texts(schema, _DESCRIPTIONS)
    for number, value in enumerate(values):
        text = to_form_text(value)
        yield Option(
            text,
            value,
            _get_label(titles, number, text) or text,
            _get_label(descriptions, number, text),
        )


def _get_texts(schema: Schema, keywords: tuple[str, ...]) -> Any:
    """Return the titles or descriptions of ``enum`` values: a list, a dict by value, or None.

    ``keywords`` are extension keywords; the value of the first one that the schema has is returned.
    """
    return next((schema[keyword] for keyword in keywords if keyword in schema), None)


def _get_label(texts: Any, number: int, value: str) -> str:
    """Return the title or description of one ``enum`` value, or "" if it has none.

    ``texts`` contains the titles or descriptions of all values, either in a list, at the index
    ``number``, or in a dict, under the key ``value``.
    """
    if isinstance(texts, dict):
        return str(texts.get(value) or "")
    return str(texts[number]) if isinstance(texts, list) and number < len(texts) else ""


def _list_union_options(schema: Schema) -> Iterator[Option]:
    """Yield a dropdown option for each schema in ``oneOf`` or ``anyOf``, such as ``{"const": 5}``.

    A union with an alternative that allows several values yields nothing.
    """
    for word in ("oneOf", "anyOf"):
        branches = schema.get(word)
        if not isinstance(branches, list) or not all(map(_is_value, branches)):
            continue
        for branch in branches:
            for value in get_const(branch):
                text = to_form_text(value)
                label = str(branch.get("title") or text)
                yield Option(text, value, label, str(branch.get("description") or ""))


def _is_value(branch: Any) -> bool:
    """Return True if an alternative of ``oneOf`` or ``anyOf`` is null or allows only one value."""
    return isinstance(branch, dict) and (
        branch.get("type") == "null" or len(get_const(branch)) == 1
    )
