"""Reader of the public names of modules and their docstrings. Sources are parsed, not imported.

A constant or a type alias is documented by a string below its assignment.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

__all__ = ["find_undocumented_names", "read_public_names", "read_summary"]

ROOT = Path(__file__).resolve().parents[1]


def find_undocumented_names(modules: Iterable[str]) -> list[str]:
    """Return the names in ``__all__`` of the modules that have no docstring, as dotted names."""
    return [
        f"{module}.{name}"
        for module in modules
        for name in read_public_names(module)
        if not _is_documented(module, name)
    ]


def read_public_names(module: str) -> list[str]:
    """Return the names in ``__all__`` of a module.

    Raises:
        LookupError: The module has no ``__all__``.
    """
    for statement in _parse(module).body:
        if isinstance(statement, ast.Assign) and "__all__" in _assigned(statement):
            return [str(name) for name in ast.literal_eval(statement.value)]
    raise LookupError(f"{module} has no `__all__`")


def read_summary(module: str) -> str:
    """Return the first paragraph of a module's docstring, in one line."""
    docstring = ast.get_docstring(_parse(module)) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


def _is_documented(module: str, name: str) -> bool:
    if _find_path(f"{module}.{name}") is not None:
        return ast.get_docstring(_parse(f"{module}.{name}")) is not None
    body = _parse(module).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, (ast.ClassDef, ast.FunctionDef)) and statement.name == name:
            return ast.get_docstring(statement) is not None
        if name in _assigned(statement):
            return isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
    return any(_is_documented(origin, original) for origin, original in _find_imports(module, name))


def _assigned(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    else:
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _find_imports(module: str, name: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(_parse(module)):
        if isinstance(node, ast.ImportFrom) and node.module and _find_path(node.module):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    yield node.module, alias.name


def _find_path(module: str) -> Path | None:
    base = ROOT.joinpath(*module.split("."))
    paths = (base.with_name(f"{base.name}.py"), base / "__init__.py")
    return next((path for path in paths if path.exists()), None)


@cache
def _parse(module: str) -> ast.Module:
    path = _find_path(module)
    if path is None:
        raise LookupError(f"there is no module {module}")
    return ast.parse(path.read_text("utf-8"))
