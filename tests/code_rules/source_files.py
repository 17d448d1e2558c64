"""Reader of source files for the code rules: imports, names and lengths.

Sources are parsed and not imported, so that conditional imports are found, too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = [
    "PACKAGES",
    "ROOT",
    "STDLIB",
    "Import",
    "Module",
    "assert_empty",
    "count_function_lines",
    "find_cycle",
    "find_imports",
    "find_layer",
    "find_public_names",
    "has_prefix",
    "measure_definitions",
    "read_modules",
]

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tap_core", "target_spark")


@dataclass(frozen=True)
class Module:
    """Source file of a module, with its dotted name."""

    name: str
    path: Path
    source: str

    @property
    def is_init(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def tree(self) -> ast.Module:
        return _parse(self.source)

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the syntax tree, in the order of `ast.walk`."""
        return _walked(self.source)


@dataclass(frozen=True)
class Import:
    """Import of a module."""

    target: str
    """Dotted name of the imported module."""
    line: int
    lazily: bool
    """True if the import is in a function or for type checkers only."""


@cache
def _parse(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def _walked(source: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_parse(source)))


def read_modules(root: Path = ROOT, packages: Iterable[str] = PACKAGES) -> list[Module]:
    """Return all modules of the packages."""
    modules = []
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = list(path.relative_to(root).with_suffix("").parts)
            if parts[-1] == "__init__":
                parts.pop()
            modules.append(Module(".".join(parts), path, path.read_text("utf-8")))
    return modules


def find_imports(module: Module, known: Iterable[str]) -> Iterator[Import]:
    """Yield the imports of a module; ``from a import b`` imports ``a.b`` if ``known`` has it."""
    names = frozenset(known)
    for node, lazily in _import_nodes(module.tree, lazily=False):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            base = _find_base(module, node)
            full = [f"{base}.{alias.name}" for alias in node.names]
            targets = sorted({name if name in names else base for name in full})
        for target in targets:
            yield Import(target, node.lineno, lazily)


def _import_nodes(
    parent: ast.AST, *, lazily: bool
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for node in ast.iter_child_nodes(parent):
        if not isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node, lazily
        inside = lazily or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        inside = inside or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        yield from _import_nodes(node, lazily=inside)


def _find_base(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    keep = len(parts) - node.level + (1 if module.is_init else 0)
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])


def has_prefix(name: str, prefix: str) -> bool:
    """Return True if a dotted name equals the prefix or is below it."""
    return name == prefix or name.startswith(f"{prefix}.")


def find_layer(name: str, layers: Mapping[str, int]) -> int | None:
    """Return the layer of a module: that of the longest listed prefix, or None."""
    prefixes = [
        prefix
        for prefix in layers
        if name == prefix or ("." in prefix and has_prefix(name, prefix))
    ]
    return layers[max(prefixes, key=len)] if prefixes else None


def find_cycle(graph: Mapping[str, Iterable[str]]) -> list[str] | None:
    """Return an import cycle as a list of modules that ends with its first one, or None."""
    visited: set[str] = set()
    for start in sorted(graph):
        path: list[str] = []
        if cycle := _walk(start, graph, path, visited):
            return cycle
    return None


def _walk(
    node: str, graph: Mapping[str, Iterable[str]], path: list[str], visited: set[str]
) -> list[str] | None:
    if node in path:
        return [*path[path.index(node) :], node]
    if node in visited:
        return None
    path.append(node)
    for target in sorted(graph.get(node, ())):
        if cycle := _walk(target, graph, path, visited):
            return cycle
    path.pop()
    visited.add(node)
    return None


def measure_definitions(
    module: Module, kinds: tuple[type[ast.AST], ...]
) -> Iterator[tuple[str, int, int]]:
    """Yield name, line and number of lines of each definition of these node types.

    The lines of decorators and of a function's docstring are not counted.
    """
    for node in module.nodes:
        if isinstance(node, kinds):
            lines = node.end_lineno - node.lineno + 1
            if not isinstance(node, ast.ClassDef) and ast.get_docstring(node, clean=False):
                lines -= node.body[0].end_lineno - node.body[0].lineno + 1
            yield node.name, node.lineno, lines


def count_function_lines(module: Module) -> Iterator[int]:
    """Yield the number of lines of each function, without its docstring."""
    yield from (
        lines
        for _, _, lines in measure_definitions(module, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


def assert_empty(faults: Collection[str] | Mapping[str, object], advice: str = "") -> None:
    """Assert that ``faults`` is empty; the message has the advice, and one line per item."""
    lines = (
        [f"{k}: {v}" for k, v in faults.items()] if isinstance(faults, Mapping) else list(faults)
    )
    assert not lines, "\n".join([advice, *lines])


def find_public_names(module: Module, *, reexports: bool) -> set[str]:
    """Return the public names of a module: those that it defines, or re-exports by `as`.

    With ``reexports``, all imported names are public, as in an ``__init__`` file.
    """
    names: set[str] = set()
    for node in _top_level(module.tree):
        names |= set(_bound(node, reexports=reexports))
    return {name for name in names if not name.startswith("_") and name != "annotations"}


def _top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in tree.body:
        if isinstance(node, (ast.If, ast.Try)):
            yield from node.body
            yield from node.orelse
        else:
            yield node


def _bound(node: ast.stmt, *, reexports: bool) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (t.id for target in targets for t in ast.walk(target) if isinstance(t, ast.Name))
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        is_typing = isinstance(node, ast.ImportFrom) and node.module == "typing"
        for alias in node.names:
            if (reexports and not is_typing) or alias.asname == alias.name:
                yield alias.asname or alias.name


STDLIB = frozenset(sys.stdlib_module_names)
