"""Settings with a fixed list of values, and these values as strings of a form.

The form's string for a value is the string itself, or JSON. Titles and descriptions of values come
from ``oneOf`` with ``const``, or from extension keywords that other form libraries use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tap_core.protocols.fivetran.schema_flattening import Schema
from tap_core.singerlib.json import dump_json

__all__ = ["Option", "get_const", "get_options", "to_form_text"]

_TITLES: Final = ("enumNames", "x-enumNames", "x-enum-titles")
_DESCRIPTIONS: Final = ("x-enumDescriptions", "x-enum-descriptions")


@dataclass(frozen=True, slots=True)
class Option:
    """Option of a dropdown field. If the user selects it, the setting gets the value ``value``."""

    text: str
    value: Any
    label: str
    description: str = ""


def to_form_text(value: Any) -> str:
    """Convert a setting's value to the string that a form field shows. None becomes ""."""
    if isinstance(value, str):
        return value
    return "" if value is None else dump_json(value)


def get_const(schema: Schema) -> tuple[Any, ...]:
    """Return a tuple with the only value that a schema allows. It is empty if more are allowed."""
    if "const" in schema:
        return (schema["const"],)
    allowed = schema.get("enum")
    return tuple(allowed) if isinstance(allowed, list) and len(allowed) == 1 else ()


def get_options(schema: Schema) -> tuple[Option, ...]:
    """Return a dropdown option for each value that a schema lists. Null and "" are left out."""
    found: dict[str, Option] = {}
    for option in (*_listed(schema), *_described(schema)):
        if option.text:
            found.setdefault(option.text, option)
    return tuple(found.values())


def _listed(schema: Schema) -> Iterator[Option]:
    """Yield a dropdown option for each value of ``enum`` or ``const``."""
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


def _get_texts(schema: Schema, words: tuple[str, ...]) -> Any:
    """Return the titles or descriptions of the ``enum`` values: a list, a dict by value, or None.

    ``words`` are the schema keywords that may contain them; the first one present is used.
    """
    return next((schema[word] for word in words if word in schema), None)


def _get_label(found: Any, number: int, text: str) -> str:
    """Return the text for one option, or "". ``found`` holds the texts of all options.

    A list is searched by the option's position ``number``, and a dict by its value ``text``.
    """
    if isinstance(found, dict):
        return str(found.get(text) or "")
    return str(found[number]) if isinstance(found, list) and number < len(found) else ""


def _described(schema: Schema) -> Iterator[Option]:
    """Yield a dropdown option for each alternative of a union in which all are single values."""
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
    """Return True if an alternative of a union allows only a single value, or only null."""
    return isinstance(branch, dict) and (
        branch.get("type") == "null" or len(get_const(branch)) == 1
    )
