"""Options of the generated standard tests, such as record limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["SuiteConfig"]


@dataclass(slots=True)
class SuiteConfig:
    """Options of the standard tests: record limits, and streams that may be empty."""

    max_records_limit: int | None = 150
    """Maximum number of records per partition (context) of a stream; None for no limit."""

    ignore_no_records: bool = False
    """True if every stream may be empty."""

    ignore_no_records_for_streams: list[str] = field(default_factory=list)
    """Names of streams that may be empty."""

    max_records_limit_by_stream: Mapping[str, int | None] = field(default_factory=dict)
    """Record limits by stream name, which override `max_records_limit`."""

    def get_limit(self, stream_name: str) -> int | None:
        """Return the maximum number of records to read from a stream, or None for all."""
        return self.max_records_limit_by_stream.get(stream_name, self.max_records_limit)

    def may_be_empty(self, stream_name: str) -> bool:
        """Return True if the tests must accept that this stream has no records."""
        return self.ignore_no_records or stream_name in self.ignore_no_records_for_streams
