"""YAML read as the JSON that its author meant.

Rules of the room: plain words are read by the JSON rules, as OpenAPI asks: ``no`` is a
word and ``2024-01-01`` a text, not false and a date, which have no place in a schema.
Keys are text. A document that contains itself is refused. Imported only when there is
YAML, because PyYAML is an extra.

Source: OpenAPI 3.1, section 4.2 (format); YAML 1.2, section 10.2 (JSON schema).
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from tap_core.schema.yaml_nodes import check_nodes, check_text, read_scalar

__all__ = ["load_yaml"]

_TAG = "tag:yaml.org,2002:"


def load_yaml(text: str | bytes) -> Any:
    """Read one YAML document.

    Raises:
        ValueError: it is not YAML, or has tags.
        LimitExceededError: it is nested too deeply, or too large with its aliases written out.
    """
    try:
        check_text(text)
        return yaml.load(text, Loader=_JsonLoader)  # noqa: S506 - it is a SafeLoader
    except yaml.YAMLError as ex:
        raise _NotYamlError(str(ex)) from ex


class _NotYamlError(ValueError, yaml.YAMLError):
    """Both what `json` raises for broken text and what PyYAML does."""


class _JsonLoader(yaml.SafeLoader):
    def __init__(self, stream: str | bytes) -> None:
        super().__init__(stream)
        self.deep_construct = True  # otherwise what contains itself would be made

    def construct_document(self, node: yaml.Node) -> Any:
        """Make the document of its nodes, once they are found to be harmless."""
        check_nodes(node)
        return super().construct_document(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Make the value of a node."""
        construct = super().construct_object
        return (
            read_scalar(node, construct)
            if isinstance(node, yaml.ScalarNode)
            else construct(node, deep)
        )

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Make a mapping whose keys are the text that stands there."""
        self.flatten_mapping(node)
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                key.tag = f"{_TAG}str"
        return super().construct_mapping(node, deep)


_JsonLoader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"null|Null|NULL|~|", ("n", "N", "~", "")),
    ("int", r"-?(?:0|[1-9][0-9]*)", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?", "-0123456789"),
    ("merge", r"<<", "<"),
):
    _JsonLoader.add_implicit_resolver(_TAG + _name, re.compile(rf"^(?:{_pattern})$"), list(_first))
