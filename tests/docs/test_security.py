"""The threat model in docs/security.md: every promise is named by a test.

A promise is a row of the table that begins with its number (``SEC3``); a test names promises where
its docstring begins, before a colon: ``SEC3, SEC5 to SEC7: …``.
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
PROMISES = dict(ROWS)


@functools.cache
def find_tests() -> dict[str, list[str]]:
    """Return the names of the tests that name each number."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        if not re.search(r"SEC\d", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                head = (ast.get_docstring(node) or "").partition(":")[0]
                for number in numbers_in(head):
                    found.setdefault(number, []).append(f"{path.name}::{node.name}")
    return found


@pytest.mark.parametrize("number", PROMISES)
def test_a_promise_is_held_by_a_test(number: str) -> None:
    assert find_tests().get(number), f"no test's docstring begins with {number}: {PROMISES[number]}"


def test_the_promises_are_numbered_in_order() -> None:
    assert [number for number, _ in ROWS] == [f"SEC{n}" for n in range(1, len(ROWS) + 1)]


def test_no_test_names_a_promise_that_is_not_made() -> None:
    named = {number for number in find_tests() if re.fullmatch(r"SEC\d+", number)}
    assert named <= set(PROMISES)


def test_every_promise_protects_a_command_or_a_file() -> None:
    """Each number but those of the project as a whole stands in the text around the table."""
    around = re.sub(r"^\| SEC\d+ \|.*$", "", DOCUMENT.read_text("utf-8"), flags=re.MULTILINE)
    of_the_project = {"SEC19", "SEC20", "SEC21"}
    assert set(PROMISES) - set(numbers_in(around)) <= of_the_project


def test_the_policy_says_what_a_reporter_needs() -> None:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    wanted = ["Reporting a vulnerability", "Supported versions", "Guarantees"]
    assert headings[: len(wanted)] == wanted
    assert "Not guaranteed" in headings
    assert "docs/security.md" in text
    assert "docs/security.md" in (ROOT / "README.md").read_text("utf-8")
