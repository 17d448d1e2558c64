"""A terminal of a fixed size, with the control sequences that a live line uses.

The model follows the VT100 manual and xterm's `ctlseqs`: a line that scrolls out of a region that
begins at the first line goes to the history. An unknown control sequence is an error.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_TOKEN = re.compile(r"\x1b\[([\d;]*)([A-Za-z])|\x1b([78D])|\r|\n|[^\x00-\x1f\x7f]")

_XTERM = (
    *("000000", "cd0000", "00cd00", "cdcd00", "0000ee", "cd00cd", "00cdcd", "e5e5e5"),
    *("7f7f7f", "ff0000", "00ff00", "ffff00", "5c5cff", "ff00ff", "00ffff", "ffffff"),
)
"""xterm's default palette: eight colors, then their bright forms."""

_CONTRAST = 3.0

_LONGEST = 20
"""Characters of the longest control sequence, or more."""


class Terminal:
    """Lines on the screen, lines that have left it, the cursor, and the styles of the text.

    A style has the parameters of one sequence for bold, colors and the like (SGR).
    """

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.lock = threading.Lock()
        self.history: list[str] = []
        self.screen = [[" "] * width for _ in range(height)]
        self.row = self.column = 0
        self.top, self.bottom = 0, height - 1
        self.styles: set[tuple[int, ...]] = set()
        self._saved = (0, 0)
        self._rest = ""

    def feed(self, text: str) -> None:
        """Process output; a control sequence may be split between two calls."""
        text, position = self._rest + text, 0
        with self.lock:
            while position < len(text):
                match = _TOKEN.match(text, position)
                if match is None:
                    break
                self._apply(match)
                position = match.end()
        self._rest = text[position:]
        assert len(self._rest) < _LONGEST, f"unknown control sequence: {self._rest!r}"

    def lines(self) -> list[str]:
        """Return all lines, those of the history first, without empty lines at the end."""
        lines = [*self.history, *("".join(row).rstrip() for row in self.screen)]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def grow(self, height: int) -> None:
        """Add empty lines at the bottom, which makes all lines scroll again, as in xterm."""
        with self.lock:
            self.screen += [[" "] * self.width for _ in range(height - self.height)]
            self.height = height
            self.top, self.bottom = 0, height - 1

    @property
    def last_line(self) -> str:
        """The text of the last line of the screen."""
        return "".join(self.screen[-1]).rstrip()

    def _apply(self, match: re.Match[str]) -> None:
        values, final, single = match.groups()
        if final is not None:
            self._control(final, [int(value or 0) for value in values.split(";")])
        elif single == "7":
            self._saved = self.row, self.column
        elif single == "8":
            self.row, self.column = self._saved
        elif single == "D" or match[0] == "\n":
            self._feed_line()
        elif match[0] == "\r":
            self.column = 0
        else:
            self._put(match[0])

    def _put(self, character: str) -> None:
        if self.column == self.width:
            self.column = 0
            self._feed_line()
        self.screen[self.row][self.column] = character
        self.column += 1

    def _feed_line(self) -> None:
        if self.row == self.bottom:
            scrolled_line = self.screen.pop(self.top)
            if self.top == 0:
                self.history.append("".join(scrolled_line).rstrip())
            self.screen.insert(self.bottom, [" "] * self.width)
        elif self.row < self.height - 1:
            self.row += 1

    def _control(self, final: str, values: Sequence[int]) -> None:
        if final == "r":
            top, bottom = (*values, 0)[:2]
            self.top, self.bottom = max(top, 1) - 1, (bottom or self.height) - 1
            self.row = self.column = 0
        elif final == "H":
            row, column = (*values, 0)[:2]
            self.row, self.column = max(row, 1) - 1, max(column, 1) - 1
        elif final == "A":
            self.row = max(self.row - max(values[0], 1), self.top)
        elif (final, values[0]) == ("J", 0):
            self.screen[self.row][self.column :] = [" "] * (self.width - self.column)
            for row in range(self.row + 1, self.height):
                self.screen[row] = [" "] * self.width
        elif (final, values[0]) == ("K", 2):
            self.screen[self.row] = [" "] * self.width
        else:
            assert final == "m", (values, final)
            self.styles.add(tuple(values))


def find_unreadable(styles: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the styles that are not readable on a black or on a white background.

    Readable are the terminal's own colors, bold, dim or underlined, and colors of xterm's palette
    with a contrast of at least 3 to both (WCAG 2.2, 1.4.11). Bold text may be drawn in the bright
    color, dim text in a darker one. Backgrounds and colors beyond the palette are not readable.
    """
    return sorted(style for style in styles if not all(map(_is_readable, _with_bright(style))))


def _with_bright(style: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    yield style
    if 1 in style:
        yield tuple(code + 60 if code in range(30, 38) else code for code in style)


def _is_readable(style: tuple[int, ...]) -> bool:
    plain = {0, 1, 2, 3, 4, 7, 22, 23, 24, 27, 39, 49}
    colors = [code for code in style if code not in plain]
    if not colors:
        return True
    known = [*range(30, 38), *range(90, 98)]
    return 2 not in style and all(
        code in known and _has_contrast(_XTERM[known.index(code)]) for code in colors
    )


def _has_contrast(color: str) -> bool:
    """Return True if a color is readable on black (luminance 0) and on white (luminance 1)."""
    parts = [int(color[index : index + 2], 16) / 255 for index in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return (luminance + 0.05) / 0.05 >= _CONTRAST and 1.05 / (luminance + 0.05) >= _CONTRAST


class TerminalSession:
    """A pseudo-terminal: programs write to ``descriptor``, and ``terminal`` shows their output."""

    def __init__(self, width: int, height: int) -> None:
        self._reader, self.descriptor = pty.openpty()
        self.raw = b""
        self.terminal = Terminal(width, height)
        self._set_size(height)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def grow(self, height: int) -> None:
        """Make the terminal higher."""
        self.terminal.grow(height)
        self._set_size(height)

    def _set_size(self, height: int) -> None:
        size = struct.pack("HHHH", height, self.terminal.width, 0, 0)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, size)

    def type(self, data: bytes) -> None:
        """Send what a user types."""
        os.write(self._reader, data)

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program whose standard streams, unless given, are the terminal."""
        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), self.descriptor)
        return subprocess.Popen(command, **{**streams, **options})

    def close(self) -> None:
        """Read the rest of the output."""
        os.close(self.descriptor)
        self._thread.join()
        os.close(self._reader)

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")()
        while True:
            try:
                data = os.read(self._reader, 1 << 16)
            except OSError:  # the last program has closed the terminal
                return
            self.raw += data
            self.terminal.feed(decoder.decode(data))


@contextmanager
def open_terminal(width: int, height: int = 24) -> Iterator[TerminalSession]:
    """Yield a pseudo-terminal; at the end of the block its whole output has been read."""
    session = TerminalSession(width, height)
    try:
        yield session
    finally:
        session.close()
