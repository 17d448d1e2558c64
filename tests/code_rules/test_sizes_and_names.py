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
    fits,
    function_lines,
    modules,
    nothing,
    sized,
    visible_names,
)

MODULES = modules()
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

FILE_LINES = 1000
FUNCTION_LINES = 50
MEDIAN_FUNCTION_LINES = 10
FACE_IMPORTS = 15
IGNORES_PER_THOUSAND_LINES = 1
SHAPELESS_NAMES = {"utils", "util", "common", "misc"}

# Paths such as `helpers._util` and `singerlib.utils` are singer_sdk's; compatibility paths may have them.
at_compatibility_paths = [
    m for m in MODULES if any(fits(m.name, path) for path in COMPATIBILITY_PATHS)
]


def here(module: Module) -> str:
    return str(module.path.relative_to(ROOT))


def test_files_are_short() -> None:
    long = {here(m): n for m in MODULES if (n := len(m.source.splitlines())) > FILE_LINES}
    nothing(long)


def test_functions_are_short() -> None:
    long = [
        f"{here(module)}:{line} {name}: {length} lines, at most {FUNCTION_LINES}"
        for module in MODULES
        for name, line, length in sized(module.tree, FUNCTIONS)
        if length > FUNCTION_LINES
    ]
    nothing(long)


def test_half_of_all_functions_are_very_short() -> None:
    lengths = [length for module in MODULES for length in function_lines(module.tree)]
    assert median(lengths) < MEDIAN_FUNCTION_LINES


def ruff(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_function_is_tangled() -> None:
    done = ruff("--select", "C901", "--output-format", "concise", "tap_core", "target_spark")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_limit_of_tangle_is_eight(tmp_path: Path) -> None:
    def branches(count: int) -> str:
        lines = [f"    if x == {n}:\n        return {n}" for n in range(count)]
        return '"""M."""\n\n\ndef f(x):\n' + "\n".join(lines) + "\n"

    path = tmp_path / "tangled.py"
    settings = ("--config", str(ROOT / "pyproject.toml"), "--select", "C901", str(path))
    path.write_text(branches(7))
    assert ruff(*settings).returncode == 0
    path.write_text(branches(8))
    assert ruff(*settings).returncode == 1


def test_types_are_rarely_ignored() -> None:
    ignores = [
        f"{here(module)}:{number}"
        for module in MODULES
        for number, line in enumerate(module.source.splitlines(), 1)
        if re.search(r"#\s*type:\s*ignore", line)
    ]
    lines = sum(len(module.source.splitlines()) for module in MODULES)
    assert len(ignores) <= IGNORES_PER_THOUSAND_LINES * lines / 1000, ignores


def test_both_packages_say_that_they_are_typed() -> None:
    assert (ROOT / "tap_core" / "py.typed").is_file()
    assert (ROOT / "target_spark" / "py.typed").is_file()


# --------------------------------------------------------------------------- __init__ files


def is_import_statement(node: ast.stmt) -> bool:
    """Tell whether a statement of an ``__init__`` only shows something, now or when asked."""
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


def test_inits_define_nothing() -> None:
    wrong = [
        f"{here(module)}:{node.lineno}"
        for module in MODULES
        if module.is_init
        for node in module.tree.body
        if not is_import_statement(node)
    ]
    nothing(wrong)


def test_the_annex_only_shows() -> None:
    wrong = []
    for module in at_compatibility_paths:
        wrong += [
            f"{here(module)}:{n.lineno}" for n in module.tree.body if not is_import_statement(n)
        ]
        imports = [n for n in module.tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
        if len(imports) > FACE_IMPORTS:
            wrong.append(f"{here(module)}: {len(imports)} imports")
    nothing(wrong)


def declared(module: Module) -> list[str] | None:
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
        ):
            return list(ast.literal_eval(node.value))
    return None


def only_shows(module: Module) -> bool:
    """Tell whether all that a module does is `from x import y as y`, which needs no list."""
    return all(is_import_statement(node) for node in module.tree.body) and all(
        alias.asname == alias.name
        for node in module.tree.body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
    )


def test_all_is_what_is_visible() -> None:
    wrong: dict[str, str] = {}
    for module in MODULES:
        names = declared(module)
        visible = visible_names(
            module, reexports=module.is_init or module in at_compatibility_paths
        )
        visible.discard("logger")  # every module may have one; it is not part of an interface
        if names is None:
            if visible and not only_shows(module):
                wrong[here(module)] = "has no __all__"
        elif set(names) != visible:
            wrong[here(module)] = f"__all__ differs in {sorted(set(names) ^ visible)}"
    nothing(wrong)


def test_every_file_begins_with_a_docstring_of_its_subject() -> None:
    silent = [here(m) for m in MODULES if m.source.strip() and ast.get_docstring(m.tree) is None]
    nothing(silent)


# ---------------------------------------------------------------------------- texts


def tracked_texts() -> dict[str, str]:
    """Return every text file of the project by its path: what git knows, or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout: there is no list of the project's own files")
    texts = {}
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file():
            try:
                texts[name] = path.read_text("utf-8")
            except UnicodeDecodeError:
                continue
    return texts


def test_no_module_is_named_after_nothing() -> None:
    shapeless = [
        here(module)
        for module in MODULES
        if set(module.name.split(".")) & SHAPELESS_NAMES and module not in at_compatibility_paths
    ]
    nothing(shapeless)


def test_no_text_names_a_place_of_one_machine() -> None:
    home = re.compile(r"(?<![\w.])/(?:home/[a-z]+|root|Users/[A-Za-z]+|work)/")
    named = [
        f"{name}:{number}"
        for name, text in tracked_texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if home.search(line)
    ]
    nothing(named)


def test_no_text_names_the_host_of_a_package_index() -> None:
    host = re.compile(r"https?://[\w.-]*(?:py[p]i|pythonhosted|maven|npmjs|crates)[\w.-]*")
    named = [
        f"{name}:{number}"
        for name, text in tracked_texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if host.search(line)
    ]
    nothing(named)


def test_every_lint_rule_that_is_off_says_why() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    bare = [line for line in lines if re.match(r'\s*"[A-Z]+[0-9]+",?\s*$', line)]
    nothing(bare)
