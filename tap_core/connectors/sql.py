"""Compatibility module for plugins that import ``singer_sdk.connectors.sql``.

It only re-exports names of `tap_core.sql.connector`. Each access emits a deprecation warning.
"""

from __future__ import annotations

from typing import Any

from tap_core.compat.deprecation import deprecated_import

_KNOWN = (
    "FullyQualifiedName",
    "JSONSchemaToSQL",
    "JSONtoSQLHandler",
    "SQLConnector",
    "SQLToJSONSchema",
)


def __getattr__(name: str) -> Any:
    """Import a class from `tap_core.sql.connector` on access, and emit a deprecation warning."""
    return deprecated_import(name, old=__name__, known=_KNOWN, new="tap_core.sql.connector")
