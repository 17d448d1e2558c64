"""Loader of manifests: YAML (or JSON) with line numbers and resolved references.

Scalars are read as PyYAML reads them, except that dates stay text. References are resolved
separately for each top-level key, so that a command that needs only the spec need not resolve the
streams.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

import yaml

from tap_core.exceptions import LimitExceededError
from tap_core.limits.memory import DOCUMENT_BYTES, InputTooLargeError, read_at_most
from tap_core.manifest.errors import ManifestError, ManifestProblem
from tap_core.manifest.nodes import ListNode, MappingNode, is_larger, to_plain
from tap_core.manifest.parameters import expand_component, find_parameter_names
from tap_core.manifest.references import References
from tap_core.schema.yaml_checks import (
    TAG_PREFIX,
    YAML_NODES,
    check_nodes,
    check_text,
    make_too_many_nodes_error,
    read_scalar,
)
from tap_core.singerlib.json import load_json

__all__ = ["Manifest", "get_dynamic_stream_names", "parse_value", "read_manifest"]

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_TAGS: Final = frozenset({f"{TAG_PREFIX}str", f"{TAG_PREFIX}timestamp", f"{TAG_PREFIX}value"})
_SCALAR_TAGS: Final = frozenset(
    {f"{TAG_PREFIX}int", f"{TAG_PREFIX}float", f"{TAG_PREFIX}bool", f"{TAG_PREFIX}null"}
)
_NOT_BUILT: Final = frozenset({"definitions", "schemas", "metadata"})
"""Top-level keys that declare no components, but may be targets of references."""
_TOO_DEEP: Final = "this is nested too deeply after its references are resolved: make it flatter."


@dataclass(frozen=True)
class Manifest:
    """Airbyte manifest that declares a connector in YAML.

    `raw` is the manifest as written; `tree` has its references, default types and ``$parameters``
    resolved.
    """

    name: str
    """File name of the manifest, for messages."""
    folder: Path
    """Folder of the manifest; relative file names in it refer to this folder."""
    raw: MappingNode
    duplicate_keys: list[tuple[int, str]]
    """Duplicate keys, each with its line. Only the last value of a duplicate key is read."""
    problems: list[ManifestProblem] | None = None
    """List to which problems are appended; None to raise the first error."""

    @cached_property
    def references(self) -> References:
        """Resolver of ``#/…`` references within this manifest."""
        return References(self.raw, self.report_problem)

    @cached_property
    def tree(self) -> MappingNode:
        """Whole manifest with references, default types and ``$parameters`` resolved.

        Raises:
            ManifestError: A reference has no target, or is circular.
        """
        root = MappingNode(
            {key: self.get_part(key) for key in self.raw if key != "$ref"},
            line=self.raw.line,
            lines=self.raw.lines,
        )
        unbuilt = {key: root.pop(key) for key in _NOT_BUILT & root.keys()}
        try:
            built = expand_component(root, "", "DeclarativeSource", {})
        except RecursionError:
            raise ManifestError(_TOO_DEEP, place=self.name) from None
        built.update(unbuilt)
        return built

    @cached_property
    def parameter_names(self) -> frozenset[Any]:
        """Names of all ``$parameters`` in the manifest."""
        return frozenset(find_parameter_names(self.raw))

    @property
    def streams(self) -> list[MappingNode]:
        """Nodes of the streams under the key ``streams``, without streams of stream templates.

        Raises:
            ManifestError: ``streams`` is not a list of mappings, or is missing without
                ``dynamic_streams``.
        """
        return self.find_streams(lambda _: True)

    def find_streams(self, is_available: Callable[[MappingNode], bool]) -> list[MappingNode]:
        """Return the nodes of the available streams under the key ``streams``.

        ``is_available`` is called with each ``ConditionalStreams`` node. If it returns False, the
        streams inside the node are omitted.
        """
        if not self.raw.get("streams") and self.raw.get("dynamic_streams"):
            return []
        streams: list[MappingNode] = []
        for node in self._get_list("streams"):
            if node.get("type") != "ConditionalStreams":
                streams.append(node)
            elif is_available(node):
                inner = node.get("streams") or ()
                streams += [stream for stream in inner if isinstance(stream, MappingNode)]
        return streams

    @property
    def dynamic_streams(self) -> list[MappingNode]:
        """Nodes of the dynamic streams; each has a stream template and a components resolver.

        Raises:
            ManifestError: ``dynamic_streams`` is not a list of mappings.
        """
        return self._get_list("dynamic_streams") if self.raw.get("dynamic_streams") else []

    def _get_list(self, key: str) -> list[MappingNode]:
        nodes = self.tree.get(key)
        if (
            isinstance(nodes, list)
            and nodes
            and all(isinstance(node, MappingNode) for node in nodes)
        ):
            return cast(list[MappingNode], nodes)
        line = self.raw.lines.get(key, self.raw.line)
        self.report_problem(line, key, "a manifest needs a list of streams.")
        return []

    def get_part(self, key: str) -> Any:
        """Return the manifest's value for a key, with references resolved; None for a missing key.

        Raises:
            ManifestError: A reference has no target, or is circular.
        """
        line = self.raw.lines.get(key, 0)
        try:
            part = self.references.resolve(self.raw.get(key), line)
            if not is_larger(part, YAML_NODES.whole):
                return part
            self.report_problem(line, key, str(make_too_many_nodes_error()))
        except RecursionError:
            self.report_problem(line, key, _TOO_DEEP)
        return None

    def report_problem(self, line: int, path: str, message: str, *, is_error: bool = True) -> None:
        """Append a problem to the list `problems`; raise it as an error if there is no list.

        Only a linter sets the list. ``line`` and ``path`` are the position of the problem, and
        ``is_error`` is False for a warning.

        Raises:
            ManifestError: `problems` is None.
        """
        if self.problems is None:
            raise ManifestError(message, place=self.format_place(line, path), line=line, path=path)
        self.problems.append(ManifestProblem(line, path, message, is_error))

    def format_place(self, line: int, path: str = "") -> str:
        """Return a position as text, such as "manifest.yaml, line 3, streams[0]"."""
        parts = [self.name, *([f"line {line}"] if line else []), *([path] if path else [])]
        return ", ".join(parts)


def read_manifest(source: Path | str) -> Manifest:
    """Read an Airbyte manifest from YAML or JSON.

    ``source`` is the Path of a file, or the text of a manifest.

    Raises:
        ManifestError: The source cannot be read, is not YAML, or is not a mapping.
    """
    if isinstance(source, str):
        return _parse_manifest(source, "manifest", Path())
    try:
        text = read_at_most(source, DOCUMENT_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise ManifestError(f"The manifest '{source}' cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, InputTooLargeError) as error:
        raise ManifestError(f"The manifest '{source}' cannot be read: {error}") from None
    return _parse_manifest(text, source.name, source.resolve().parent)


def get_dynamic_stream_names(dynamic_streams: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of dynamic streams; an unnamed one is called ``dynamic_stream_<index>``."""
    return [
        str(stream.get("name") or f"dynamic_stream_{index}")
        for index, stream in enumerate(dynamic_streams)
    ]


def parse_value(text: str) -> Any:
    """Parse a text as YAML and return the value; return a text that is not YAML unchanged.

    Raises:
        ManifestError: The YAML exceeds a size limit.
    """
    try:
        return to_plain(_parse_document(text, []))
    except LimitExceededError as error:
        raise ManifestError(str(error)) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


def _parse_manifest(text: str, name: str, folder: Path) -> Manifest:
    duplicate_keys: list[tuple[int, str]] = []
    try:
        document = _parse_document(text, duplicate_keys)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        message = f"this is not YAML: {error.problem or error.context}."
        location = f"{name}, line {line}" if line else name
        raise ManifestError(message, place=location, line=line) from None
    except yaml.reader.ReaderError as error:  # its position counts bytes
        line = text[: text.find(chr(error.character))].count("\n") + 1
        message = f"this is not YAML: the character U+{error.character:04X} is not allowed."
        raise ManifestError(message, place=f"{name}, line {line}", line=line) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ManifestError(f"this is not YAML: {error}", place=name) from None
    except LimitExceededError as error:
        raise ManifestError(str(error), place=name) from None
    if not isinstance(document, MappingNode):
        raise ManifestError("a manifest must be a mapping with `streams` and `check`.", place=name)
    return Manifest(name, folder, document, duplicate_keys)


def _parse_document(text: str, duplicate_keys: list[tuple[int, str]]) -> Any:
    try:
        document = _compose(text)
    except yaml.YAMLError:
        if not text.lstrip().startswith("{"):
            raise
        # JSON with tabs is not valid YAML; parsing it as JSON loses the line numbers.
        document = _compose(json.dumps(load_json(text, parse_float=float)))
    return None if document is None else _NodeConverter(duplicate_keys).convert(document)


def _compose(text: str) -> yaml.Node | None:
    check_text(text)
    loader = _LOADER(text)
    try:
        node = cast("yaml.Node | None", loader.get_single_node())
    finally:
        loader.dispose()
    if node is not None:
        check_nodes(node)
    return node


class _NodeConverter:
    """Converter of PyYAML's nodes to the nodes of a manifest, which have line numbers.

    All aliases of a YAML anchor are converted to one shared object.
    """

    def __init__(self, duplicate_keys: list[tuple[int, str]]) -> None:
        self._constructor = yaml.constructor.SafeConstructor()
        self._converted: dict[int, Any] = {}
        """Converted mappings and lists, by the id of PyYAML's node."""
        self._duplicate_keys = duplicate_keys

    def convert(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._convert_scalar(node)
        if id(node) not in self._converted:
            if isinstance(node, yaml.MappingNode):
                self._converted[id(node)] = self._convert_mapping(node)
            else:
                self._converted[id(node)] = self._convert_list(node)
        return self._converted[id(node)]

    def _convert_scalar(self, node: yaml.ScalarNode) -> Any:
        if node.tag in _TEXT_TAGS:
            return node.value
        if node.tag in _SCALAR_TAGS:
            return read_scalar(node, self._constructor.construct_object)
        raise yaml.constructor.ConstructorError(
            None, None, f"the tag {node.tag} is not known", node.start_mark
        )

    def _convert_list(self, node: yaml.Node) -> ListNode:
        items = cast(yaml.SequenceNode, node).value
        lines = [item.start_mark.line + 1 for item in items]
        return ListNode([self.convert(item) for item in items], lines=lines)

    def _convert_mapping(self, node: yaml.MappingNode) -> MappingNode:
        self._record_duplicate_keys(node.value)
        if any(key.tag == f"{TAG_PREFIX}merge" for key, _ in node.value):
            self._constructor.flatten_mapping(node)
        result = MappingNode(line=node.start_mark.line + 1)
        for key_node, value_node in node.value:
            key = self._convert_key(key_node)
            result[key] = self.convert(value_node)
            result.lines[key] = key_node.start_mark.line + 1
        return result

    def _record_duplicate_keys(self, pairs: list[tuple[yaml.Node, yaml.Node]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen and key.value != "<<":
                self._duplicate_keys.append((key.start_mark.line + 1, key.value))
            seen.add(key.value)

    def _convert_key(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._convert_scalar(node)
        raise yaml.constructor.ConstructorError(
            None, None, "a key must be a text, not a mapping or list", node.start_mark
        )
