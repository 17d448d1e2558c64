"""docs/fivetran.md numbers the rules of the interface; every rule has a test that names it."""

from __future__ import annotations

from pathlib import Path

from tests.docs.rules import RulesDocument

NUMBERS = (*range(1, 9), *range(10, 20), *range(30, 46))
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "fivetran.md"


def test_every_rule_is_named_by_a_test_of_each_listed_file() -> None:
    rules = [f"F{number}" for number in NUMBERS]
    assert RulesDocument(DOCUMENT).faults(rules) == []
