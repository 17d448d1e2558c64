"""Which of the numbered rules a server has broken, and how often.

Rules of the room: pure. Sentences name tables, columns and calls, never a value, so that the same
fault in a thousand records is one finding. The numbers are those of docs/fivetran.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Finding", "Findings"]


class Finding(NamedTuple):
    """A rule, what breaks it, and whether it must be kept or only should."""

    rule: int
    what: str
    must: bool = True


class Findings:
    """What was found so far."""

    def __init__(self) -> None:
        self._found: Counter[Finding] = Counter()

    def broke(self, rule: int, what: str) -> None:
        """Note that a rule is broken."""
        self._found[Finding(rule, what)] += 1

    def missed(self, rule: int, what: str) -> None:
        """Note that something is not as it should be, which breaks no rule."""
        self._found[Finding(rule, what, must=False)] += 1

    @property
    def rules(self) -> set[int]:
        """The numbers of the broken rules."""
        return {finding.rule for finding in self._found if finding.must}

    def __bool__(self) -> bool:
        return bool(self.rules)

    def lines(self) -> Iterator[str]:
        """Yield what is to be said, broken rules first, in the order of their numbers."""
        for finding in sorted(self._found, key=lambda one: (not one.must, one.rule, one.what)):
            often = self._found[finding]
            times = f" ({often:,} times)" if often > 1 else ""
            word = "broken" if finding.must else "should"
            yield f"{word} F{finding.rule}: {finding.what}{times}"
