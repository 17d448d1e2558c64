"""Lint rules for unknown names: config keys, primary keys, cursor fields and schema types.

A manifest with such names runs, here as in airbyte-cdk, but may lose data silently; so each is a
warning. Names that only the config or an API can supply are not checked.

Source: JSON Schema Draft 7, the meta-schema, for the schemas of streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tap_core.config.similar_names import suggest
from tap_core.manifest.document import ListNode, MappingNode, to_plain
from tap_core.manifest.literals import has_template
from tap_core.manifest.loader import Manifest
from tap_core.manifest.problems import ManifestProblem
from tap_core.manifest.spec import config_jsonschema
from tap_core.schema.validators import find_schema_errors

__all__ = ["find_name_problems"]

_PARTS: Final = ("check", "streams", "dynamic_streams", "api_budget", "concurrency_level")
"""Top-level keys whose templates may use the config."""
_COMBINED: Final = ("allOf", "anyOf", "oneOf", "$ref")
_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")


def find_name_problems(manifest: Manifest) -> Iterator[ManifestProblem]:
    """Yield a warning for each unknown name in a template and each invalid part of a schema."""
    yield from _unknown_settings(manifest)
    for stream in manifest.streams:
        schema = _get_inline_schema(stream)
        if schema is not None:
            yield from _schema_faults(schema, f"{stream.path}.schema_loader.schema")
            yield from _find_unknown_properties(stream, schema)


# Config settings


def _unknown_settings(manifest: Manifest) -> Iterator[ManifestProblem]:
    from tap_core.manifest.interpolation import find_config_keys

    declared = config_jsonschema(manifest)
    known = set(declared["properties"])
    if not known or any(word in declared for word in _COMBINED):
        return
    for text, line, path in _iterate_templates(manifest):
        for name in sorted(find_config_keys(text) - known):
            if not name.startswith("__"):  # platforms add these
                message = f"the spec has no setting '{name}'.{suggest(name, map(str, known))}"
                yield ManifestProblem(line, path, message, is_error=False)


def _iterate_templates(manifest: Manifest) -> Iterator[tuple[str, int, str]]:
    """Yield each template in a manifest as (text, line, path of keys)."""
    waiting: list[tuple[Any, int, str]] = [
        (manifest.tree[key], manifest.raw.lines.get(key, 0), key)
        for key in _PARTS
        if key in manifest.tree
    ]
    while waiting:
        value, line, path = waiting.pop()
        if isinstance(value, str) and has_template(value):
            yield value, line, path
        elif isinstance(value, MappingNode):
            waiting += [
                (one, value.lines.get(key, value.line), f"{path}.{key}")
                for key, one in value.items()
            ]
        elif isinstance(value, list):
            lines = value.lines if isinstance(value, ListNode) else [line] * len(value)
            waiting += [
                (one, at, f"{path}[{place}]")
                for place, (one, at) in enumerate(zip(value, lines, strict=True))
            ]


# Keys, cursors and schemas


def _get_inline_schema(stream: MappingNode) -> MappingNode | None:
    """Return the inline schema of a stream; None if the stream has no InlineSchemaLoader."""
    loader = stream.get("schema_loader")
    if not isinstance(loader, MappingNode) or loader.get("type") != "InlineSchemaLoader":
        return None
    schema = loader.get("schema")
    return schema if isinstance(schema, MappingNode) else None


def _find_unknown_properties(stream: MappingNode, schema: MappingNode) -> Iterator[ManifestProblem]:
    """Yield a warning for each primary key or cursor field that is missing in the schema."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return
    if any(word in schema for word in _COMBINED):
        return
    cursor = stream.get("incremental_sync")
    fields = [("primary_key", one, stream, "") for one in _get_key_names(stream.get("primary_key"))]
    if isinstance(cursor, MappingNode) and isinstance(cursor.get("cursor_field"), str):
        fields.append(("cursor_field", cursor["cursor_field"], cursor, ".incremental_sync"))
    for option, name, node, below in fields:
        if name not in properties and not has_template(name):
            line, path = node.lines.get(option, node.line), f"{stream.path}{below}.{option}"
            message = f"the schema has no property '{name}'.{suggest(name, map(str, properties))}"
            yield ManifestProblem(line, path, message, is_error=False)


def _get_key_names(primary_key: Any) -> Iterator[str]:
    """Yield the top-level properties in a primary key."""
    for one in primary_key if isinstance(primary_key, list) else [primary_key]:
        first = one[0] if isinstance(one, list) and one else one
        if isinstance(first, str) and first:
            yield first


def _schema_faults(schema: MappingNode, path: str) -> Iterator[ManifestProblem]:
    whole = to_plain(schema)
    for steps, message in find_schema_errors(whole):
        place = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in steps)
        found = _value_at(whole, steps)
        is_type = steps[-1:] == ["type"] and isinstance(found, str)
        told = f"JSON Schema has no type '{found}'.{suggest(found, _TYPES)}" if is_type else message
        yield ManifestProblem(_find_line(schema, steps), f"{path}{place}", told, is_error=False)


def _value_at(schema: Any, steps: Iterable[Any]) -> Any:
    for step in steps:
        schema = schema[step]
    return schema


def _find_line(schema: MappingNode, steps: Iterable[Any]) -> int:
    """Return the line of a part of a schema, or of its nearest parent with a known line.

    ``steps`` is the path of the part.
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
