"""Summary of a stream's quarantined rows: number, errors, table, and the command to load them.

The log, the report and the errors of a run show the same texts from this module.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

__all__ = ["QuarantineSummary", "Reason", "describe_reasons", "replay_command", "stream_command"]

_SHOWN: Final = 3
"""Maximum number of errors that a text for the user lists."""

_KEPT: Final = 100
"""Maximum number of different errors that are kept for a stream, most frequent first."""

_CATALOG: Final = "catalog.json"
"""Name of the catalog file, with the corrected schema, in replay commands shown to the user."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Error that caused rows to be quarantined, with the number of rows and an example.

    Attributes:
        reason: The error text, such as "price: not a number".
        rows: The number of rows with this error.
        example: The invalid value in one of these rows, redacted; None if there is no value to
            show.
    """

    reason: str
    rows: int
    example: str | None = None

    def __str__(self) -> str:
        """Return a text such as ``2 rows: price: not a number (for example "x")``."""
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        example = "no value" if self.example is None else f"for example {self.example}"
        return f"{rows}: {self.reason} ({example})"


@dataclass
class QuarantineSummary:
    """Summary of the quarantined rows of one stream in a run, for the run's JSON report.

    The attributes are keys in the report, so their names must not be changed.

    Attributes:
        table: The name of the quarantine table.
        place: The name of the quarantine table in the catalog. Without a catalog, the path of its
            folder.
        replay: The command line that loads the quarantined rows again; None if the next run loads
            the whole stream anyway.
        reasons: The most frequent errors.
    """

    table: str
    place: str
    replay: str | None = None
    reasons: list[Reason] = field(default_factory=list)

    def add(self, reasons: Iterable[Reason]) -> None:
        """Add the errors of further quarantined rows; keep only the 100 most frequent errors."""
        by_text = {reason.reason: reason for reason in self.reasons}
        for reason in reasons:
            before = by_text.get(reason.reason)
            by_text[reason.reason] = (
                reason if before is None else replace(before, rows=before.rows + reason.rows)
            )
        self.reasons = sorted(by_text.values(), key=lambda reason: -reason.rows)[:_KEPT]

    def describe(
        self, rows: int, received: int, *, withheld: bool = False, dry_run: bool = False
    ) -> str:
        """Return a text for the user about the quarantined rows.

        The text contains the number of rows, the errors, the quarantine table and the remedy.

        Args:
            rows: The number of quarantined rows.
            received: The number of rows received.
            withheld: True if states after the rows are held back, so that the tap sends the rows
                again. False if the next sync continues after them.
            dry_run: True if the run was a dry run, which writes no rows.
        """
        subject = f"{rows:,} of {received:,} rows do not fit their columns and"
        reasons = describe_reasons(self.reasons)
        if dry_run:
            return f"{subject} would go to table {self.table}. Why: {reasons}."
        where = f"{subject} are in table {self.table} ({self.place})"
        return f"{where}. Why: {reasons}. {self._remedy(withheld=withheld)}"

    def _remedy(self, *, withheld: bool) -> str:
        if self.replay is None:
            return "Fix the schema in the tap and run again: the whole stream is loaded again."
        load = f"{self.replay} ({_CATALOG}: the corrected schema, as tap --discover prints it)"
        if withheld:
            return (
                "Fix the schema in the tap and run again: the tap sends these rows again. Rows"
                f" that it cannot send again are loaded by: {load}"
            )
        return f"Fix the schema in the tap, and load the rows by: {load}"


def describe_reasons(reasons: Sequence[Reason]) -> str:
    """Return a text with the first three errors, and the number of further errors.

    ``reasons`` must be sorted with the most frequent error first.
    """
    unnamed = len(reasons) - _SHOWN
    parts = list(map(str, reasons[:_SHOWN]))
    return "; ".join([*parts, f"{unnamed} more reasons"] if unnamed > 0 else parts)


def replay_command(stream: str, config: Sequence[str]) -> str:
    """Return the shell command that loads a stream's quarantined rows again.

    An example is ``target-spark replay users --config a.json --schema catalog.json``. ``config``
    has the values of the option ``--config``.
    """
    return f"{stream_command('replay', stream, config)} --schema {_CATALOG}"


def stream_command(name: str, stream: str, config: Sequence[str]) -> str:
    """Return the shell command that runs the subcommand ``name`` of target-spark for a stream.

    An example is ``target-spark show users --config a.json``. ``config`` has the values of the
    option ``--config``.
    """
    arguments = [word for path in (config or ["config.json"]) for word in ("--config", path)]
    return shlex.join(["target-spark", name, stream, *arguments])
