"""Config spec of a connector, from the key ``spec`` of its manifest.

References are resolved in this key only, so that a client gets the spec quickly. Airbyte's keywords
remain in the schema for clients that support them. A property marked ``airbyte_secret`` is also
marked ``secret``, the keyword of this SDK.
"""

from __future__ import annotations

from typing import Any, Final, cast

from tap_core.manifest.loader import Manifest
from tap_core.manifest.nodes import MappingNode, to_plain
from tap_core.types import JsonSchema

__all__ = ["changelog_url", "config_jsonschema", "documentation_url", "get_oauth_spec"]

_SECRET: Final = "airbyte_secret"  # noqa: S105  (the keyword, not a secret)


def config_jsonschema(manifest: Manifest) -> JsonSchema:
    """Return the JSON Schema of the config; without a spec, it allows any properties.

    A property whose schema is not an object, such as one that is left empty, may have any value.

    Raises:
        ManifestError: A reference in the spec has no target.
    """
    declared = _get_spec(manifest).get("connection_specification")
    if not isinstance(declared, MappingNode):
        return {"type": "object", "properties": {}, "additionalProperties": True}
    schema: JsonSchema = {"type": "object", **to_plain(declared)}
    declared_properties = schema.get("properties")
    properties = declared_properties if isinstance(declared_properties, dict) else {}
    schema["properties"] = {
        name: setting if isinstance(setting, dict) else {} for name, setting in properties.items()
    }
    _mark_secrets(schema)
    return schema


def documentation_url(manifest: Manifest) -> str | None:
    """Return the URL of the connector's documentation, or None if the spec has none."""
    return _get_url(manifest, "documentation_url", "documentationUrl")


def changelog_url(manifest: Manifest) -> str | None:
    """Return the URL of the connector's changelog, or None if the spec has none."""
    return _get_url(manifest, "changelog_url", "changelogUrl")


def _get_url(manifest: Manifest, *names: str) -> str | None:
    url = next(filter(None, map(_get_spec(manifest).get, names)), None)
    return str(url) if url else None


def get_oauth_spec(manifest: Manifest) -> dict[str, Any] | None:
    """Return the option ``advanced_auth`` of the spec, or None if the spec has none.

    The option describes an OAuth flow that a platform runs in the user's browser. Source: Airbyte's
    declarative component schema, Spec and AuthFlow.
    """
    declared = _get_spec(manifest).get("advanced_auth")
    return cast(dict[str, Any], to_plain(declared)) if isinstance(declared, MappingNode) else None


def _get_spec(manifest: Manifest) -> MappingNode:
    spec = manifest.get_part("spec")
    return spec if isinstance(spec, MappingNode) else MappingNode()


def _mark_secrets(schema: Any) -> None:
    """Set ``secret`` on each property of a schema that has ``airbyte_secret``, in place."""
    if isinstance(schema, list):
        for item in schema:
            _mark_secrets(item)
        return
    if not isinstance(schema, dict):
        return
    if schema.get(_SECRET) is True:
        schema["secret"] = True
    for key, value in schema.items():
        if key not in {"default", "examples", "const", "enum"}:
            _mark_secrets(value)
