"""What an actor says of itself with ``spec``: its settings, and what it supports.

Rules of the room: made from the schema of the settings alone, and quickly. A setting that the
schema or its name calls a secret is marked, so that clients neither show nor log it. The
settings that come with the SDK are hidden from forms, and can still be given.

Source: the Airbyte protocol, section "Actor Specification".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tap_core.protocols.config_schema import author_settings
from tap_core.redaction import is_secret_text
from tap_core.schema.inline_references import inline_references
from tap_core.schema.references import map_subschemas
from tap_core.types import JsonSchema

__all__ = ["PROTOCOL_VERSION", "specification"]

PROTOCOL_VERSION: Final = "0.5.2"
"""The version of the protocol that is spoken here."""

_SECRET: Final = "airbyte_secret"  # noqa: S105 - the keyword, not a secret
_HIDDEN: Final = "airbyte_hidden"


def specification(
    schema: Mapping[str, Any],
    *,
    documentation: str | None = None,
    changelog: str | None = None,
    consent: Mapping[str, Any] | None = None,
    destination_sync_modes: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the ConnectorSpecification of an actor with these settings.

    ``documentation`` is the address of a page about it, ``changelog`` of one about its changes,
    ``consent`` how a platform gets
    credentials in the user's browser (``advanced_auth``). A destination names the modes in
    which it can write.
    """
    result: dict[str, Any] = {
        "protocol_version": PROTOCOL_VERSION,
        "connectionSpecification": _settings(schema),
    }
    if documentation:
        result["documentationUrl"] = documentation
    if changelog:
        result["changelogUrl"] = changelog
    if consent:
        result["advanced_auth"] = dict(consent)
    if destination_sync_modes is not None:
        result["supportsIncremental"] = True  # outdated, and asked for by old platforms
        result["supported_destination_sync_modes"] = list(destination_sync_modes)
    return result


def _settings(schema: Mapping[str, Any]) -> JsonSchema:
    settings = _with_secrets(inline_references(schema))
    properties = {
        name: _arranged(number, inner) if isinstance(inner, Mapping) else inner
        for number, (name, inner) in enumerate((settings.get("properties") or {}).items())
    }
    for name in properties.keys() & author_settings(schema):
        properties[name] = {**properties[name], _HIDDEN: True}
    return {"type": "object", **settings, "properties": properties}


def _arranged(number: int, setting: Mapping[str, Any]) -> JsonSchema:
    """Let a form show the settings in the order in which they are declared."""
    return {"order": number, **setting}


def _with_secrets(schema: JsonSchema) -> JsonSchema:
    """Mark the secrets among the settings of a schema, and in all that is inside it."""
    result = map_subschemas(schema, _with_secrets)
    properties = result.get("properties")
    if isinstance(properties, dict):
        for name, setting in properties.items():
            if (
                isinstance(setting, dict)
                and _SECRET not in setting
                and is_secret_text(name, setting)
            ):
                properties[name] = _marked(setting)
    return result


def _marked(setting: JsonSchema) -> JsonSchema:
    """Mark a secret; of an object, which cannot be one as a whole, what it consists of."""
    properties = setting.get("properties")
    if not isinstance(properties, dict):
        return {**setting, _SECRET: True}
    inner = {
        name: _marked(value) if isinstance(value, dict) else value
        for name, value in properties.items()
    }
    return {**setting, "properties": inner}
