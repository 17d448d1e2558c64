"""Limits on the batch files that a target reads, and on the manifests of BATCH messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tap_core.batch.url_schemes import SCHEMES, get_allowed_schemes
from tap_core.limits.memory import MIB, Bound, InputTooLargeError

__all__ = ["FILES_SETTING", "LINE_SETTING", "FileLimits"]

LINE_SETTING: Final = "batch_max_line_bytes"
FILES_SETTING: Final = "batch_max_files"
_ADVICE: Final = f"raise the setting {FILES_SETTING}, or let the tap name fewer in one message"
_LINE: Final = Bound(64 * MIB, f"the setting {LINE_SETTING}")
_FILES: Final = 5_000
"""Default maximum of files per BATCH message; Spark needs about 50 seconds to read so many."""

_ADDRESS_BYTES: Final = 4096
"""Assumed maximum length of a file's path or URL, in bytes.

Paths on Linux are not longer, and URLs of object stores are shorter.
"""

_decode: Final = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits that a target applies to batch files.

    Attributes:
        line: Maximum length of a line or a Parquet cell, in bytes.
        schemes: Allowed URL schemes.
        files: Maximum number of files per BATCH message.
    """

    line: Bound = _LINE
    schemes: frozenset[str] = SCHEMES
    files: int = _FILES

    @classmethod
    def from_config(cls, config: Any) -> FileLimits:
        """Return the limits for batch files that a target's config sets, or their defaults."""
        line_bytes = config.get(LINE_SETTING) or _LINE.most
        files = config.get(FILES_SETTING) or _FILES
        return cls(Bound(int(line_bytes), _LINE.setting), get_allowed_schemes(config), int(files))

    def read_manifest(self, text: msgspec.Raw) -> list[str]:
        """Parse the manifest of a BATCH message, a JSON array of file URLs.

        Raises:
            InputTooLargeError: The manifest has too many files or too many bytes.
            msgspec.MsgspecError: The manifest is not a JSON array of strings.
        """
        size = memoryview(text).nbytes
        if size > max(MIB, self.files * _ADDRESS_BYTES):
            raise InputTooLargeError(
                f"a BATCH message names its files in {size:,} bytes, more than"
                f" {_ADDRESS_BYTES:,} for each of {self.files:,} files; {_ADVICE}"
            )
        paths = _decode(text)
        self.check_manifest(len(paths))
        return paths

    def check_manifest(self, count: int) -> None:
        """Raise InputTooLargeError if a BATCH message lists too many files.

        Args:
            count: Number of files in the message.
        """
        if count > self.files:
            raise InputTooLargeError(
                f"a BATCH message names {count:,} files, more than {self.files:,}; {_ADVICE}"
            )
