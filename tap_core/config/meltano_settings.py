"""Conversion of a plugin's JSON Schema to the settings of a Meltano plugin definition.

An object with fixed properties becomes one setting per property, named by the property's path:
``batch_config.storage.root``. Meltano builds the object from these settings again. Source: "Plugin
Definition Syntax" of Meltano's documentation, and the JSON Schema of `meltano.yml`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tap_core.config.enum_options import get_options
from tap_core.config.loading import get_json_types
from tap_core.config.schema_flattening import Schema, get_branches, merge_subschemas
from tap_core.config.titles import make_label, make_title
from tap_core.redaction import is_secret, is_secret_text
from tap_core.schema.inline_references import inline_references

__all__ = ["define_settings", "list_required_groups"]

_KINDS: Final[Mapping[str, str]] = {
    "string": "string",
    "object": "object",
    "array": "array",
    "number": "integer",
    "integer": "integer",
    "boolean": "boolean",
}
"""Meltano's kind of a setting by JSON type; the first type here that the setting allows applies.

Meltano converts the texts of environment variables by kind, and leaves the values of `meltano.yml`
unchanged. The kind ``decimal`` is not used, because Meltano 4.4 fails when it writes such a value
to the plugin's config file.
"""

_FORMATS: Final[Mapping[str, str]] = {
    "date": "date_iso8601",
    "date-time": "date_iso8601",
    "email": "email",
}
_HIDDEN: Final = ("airbyte_hidden", "x-hidden")


def define_settings(schema: Schema) -> list[dict[str, Any]]:
    """Return Meltano's definition of each setting that a plugin's JSON Schema declares.

    A definition has ``name``, ``label`` and ``kind`` and, where they apply, ``description``,
    ``options``, ``value`` (the default), ``placeholder``, ``sensitive`` and ``hidden``. The default
    of a secret is left out.
    """
    return list(_define_properties(inline_references(schema), "", ""))


def _define_properties(
    schema: Schema, path: str, above: str, *, in_secret: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield Meltano's definitions for the properties of an object setting.

    Args:
        schema: JSON Schema of the object.
        path: Path of the object with a dot at its end; "" for the object of all settings.
        above: Title of the object, which precedes the labels of its properties.
        in_secret: True if the schema marks the object, or one around it, as secret.
    """
    for name, declared in merge_subschemas(schema).get("properties", {}).items():
        setting = merge_subschemas(declared) if isinstance(declared, Mapping) else {}
        title = str(setting.get("title") or "").strip() or make_title(name)
        is_marked = in_secret or is_secret("", setting)
        if _has_fixed_properties(setting):
            yield from _define_properties(setting, f"{path}{name}.", title, in_secret=is_marked)
        else:
            is_hidden = is_marked or is_secret_text(name, setting)
            label = make_label(title, above)
            yield _define_setting(path + name, setting, label, is_sensitive=is_hidden)


def _has_fixed_properties(schema: Schema) -> bool:
    """Return True if a schema lists properties, and ``additionalProperties`` is not a schema."""
    others = schema.get("additionalProperties")
    return bool(schema.get("properties")) and not (isinstance(others, Mapping) and others)


def _define_setting(name: str, schema: Schema, label: str, *, is_sensitive: bool) -> dict[str, Any]:
    kind, options = _find_kind(schema)
    default, examples = schema.get("default"), schema.get("examples")
    fields: dict[str, Any] = {
        "name": name,
        "label": label,
        "kind": kind,
        "description": " ".join(str(schema.get("description") or "").split()),
        "options": options,
        "sensitive": is_sensitive,
        "hidden": any(schema.get(word) for word in _HIDDEN),
    }
    entry = {key: value for key, value in fields.items() if value}
    if default is not None and not is_sensitive:
        entry["value"] = default
    if isinstance(examples, list) and examples and not is_sensitive:
        entry["placeholder"] = f"Ex. {examples[0]}"
    return entry


def _find_kind(schema: Schema) -> tuple[str, list[dict[str, Any]]]:
    """Return Meltano's ``kind`` of a setting, and its options (if ``kind`` is "options")."""
    types = get_json_types(schema) - {"null"}
    options = get_options(schema)
    if options and all(isinstance(option.value, str) for option in options):
        return "options", [{"label": option.label, "value": option.value} for option in options]
    if "string" in types and schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]], []
    is_object = bool(schema.get("properties") or get_branches(schema))
    kind = next((kind for name, kind in _KINDS.items() if name in types), "string")
    return "object" if is_object else kind, []


def list_required_groups(schema: Schema) -> list[list[str]]:
    """Return the groups of settings that a plugin requires, each as a list of setting names.

    A plugin starts if all settings of at least one group are set. Each alternative in ``anyOf`` or
    ``oneOf`` that requires other settings has its own group. A required object is represented by
    its required properties. The result is empty if no setting is required.
    """
    groups = _list_groups(merge_subschemas(inline_references(schema)))
    return [list(dict.fromkeys(group)) for group in groups if group]


def _list_groups(schema: Schema, path: str = "") -> list[list[str]]:
    """Return the groups of settings that the JSON Schema of an object requires.

    All settings of at least one group must be set. ``path`` is the path of the object with a dot at
    its end; "" for the object of all settings.
    """
    properties = schema.get("properties") or {}
    groups: list[list[str]] = [[]]
    for name in schema.get("required", ()):
        setting = merge_subschemas(properties.get(name) or {})
        inner = _list_groups(setting, f"{path}{name}.") if _has_fixed_properties(setting) else []
        groups = _combine(groups, inner or [[path + name]])
    for word in ("anyOf", "oneOf"):
        branches = [branch for branch in schema.get(word) or () if isinstance(branch, Mapping)]
        alternatives = [
            group for branch in branches for group in _list_groups(merge_subschemas(branch), path)
        ]
        groups = _combine(groups, alternatives or [[]])
    return groups


def _combine(groups: list[list[str]], others: list[list[str]]) -> list[list[str]]:
    """Return each group in ``groups`` joined with each group in ``others``."""
    return [[*group, *other] for group in groups for other in others]
