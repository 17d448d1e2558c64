"""A plugin keeps its annotations: pyright accepts overrides that are annotated as in singer_sdk.

The test generates a subclass of each class, with singer_sdk's signature of each method, and checks
it with pyright against this SDK.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.peers import missing_reason, peer_python
from tests.typing_api.pyright_check import check_folder

MODULES = {
    "authenticators": ["SimpleAuthenticator", "APIKeyAuthenticator", "OAuthAuthenticator"],
    "mapper_base": ["InlineMapper"],
    "pagination": ["BaseAPIPaginator", "JSONPathPaginator", "BasePageNumberPaginator"],
    "sinks.batch": ["BatchSink"],
    "sinks.core": ["Sink"],
    "sinks.record": ["RecordSink"],
    "sql.connector": ["SQLConnector", "SQLToJSONSchema", "JSONSchemaToSQL"],
    "sql.sink": ["SQLSink"],
    "sql.stream": ["SQLStream"],
    "sql.tap": ["SQLTap"],
    "sql.target": ["SQLTarget"],
    "streams.core": ["Stream"],
    "streams.graphql": ["GraphQLStream"],
    "streams.rest": ["_HTTPStream", "RESTStream"],
    "tap_base": ["Tap"],
    "target_base": ["Target"],
}
OTHER_DECORATORS = {"deprecated", "final", "lru_cache", "overload", "override"}
"""Decorators that are left out."""

LEFT_OUT = {
    "connector_class",  # its annotation in SQLSink is a type variable, unknown in a subclass
}
"""Members that are not overridden."""

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(peer_python("singer_sdk") is None, reason=missing_reason("singer_sdk")),
]


def write_overrides(source: Path, module: str, names: list[str]) -> str:
    """Return a module with a subclass of each class, which overrides all of its methods."""
    tree = ast.parse(source.read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    aliases = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
    defined = [node.name for node in classes]
    defined += [target.id for target in aliases if isinstance(target, ast.Name)]
    lines = sorted(map(ast.unparse, imports), key=lambda line: "__future__" not in line)
    lines += [f"from singer_sdk.{module} import {name}" for name in defined]
    for node in classes:
        if node.name in names:
            lines.append(f"class Author{node.name}({node.name}):")
            lines += write_members(node) or ["    pass"]
    return "\n".join(lines).replace("singer_sdk", "tap_core") + "\n"


def write_members(node: ast.ClassDef) -> list[str]:
    """Return the methods of a class, each without a body, and its annotated attributes."""
    lines = []
    for member in node.body:
        if isinstance(member, ast.AnnAssign):
            name = ast.unparse(member.target)
            if name not in LEFT_OUT:
                lines.append(f"{name}: {ast.unparse(member.annotation)}")
        elif isinstance(member, ast.FunctionDef) and not member.name.startswith("__"):
            if member.name in LEFT_OUT:
                continue
            member.body = ast.parse("raise NotImplementedError").body
            member.decorator_list = [
                decorator
                for decorator in member.decorator_list
                if ast.unparse(decorator).split("(")[0].split(".")[-1] not in OTHER_DECORATORS
            ]
            lines += ast.unparse(member).splitlines()
    return [f"    {line}" for line in lines]


def test_overrides_with_annotations_of_singer_sdk_are_accepted(tmp_path: Path) -> None:
    python = peer_python("singer_sdk")
    assert python is not None
    [package] = python.parents[1].glob("lib/python*/site-packages/singer_sdk")
    for module, names in MODULES.items():
        source = package / f"{module.replace('.', '/')}.py"
        text = write_overrides(source, module, names)
        assert all(f"class Author{name}(" in text for name in names), module
        (tmp_path / f"author_{module.replace('.', '_')}.py").write_text(text)
    errors = [
        (Path(diagnostic["file"]).stem, diagnostic["message"])
        for diagnostic in check_folder(tmp_path, "standard")
        if "Override" in diagnostic.get("rule", "") and "final method" not in diagnostic["message"]
    ]
    assert errors == []
