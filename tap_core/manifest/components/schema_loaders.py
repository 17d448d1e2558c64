"""Schema loaders that read the JSON Schema of a stream from the manifest or a file.

References (``$ref``) to other files are resolved. Files are searched in the manifest's folder.
Their path may begin with the name of the Python package in which the connector was developed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from tap_core.limits.memory import DOCUMENT_BYTES, read_at_most
from tap_core.manifest.dpath import MISSING, make_getter
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.interfaces import DeclarativeStreamProtocol
from tap_core.schema.yaml_checks import YAML_NODES
from tap_core.singerlib.json import load_json
from tap_core.types import JsonSchema

__all__ = ["InlineSchemaLoader", "JsonFileSchemaLoader", "find_schema_file", "read_schema"]

_CHOICES: Final = ("anyOf", "oneOf", "allOf")


@dataclass(frozen=True)
class InlineSchemaLoader:
    """Schema loader that returns a JSON Schema written in the manifest.

    Raises:
        ManifestError: The schema, or a part of it, has the wrong type.
    """

    schema: Any = None

    def __post_init__(self) -> None:
        if self.schema and not isinstance(self.schema, Mapping):
            kind = type(self.schema).__name__
            raise ManifestError(
                f"the schema of an InlineSchemaLoader must be a mapping, not {kind}: a $ref"
                " can only refer to parts of the manifest."
            )
        if fault := _find_fault(self.schema):
            raise ManifestError(f"the schema is not a JSON Schema: {fault}.")

    def json_schema(self, stream: DeclarativeStreamProtocol) -> JsonSchema:  # noqa: ARG002  (every schema loader takes it)
        """Return the JSON Schema in the manifest; {} if there is none."""
        return cast(JsonSchema, self.schema or {})


@dataclass(frozen=True)
class JsonFileSchemaLoader:
    """Schema loader that reads a JSON file, by default ``<stream name>.json``."""

    file_path: str = ""
    folder: Path = field(default_factory=Path)
    place: str = ""

    def json_schema(self, stream: DeclarativeStreamProtocol) -> JsonSchema:
        """Read the schema file; return the schema with its ``$ref`` references resolved.

        Raises:
            ManifestError: The file does not exist, or is not a JSON Schema.
        """
        path = self.file_path or f"./{stream.name}.json"
        file = find_schema_file(self.folder, path)
        if file is None:
            raise ManifestError(
                f"there is no file '{path}' (looked for in {self.folder}, and only there): add it,"
                " or write the schema into the manifest with an InlineSchemaLoader.",
                place=self.place,
            )
        return read_schema(file)


def find_schema_file(folder: Path, path: str) -> Path | None:
    """Return the path of a schema file; None if the file does not exist.

    ``path`` is relative to ``folder``. It may begin with the name of the Python package in which
    the connector was developed. An absolute path, or one with ``..``, is never opened. The path may
    contain the name of a stream, which comes from an API response if a resolver generates the
    stream.
    """
    steps = Path(path).parts
    if ".." in steps or Path(path).anchor:
        return None
    candidates = [
        folder / path,
        folder.parent / path,
        folder.joinpath(*steps[1:]),
        folder / "schemas" / Path(path).name,
    ]
    return next(filter(_is_file, candidates), None)


def read_schema(file: Path) -> JsonSchema:
    """Read a schema file; return the schema with its ``$ref`` references resolved.

    Raises:
        ManifestError: The file is not a JSON Schema, the target of a reference does not exist, or
            the resolved schema has more values than the limit `YAML_NODES`.
    """
    document = _load_file(file)
    schema = _resolve_references(document, file, document, (), itertools.count(1))
    if not isinstance(schema, dict):
        raise ManifestError(f"The schema {file} must be a JSON object.")
    if fault := _find_fault(schema):
        raise ManifestError(f"The schema {file} is not a JSON Schema: {fault}.")
    schema.pop("definitions", None)
    return schema


def _find_fault(schema: Any) -> str | None:
    """Return a message about a keyword whose value has the wrong type, or None.

    Only keywords by which the SDK finds the properties and their types are checked.
    """
    rest: list[tuple[Any, str]] = [(schema, "")]
    while rest:
        part, path = rest.pop()
        if not isinstance(part, Mapping):
            continue
        if fault := _find_invalid_keyword(part):
            return path + fault
        rest += [(inner, f"{path}{name}.") for inner, name in _iterate_subschemas(part)]
    return None


def _find_invalid_keyword(schema: Mapping[str, Any]) -> str | None:
    types, properties = schema.get("type"), schema.get("properties")
    for name in types if isinstance(types, list) else [types]:
        if not isinstance(name, str | None):
            return f"type: {name!r} is not the name of a type"
    if properties and not isinstance(properties, Mapping):
        return f"properties: {str(properties)[:100]!r} is not a mapping"
    for choice, name in _iterate_choices(schema):
        if not isinstance(choice, Mapping | bool):
            return f"{name}: {choice!r} is not a mapping"
    return None


def _iterate_subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield (subschema, path), for example of ``items`` and of each property."""
    yield schema.get("items"), "items"
    for name, inner in (schema.get("properties") or {}).items():
        yield inner, f"properties.{name}"
    yield from _iterate_choices(schema)


def _iterate_choices(schema: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    for keyword in _CHOICES:
        choices = schema.get(keyword)
        for number, choice in enumerate(choices if isinstance(choices, list) else ()):
            yield choice, f"{keyword}[{number}]"


def _load_file(file: Path) -> Any:
    try:
        text = read_at_most(file, DOCUMENT_BYTES).decode("utf-8-sig")
        return load_json(text, parse_float=float)
    except (OSError, ValueError) as error:
        raise ManifestError(f"The schema {file} cannot be read: {error}.") from error


def _resolve_references(
    node: Any, file: Path, root: Any, references: tuple[str, ...], numbers: Iterator[int]
) -> Any:
    """Return ``node``, a part of a JSON Schema, with each ``$ref`` replaced by its target.

    ``root`` is the whole document in ``file``. ``references`` are those followed so far, to detect
    circular ones, and ``numbers`` counts all parts, to limit the size of the result.
    """
    if next(numbers) > YAML_NODES.whole:
        raise ManifestError(
            f"The schema {file} has more than {YAML_NODES.whole:,} values with its references"
            f" written out: shorten it, or raise {YAML_NODES.variable}."
        )
    if isinstance(node, list):
        return [_resolve_references(item, file, root, references, numbers) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str):
        return _resolve_reference(reference, file, root, references, numbers)
    return {
        key: _resolve_references(item, file, root, references, numbers)
        for key, item in node.items()
    }


def _resolve_reference(
    reference: str, file: Path, root: Any, references: tuple[str, ...], numbers: Iterator[int]
) -> Any:
    """Return the target of a reference in a JSON Schema, with all references inside it resolved.

    ``root`` is the document in ``file``, which contains the reference. ``references`` are those
    followed so far, and ``numbers`` counts the resolved parts. ``definitions`` are removed.
    """
    name, _, pointer = reference.partition("#")
    current = f"{file}: {reference}"
    if current in references:
        raise ManifestError(
            f"The schema {file} refers to itself: {' -> '.join((*references, current))}."
        )
    if name:
        file = _find_shared_file(file, name)
        root = _load_file(file)
    target = make_getter([step for step in pointer.split("/") if step])(root)
    if target is MISSING:
        raise ManifestError(f"The schema {file} refers to '{reference}', which does not exist.")
    resolved = _resolve_references(target, file, root, (*references, current), numbers)
    if not isinstance(resolved, dict):  # such as `true`, a schema that allows any value
        return resolved
    return {key: value for key, value in resolved.items() if key != "definitions"}


def _find_shared_file(file: Path, name: str) -> Path:
    """Find a file to which a schema refers by name, and return its path.

    The file is searched in the folder ``shared/`` next to the schema, then next to the schema
    itself.

    Raises:
        ManifestError: The file does not exist.
    """
    candidates = [file.parent / "shared" / name, file.parent / name]
    shared_file = next(filter(_is_file, candidates), None)
    if shared_file is None:
        raise ManifestError(f"The schema {file} refers to a file '{name}', which does not exist.")
    return shared_file


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # for example, the name is too long for the file system
        return False
