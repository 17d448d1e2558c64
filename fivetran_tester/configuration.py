"""A configuration as Fivetran sends it: a flat map of texts.

Rules of the room: pure. A person writes settings as a tap takes them, nested and typed; what the
form asks for decides how they are spelled: an object all of whose values the form asks for one by
one is sent under names with dots, any other object, and each list, as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from tap_core.protocols.fivetran.enums import TextField
from tap_core.singerlib.json import dump_json

__all__ = ["collect_secrets", "get_fields", "to_text_map"]


def get_fields(form: Any) -> Iterator[Any]:
    """Yield the fields of a form that hold a value, those that depend on another's included."""
    for field in form.fields:
        if field.WhichOneof("type") == "conditional_fields":
            yield from get_fields(field.conditional_fields)
        else:
            yield field


def to_text_map(settings: Mapping[str, Any], form: Any) -> dict[str, str]:
    """Return settings as texts, with the form's defaults for those that are not given."""
    names = {field.name for field in get_fields(form)}
    given = dict(_flat(settings, names))
    defaults = {
        field.name: field.default_value
        for field in form.fields
        if field.HasField("default_value") and field.name not in given
    }
    return {**defaults, **given}


def collect_secrets(configuration: Mapping[str, str], form: Any) -> list[str]:
    """Return the texts that the form calls secret."""
    return [
        configuration[field.name]
        for field in get_fields(form)
        if field.WhichOneof("type") == "text_field"
        and field.text_field == TextField.Password
        and field.name in configuration
    ]


def _flat(
    settings: Mapping[str, Any], names: AbstractSet[str], prefix: str = ""
) -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        name = prefix + key
        parts = dict(_flat(value, names, f"{name}.")) if isinstance(value, Mapping) else {}
        if parts and parts.keys() <= names:
            yield from parts.items()
        elif value is not None:
            yield name, value if isinstance(value, str) else dump_json(value)
