"""Reference resolution with singer_sdk's interface.

The schema is changed in place, because some taps ignore the return value; recursive schemas
are cut, so that they are not an error.
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
    """Replace every ``$ref`` of a schema in place, and return the schema.

    A recursive reference is removed, so that its place accepts anything. Raises
    SchemaNotValidError for a reference that cannot be resolved.
    """
    resolved = resolved_copy(schema, refs, cut_circles=True)
    schema.clear()
    schema.update(resolved)
    return schema
