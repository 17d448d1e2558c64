"""Inlining of references, for clients that do not support ``$ref``.

A reference that cannot be resolved becomes ``{}``, which accepts anything, so that the rest of the
schema can still be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tap_core.exceptions import SchemaNotValidError
from tap_core.schema.references import resolve_schema_references
from tap_core.types import JsonSchema

__all__ = ["ANNOTATION_KEYWORDS", "inline_references"]

ANNOTATION_KEYWORDS: Final = frozenset(
    ("title", "description", "default", "examples", "deprecated")
)
"""JSON Schema keywords without effect on validity."""


def inline_references(json_schema: Mapping[str, Any]) -> JsonSchema:
    """Return a copy of a schema in which each ``$ref`` is replaced by the schema it refers to.

    The keywords ``$defs`` and ``definitions`` are removed. If a reference cannot be resolved, the
    property that contains it becomes ``{}``. In this case the result has only the keywords
    ``properties``, ``type`` and annotations, such as ``title``.
    """
    resolved = _try_to_resolve(json_schema, json_schema)
    if resolved is None:
        named = json_schema.get("properties")
        properties = named if isinstance(named, Mapping) else {}
        rest = {
            keyword: value
            for keyword, value in json_schema.items()
            if keyword in ANNOTATION_KEYWORDS | {"type"}
        }
        resolved = {
            **rest,
            "properties": {
                name: _try_to_resolve(inner, json_schema) or {}
                if isinstance(inner, Mapping)
                else inner
                for name, inner in properties.items()
            },
        }
    return {
        keyword: value
        for keyword, value in resolved.items()
        if keyword not in ("$defs", "definitions")
    }


def _try_to_resolve(schema: Mapping[str, Any], document: Mapping[str, Any]) -> JsonSchema | None:
    """Return a copy of a schema with its references inlined, or None if one cannot be resolved."""
    try:
        return resolve_schema_references(schema, {"": dict(document)}, cut_circles=True)
    except (SchemaNotValidError, TypeError, AttributeError, ValueError, RecursionError):
        return None  # the reference is not text, not a URI, or not found
