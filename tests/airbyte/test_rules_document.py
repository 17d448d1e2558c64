"""docs/airbyte.md numbers the protocol's rules; each is held by a test that names it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.airbyte.running import ROOT

DOCUMENT = ROOT / "docs" / "airbyte.md"
NUMBERS = {
    "E": [*range(1, 15)],
    "SP": [*range(1, 10), 11],
    "CK": [*range(1, 8)],
    "DI": [*range(1, 11), 13],
    "CF": [1],
    "CU": [*range(1, 5)],
    "SM": [*range(1, 5)],
    "RD": [*range(1, 11)],
    "ST": [*range(1, 14)],
    "TR": [*range(1, 5)],
    "CT": [1, 2],
    "D": [*range(1, 10), 13, 14, 16],
}


def rules() -> Iterator[tuple[str, list[str]]]:
    """Yield the number of each rule, and the keys of the files that hold it."""
    for line in DOCUMENT.read_text("utf-8").splitlines():
        found = re.match(r"\| ([A-Z]+\d+) \| .* \| ([^|]*) \|$", line)
        if found:
            yield found[1], re.findall(r"\[(\w+)\]", found[2])


def files() -> dict[str, Path]:
    text = DOCUMENT.read_text("utf-8")
    found = re.findall(r"^\[(\w+)\]: (\S+)$", text, re.MULTILINE)
    return {key: DOCUMENT.parent / path for key, path in found}


def named_in(path: Path) -> set[str]:
    """Return the numbers that the docstrings of a file's tests begin with."""
    tree = ast.parse(path.read_text("utf-8"))
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    heads = ((ast.get_docstring(test) or "").partition(":")[0] for test in tests)
    return {number for head in heads for number in _numbers(head)}


def _numbers(head: str) -> Iterator[str]:
    for kind, first, last in re.findall(r"\b([A-Z]+)(\d+)(?: to [A-Z]+(\d+))?\b", head):
        for number in range(int(first), int(last or first) + 1):
            yield f"{kind}{number}"


def test_every_rule_stands_in_the_document_once() -> None:
    wanted = [f"{kind}{number}" for kind, numbers in NUMBERS.items() for number in numbers]
    assert sorted(number for number, _ in rules()) == sorted(wanted)


def test_every_rule_is_named_by_a_test_in_each_file_beside_it() -> None:
    found = files()
    assert [key for key, path in found.items() if not path.exists()] == []
    named = {key: named_in(path) for key, path in found.items()}
    without = [
        (number, keys)
        for number, keys in rules()
        if not keys or any(number not in named.get(key, ()) for key in keys)
    ]
    assert without == []
    assert set(found) == {key for _, keys in rules() for key in keys}


def test_numbers_are_read_from_docstrings() -> None:
    assert set(_numbers("RD2 to RD4, SM4")) == {"RD2", "RD3", "RD4", "SM4"}
    assert set(_numbers("A sentence of UTF8 and more")) == {"UTF8"}
