"""The table of results: one row per comparison, with its limit and whether the limit is met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Row", "format_markdown", "format_text"]


@dataclass(frozen=True)
class Row:
    """A figure of this project, compared with that of another program or with a limit.

    Attributes:
        benchmark: The program and its input.
        compared_with: The other program, or an empty text.
        ours: The figure of this project.
        theirs: The figure of the other program, or None.
        comparison: ``times less`` is theirs / ours, which must be at least the limit;
            ``of theirs`` is ours / theirs, and ``value`` is ours, which must be at most the limit.
        limit: The limit; None if the figure is only shown.
        unit: The unit of both figures.
    """

    benchmark: str
    compared_with: str
    ours: float
    theirs: float | None
    comparison: Literal["times less", "of theirs", "value"]
    limit: float | None = None
    unit: str = "CPU s"

    @property
    def ratio(self) -> float:
        """The figure that is compared with the limit."""
        if self.theirs is None:
            return self.ours
        if self.comparison == "times less":
            return self.theirs / self.ours
        return self.ours / self.theirs

    @property
    def is_met(self) -> bool | None:
        """True if the limit is met; None if there is no limit."""
        if self.limit is None:
            return None
        if self.comparison == "times less":
            return self.ratio >= self.limit
        return self.ratio <= self.limit

    def cells(self) -> tuple[str, ...]:
        """Return the row as text."""
        is_value = self.comparison == "value"
        sign = ">=" if self.comparison == "times less" else "<="
        return (
            self.benchmark,
            self.compared_with,
            f"{self.ours:.2f}",
            "" if self.theirs is None else f"{self.theirs:.2f}",
            self.unit,
            f"{self.ratio:.2f}" if is_value else f"{self.ratio:.2f}x {self.comparison}",
            "" if self.limit is None else f"{sign} {self.limit:g}",
            {None: "", True: "yes", False: "no"}[self.is_met],
        )


_HEADER = ("Benchmark", "Compared with", "Ours", "Theirs", "Unit", "Ratio", "Limit", "Met")


def format_text(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table for a terminal."""
    cells = [_HEADER, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def format_markdown(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the table in Markdown."""
    cells = [_HEADER, tuple("---" for _ in _HEADER), *(row.cells() for row in rows)]
    return [f"| {' | '.join(line)} |" for line in cells]
