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
    """Number of a rule and the description of its violation.

    ``must`` is True for a broken rule, False for an unmet recommendation.
    """

    rule: int
    what: str
    must: bool = True


class Findings:
    """Collected findings of a test; true in a boolean context if any rule is broken."""

    def __init__(self) -> None:
        self._found: Counter[Finding] = Counter()

    def add_violation(self, rule: int, what: str) -> None:
        """Record a broken rule; ``what`` describes the violation."""
        self._found[Finding(rule, what)] += 1

    def add_warning(self, rule: int, what: str) -> None:
        """Record an unmet recommendation, which does not break a rule."""
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
