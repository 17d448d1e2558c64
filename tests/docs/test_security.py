"""The threat model in docs/security.md: every guarantee is named by a test.

A guarantee is a row of the table that begins with its number (``SEC3``). A test names guarantees at
the beginning of its docstring, before a colon: ``SEC3, SEC5 to SEC7: …``.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.docs.rules import numbers_in

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "security.md"
ROWS = re.findall(r"^\| (SEC\d+) \| (.+) \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
GUARANTEES = dict(ROWS)


@functools.cache
def find_tests() -> dict[str, list[str]]:
    """Return the names of the tests that name each number."""
    names_by_number: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        if not re.search(r"SEC\d", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                head = (ast.get_docstring(node) or "").partition(":")[0]
                for number in numbers_in(head):
                    names_by_number.setdefault(number, []).append(f"{path.name}::{node.name}")
    return names_by_number


@pytest.mark.parametrize("number", GUARANTEES)
def test_every_guarantee_is_named_by_a_test(number: str) -> None:
    assert find_tests().get(number), (
        f"no test's docstring begins with {number}: {GUARANTEES[number]}"
    )


def test_guarantees_are_numbered_in_order() -> None:
    assert [number for number, _ in ROWS] == [f"SEC{n}" for n in range(1, len(ROWS) + 1)]


def test_no_test_names_an_unknown_guarantee() -> None:
    named = {number for number in find_tests() if re.fullmatch(r"SEC\d+", number)}
    assert named <= set(GUARANTEES)


def test_every_guarantee_is_referenced_outside_of_its_table() -> None:
    """Except for the guarantees of the project as a whole."""
    around = re.sub(r"^\| SEC\d+ \|.*$", "", DOCUMENT.read_text("utf-8"), flags=re.MULTILINE)
    of_the_project = {"SEC19", "SEC20", "SEC21"}
    assert set(GUARANTEES) - set(numbers_in(around)) <= of_the_project


def test_security_policy_has_the_required_sections() -> None:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    required = ["Reporting a vulnerability", "Supported versions", "Guarantees"]
    assert headings[: len(required)] == required
    assert "Not guaranteed" in headings
    assert "docs/security.md" in text
    assert "docs/security.md" in (ROOT / "README.md").read_text("utf-8")
