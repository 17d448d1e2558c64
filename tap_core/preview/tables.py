"""Printing of tables: with borders (rich) on a terminal, as aligned text otherwise."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from tap_core.redaction import redact_line

__all__ = ["print_table"]

_WIDTH: Final = 40
"""Maximum width of a cell in characters; longer texts are cut."""


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on standard output; secrets are redacted, and cells cut to 40 characters."""
    cells = [[_shorten(redact_line(cell)) for cell in row] for row in (head, *rows)]
    if sys.stdout.isatty():
        _draw_table(cells[0], cells[1:])
        return
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(f"{line.rstrip()}\n")


def _shorten(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _draw_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for cell in head:
        table.add_column(Text(cell))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(file=sys.stdout).print(table)
