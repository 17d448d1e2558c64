"""Schema loader that builds a stream's JSON Schema from an API response that lists the fields."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tap_core.manifest.components.record_selector import RecordPredicate
from tap_core.manifest.dpath import MISSING, make_getter
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Condition,
    DeclarativeStreamProtocol,
    Retriever,
    TemplateScope,
    Transformation,
    resolve,
)
from tap_core.types import JsonSchema

__all__ = ["ComplexFieldType", "DynamicSchemaLoader", "SchemaTypeIdentifier", "TypesMap"]

_TYPES: Final[Mapping[str, JsonSchema]] = {
    "string": {"type": ["null", "string"]},
    "boolean": {"type": ["null", "boolean"]},
    "date": {"type": ["null", "string"], "format": "date"},
    "timestamp_without_timezone": {
        "type": ["null", "string"],
        "format": "date-time",
        "airbyte_type": "timestamp_without_timezone",
    },
    "timestamp_with_timezone": {"type": ["null", "string"], "format": "date-time"},
    "time_without_timezone": {
        "type": ["null", "string"],
        "format": "time",
        "airbyte_type": "time_without_timezone",
    },
    "time_with_timezone": {
        "type": ["null", "string"],
        "format": "time",
        "airbyte_type": "time_with_timezone",
    },
    "integer": {"type": ["null", "integer"]},
    "number": {"type": ["null", "number"]},
    "array": {"type": ["null", "array"]},
    "object": {"type": ["null", "object"]},
}
"""JSON Schema of each Airbyte type. Source: Airbyte documentation, "Data types"."""


@dataclass(frozen=True)
class ComplexFieldType:
    """Airbyte type of a field, such as ``string``; for an array, also the type of its items."""

    field_type: str
    items: str | ComplexFieldType | None = None

    def __post_init__(self) -> None:
        """Raise ManifestError if `items` is set and the type is not ``array``."""
        if self.items and self.field_type != "array":
            raise ManifestError(
                f"items belong to the field_type 'array', and this one is '{self.field_type}'."
            )

    @property
    def schema(self) -> JsonSchema:
        """JSON Schema for the type, such as ``{"type": ["null", "string"]}``."""
        schema = _parse_type(self.field_type)
        if isinstance(self.items, ComplexFieldType):
            schema["items"] = self.items.schema
        elif self.items:
            schema["items"] = _parse_type(self.items)
        return schema


@dataclass(frozen=True)
class TypesMap:
    """Rule that replaces a type name of the API by an Airbyte type, if `condition` is true."""

    target_type: str | list[str] | ComplexFieldType
    current_type: str | list[str]
    condition: Condition = True


@dataclass(frozen=True)
class SchemaTypeIdentifier:
    """Paths to the field names and types in an API response that lists the fields."""

    key_pointer: list[str]
    type_pointer: list[str] = field(default_factory=list)
    schema_pointer: list[str] = field(default_factory=list)
    types_mapping: list[TypesMap] = field(default_factory=list)

    def fields(self, response: Any, config: Mapping[str, Any]) -> Iterator[tuple[str, JsonSchema]]:
        """Yield the name and the JSON Schema of each field that a response describes.

        Args:
            response: The response that describes the fields.
            config: The connector's config.

        Raises:
            ManifestError: There is no list of fields, a name is not a string, or a type is unknown.
        """
        descriptions = make_getter(self.schema_pointer)(response)
        if not isinstance(descriptions, list):
            raise ManifestError(
                f"The response has no list of fields at {self.schema_pointer}: check"
                " schema_pointer, and the response of the schema_loader's retriever."
            )
        get_name, get_type = make_getter(self.key_pointer), make_getter(self.type_pointer)
        for description in descriptions:
            name = get_name(description)
            if not isinstance(name, str):
                raise ManifestError(
                    f"A field is described without a name at {self.key_pointer}: {description!r}."
                )
            api_type = get_type(description) if self.type_pointer else MISSING
            scope = {"config": config, "raw_schema": description}
            yield name, self._make_schema("string" if api_type is MISSING else api_type, scope)

    def _make_schema(self, api_type: Any, scope: TemplateScope) -> JsonSchema:
        kind = self._map_type(api_type, scope)
        if isinstance(kind, ComplexFieldType):
            return kind.schema
        if isinstance(kind, list) and len(kind) == 2:  # noqa: PLR2004  (as in airbyte-cdk)
            return {"oneOf": [_parse_type(name) for name in kind]}
        return _parse_type(kind)

    def _map_type(self, api_type: Any, scope: TemplateScope) -> Any:
        """Return the target type of the first matching rule, or else the API's type unchanged."""
        for rule in self.types_mapping:
            if rule.current_type == api_type and resolve(rule.condition, scope):
                return rule.target_type
        return api_type


@dataclass(frozen=True)
class DynamicSchemaLoader:
    """Schema loader that builds a JSON Schema from an API response that lists the fields."""

    retriever: Retriever
    schema_type_identifier: SchemaTypeIdentifier
    schema_filter: RecordPredicate | None = None
    schema_transformations: list[Transformation] = field(default_factory=list)
    config: Mapping[str, Any] = field(default_factory=dict)

    def json_schema(self, stream: DeclarativeStreamProtocol) -> JsonSchema:
        """Request the list of fields from the API and return the stream's JSON Schema.

        The list is read from the first record of `retriever`.
        """
        response = next(iter(stream.iterate_records(self.retriever)), None)
        fields = self.schema_type_identifier.fields(response, self.config) if response else ()
        properties: dict[str, Any] = {
            name: schema for name, schema in fields if self._keeps(name, schema)
        }
        scope = {"config": self.config, "record": properties, "stream_slice": {}}
        for change in self.schema_transformations:
            change.transform(properties, scope)
        return {
            "$schema": "https://json-schema.org/draft-07/schema#",
            "type": "object",
            "additionalProperties": True,
            "properties": properties,
        }

    def _keeps(self, name: str, schema: JsonSchema) -> bool:
        record = {name: schema}
        scope = {"config": self.config, "record": record, "stream_slice": {}}
        return self.schema_filter is None or self.schema_filter.keeps(record, scope)


def _parse_type(name: Any) -> JsonSchema:
    """Return the JSON Schema of an Airbyte type name, such as ``timestamp_with_timezone``.

    Raises:
        ManifestError: The type is unknown.
    """
    if not isinstance(name, str) or name not in _TYPES:
        raise ManifestError(
            f"{name!r} is not a type. The types are {', '.join(_TYPES)}; map the API's types to"
            " them with types_mapping."
        )
    return copy.deepcopy(_TYPES[name])
