"""Check that a gRPC call sets only settings that the tap declares or the operator allows.

Otherwise a call could use a setting of the SDK to write rows to a file or an address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tap_core.protocols.fivetran.allowed_names import AllowedNames
from tap_core.schema.inline_references import inline_references
from tap_core.types import JsonSchema

__all__ = ["check_allowed_settings"]

_BATCH_SETTING: Final = "batch_config"
"""SDK setting that writes rows to files, which Fivetran does not read."""

_SCHEMA_LIST_KEYWORDS: Final = ("anyOf", "oneOf", "allOf")
_SCHEMA_KEYWORDS: Final = ("if", "then", "else")


def check_allowed_settings(
    settings: Mapping[str, Any], schema: JsonSchema, allowance: AllowedNames
) -> None:
    """Check that a gRPC call sets only settings that the tap declares or the operator allows.

    The tap declares all names if its schema allows ``additionalProperties``. But ``batch_config``
    always needs the operator's permission: it names folders and URLs to write rows to.

    Args:
        settings: Settings of the call.
        schema: JSON Schema of the tap's settings.
        allowance: Settings that the operator of the server allows in addition.

    Raises:
        ConfigurationError: A setting is not allowed. The message says how to allow it.
    """
    document = inline_references(schema)
    restricted = (
        name
        for name, value in settings.items()
        if (name == _BATCH_SETTING and isinstance(value, Mapping)) or not _declares(document, name)
    )
    allowance.check(restricted, document.get("properties") or {})


def _declares(schema: Mapping[str, Any], name: str) -> bool:
    """Return True if a JSON Schema declares a property.

    It does so by name, by a pattern, by ``additionalProperties``, or in a subschema of ``allOf``
    and similar keywords.
    """
    if name in (schema.get("properties") or {}) or schema.get("additionalProperties"):
        return True
    if any(re.search(pattern, name) for pattern in schema.get("patternProperties") or {}):
        return True
    return any(_declares(branch, name) for branch in _iterate_branches(schema))


def _iterate_branches(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the subschemas, as in ``allOf``, that may declare further properties of an object."""
    branches: list[Any] = [
        branch for keyword in _SCHEMA_LIST_KEYWORDS for branch in schema.get(keyword) or ()
    ]
    branches += [schema.get(keyword) for keyword in _SCHEMA_KEYWORDS]
    branches += (schema.get("dependentSchemas") or {}).values()
    yield from (branch for branch in branches if isinstance(branch, Mapping))
