"""docs/airbyte.md numbers the rules of the protocol; every rule has a test that names it."""

from __future__ import annotations

from tests.airbyte.running import ROOT
from tests.docs.rules import RulesDocument, numbers_in

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


def test_every_rule_is_named_by_a_test_of_each_listed_file() -> None:
    rules = [f"{kind}{number}" for kind, numbers in NUMBERS.items() for number in numbers]
    assert RulesDocument(ROOT / "docs" / "airbyte.md").faults(rules) == []


def test_rule_numbers_are_parsed_from_docstrings() -> None:
    assert set(numbers_in("RD2 to RD4, SM4")) == {"RD2", "RD3", "RD4", "SM4"}
    assert set(numbers_in("A sentence of UTF8 and more")) == {"UTF8"}
