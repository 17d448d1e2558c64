"""The table of results: one row per comparison, with what was wanted and whether it is reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Row", "lines", "markdown"]


@dataclass(frozen=True)
class Row:
    """Ours beside another's.

    ``kind`` says how the two are compared: ``times less`` is theirs / ours, to be at least
    ``wanted``; ``of theirs`` is ours / theirs, to be at most ``wanted``; ``below`` is ours, to be
    at most ``wanted``. ``wanted`` is None where a figure is only shown.
    """

    what: str
    beside: str
    ours: float
    theirs: float | None
    kind: Literal["times less", "of theirs", "below"]
    wanted: float | None = None
    unit: str = "CPU s"

    @property
    def ratio(self) -> float:
        """Return the figure that is compared with ``wanted``."""
        if self.theirs is None:
            return self.ours
        return self.theirs / self.ours if self.kind == "times less" else self.ours / self.theirs

    @property
    def is_reached(self) -> bool | None:
        """Whether it is as wanted; None where nothing is."""
        if self.wanted is None:
            return None
        return self.ratio >= self.wanted if self.kind == "times less" else self.ratio <= self.wanted

    def cells(self) -> tuple[str, ...]:
        """Return the row as text."""
        theirs = "" if self.theirs is None else f"{self.theirs:.2f}"
        ratio = f"{self.ratio:.2f}{'' if self.kind == 'below' else 'x'}"
        sign = ">=" if self.kind == "times less" else "<="
        wanted = "" if self.wanted is None else f"{sign} {self.wanted:g}"
        reached = {None: "", True: "yes", False: "NO"}[self.is_reached]
        return (
            self.what,
            self.beside,
            f"{self.ours:.2f}",
            theirs,
            self.unit,
            f"{ratio} {'' if self.kind == 'below' else self.kind}".strip(),
            wanted,
            reached,
        )


_HEAD = ("benchmark", "compared with", "ours", "theirs", "unit", "ratio", "limit", "met")


def lines(rows: Sequence[Row]) -> list[str]:
    """Return the table for a terminal."""
    cells = [_HEAD, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def markdown(rows: Sequence[Row]) -> list[str]:
    """Return the table as Markdown."""
    cells = [_HEAD, tuple("---" for _ in _HEAD), *(row.cells() for row in rows)]
    return [f"| {' | '.join(line)} |" for line in cells]
