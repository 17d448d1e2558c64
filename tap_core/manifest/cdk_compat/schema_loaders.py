"""Base classes for custom schema loaders, with airbyte-cdk's class and method names.

Schema files are searched in the manifest's folder. Connectors import a subclass of
CdkJsonFileSchemaLoader for that folder, created by `CdkJsonFileSchemaLoader.within`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from tap_core.manifest.cdk_compat.interpolation import InterpolatedString, evaluate
from tap_core.manifest.components import schema_loaders as ours

__all__ = [
    "CdkInlineSchemaLoader",
    "CdkJsonFileSchemaLoader",
    "CdkSchemaLoader",
    "default_file_path",
]


def default_file_path() -> str:
    """Return the template of the default schema file path, relative to the manifest's folder."""
    return "./schemas/{{ parameters['name'] }}.json"


@dataclass
class CdkSchemaLoader:
    """Base class of schema loaders, which return the JSON Schema of a stream."""

    def get_json_schema(self) -> Mapping[str, Any]:
        """Return the JSON Schema of the stream's records; implemented by subclasses."""
        raise NotImplementedError


@dataclass
class CdkInlineSchemaLoader(CdkSchemaLoader):
    """Schema loader that returns the JSON Schema written in the manifest.

    The type name in manifests is InlineSchemaLoader.
    """

    schema: dict[str, Any]
    parameters: InitVar[Mapping[str, Any]]

    def get_json_schema(self) -> Mapping[str, Any]:
        """Return the JSON Schema that the manifest contains."""
        return self.schema


@dataclass
class CdkJsonFileSchemaLoader(CdkSchemaLoader):
    """Schema loader that reads a JSON file, such as ``schemas/<stream name>.json``.

    The type name in manifests is JsonFileSchemaLoader.
    """

    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]
    file_path: Any = ""

    FOLDER: ClassVar[Path] = Path()

    @classmethod
    def within(cls, folder: Path) -> type[CdkJsonFileSchemaLoader]:
        """Return a subclass that looks up relative paths of schema files in ``folder``."""
        return type(cls.__name__, (cls,), {"FOLDER": folder, "__module__": cls.__module__})

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        # a subclass may set another `file_path` before it calls this method
        self._name = str((parameters or {}).get("name", ""))
        self.file_path = InterpolatedString.create(self.file_path, parameters=parameters or {})

    def get_json_schema(self) -> Mapping[str, Any]:
        """Read the schema file; return the schema with its ``$ref`` references resolved."""
        path = str(evaluate(self.file_path, self.config, {}))
        loader = ours.JsonFileSchemaLoader(path, self.FOLDER, "JsonFileSchemaLoader")
        stream: Any = SimpleNamespace(name=getattr(self, "_name", ""))  # nothing else is read
        return loader.json_schema(stream)
