"""Limits on the batch files that a target reads, from its settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tap_core.batch.addresses import SCHEMES, schemes_of
from tap_core.bounds import MIB, Bound

__all__ = ["LINE_SETTING", "FileLimits"]

LINE_SETTING: Final = "batch_max_line_bytes"
_LINE: Final = Bound(64 * MIB, f"the setting {LINE_SETTING}")


@dataclass(frozen=True, slots=True)
class FileLimits:
    """The longest line (or cell of Parquet), and the schemes of addresses that are followed."""

    line: Bound = _LINE
    schemes: frozenset[str] = field(default=SCHEMES)

    @classmethod
    def from_config(cls, config: Any) -> FileLimits:
        """Read the limits from a target's settings."""
        most = config.get(LINE_SETTING) or _LINE.most
        return cls(Bound(int(most), _LINE.setting), schemes_of(config))
