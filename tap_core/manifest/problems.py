"""Faults of a manifest: raised when it runs, collected when it is linted.

Rules of the room: one way to tell a fault, whoever finds it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ManifestProblem"]


@dataclass(frozen=True, slots=True)
class ManifestProblem:
    """What is wrong in one place."""

    line: int
    path: str
    message: str
    is_error: bool = True
