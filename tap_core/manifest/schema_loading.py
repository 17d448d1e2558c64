"""JSON Schema of a stream, from the schema loaders that its manifest declares.

Without a schema loader, the schema is read from a file with the stream's name. If there is no such
file, the schema is empty, and the records are emitted unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tap_core.manifest.components.custom import CustomSchemaLoader
from tap_core.manifest.components.dynamic_schema_loader import DynamicSchemaLoader
from tap_core.manifest.components.schema_loaders import (
    InlineSchemaLoader,
    JsonFileSchemaLoader,
    find_schema_file,
    read_schema,
)
from tap_core.manifest.interfaces import DeclarativeStreamProtocol
from tap_core.types import JsonSchema

__all__ = ["SchemaLoader", "load_schema"]

SchemaLoader: TypeAlias = (
    InlineSchemaLoader | JsonFileSchemaLoader | DynamicSchemaLoader | CustomSchemaLoader
)
"""Component that returns the JSON Schema of a stream."""


def load_schema(
    loaders: SchemaLoader | Sequence[SchemaLoader] | None,
    stream: DeclarativeStreamProtocol,
    folder: Path,
) -> JsonSchema:
    """Return the JSON Schema of a stream, merged from its schema loaders.

    If several loaders define a property, the first definition is used. Without a loader, return the
    schema in the file ``<stream name>.json`` in ``folder``, or {} if the file does not exist.
    """
    if loaders is None:
        file = find_schema_file(folder, f"./{stream.name}.json")
        return read_schema(file) if file else {}
    if not isinstance(loaders, Sequence):
        return loaders.json_schema(stream)
    properties: dict[str, Any] = {}
    for loader in reversed(loaders):
        properties.update(loader.json_schema(stream).get("properties", {}))
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": ["null", "object"],
        "properties": properties,
    }
