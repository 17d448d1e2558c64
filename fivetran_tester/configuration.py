"""Conversion of a tap's settings to Fivetran's configuration: a flat map of strings.

Settings files contain nested and typed values. An object becomes one string per value, under dotted
names, if the configuration form has a field for each; any other object or list becomes JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from tap_core.protocols.fivetran.enums import TextField
from tap_core.singerlib.json import dump_json

__all__ = ["collect_secrets", "get_fields", "to_text_map"]


def get_fields(form: Any) -> Iterator[Any]:
    """Yield the input fields of a configuration form, including conditional ones."""
    for field in form.fields:
        if field.WhichOneof("type") == "conditional_fields":
            yield from get_fields(field.conditional_fields)
        else:
            yield field


def to_text_map(settings: Mapping[str, Any], form: Any) -> dict[str, str]:
    """Return the settings as Fivetran sends them: one string for each field name.

    A setting that is missing gets the default value that the configuration form declares.
    """
    names = {field.name for field in get_fields(form)}
    values = dict(_flatten(settings, names))
    defaults = {
        field.name: field.default_value
        for field in form.fields
        if field.HasField("default_value") and field.name not in values
    }
    return {**defaults, **values}


def collect_secrets(configuration: Mapping[str, str], form: Any) -> list[str]:
    """Return the values of the form's password fields, which a server's log must not contain."""
    return [
        configuration[field.name]
        for field in get_fields(form)
        if field.WhichOneof("type") == "text_field"
        and field.text_field == TextField.Password
        and field.name in configuration
    ]


def _flatten(
    settings: Mapping[str, Any], names: AbstractSet[str], prefix: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each setting; nested ones get dotted names, such as "auth.user".

    A nested object stays one setting, as JSON text, unless all its dotted names are in ``names``,
    the fields of the configuration form. ``prefix`` begins the names.
    """
    for key, value in settings.items():
        name = prefix + key
        parts = dict(_flatten(value, names, f"{name}.")) if isinstance(value, Mapping) else {}
        if parts and parts.keys() <= names:
            yield from parts.items()
        elif value is not None:
            yield name, value if isinstance(value, str) else dump_json(value)
