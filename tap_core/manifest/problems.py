"""Problem of a manifest: a sync raises it as an error, the linter lists it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ManifestProblem"]


@dataclass(frozen=True, slots=True)
class ManifestProblem:
    """Problem of a manifest, with its position and severity."""

    line: int
    """Line number, from 1; 0 for the whole file."""
    path: str
    """Path of keys, such as ``streams[0].retriever``."""
    message: str
    is_error: bool = True
    """True if the manifest or a part of it cannot run; False for a warning."""
    file: str = "manifest"
    """Path of the manifest, for the text of the problem."""

    @property
    def severity(self) -> Literal["error", "warning"]:
        """``error`` or ``warning``."""
        return "error" if self.is_error else "warning"

    def __str__(self) -> str:
        """Return the problem as ``file:line: severity: path: message``, like a compiler message."""
        path = f"{self.path}: " if self.path else ""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.severity}: {path}{self.message}"
