"""Lint rules for the version of a manifest and for unknown names.

The names are those of settings, keys, cursor fields and schema types. A manifest with an unknown
name runs, here as in airbyte-cdk, but may lose data silently, so such a name is a warning. Names
that only the config or an API defines are not checked.

Sources: JSON Schema Draft 7, the meta-schema, for the schemas of streams; the check of the version
in airbyte-cdk's ManifestDeclarativeSource.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Any, Final

from tap_core.config.similar_names import suggest
from tap_core.manifest.errors import ManifestProblem
from tap_core.manifest.literals import has_template
from tap_core.manifest.loader import Manifest
from tap_core.manifest.nodes import ListNode, MappingNode, iterate_nodes, to_plain
from tap_core.manifest.spec import config_jsonschema
from tap_core.schema.validators import find_schema_errors

__all__ = ["find_name_problems", "find_version_problems"]

_TEMPLATE_KEYS: Final = ("check", "streams", "dynamic_streams", "api_budget", "concurrency_level")
"""Top-level keys of a manifest whose templates may use the config."""
_SUPPORTED_VERSION: Final = (7, 39)
"""Newest supported version of airbyte-cdk: (major, minor)."""
_VERSION: Final = re.compile(
    r"(\d{1,9})(?:\.(\d{1,9}))?(?:\.\d+)*(?:[-.+]?[a-z][a-z\d.+-]*)?", re.IGNORECASE
)
_COMBINING_KEYWORDS: Final = ("allOf", "anyOf", "oneOf", "$ref")
"""JSON Schema keywords that may define properties outside of ``properties``."""
_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")


def find_version_problems(manifest: Manifest) -> Iterator[ManifestProblem]:
    """Yield a warning if the manifest's version is missing, invalid, or newer than supported."""
    version = manifest.raw.get("version")
    line = manifest.raw.lines.get("version", manifest.raw.line)
    supported = ".".join(map(str, _SUPPORTED_VERSION))
    if version is None or version == "":
        message = (
            f"there is no version, without which airbyte-cdk runs no manifest: add {supported}.0."
        )
    elif not (parts := _VERSION.fullmatch(str(version).strip())):
        message = f"this is not a version: {version!r}. Write one such as {supported}.0."
    elif (int(parts[1]), int(parts[2] or 0)) > _SUPPORTED_VERSION:
        message = (
            f"the version {version} is newer than {supported}, the newest that is supported: newer"
            " components and options are unknown."
        )
    else:
        return
    yield ManifestProblem(line, "version", message, is_error=False)


def find_name_problems(manifest: Manifest) -> Iterator[ManifestProblem]:
    """Yield a warning for each unknown config setting, primary key and cursor field.

    Also yield a warning for each error in a JSON Schema.
    """
    yield from _find_unknown_settings(manifest)
    spec = manifest.tree.get("spec")
    declared = spec.get("connection_specification") if isinstance(spec, MappingNode) else None
    if isinstance(declared, MappingNode):
        yield from _find_schema_problems(declared, "spec.connection_specification")
    for stream in _iterate_streams(manifest):
        schema = _get_inline_schema(stream.get("schema_loader"))
        if schema is not None:
            yield from _find_unknown_properties(stream, schema)
    for loader in iterate_nodes(manifest.tree.get("streams")):
        schema = _get_inline_schema(loader)
        if schema is not None:
            yield from _find_schema_problems(schema, f"{loader.path}.schema")


def _iterate_streams(manifest: Manifest) -> Iterator[MappingNode]:
    """Yield the nodes of all streams that the manifest declares.

    A StateDelegatingStream yields two nodes: its full-refresh and its incremental stream.
    """
    for stream in manifest.streams:
        delegates = [stream.get(f"{mode}_stream") for mode in ("full_refresh", "incremental")]
        yield from [node for node in delegates if isinstance(node, MappingNode)] or [stream]


# Config settings


def _find_unknown_settings(manifest: Manifest) -> Iterator[ManifestProblem]:
    from tap_core.manifest.interpolation import find_config_keys

    declared = config_jsonschema(manifest)
    known = {*declared["properties"], *_find_added_settings(manifest)}
    if not declared["properties"] or any(word in declared for word in _COMBINING_KEYWORDS):
        return
    for text, line, path in _iterate_templates(manifest):
        for name in sorted(find_config_keys(text) - known):
            if not name.startswith("__"):  # platforms add these
                message = f"the spec has no setting '{name}'.{suggest(name, map(str, known))}"
                yield ManifestProblem(line, path, message, is_error=False)


def _find_added_settings(manifest: Manifest) -> Iterator[str]:
    """Yield the names of the settings that the manifest's spec adds to the config."""
    for node in iterate_nodes(manifest.tree.get("spec")):
        if node.get("type") == "ConfigAddFields":
            yield from (str(field["path"][0]) for field in node["fields"])


def _iterate_templates(manifest: Manifest) -> Iterator[tuple[str, int, str]]:
    """Yield each template in a manifest as (text, line, path of keys)."""
    waiting: list[tuple[Any, int, str]] = [
        (manifest.tree[key], manifest.raw.lines.get(key, 0), key)
        for key in _TEMPLATE_KEYS
        if key in manifest.tree
    ]
    while waiting:
        value, line, path = waiting.pop()
        if isinstance(value, str) and has_template(value):
            yield value, line, path
        elif isinstance(value, MappingNode):
            waiting += [
                (inner, value.lines.get(key, value.line), f"{path}.{key}")
                for key, inner in value.items()
            ]
        elif isinstance(value, list):
            lines = value.lines if isinstance(value, ListNode) else [line] * len(value)
            waiting += [
                (item, item_line, f"{path}[{index}]")
                for index, (item, item_line) in enumerate(zip(value, lines, strict=True))
            ]


# Keys, cursors and schemas


def _get_inline_schema(loader: Any) -> MappingNode | None:
    """Return the schema of an InlineSchemaLoader; None for any other schema loader."""
    if not isinstance(loader, MappingNode) or loader.get("type") != "InlineSchemaLoader":
        return None
    schema = loader.get("schema")
    return schema if isinstance(schema, MappingNode) else None


def _find_unknown_properties(stream: MappingNode, schema: MappingNode) -> Iterator[ManifestProblem]:
    """Yield a warning for each primary key or cursor field that is missing in the schema."""
    cursor = stream.get("incremental_sync")
    key = stream.get("primary_key")
    keys = key if isinstance(key, list) else [key]
    fields = [("primary_key", field, stream, "") for field in keys]
    if isinstance(cursor, MappingNode):
        fields.append(("cursor_field", cursor.get("cursor_field"), cursor, ".incremental_sync"))
    for option, field, node, below in fields:
        steps: list[Any] = field if isinstance(field, list) else [field]
        if not all(isinstance(step, str) and step and not has_template(step) for step in steps):
            continue
        message = _describe_missing(steps, schema)
        if message is not None:
            line, path = node.lines.get(option, node.line), f"{stream.path}{below}.{option}"
            yield ManifestProblem(line, path, message, is_error=False)


def _describe_missing(steps: Sequence[str], schema: Any) -> str | None:
    """Return a message if a schema has no property at the path ``steps``, otherwise None.

    Also return None if a schema on the path does not list all its properties.
    """
    for index, step in enumerate(steps):
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        if not isinstance(properties, Mapping) or not properties:
            return None
        if any(word in schema for word in _COMBINING_KEYWORDS):
            return None
        if step not in properties:
            name = ".".join(steps[: index + 1])
            return f"the schema has no property '{name}'.{suggest(step, map(str, properties))}"
        schema = properties[step]
    return None


def _find_schema_problems(schema: MappingNode, path: str) -> Iterator[ManifestProblem]:
    plain = to_plain(schema)
    for steps, error in find_schema_errors(plain):
        inner_path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
        value: Any = reduce(getitem, steps, plain)
        message = error
        if steps[-1:] == ["type"] and isinstance(value, str):
            message = f"JSON Schema has no type '{value}'.{suggest(value, _TYPES)}"
        line = _find_line(schema, steps)
        yield ManifestProblem(line, f"{path}{inner_path}", message, is_error=False)


def _find_line(schema: MappingNode, steps: Iterable[Any]) -> int:
    """Return the line of a value in a schema for a lint message.

    If it is unknown, return the line of the nearest parent with a known line. ``steps`` is the path
    of keys to the value.
    """
    value: Any = schema
    line = schema.line
    for step in steps:
        if isinstance(value, MappingNode) and step in value:
            line = value.lines.get(step, line)
        elif isinstance(value, ListNode):
            line = value.lines[step]
        else:
            break  # a key that is not a text in YAML
        value = value[step]
    return line
