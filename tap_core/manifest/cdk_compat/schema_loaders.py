"""Schema loaders and state migrations to be subclassed.

Rules of the room: files are looked for in the manifest's folder, as its own loaders do. The class
that a connector imports knows that folder (`within`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from pathlib import Path
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
    """Return where the schema of a stream is without a path: the template of airbyte-cdk."""
    return "./schemas/{{ parameters['name'] }}.json"


@dataclass
class CdkSchemaLoader:
    """Gives the schema of a stream."""

    def get_json_schema(self) -> Mapping[str, Any]:
        """Return the schema of a record."""
        raise NotImplementedError


@dataclass
class CdkInlineSchemaLoader(CdkSchemaLoader):
    """A schema that stands in the manifest."""

    schema: dict[str, Any]
    parameters: InitVar[Mapping[str, Any]]

    def get_json_schema(self) -> Mapping[str, Any]:
        """Return the schema."""
        return self.schema


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name


@dataclass
class CdkJsonFileSchemaLoader(CdkSchemaLoader):
    """A schema in a JSON file, by default the one that bears the stream's name."""

    config: Mapping[str, Any]
    parameters: InitVar[Mapping[str, Any]]
    file_path: Any = ""

    FOLDER: ClassVar[Path] = Path()

    @classmethod
    def within(cls, folder: Path) -> type[CdkJsonFileSchemaLoader]:
        """Return the class for the files of a folder."""
        return type(cls.__name__, (cls,), {"FOLDER": folder, "__module__": cls.__module__})

    def __post_init__(self, parameters: Mapping[str, Any]) -> None:
        """Settle the path; a subclass may settle it otherwise, in `file_path`."""
        self._name = str((parameters or {}).get("name", ""))
        self.file_path = InterpolatedString.create(self.file_path, parameters=parameters or {})

    def get_json_schema(self) -> Mapping[str, Any]:
        """Return the schema of the file."""
        path = str(evaluate(self.file_path, self.config, {}))
        loader = ours.JsonFileSchemaLoader(path, self.FOLDER, "JsonFileSchemaLoader")
        name = getattr(self, "_name", "")
        return loader.json_schema(_Named(name))  # type: ignore[arg-type]  # asked for its name
