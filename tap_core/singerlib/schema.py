"""JSON Schema as an object with attributes, for Singer catalogs and the code of taps.

- `Schema.from_dict` and `Schema.to_dict` keep all keywords that affect validation. Keywords without
  an attribute are in ``extras``. Annotations (``example``, ``x-…``, OpenAPI keywords) are dropped,
  so that catalogs and SCHEMA messages are the same as in singer_sdk.
- ``properties`` and ``items`` are `Schema` objects. The values of other keywords are those of the
  source dict, without a copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from tap_core.schema.in_place_references import (
    resolve_schema_references as resolve_schema_references,
)
from tap_core.types import JsonSchema

__all__ = ["Schema", "resolve_schema_references"]

_KEYWORDS: Final = (
    "title",
    "description",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "maxLength",
    "minLength",
    "format",
    "type",
    "default",
    "required",
    "enum",
    "pattern",
    "contentMediaType",
    "contentEncoding",
    "deprecated",
    "additionalProperties",
    "anyOf",
    "patternProperties",
    "allOf",
    "oneOf",
    "x-sql-datatype",
    "x-sql-datatype-properties",
    "$id",
    "$schema",
)
"""Keywords with an attribute of the same name, in the order in which they are written."""

_KEPT: Final = frozenset(
    {
        *("$ref", "$defs", "definitions", "$anchor", "$dynamicRef", "$dynamicAnchor"),
        *("const", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "dependentRequired"),
        *("not", "if", "then", "else", "contains", "prefixItems", "additionalItems"),
        *("propertyNames", "dependentSchemas", "dependencies"),
        *("unevaluatedItems", "unevaluatedProperties"),
    }
)
"""Keywords without an attribute that change what is valid (JSON Schema draft 4 to 2020-12)."""

_ATTRIBUTES: Final = {keyword: keyword.lstrip("$").replace("-", "_") for keyword in _KEYWORDS}


@dataclass(slots=True)
class Schema:
    """JSON Schema as an object with an attribute for each keyword.

    ``$id`` is the attribute ``id``. Keywords without an attribute are stored in ``extras``.
    """

    id: str | None = None
    schema: str | None = None

    type: str | list[str] | None = None
    default: Any | None = None
    properties: dict[str, Any] | None = None
    items: Any | None = None
    description: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusiveMinimum: float | None = None  # noqa: N815 - attributes are keywords
    exclusiveMaximum: float | None = None  # noqa: N815
    multipleOf: float | None = None  # noqa: N815
    maxLength: int | None = None  # noqa: N815
    minLength: int | None = None  # noqa: N815
    anyOf: Any | None = None  # noqa: N815
    allOf: Any | None = None  # noqa: N815
    format: str | None = None
    additionalProperties: Any | None = None  # noqa: N815
    patternProperties: Any | None = None  # noqa: N815
    required: list[str] | None = None
    enum: list[Any] | None = None
    title: str | None = None
    pattern: str | None = None
    contentMediaType: str | None = None  # noqa: N815
    contentEncoding: str | None = None  # noqa: N815
    x_sql_datatype: str | None = None
    x_sql_datatype_properties: dict[str, Any] | None = None
    deprecated: bool | None = None
    oneOf: Any | None = None  # noqa: N815

    _: KW_ONLY
    extras: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> JsonSchema:
        """Return the JSON Schema as a dict. Keywords with the value None are left out."""
        result: JsonSchema = {}
        if self.properties is not None:
            result["properties"] = {
                name: _as_json(value) for name, value in self.properties.items()
            }
        if self.items is not None:
            result["items"] = _as_json(self.items)
        for keyword, attribute in _ATTRIBUTES.items():
            value = getattr(self, attribute)
            if value is not None:
                result[keyword] = value
        result.update(self.extras)
        return result

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], **schema_defaults: Any) -> Schema:
        """Create a `Schema` from a JSON Schema.

        Args:
            data: The JSON Schema as a dict.
            schema_defaults: Values for attributes that are missing in ``data`` or in one of its
                nested schemas.
        """
        values: dict[str, Any] = dict(schema_defaults)

        def nested(value: Any) -> Any:
            if isinstance(value, Mapping):
                return cls.from_dict(value, **schema_defaults)
            return value

        if (properties := data.get("properties")) is not None:
            values["properties"] = {k: nested(v) for k, v in properties.items()}
        if (items := data.get("items")) is not None:
            values["items"] = nested(items)
        values |= {_ATTRIBUTES[key]: value for key, value in data.items() if key in _ATTRIBUTES}
        return cls(**values, extras={k: v for k, v in data.items() if k in _KEPT})


def _as_json(value: Any) -> Any:
    return value.to_dict() if isinstance(value, Schema) else value
