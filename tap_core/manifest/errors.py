"""Errors and listed problems of a manifest, the YAML file that declares a connector.

The code that detects a problem writes a message with the problem and its solution. Its callers add
the position (file, line, path of keys) in front of the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tap_core.exceptions import ConfigurationError, DataError

__all__ = ["FailedRecordsError", "ManifestError", "ManifestProblem"]


class ManifestError(ConfigurationError):
    """Raised for an Airbyte manifest that cannot be read, or declares something unsupported.

    ``message`` is the problem without its position in the manifest. The position is ``line`` (0 if
    unknown) and ``path``, such as ``streams[0].retriever``.
    """

    def __init__(self, message: str, *, place: str = "", line: int = 0, path: str = "") -> None:
        """Create the error. Its text is ``message``, or ``<place>: <message>`` if ``place`` is set.

        ``place`` is the position as text, such as ``manifest.yaml, line 3``.
        """
        super().__init__(f"{place}: {message}" if place else message)
        self.message: str = message
        self.is_placed: bool = bool(place)
        self.line: int = line
        self.path: str = path


class FailedRecordsError(DataError):
    """Raised after a stream slice if records were skipped because a template failed on them."""


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
        """Severity of the problem: ``error`` or ``warning``."""
        return "error" if self.is_error else "warning"

    def __str__(self) -> str:
        """Return the problem as ``file:line: severity: path: message``, like a compiler message."""
        path = f"{self.path}: " if self.path else ""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.severity}: {path}{self.message}"
