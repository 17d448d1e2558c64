"""Findings of a test: the broken rules, by number, with their counts.

Messages name tables, columns and rpcs but never values, so that the same fault in a thousand
records is one finding. The rule numbers are those of docs/fivetran.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Finding", "Findings"]


class Finding(NamedTuple):
    """Violation of a rule of ``docs/fivetran.md``: the rule's number and a description.

    ``must`` is True for a broken rule, False for a recommendation that is not followed.
    """

    rule: int
    what: str
    must: bool = True


class Findings:
    """Violations of rules found by a test. ``bool(findings)`` is True if any rule is broken."""

    def __init__(self) -> None:
        self._found: Counter[Finding] = Counter()

    def add_violation(self, rule: int, what: str) -> None:
        """Record a broken rule; ``what`` describes the violation."""
        self._found[Finding(rule, what)] += 1

    def add_warning(self, rule: int, what: str) -> None:
        """Record a recommendation that is not followed; ``what`` describes it."""
        self._found[Finding(rule, what, must=False)] += 1

    @property
    def rules(self) -> set[int]:
        """Numbers of the broken rules."""
        return {finding.rule for finding in self._found if finding.must}

    def __bool__(self) -> bool:
        return bool(self.rules)

    def lines(self) -> Iterator[str]:
        """Yield the findings as text, broken rules first, sorted by rule number."""
        for finding in sorted(self._found, key=lambda one: (not one.must, one.rule, one.what)):
            often = self._found[finding]
            times = f" ({often:,} times)" if often > 1 else ""
            word = "broken" if finding.must else "should"
            yield f"{word} F{finding.rule}: {finding.what}{times}"
