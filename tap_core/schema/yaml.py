"""YAML loader that uses JSON's rules for plain scalars, as OpenAPI requires.

``no`` and ``2024-01-01`` are text, not False and a date. Mapping keys are text. A document in which
an anchor contains itself is rejected. PyYAML is an optional dependency.
Source: OpenAPI 3.1, section 4.2 (format); YAML 1.2, section 10.2 (JSON schema).
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from tap_core.schema.yaml_checks import TAG_PREFIX, check_nodes, check_text, read_scalar

__all__ = ["load_yaml"]


def load_yaml(text: str | bytes) -> Any:
    """Return the value of a YAML document, such as a dict.

    Raises:
        ValueError: The text is not valid YAML, or has unknown tags.
        LimitExceededError: The document is nested too deeply, or is too large with its aliases
            expanded.
    """
    try:
        check_text(text)
        return yaml.load(text, Loader=_JsonLoader)  # noqa: S506 - it is a SafeLoader
    except yaml.YAMLError as ex:
        raise _NotYamlError(str(ex)) from ex


class _NotYamlError(ValueError, yaml.YAMLError):
    """Error for invalid YAML; a subclass of both `ValueError` and `yaml.YAMLError`."""


class _JsonLoader(yaml.SafeLoader):
    def __init__(self, stream: str | bytes) -> None:
        super().__init__(stream)
        self.deep_construct = True  # otherwise recursive documents would be constructed

    def construct_document(self, node: yaml.Node) -> Any:
        """Check the tags and the size of a parsed YAML document, and return its value."""
        check_nodes(node)
        return super().construct_document(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return the Python value of a YAML node; called by PyYAML for each node."""
        construct = super().construct_object
        return (
            read_scalar(node, construct)
            if isinstance(node, yaml.ScalarNode)
            else construct(node, deep)
        )

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a YAML mapping as a dict with text keys: the key ``1`` becomes ``"1"``."""
        self.flatten_mapping(node)
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                key.tag = f"{TAG_PREFIX}str"
        return super().construct_mapping(node, deep)


_JsonLoader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"null|Null|NULL|~|", ("n", "N", "~", "")),
    ("int", r"-?(?:0|[1-9][0-9]*)", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?", "-0123456789"),
    ("merge", r"<<", "<"),
):
    _JsonLoader.add_implicit_resolver(
        TAG_PREFIX + _name, re.compile(rf"^(?:{_pattern})$"), list(_first)
    )
