"""Specification of a connector for Airbyte's ``spec`` command: its settings and features.

The specification is built from the JSON Schema of the settings. Settings that are secret by schema
or by name are marked, so that clients neither show nor log them. Settings that the SDK adds are
hidden in forms but can still be set.
Source: the Airbyte protocol, section "Actor Specification".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tap_core.protocols.config_schema import find_sdk_settings
from tap_core.redaction import is_secret_text
from tap_core.schema.inline_references import inline_references
from tap_core.schema.references import map_subschemas
from tap_core.types import JsonSchema

__all__ = ["PROTOCOL_VERSION", "specification"]

PROTOCOL_VERSION: Final = "0.5.2"
"""Implemented version of the Airbyte protocol."""

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
    """Return Airbyte's ConnectorSpecification, which describes a connector and its settings.

    Args:
        schema: JSON Schema of the settings.
        documentation: URL of the documentation.
        changelog: URL of the changelog.
        consent: Value of ``advanced_auth``, which describes the OAuth consent in the browser.
        destination_sync_modes: Sync modes of a destination; None for a source.
    """
    result: dict[str, Any] = {
        "protocol_version": PROTOCOL_VERSION,
        "connectionSpecification": _describe_settings(schema),
    }
    if documentation:
        result["documentationUrl"] = documentation
    if changelog:
        result["changelogUrl"] = changelog
    if consent:
        result["advanced_auth"] = dict(consent)
    if destination_sync_modes is not None:
        result["supportsIncremental"] = True  # deprecated, but required by old platforms
        result["supported_destination_sync_modes"] = list(destination_sync_modes)
    return result


def _describe_settings(schema: Mapping[str, Any]) -> JsonSchema:
    settings = _mark_secrets(inline_references(schema))
    properties = {
        name: {"order": number, **inner} if isinstance(inner, Mapping) else inner
        for number, (name, inner) in enumerate((settings.get("properties") or {}).items())
    }
    for name in properties.keys() & find_sdk_settings(schema):
        properties[name] = {**properties[name], _HIDDEN: True}
    return {"type": "object", **settings, "properties": properties}


def _mark_secrets(schema: JsonSchema) -> JsonSchema:
    """Return a schema with ``airbyte_secret: true`` in all secret settings, also nested ones."""
    result = map_subschemas(schema, _mark_secrets)
    properties = result.get("properties")
    if isinstance(properties, dict):
        for name, setting in properties.items():
            if (
                isinstance(setting, dict)
                and _SECRET not in setting
                and is_secret_text(name, setting)
            ):
                properties[name] = _mark_setting(setting)
    return result


def _mark_setting(setting: JsonSchema) -> JsonSchema:
    """Return a setting's schema with ``airbyte_secret: true``.

    For an object, the keyword is added to each of its properties instead.
    """
    properties = setting.get("properties")
    if not isinstance(properties, dict):
        return {**setting, _SECRET: True}
    inner = {
        name: _mark_setting(value) if isinstance(value, dict) else value
        for name, value in properties.items()
    }
    return {**setting, "properties": inner}
