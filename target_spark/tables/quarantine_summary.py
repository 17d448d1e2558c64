"""What a run set aside of one stream: how many rows, why, where, and how they are loaded again.

Pure values and their texts, without Spark: the log, the report and the error of a stream that
is not complete all say the same.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

__all__ = ["QuarantineSummary", "Reason", "describe_reasons", "replay_command"]

_SHOWN: Final = 3
"""Reasons that a text names."""

_KEPT: Final = 100
"""Reasons of a stream that are kept, of those that most rows share."""

_CATALOG: Final = "catalog.json"
"""The name that a replay command gives the mended catalog."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why rows do not fit, how many of them, and a value of the first one (None: not there)."""

    reason: str
    rows: int
    example: str | None = None

    def __str__(self) -> str:
        """Return it as part of a sentence."""
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        example = "it has none" if self.example is None else f"for example {self.example}"
        return f"{rows}: {self.reason} ({example})"


@dataclass
class QuarantineSummary:
    """The quarantine of a stream in one run.

    ``place`` is its name in a catalog or the address of its folder; ``replay`` the command
    that loads its rows again, None where the next run loads the stream whole.
    """

    table: str
    place: str
    replay: str | None = None
    reasons: list[Reason] = field(default_factory=list)

    def add(self, reasons: Iterable[Reason]) -> None:
        """Count the reasons of further rows, those that most rows share first."""
        known = {each.reason: each for each in self.reasons}
        for each in reasons:
            before = known.get(each.reason)
            known[each.reason] = (
                each if before is None else replace(before, rows=before.rows + each.rows)
            )
        self.reasons = sorted(known.values(), key=lambda each: -each.rows)[:_KEPT]

    def describe(
        self, rows: int, received: int, *, withheld: bool = False, dry_run: bool = False
    ) -> str:
        """Return how many rows were set aside, why, where they are, and what to do.

        ``withheld`` says that no state covers them, so that the tap sends them again.
        """
        told = f"{rows:,} of {received:,} rows do not fit their columns and"
        why = describe_reasons(self.reasons)
        if dry_run:
            return f"{told} would go to table {self.table}. Why: {why}."
        where = f"{told} are in table {self.table} ({self.place})"
        return f"{where}. Why: {why}. {self._remedy(withheld=withheld)}"

    def _remedy(self, *, withheld: bool) -> str:
        if self.replay is None:
            return "Mend the schema in the tap and run again: the stream is loaded whole."
        load = f"{self.replay} ({_CATALOG}: the mended schema, as tap --discover gives it)"
        if withheld:
            return (
                "Mend the schema in the tap and run again: the tap sends these rows again. Those"
                f" that it cannot send are loaded by: {load}"
            )
        return f"Mend the schema in the tap, and load them by: {load}"


def describe_reasons(reasons: Sequence[Reason]) -> str:
    """Return the reasons that most rows share, as a part of a sentence."""
    more = len(reasons) - _SHOWN
    parts = list(map(str, reasons[:_SHOWN]))
    return "; ".join([*parts, f"{more} more reasons"] if more > 0 else parts)


def replay_command(stream: str, config: Sequence[str]) -> str:
    """Return the command that loads a stream's quarantine again.

    ``config`` are the arguments of ``--config`` that the run had.
    """
    given = [word for path in (config or ["config.json"]) for word in ("--config", path)]
    return shlex.join(["target-spark", "replay", stream, *given, "--schema", _CATALOG])
