"""What an author may ask of the standard tests.

Rules of the room: plain values; the tests read them and nothing writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["SuiteConfig"]


@dataclass(slots=True)
class SuiteConfig:
    """How much is read, and which streams may have no records."""

    max_records_limit: int | None = 150
    """Records of a stream and context after which its sync is ended; None is no limit."""

    ignore_no_records: bool = False
    """Whether any stream may be empty."""

    ignore_no_records_for_streams: list[str] = field(default_factory=list)
    """Names of streams that may be empty."""

    max_records_limit_by_stream: Mapping[str, int | None] = field(default_factory=dict)
    """Name of a stream to a limit of its own."""

    def get_limit(self, stream_name: str) -> int | None:
        """Return how many records of a stream are read; None is all."""
        return self.max_records_limit_by_stream.get(stream_name, self.max_records_limit)

    def may_be_empty(self, stream_name: str) -> bool:
        """Tell whether a stream without records is no fault."""
        return self.ignore_no_records or stream_name in self.ignore_no_records_for_streams
