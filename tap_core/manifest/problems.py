"""Problem of a manifest: raised as an error by a sync, listed by the linter."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ManifestProblem"]


@dataclass(frozen=True, slots=True)
class ManifestProblem:
    """Problem in a manifest at one position; ``line`` 0 means the whole file."""

    line: int
    path: str
    message: str
    is_error: bool = True
