"""Imports follow the tables of `layers.py`."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.code_rules.layers import (
    COMPATIBILITY_PATHS,
    EXTRACT_MAY_USE,
    HEAVY,
    LAYERS,
    LIGHT,
    PROTOCOL_PACKAGES,
    TARGET_MAY_USE,
)
from tests.code_rules.source_files import (
    PACKAGES,
    ROOT,
    STDLIB,
    Import,
    Module,
    assert_empty,
    find_cycle,
    find_imports,
    find_layer,
    has_prefix,
    read_modules,
)

MODULES = read_modules()
KNOWN = {module.name for module in MODULES}


@cache
def list_imports(*, of_libraries: bool) -> list[tuple[Module, Import]]:
    """Return the packages' imports of each other or, if ``of_libraries``, those of libraries."""
    left_out = STDLIB if of_libraries else frozenset()
    imports = []
    for module in MODULES:
        for item in find_imports(module, KNOWN):
            root = item.target.split(".")[0]
            if root not in left_out and (root in PACKAGES) is not of_libraries:
                imports.append((module, item))
    return imports


def is_compatibility_path(name: str) -> bool:
    return any(has_prefix(name, path) for path in COMPATIBILITY_PATHS) and name not in LAYERS


def describe_import(module: Module, item: Import) -> str:
    return f"{module.path.relative_to(ROOT)}:{item.line} imports {item.target}"


def test_every_module_has_a_layer() -> None:
    unlisted = [
        m.name
        for m in MODULES
        if not is_compatibility_path(m.name) and find_layer(m.name, LAYERS) is None
    ]
    assert_empty(unlisted, "add the layer of these modules to tests/code_rules/layers.py")


def test_every_imported_module_exists() -> None:
    assert_empty(
        [
            describe_import(m, i)
            for m, i in list_imports(of_libraries=False)
            if i.target not in KNOWN
        ]
    )


def test_no_module_imports_from_a_higher_layer() -> None:
    upward = []
    for module, item in list_imports(of_libraries=False):
        if is_compatibility_path(module.name) or is_compatibility_path(item.target):
            continue
        if module.name.split(".")[0] != item.target.split(".")[0]:
            continue  # imports between the packages are checked with TARGET_MAY_USE
        importing, imported = find_layer(module.name, LAYERS), find_layer(item.target, LAYERS)
        if importing is not None and imported is not None and imported > importing:
            upward.append(f"{describe_import(module, item)} (layer {importing} to {imported})")
    assert_empty(upward)


def test_no_module_imports_a_compatibility_path() -> None:
    into = [
        describe_import(m, i)
        for m, i in list_imports(of_libraries=False)
        if is_compatibility_path(i.target) and not is_compatibility_path(m.name)
    ]
    assert_empty(
        into,
        "these are import paths of singer_sdk; import the names from the modules that define them",
    )


def test_there_is_no_import_cycle() -> None:
    graph: dict[str, set[str]] = {name: set() for name in KNOWN}
    for module, item in list_imports(of_libraries=False):
        graph[module.name].add(item.target)
    cycle = find_cycle(graph)
    assert cycle is None, " -> ".join(cycle or ())


def test_no_protocol_imports_another() -> None:
    across = []
    for module, item in list_imports(of_libraries=False):
        importing = [peer for peer in PROTOCOL_PACKAGES if has_prefix(module.name, peer)]
        imported = [peer for peer in PROTOCOL_PACKAGES if has_prefix(item.target, peer)]
        if importing and imported and importing != imported:
            across.append(describe_import(module, item))
    assert_empty(across)


def test_target_spark_imports_only_listed_modules_of_tap_core() -> None:
    wrong = []
    for module, item in list_imports(of_libraries=False):
        package = item.target.split(".")[0]
        if package == module.name.split(".")[0]:
            continue
        reads = has_prefix(module.name, "target_spark.extract")
        prefixes = EXTRACT_MAY_USE if reads else TARGET_MAY_USE
        if package == "target_spark" or not any(
            has_prefix(item.target, prefix) for prefix in prefixes
        ):
            wrong.append(describe_import(module, item))
    assert_empty(wrong)


def test_libraries_are_imported_only_by_listed_modules() -> None:
    unlisted = []
    for module, item in list_imports(of_libraries=True):
        library = item.target.split(".")[0]
        if library in LIGHT:
            continue
        use = HEAVY.get(library)
        if use is None:
            unlisted.append(f"{describe_import(module, item)}, which layers.py does not list")
        elif not any(has_prefix(module.name, prefix) for prefix in use.modules):
            unlisted.append(
                f"{describe_import(module, item)},"
                f" which only these may import: {', '.join(use.modules)}"
            )
    assert_empty(unlisted)


def test_slow_libraries_are_imported_inside_functions() -> None:
    eager = [
        f"{describe_import(m, i)} at the top: {use.why}"
        for m, i in list_imports(of_libraries=True)
        if (use := HEAVY.get(i.target.split(".")[0])) and use.lazily and not i.lazily
    ]
    assert_empty(eager)


# ----------------------------------------------------------------- libraries loaded at run time

HEAVY_NAMES = sorted(HEAVY)


def run_and_list_loaded(code: str, *argv: str) -> set[str]:
    """Run code in a new process and return the heavy libraries that it has loaded at its end."""
    program = (
        "import atexit, os, sys\n"
        f"heavy = {HEAVY_NAMES!r}\n"
        "seen = lambda: [name for name in heavy if name in sys.modules]\n"
        "atexit.register(lambda: os.write(2, ('LOADED=' + ','.join(seen()) + '\\n').encode()))\n"
        f"{code}\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": "", "PYTHONPATH": f"{ROOT}:{ROOT / 'samples' / 'tap_flights'}"},
    )
    assert process.returncode == 0, process.stderr
    names = process.stderr.rpartition("LOADED=")[2].strip()
    return set(names.split(",")) - {""}


def test_loaded_library_is_detected() -> None:
    assert run_and_list_loaded("import jsonschema") >= {"jsonschema"}


@pytest.mark.parametrize(
    "code", ["import tap_core", "from tap_core import typing", "import target_spark"]
)
def test_importing_a_package_loads_no_heavy_library(code: str) -> None:
    assert run_and_list_loaded(code) == set()


@pytest.mark.parametrize("flag", ["--help", "--version", "--about", "--discover"])
def test_information_commands_of_a_tap_load_few_libraries(flag: str) -> None:
    code = "from tap_flights.tap import TapFlights\nTapFlights.cli(standalone_mode=True)"
    assert run_and_list_loaded(code, flag) <= {"typer"} | (
        {"jsonschema", "dotenv"} if flag == "--discover" else set()
    )


@pytest.mark.parametrize("flag", ["--help", "--version", "--about"])
def test_information_commands_of_the_target_do_not_load_spark(flag: str) -> None:
    code = "from target_spark.target import TargetSpark\nTargetSpark.cli(standalone_mode=True)"
    assert run_and_list_loaded(code, flag) <= {"typer"}


# ------------------------------------------------------------------- tests of the readers


def write_modules(tmp_path: Path, **files: str) -> list[Module]:
    for name, source in files.items():
        path = tmp_path / "sample" / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return read_modules(tmp_path, ["sample"])


def test_imports_in_all_positions_are_found(tmp_path: Path) -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "import sample.b\n"
        "from . import c\n"
        "if TYPE_CHECKING:\n    from sample.d import D\n"
        "def f():\n    from sample import e\n"
        "class K:\n    def m(self):\n        import json\n"
    )
    sample = write_modules(tmp_path, a=source, b="", c="", d="class D: ...", e="")
    [a] = [module for module in sample if module.name == "sample.a"]
    imports = {(i.target, i.lazily) for i in find_imports(a, {m.name for m in sample})}
    assert imports == {
        ("typing", False),
        ("sample.b", False),
        ("sample.c", False),
        ("sample.d", True),
        ("sample.e", True),
        ("json", True),
    }


def test_import_cycle_is_found_and_returned() -> None:
    assert find_cycle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"]
    assert find_cycle({"a": ["a"]}) == ["a", "a"]
    assert find_cycle({"a": ["b", "c"], "b": ["c"], "c": []}) is None


def test_longest_prefix_determines_the_layer() -> None:
    layers = {"sample.inner": 1, "sample.inner.deep": 3, "sample": 7}
    assert find_layer("sample.inner.other", layers) == 1
    assert find_layer("sample.inner.deep", layers) == 3
    assert find_layer("sample", layers) == 7
    assert find_layer("sample.unknown", layers) is None
