"""Schema loaders: the JSON Schema of a stream from the manifest, a file or the API.

References to other files are resolved. A stream without a schema has an empty schema, and its
records are emitted unchanged. Files are searched in the manifest's folder, also if their path
begins with the name of the connector's former package.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

from tap_core.limits.memory import DOCUMENT_BYTES, read_at_most
from tap_core.manifest import interfaces
from tap_core.manifest.dpath import MISSING, make_getter
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import (
    Condition,
    DeclarativeStreamProtocol,
    Retriever,
    SchemaLoader,
    Transformation,
    resolve,
)
from tap_core.singerlib.json import load_json
from tap_core.types import JsonSchema

__all__ = [
    "ComplexFieldType",
    "DynamicSchemaLoader",
    "InlineSchemaLoader",
    "JsonFileSchemaLoader",
    "SchemaTypeIdentifier",
    "TypesMap",
    "load_schema",
]

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
"""JSON Schema of each Airbyte type name. Source: Airbyte documentation, "Data types"."""


def load_schema(
    loaders: SchemaLoader | Sequence[SchemaLoader] | None,
    stream: DeclarativeStreamProtocol,
    folder: Path | None = None,
) -> JsonSchema:
    """Return the schema of a stream, merged from its schema loaders.

    If several loaders define a property, the first one wins. Without a loader, return the schema in
    the file ``<stream name>.json`` in ``folder``, or {} if there is no such file.
    """
    if loaders is None:
        found = _find_file(folder, f"./{stream.name}.json") if folder else None
        return _read_schema(found) if found else {}
    if not isinstance(loaders, Sequence):
        return loaders.json_schema(stream)
    properties: dict[str, Any] = {}
    for one in reversed(loaders):
        properties.update(one.json_schema(stream).get("properties", {}))
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": ["null", "object"],
        "properties": properties,
    }


@dataclass(frozen=True)
class InlineSchemaLoader:
    """Schema loader for a schema written in the manifest."""

    schema: Any = None

    def json_schema(self, stream: DeclarativeStreamProtocol) -> JsonSchema:  # noqa: ARG002  the Protocol's
        """Return the schema of the manifest; {} if it is missing.

        Raises:
            ManifestError: the schema is not a mapping.
        """
        if self.schema and not isinstance(self.schema, Mapping):
            kind = type(self.schema).__name__
            raise ManifestError(
                f"the schema of an InlineSchemaLoader must be a mapping, not {kind}: a $ref"
                " can only refer to parts of the manifest."
            )
        return cast(JsonSchema, self.schema or {})


@dataclass(frozen=True)
class JsonFileSchemaLoader:
    """Schema loader for a JSON file, by default ``<stream name>.json``."""

    file_path: str = ""
    folder: Path = field(default_factory=Path)
    place: str = ""

    def json_schema(self, stream: DeclarativeStreamProtocol) -> JsonSchema:
        """Read the file and return its schema, with references resolved.

        Raises:
            ManifestError: the file does not exist, or is not a JSON Schema.
        """
        path = self.file_path or f"./{stream.name}.json"
        found = _find_file(self.folder, path)
        if found is None:
            raise ManifestError(
                f"there is no file '{path}' (looked for in {self.folder}): add it, or write the"
                " schema into the manifest with an InlineSchemaLoader.",
                place=self.place,
            )
        return _read_schema(found)


@dataclass(frozen=True)
class ComplexFieldType:
    """Airbyte type with the type of its items, for arrays."""

    field_type: str
    items: str | ComplexFieldType | None = None

    def __post_init__(self) -> None:
        """Raise ManifestError for `items` of a type that is not ``array``."""
        if self.items and self.field_type != "array":
            raise ManifestError(
                f"items belong to the field_type 'array', and this one is '{self.field_type}'."
            )

    @property
    def schema(self) -> JsonSchema:
        """JSON Schema of the type."""
        made = _parse_type(self.field_type)
        if self.items:
            inner = self.items
            made["items"] = _parse_type(inner) if isinstance(inner, str) else inner.schema
        return made


@dataclass(frozen=True)
class TypesMap:
    """Mapping of a type of the API to an Airbyte type, if a condition is true."""

    target_type: str | list[str] | ComplexFieldType
    current_type: str | list[str]
    condition: Condition = True


@dataclass(frozen=True)
class SchemaTypeIdentifier:
    """Paths to the names and types of fields in a response that describes a schema."""

    key_pointer: list[str]
    type_pointer: list[str] = field(default_factory=list)
    schema_pointer: list[str] = field(default_factory=list)
    types_mapping: list[TypesMap] = field(default_factory=list)

    @cached_property
    def _key(self) -> Callable[[Any], Any]:
        return make_getter(self.key_pointer)

    @cached_property
    def _type(self) -> Callable[[Any], Any]:
        return make_getter(self.type_pointer)

    def fields(self, described: Any, config: Mapping[str, Any]) -> Iterator[tuple[str, JsonSchema]]:
        """Yield name and JSON Schema of each field that a response describes.

        Raises:
            ManifestError: a name is not a string, or a type is unknown.
        """
        found = make_getter(self.schema_pointer)(described)
        for one in found if isinstance(found, list) else []:
            name = self._key(one)
            if not isinstance(name, str):
                raise ManifestError(
                    f"A field is described without a name at {self.key_pointer}: {one!r}."
                )
            yield name, self._schema(one, config)

    def _schema(self, described: Any, config: Mapping[str, Any]) -> JsonSchema:
        given = self._type(described) if self.type_pointer else "string"
        kind = self._mapped("string" if given is MISSING else given, described, config)
        if isinstance(kind, ComplexFieldType):
            return kind.schema
        if isinstance(kind, list) and len(kind) == _TWO:
            return {"oneOf": [_parse_type(one) for one in kind]}
        return _parse_type(kind)

    def _mapped(self, kind: Any, described: Any, config: Mapping[str, Any]) -> Any:
        scope = {"config": config, "raw_schema": described}
        for one in self.types_mapping:
            if one.current_type == kind and resolve(one.condition, scope):
                return one.target_type
        return kind


_TWO: Final = 2


@dataclass(frozen=True)
class DynamicSchemaLoader:
    """Schema loader that builds the schema from the API's description of its fields."""

    retriever: Retriever
    schema_type_identifier: SchemaTypeIdentifier
    schema_filter: interfaces.RecordPredicate | None = None
    schema_transformations: list[Transformation] = field(default_factory=list)
    config: Mapping[str, Any] = field(default_factory=dict)

    def json_schema(self, stream: DeclarativeStreamProtocol) -> JsonSchema:
        """Request the description of the fields and return the schema; the first record counts."""
        described = next(iter(stream.iterate_records(self.retriever)), None)
        fields = self.schema_type_identifier.fields(described, self.config) if described else ()
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
    """Return the JSON Schema of an Airbyte type name.

    Raises:
        ManifestError: there is no such type.
    """
    if not isinstance(name, str) or name not in _TYPES:
        raise ManifestError(
            f"{name!r} is not a type. The types are {', '.join(_TYPES)}; map the API's types to"
            " them with types_mapping."
        )
    return copy.deepcopy(_TYPES[name])


def _find_file(folder: Path, path: str) -> Path | None:
    """Return the file at a path; None if it does not exist.

    The path may begin with the name of the connector's former package.
    """
    steps = Path(path).parts
    tried = [
        folder / path,
        folder.parent / path,
        folder.joinpath(*steps[1:]),
        folder / "schemas" / Path(path).name,
    ]
    return next(filter(_is_file, tried), None)


def _read_schema(file: Path) -> JsonSchema:
    """Read a schema file and return the schema with references resolved."""
    found = _resolved(_load(file), file, _load(file), ())
    found.pop("definitions", None)
    return cast(JsonSchema, found)


def _load(file: Path) -> Any:
    try:
        text = read_at_most(file, DOCUMENT_BYTES).decode("utf-8-sig")
        return load_json(text, parse_float=float)
    except (OSError, ValueError) as error:
        raise ManifestError(f"The schema {file} cannot be read: {error}.") from error


def _resolved(node: Any, file: Path, root: Any, way: tuple[str, ...]) -> Any:
    """Return a part of a schema in which each ``$ref`` is replaced by its target.

    ``way`` holds the references that led here, to find circles.
    """
    if isinstance(node, list):
        return [_resolved(one, file, root, way) for one in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if not isinstance(reference, str):
        return {key: _resolved(one, file, root, way) for key, one in node.items()}
    name, _, pointer = reference.partition("#")
    here = f"{file}: {reference}"
    if here in way:
        raise ManifestError(f"The schema {file} refers to itself: {' -> '.join((*way, here))}.")
    if name:
        file = _shared(file, name)
        root = _load(file)
    found = make_getter([step for step in pointer.split("/") if step])(root)
    if found is MISSING:
        raise ManifestError(f"The schema {file} refers to '{reference}', which does not exist.")
    made = _resolved(found, file, root, (*way, here))
    return {key: one for key, one in made.items() if key != "definitions"}


def _shared(file: Path, name: str) -> Path:
    """Return the file that a schema refers to, in ``shared/`` or next to the schema."""
    tried = [file.parent / "shared" / name, file.parent / name]
    found = next(filter(_is_file, tried), None)
    if found is None:
        raise ManifestError(f"The schema {file} refers to a file '{name}', which does not exist.")
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # for example, the name is too long for the file system
        return False
