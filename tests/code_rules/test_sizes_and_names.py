"""Limits on sizes, and rules for names and exports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

from tests.code_rules.layers import COMPATIBILITY_PATHS
from tests.code_rules.source_files import (
    ROOT,
    Module,
    assert_empty,
    count_function_lines,
    find_public_names,
    has_prefix,
    measure_definitions,
    read_modules,
)

MODULES = read_modules()
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

FILE_LINES = 1000
FUNCTION_LINES = 50
MEDIAN_FUNCTION_LINES = 10
INIT_IMPORTS = 15
IGNORES_PER_THOUSAND_LINES = 1
VAGUE_NAMES = {"utils", "util", "common", "misc"}

# Compatibility paths have the names of singer_sdk, such as `helpers._util` and `singerlib.utils`.
COMPATIBILITY_MODULES = [
    m for m in MODULES if any(has_prefix(m.name, path) for path in COMPATIBILITY_PATHS)
]


def relative_path(module: Module) -> str:
    """Return the path of a module, relative to the repository."""
    return str(module.path.relative_to(ROOT))


def test_files_are_short() -> None:
    long = {relative_path(m): n for m in MODULES if (n := len(m.source.splitlines())) > FILE_LINES}
    assert_empty(long)


def test_functions_are_short() -> None:
    long = [
        f"{relative_path(module)}:{line} {name}: {length} lines, at most {FUNCTION_LINES}"
        for module in MODULES
        for name, line, length in measure_definitions(module, FUNCTIONS)
        if length > FUNCTION_LINES
    ]
    assert_empty(long)


def test_half_of_all_functions_are_very_short() -> None:
    lengths = [length for module in MODULES for length in count_function_lines(module)]
    assert median(lengths) < MEDIAN_FUNCTION_LINES


def ruff(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_complexity_of_functions_is_limited() -> None:
    process = ruff("--select", "C901", "--output-format", "concise", "tap_core", "target_spark")
    assert process.returncode == 0, process.stdout + process.stderr


def test_limit_of_the_complexity_is_eight(tmp_path: Path) -> None:
    def branches(count: int) -> str:
        lines = [f"    if x == {n}:\n        return {n}" for n in range(count)]
        return '"""M."""\n\n\ndef f(x):\n' + "\n".join(lines) + "\n"

    path = tmp_path / "complex.py"
    settings = ("--config", str(ROOT / "pyproject.toml"), "--select", "C901", str(path))
    path.write_text(branches(7))
    assert ruff(*settings).returncode == 0
    path.write_text(branches(8))
    assert ruff(*settings).returncode == 1


def test_types_are_rarely_ignored() -> None:
    ignores = [
        f"{relative_path(module)}:{number}"
        for module in MODULES
        for number, line in enumerate(module.source.splitlines(), 1)
        if re.search(r"#\s*type:\s*ignore", line)
    ]
    lines = sum(len(module.source.splitlines()) for module in MODULES)
    assert len(ignores) <= IGNORES_PER_THOUSAND_LINES * lines / 1000, ignores


def test_both_packages_have_a_py_typed_file() -> None:
    assert (ROOT / "tap_core" / "py.typed").is_file()
    assert (ROOT / "target_spark" / "py.typed").is_file()


# --------------------------------------------------------------------------- __init__ files


def is_import_statement(node: ast.stmt) -> bool:
    """Return True for imports, `__all__`, a module `__getattr__` and docstrings."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return True
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test) and all(map(is_import_statement, node.body))
    if isinstance(node, ast.FunctionDef):
        return node.name == "__getattr__"
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if isinstance(node, ast.Assign):
        return [t.id for t in node.targets if isinstance(t, ast.Name)] == ["__all__"]
    return False


def test_init_files_contain_only_imports() -> None:
    wrong = [
        f"{relative_path(module)}:{node.lineno}"
        for module in MODULES
        if module.is_init
        for node in module.tree.body
        if not is_import_statement(node)
    ]
    assert_empty(wrong)


def test_compatibility_modules_contain_only_imports() -> None:
    wrong = []
    for module in COMPATIBILITY_MODULES:
        wrong += [
            f"{relative_path(module)}:{n.lineno}"
            for n in module.tree.body
            if not is_import_statement(n)
        ]
        imports = [n for n in module.tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
        if len(imports) > INIT_IMPORTS:
            wrong.append(f"{relative_path(module)}: {len(imports)} imports")
    assert_empty(wrong)


def read_all(module: Module) -> list[str] | None:
    """Return the names in ``__all__`` of a module, or None if it has none."""
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
        ):
            return list(ast.literal_eval(node.value))
    return None


def only_reexports(module: Module) -> bool:
    """Return True if a module has only imports such as `from x import y as y`."""
    return all(is_import_statement(node) for node in module.tree.body) and all(
        alias.asname == alias.name
        for node in module.tree.body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    )


def test_all_lists_exactly_the_public_names() -> None:
    wrong: dict[str, str] = {}
    for module in MODULES:
        names = read_all(module)
        visible = find_public_names(
            module, reexports=module.is_init or module in COMPATIBILITY_MODULES
        )
        visible.discard("logger")  # a module may have a logger that is not part of its interface
        if names is None:
            if visible and not only_reexports(module):
                wrong[relative_path(module)] = "has no __all__"
        elif set(names) != visible:
            wrong[relative_path(module)] = f"__all__ differs in {sorted(set(names) ^ visible)}"
    assert_empty(wrong)


def test_every_module_has_a_docstring() -> None:
    undocumented = [
        relative_path(m) for m in MODULES if m.source.strip() and ast.get_docstring(m.tree) is None
    ]
    assert_empty(undocumented)


# ---------------------------------------------------------------------------- texts


def read_tracked_files() -> dict[str, str]:
    """Return the contents of the project's text files, also of new ones, by path."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("this is not a git checkout, so the project's files cannot be listed")
    texts = {}
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file():
            try:
                texts[name] = path.read_text("utf-8")
            except UnicodeDecodeError:
                continue
    return texts


def test_no_module_has_a_vague_name() -> None:
    vague = [
        relative_path(module)
        for module in MODULES
        if set(module.name.split(".")) & VAGUE_NAMES and module not in COMPATIBILITY_MODULES
    ]
    assert_empty(vague)


def test_no_text_contains_a_path_of_one_machine() -> None:
    home = re.compile(r"(?<![\w.])/(?:home/[a-z]+|root|Users/[A-Za-z]+|work)/")
    named = [
        f"{name}:{number}"
        for name, text in read_tracked_files().items()
        for number, line in enumerate(text.splitlines(), 1)
        if home.search(line)
    ]
    assert_empty(named)


def test_no_text_contains_the_host_of_a_package_index() -> None:
    host = re.compile(r"https?://[\w.-]*(?:py[p]i|pythonhosted|maven|npmjs|crates)[\w.-]*")
    named = [
        f"{name}:{number}"
        for name, text in read_tracked_files().items()
        for number, line in enumerate(text.splitlines(), 1)
        if host.search(line)
    ]
    assert_empty(named)


def test_every_disabled_lint_rule_has_a_reason() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    bare = [line for line in lines if re.match(r'\s*"[A-Z]+[0-9]+",?\s*$', line)]
    assert_empty(bare)
