"""Numbered rules of a document, and the tests that name them.

A rule is a row of a table that begins with its number and ends with the keys of its test files. A
test names its rules at the beginning of its docstring, before a colon: ``RD2 to RD4, SM4: …``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["RulesDocument", "numbers_in"]


@dataclass(frozen=True)
class RulesDocument:
    """A document with numbered rules."""

    path: Path

    def rules(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the number of each rule, and the keys of its test files."""
        for line in self.path.read_text("utf-8").splitlines():
            match = re.match(r"\| ([A-Z]+\d+) \| .* \| ([^|]*) \|$", line)
            if match:
                yield match[1], re.findall(r"\[(\w+)\]", match[2])

    def files(self) -> dict[str, Path]:
        """Return the files by their keys."""
        links = re.findall(r"^\[(\w+)\]: (\S+)$", self.path.read_text("utf-8"), re.MULTILINE)
        return {key: self.path.parent / path for key, path in links}

    def faults(self, expected: Iterable[str]) -> list[str]:
        """Return the rules that are missing, duplicate, or named by no test."""
        files = self.files()
        absent = [f"no file {path}" for path in files.values() if not path.exists()]
        if absent:
            return absent
        named = {key: list_named_rules(path) for key, path in files.items()}
        rules = list(self.rules())
        numbers = sorted(number for number, _ in rules)
        wrong = [] if numbers == sorted(expected) else [f"the rules are {numbers}"]
        wrong += [f"{number}: no file" for number, keys in rules if not keys]
        wrong += [
            f"{number}: no test in {key}"
            for number, keys in rules
            for key in keys
            if number not in named.get(key, ())
        ]
        used = {key for _, keys in rules for key in keys}
        return wrong + [f"{key}: holds no rule" for key in sorted(files.keys() - used)]


def numbers_in(head: str) -> Iterator[str]:
    """Yield the rule numbers at the beginning of a docstring."""
    for kind, first, last in re.findall(r"\b([A-Z]+)(\d+)(?: to [A-Z]+(\d+))?\b", head):
        for number in range(int(first), int(last or first) + 1):
            yield f"{kind}{number}"


def list_named_rules(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    tests = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    heads = ((ast.get_docstring(test) or "").partition(":")[0] for test in tests)
    return {number for head in heads for number in numbers_in(head)}
