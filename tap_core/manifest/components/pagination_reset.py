"""What is done when the pages of a slice have to begin again.

Rules of the room: said here, done by `restarts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tap_core.manifest.errors import ManifestError

__all__ = ["PaginationReset", "PaginationResetLimits"]


@dataclass(frozen=True, kw_only=True)
class PaginationResetLimits:
    """How much of one question an API answers."""

    number_of_records: int | None = None


@dataclass(frozen=True, kw_only=True)
class PaginationReset:
    """Pages begin again as they were, or from the highest value of the cursor on.

    Raises:
        ManifestError: there is a limit, and nothing by which it could be kept.
    """

    action: Literal["SPLIT_USING_CURSOR", "RESET"]
    limits: PaginationResetLimits | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.action == "RESET":
            raise ManifestError(
                "`limits` of a pagination_reset that begins as before would be reached again:"
                " its action is to be SPLIT_USING_CURSOR."
            )

    @property
    def limit(self) -> int | None:
        """How many records are read before pages begin again."""
        return None if self.limits is None else self.limits.number_of_records
