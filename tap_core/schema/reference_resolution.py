"""References as singer_sdk resolves them, for taps that read their schemas that way.

Rules of the room: the schema itself is changed, which taps rely on that ignore what is
returned; a schema that contains itself is cut, so that no tap stops over it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tap_core.schema.references import resolve_schema_references as resolved_copy
from tap_core.types import JsonSchema

__all__ = ["resolve_schema_references"]


def resolve_schema_references(
    schema: JsonSchema,
    refs: Mapping[str, JsonSchema] | None = None,
) -> JsonSchema:
    """Replace every ``$ref`` in the schema itself, and return it.

    A reference to a schema that contains it is taken out: that place then accepts
    anything. Raises SchemaNotValidError for a reference that leads nowhere.
    """
    resolved = resolved_copy(schema, refs, cut_circles=True)
    schema.clear()
    schema.update(resolved)
    return schema
