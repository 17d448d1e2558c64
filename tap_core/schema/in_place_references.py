"""Resolution of ``$ref`` in a JSON Schema, with the interface of ``singer_sdk.singerlib``.

The schema is changed in place, because some taps ignore the return value. A recursive reference
is replaced by ``{}`` instead of raising an error.
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
    """Replace every ``$ref`` in a schema by the schema it refers to; change and return ``schema``.

    A recursive reference is replaced by ``{}``, which accepts anything.

    Args:
        schema: Schema to change.
        refs: Other documents that references may point to, by the URI used in the references.

    Raises:
        SchemaNotValidError: A reference cannot be resolved.
    """
    resolved = resolved_copy(schema, refs, cut_circles=True)
    schema.clear()
    schema.update(resolved)
    return schema
