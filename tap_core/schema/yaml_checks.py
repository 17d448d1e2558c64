"""Checks of untrusted YAML documents: size, nesting depth and tags.

The nodes of a document are counted twice: while it is parsed, before nodes are stored, and then
with aliases expanded, because an alias is processed each time it occurs. Tags outside of YAML's
core schema are rejected, because they may create Python objects.
Source: YAML 1.2, sections 7.1 (aliases) and 10.3 (core schema).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import yaml

from tap_core.exceptions import LimitExceededError
from tap_core.limits.environment import Limit

__all__ = [
    "TAG_PREFIX",
    "YAML_NODES",
    "check_nodes",
    "check_text",
    "make_too_many_nodes_error",
    "read_scalar",
]

YAML_NODES: Final = Limit("TAP_CORE_YAML_NODES", 300_000)
"""Maximum number of nodes of a document with aliases expanded."""

_MAX_DEPTH: Final = 100
TAG_PREFIX: Final = "tag:yaml.org,2002:"
"""Beginning of the tags of YAML itself, such as ``tag:yaml.org,2002:int``."""
_SCALARS: Final = frozenset(
    {
        f"{TAG_PREFIX}{name}"
        for name in ("bool", "float", "int", "merge", "null", "str", "timestamp", "value")
    }
)
_NUMBERS: Final = frozenset({f"{TAG_PREFIX}float", f"{TAG_PREFIX}int"})
_LONGEST_NUMBER: Final = 4300
"""Maximum length of a number in characters: Python's limit for the digits of an integer.

A limit is needed because the time for parsing a number in base 60 is quadratic.
"""

_LONGEST_SHOWN: Final = 40
_PARSER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def check_text(text: str | bytes) -> None:
    """Check the nesting depth and the number of nodes of a YAML text.

    Raises:
        LimitExceededError: The text is nested too deeply, or has too many nodes.
        yaml.YAMLError: The text is not valid YAML.
    """
    depth = count = 0
    limit = YAML_NODES.whole
    for event in yaml.parse(text, Loader=_PARSER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            continue
        count += 1
        if depth > _MAX_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise LimitExceededError(
                f"A YAML document may be nested at most {_MAX_DEPTH} levels deep, and line {line}"
                " is deeper: reduce its nesting."
            )
        if count > limit:
            raise make_too_many_nodes_error()


def check_nodes(root: yaml.Node) -> None:
    """Check the tags of a YAML document and its size with aliases expanded.

    Raises:
        yaml.constructor.ConstructorError: A tag is not allowed, or an anchor contains itself.
        LimitExceededError: The document has too many nodes.
    """
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    waiting: list[tuple[yaml.Node, bool]] = [(root, False)]
    limit = YAML_NODES.whole
    while waiting:
        node, is_done = waiting.pop()
        inner = _children(node)
        if is_done:
            open_nodes.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in inner)
            if sizes[id(node)] > limit:
                raise make_too_many_nodes_error()
        elif id(node) not in sizes:
            if id(node) in open_nodes:
                raise _make_error(node, "an anchor contains itself")
            _check_tag(node)
            open_nodes.add(id(node))
            waiting.append((node, True))
            waiting += [(child, False) for child in inner]


def read_scalar(node: yaml.ScalarNode, construct: Callable[[yaml.ScalarNode], Any]) -> Any:
    """Return the value of a scalar node. ``construct`` is the method of PyYAML that converts it.

    Raises:
        yaml.constructor.ConstructorError: The text is invalid for its tag, or the number is too
            long.
    """
    kind = node.tag.removeprefix(TAG_PREFIX)
    if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
        problem = f"this {kind} has more than {_LONGEST_NUMBER:,} characters: put it in quotes"
        raise _make_error(node, problem)
    try:
        return construct(node)
    except (ArithmeticError, AttributeError, LookupError, ValueError):
        text = (
            node.value if len(node.value) <= _LONGEST_SHOWN else f"{node.value[:_LONGEST_SHOWN]}…"
        )
        raise _make_error(
            node, f"{text!r} is not a valid {kind}: correct it, or remove its tag"
        ) from None


def make_too_many_nodes_error() -> LimitExceededError:
    """Return the error for a YAML document with too many nodes."""
    return LimitExceededError(
        f"A YAML document may have at most {YAML_NODES.whole:,} nodes with its aliases and"
        " references written out, and this one has more: shorten it, or raise"
        f" {YAML_NODES.variable}."
    )


def _children(node: yaml.Node) -> list[yaml.Node]:
    """Return the child nodes of a node: keys and values of a mapping, items of a sequence."""
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _check_tag(node: yaml.Node) -> None:
    """Raise `yaml.constructor.ConstructorError` if a node's tag is not in YAML's core schema."""
    if isinstance(node, yaml.ScalarNode):
        is_known = node.tag in _SCALARS
    else:
        kind = "map" if isinstance(node, yaml.MappingNode) else "seq"
        is_known = node.tag == f"{TAG_PREFIX}{kind}"
    if not is_known:
        raise _make_error(node, f"the tag {node.tag} is not known")


def _make_error(node: yaml.Node, problem: str) -> yaml.constructor.ConstructorError:
    """Return the error about a ``problem`` of a YAML node, with the node's line and column."""
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
