"""Normalization of OpenAPI schemas for streams.

- API documentation is often inaccurate. Every property that is not a primary key becomes
  nullable, and ``enum`` and ``pattern`` are removed, so that they cause no invalid records.
- Each step is a method that a subclass can override; each returns the schema.
- The result is JSON Schema (drafts 7 to 2020-12). A second normalization does not change it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from tap_core.schema.all_of import merge_schemas
from tap_core.schema.base import SchemaPreprocessor
from tap_core.schema.openapi_dialect import accepts_null, add_null, convert_keywords, remove_null
from tap_core.schema.type_variants import get_types
from tap_core.types import JsonSchema

__all__ = ["OpenAPISchemaNormalizer"]

_NULL: Final = {"type": "null"}
_REMOVED_KEYWORDS: Final = ("enum", "pattern")
"""Keywords that are removed. Without them, two options of a ``oneOf`` may be equal."""


class OpenAPISchemaNormalizer(SchemaPreprocessor):
    """Preprocessor that converts an OpenAPI schema with resolved references to JSON Schema.

    - ``nullable`` and ``x-nullable`` become the type ``null``; every property that is not in
      ``key_properties`` allows null, and so does the record itself if there are no keys
    - ``allOf`` is merged into the schema
    - ``oneOf`` with one option, or with one option and null, becomes that option
    - ``enum`` and ``pattern`` are removed
    - keywords that only OpenAPI 2.0 and 3.0 use, such as a true ``exclusiveMinimum``, are converted
    """

    def preprocess_schema(
        self, schema: JsonSchema, *, key_properties: Sequence[str] = ()
    ) -> JsonSchema:
        """Return a stream's schema, converted from OpenAPI to JSON Schema.

        Every property becomes nullable, unless it is in ``key_properties``.
        """
        return self.normalize_schema(schema, key_properties=key_properties)

    def normalize_schema(
        self, schema: JsonSchema, *, key_properties: Sequence[str] = ()
    ) -> JsonSchema:
        """Return a copy of an OpenAPI schema, converted to JSON Schema with all its subschemas.

        The schema's properties become nullable, unless they are in ``key_properties``.
        """
        result = deepcopy(schema)
        if "allOf" in result:
            parts = result.pop("allOf")
            merged = merge_schemas([self.handle_all_of(parts), result])
            return self.normalize_schema(merged, key_properties=key_properties)
        convert_keywords(result)
        result = self._normalize_subschemas(result, key_properties)
        if "anyOf" in result:
            result["anyOf"] = [self._normalize_subschema(choice) for choice in result["anyOf"]]
        result = self._remove_enum_and_pattern(result)
        if "oneOf" in result:
            result = self.handle_one_of(result)
        if result.pop("nullable", False):
            add_null(result)
        return result

    def handle_object(
        self, schema: JsonSchema, *, key_properties: Sequence[str] = ()
    ) -> JsonSchema:
        """Normalize the properties of an object schema, in place, and return the schema.

        Every property becomes nullable, unless it is in ``key_properties``. The object itself
        becomes nullable if there are no ``key_properties``.
        """
        schema["nullable"] = not key_properties
        properties = schema.get("properties", {})
        for name, inner in properties.items():
            if isinstance(inner, Mapping):
                inner = {k: v for k, v in inner.items() if k != "x-nullable"}  # noqa: PLW2901
                inner["nullable"] = name not in key_properties
            properties[name] = self._normalize_subschema(inner)
        return schema

    def handle_array_items(self, schema: JsonSchema) -> JsonSchema:
        """Convert the OpenAPI schema of an array's items to JSON Schema, and return it."""
        return self.normalize_schema(schema)

    def handle_enum(self, schema: JsonSchema) -> JsonSchema:
        """Return the schema without ``enum``, because APIs add values without notice."""
        schema.pop("enum", None)
        return schema

    def handle_pattern(self, schema: JsonSchema) -> JsonSchema:
        """Return the schema without ``pattern``, because regular expression dialects differ."""
        schema.pop("pattern", None)
        return schema

    def handle_one_of(self, schema: JsonSchema) -> JsonSchema:
        """Return the schema with the options of its ``oneOf`` normalized.

        If there is only one option besides null, that option replaces the ``oneOf``.
        """
        rest = {keyword: value for keyword, value in schema.items() if keyword != "oneOf"}
        choices = [self._normalize_subschema(choice) for choice in schema["oneOf"]]
        non_null = [choice for choice in choices if remove_null(choice) is not None]
        if len(non_null) == 1 and isinstance(non_null[0], dict):
            if len(choices) > 1:
                add_null(non_null[0])
            return merge_schemas([rest, non_null[0]])
        if any(map(_has_removed_keyword, schema["oneOf"])) and "anyOf" not in rest:
            return {**rest, "anyOf": choices}
        return {**rest, "oneOf": _allow_null_once(choices)}

    def handle_all_of(self, subschemas: list[JsonSchema]) -> JsonSchema:
        """Merge the members of an ``allOf`` into one schema, which the caller then normalizes."""
        return merge_schemas(deepcopy(part) for part in subschemas)

    # Subschemas

    def _normalize_subschemas(
        self, schema: JsonSchema, key_properties: Sequence[str]
    ) -> JsonSchema:
        """Return a schema whose ``properties``, ``items`` and similar subschemas are normalized.

        The caller normalizes the options of ``oneOf`` and ``anyOf``.
        """
        named = ["patternProperties"]
        if "object" in get_types(schema):
            schema = self.handle_object(schema, key_properties=key_properties)
        else:  # an API may declare text with properties
            named.append("properties")
        for keyword in named:
            if isinstance(schemas := schema.get(keyword), Mapping):
                schema[keyword] = {
                    name: self._normalize_subschema(inner) for name, inner in schemas.items()
                }
        if "additionalProperties" in schema:
            schema["additionalProperties"] = self._normalize_subschema(
                schema["additionalProperties"]
            )
        self._normalize_items(schema)
        return schema

    def _normalize_items(self, schema: JsonSchema) -> None:
        if isinstance(items := schema.get("items"), Mapping) and items:
            schema["items"] = self.handle_array_items(dict(items))
        for keyword in ("items", "prefixItems"):
            if isinstance(listed := schema.get(keyword), list):
                schema[keyword] = [self._normalize_subschema(item) for item in listed]

    def _normalize_subschema(self, schema: Any) -> Any:
        """Return a normalized copy of a subschema; return the schemas True and False unchanged."""
        return self.normalize_schema(dict(schema)) if isinstance(schema, Mapping) else schema

    def _remove_enum_and_pattern(self, schema: JsonSchema) -> JsonSchema:
        """Remove ``enum`` and ``pattern`` from a schema with `handle_enum` and `handle_pattern`.

        If a subclass keeps the ``enum`` and the schema allows null, null is added to the ``enum``.
        """
        if "enum" in schema:
            schema = self.handle_enum(schema)
        if "pattern" in schema:
            schema = self.handle_pattern(schema)
        if isinstance(values := schema.get("enum"), list) and "null" in get_types(schema):
            schema["enum"] = values if None in values else [*values, None]
        return schema


def _has_removed_keyword(schema: Any) -> bool:
    """Return True if a schema or one of its subschemas has ``enum`` or ``pattern``."""
    if isinstance(schema, Mapping):
        return any(keyword in schema for keyword in _REMOVED_KEYWORDS) or any(
            map(_has_removed_keyword, schema.values())
        )
    return isinstance(schema, list) and any(map(_has_removed_keyword, schema))


def _allow_null_once(choices: list[Any]) -> list[Any]:
    """Return the options of a ``oneOf``, changed so that at most one of them allows null.

    A value that matches two options of a ``oneOf`` is invalid. If several options allow null, null
    is therefore removed from each of them and added as a separate option.
    """
    if sum(map(accepts_null, choices)) <= 1:
        return choices
    non_null = [remaining for choice in choices if (remaining := remove_null(choice)) is not None]
    return [*non_null, dict(_NULL)]
