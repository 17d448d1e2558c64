"""Problem of a manifest: raised as an error by a sync, listed by the linter."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ManifestProblem"]


@dataclass(frozen=True, slots=True)
class ManifestProblem:
    """Problem of a manifest at one position, for the linter or an error.

    ``line`` 0 means the whole file.
    """

    line: int
    path: str
    message: str
    is_error: bool = True
