"""Options for restarting the pagination of a slice (``pagination_reset`` in a manifest).

`tap_core.manifest.pagination_restart` restarts the pagination.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tap_core.manifest.errors import ManifestError

__all__ = ["PaginationReset", "PaginationResetLimits"]


@dataclass(frozen=True, kw_only=True)
class PaginationResetLimits:
    """Maximum number of records that the API returns per query, for a PaginationReset."""

    number_of_records: int | None = None


@dataclass(frozen=True, kw_only=True)
class PaginationReset:
    """Options for restarting a pagination, for example if the API limits the records per query.

    With the action RESET, the pagination restarts at the first page. With SPLIT_USING_CURSOR, a new
    query starts at the highest cursor value read so far.

    Raises:
        ManifestError: `limits` is combined with RESET. A restart would reach the limit again.
    """

    action: Literal["SPLIT_USING_CURSOR", "RESET"]
    limits: PaginationResetLimits | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.action == "RESET":
            raise ManifestError(
                "A pagination_reset with the action RESET would reach its `limits` again:"
                " set the action SPLIT_USING_CURSOR."
            )

    @property
    def limit(self) -> int | None:
        """Number of records after which the pagination restarts; None means no limit."""
        return None if self.limits is None else self.limits.number_of_records
