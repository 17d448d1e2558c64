"""Schema source for a directory with one schema file per stream.

The directory is a folder, a package or a folder in a package. Packages are read with
`importlib.resources`, so that a tap in a zip file finds its schemas. References between files are
relative to the directory. Each file is read once.
"""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from tap_core.schema.base import SchemaSource
from tap_core.schema.loading import get_suffix, parse_document, resolve_relative
from tap_core.schema.references import has_reference, resolve_schema_references
from tap_core.types import JsonSchema

if TYPE_CHECKING:
    from importlib.abc import Traversable

__all__ = ["SchemaDirectory"]


class SchemaDirectory(SchemaSource[str]):
    """Schema source that reads one file per key, such as ``users.json`` for the key ``users``.

    Args:
        dir_path: A path, a package or its dotted name, or a resource of a package. If a name is
            both a directory and a package, the directory is used.
        extension: Suffix of the files without the dot. Files with ``yaml`` or ``yml`` are YAML, all
            others JSON.
    """

    def __init__(
        self,
        dir_path: str | Path | Traversable | ModuleType,
        *args: Any,
        extension: str = "json",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.dir_path: Traversable = _find_directory(dir_path)
        self.extension = extension
        self._files: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self.dir_path}')"

    def fetch_schema(self, key: str) -> JsonSchema:
        """Return the schema in the file of ``key``, with its references to other files resolved.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file is not valid JSON or YAML.
            SchemaNotValidError: A reference cannot be resolved.
        """
        name = quote(f"{key}.{self.extension}")
        schema = self._read_file(name)
        if not has_reference(schema):
            return cast(JsonSchema, schema)  # `get_schema` rejects a document that is not an object
        return resolve_schema_references({"$ref": name}, cut_circles=True, retrieve=self._read_file)

    def _read_file(self, name: str) -> Any:
        """Return the parsed content of a schema file. Each file is read only once.

        ``name`` is the URL-encoded path of the file relative to the directory.
        """
        if name not in self._files:
            text = resolve_relative(self.dir_path, name).read_text(encoding="utf-8-sig")
            self._files[name] = parse_document(text, get_suffix(name))
        return self._files[name]


def _find_directory(location: str | Path | Traversable | ModuleType) -> Path | Traversable:
    """Return the directory for a path, a package, or the dotted name of a package.

    A name that is both a directory and a package means the directory.
    """
    if isinstance(location, ModuleType):
        return importlib.resources.files(location)
    if not isinstance(location, str):
        return location
    folder = Path(location)
    return folder if folder.is_dir() else _find_package(location) or folder


def _find_package(name: str) -> Traversable | None:
    """Return the directory of a package, by its dotted name, or None if it cannot be imported."""
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    try:
        return importlib.resources.files(name)
    except (ImportError, TypeError):
        return None
