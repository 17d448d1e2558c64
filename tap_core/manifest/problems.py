"""Problems of a manifest: raised when it runs, collected when it is linted."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ManifestProblem"]


@dataclass(frozen=True, slots=True)
class ManifestProblem:
    """A problem at one position of a manifest."""

    line: int
    path: str
    message: str
    is_error: bool = True
