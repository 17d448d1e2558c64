"""Rules of Fivetran's protocol that a tested server broke, with the number of violations.

Messages name tables, columns and rpcs but never values, so that the same violation in a thousand
records is one finding. The rule numbers are those of ``docs/fivetran.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Finding", "Findings"]


class Finding(NamedTuple):
    """Violation of a rule of ``docs/fivetran.md`` by a tested server.

    Attributes:
        rule: Number of the rule.
        what: Description of the violation.
        is_violation: True for a broken rule, False for a recommendation that is not followed.
    """

    rule: int
    what: str
    is_violation: bool = True


class Findings:
    """Violations of protocol rules that a test found, with their counts.

    ``bool(findings)`` is True if any rule is broken; warnings do not count.
    """

    def __init__(self) -> None:
        self._found: Counter[Finding] = Counter()

    def add_violation(self, rule: int, text: str) -> None:
        """Record that the tested server broke a numbered rule; ``text`` describes the violation."""
        self._found[Finding(rule, text)] += 1

    def add_warning(self, rule: int, text: str) -> None:
        """Record that the tested server does not follow a recommendation; ``text`` describes it."""
        self._found[Finding(rule, text, is_violation=False)] += 1

    @property
    def rules(self) -> set[int]:
        """Numbers of the broken rules, without the recommendations that are not followed."""
        return {finding.rule for finding in self._found if finding.is_violation}

    def __bool__(self) -> bool:
        return bool(self.rules)

    def lines(self) -> Iterator[str]:
        """Yield the findings as lines of text, broken rules first, sorted by rule number."""
        ranked = sorted(
            self._found, key=lambda entry: (not entry.is_violation, entry.rule, entry.what)
        )
        for finding in ranked:
            count = self._found[finding]
            times = f" ({count:,} times)" if count > 1 else ""
            word = "broken" if finding.is_violation else "should"
            yield f"{word} F{finding.rule}: {finding.what}{times}"
