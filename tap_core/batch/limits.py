"""Limits on BATCH messages and the files that they name, from the settings of a target."""

from __future__ import annotations

from dataclasses import dataclass, field
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
"""They take Spark about 50 seconds, however small they are."""

_ADDRESS_BYTES: Final = 4096
"""As many as a path has on Linux; addresses of objects have fewer."""

_decode: Final = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True, slots=True)
class FileLimits:
    """The limits of one target.

    ``line`` is the longest line (or cell of Parquet), ``schemes`` those of addresses that are
    followed, ``files`` the most files that one message names.
    """

    line: Bound = _LINE
    schemes: frozenset[str] = field(default=SCHEMES)
    files: int = _FILES

    @classmethod
    def from_config(cls, config: Any) -> FileLimits:
        """Read the limits from a target's settings."""
        most = config.get(LINE_SETTING) or _LINE.most
        files = config.get(FILES_SETTING) or _FILES
        return cls(Bound(int(most), _LINE.setting), get_allowed_schemes(config), int(files))

    def read_manifest(self, text: msgspec.Raw) -> list[str]:
        """Return the addresses of a manifest as it stands in a message.

        Raises:
            TooLargeError: they are too many, or too long to be read.
            msgspec.MsgspecError: it is not a list of texts.
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
        """Raise an error where a message names too many files.

        Raises:
            TooLargeError: it does.
        """
        if count > self.files:
            raise InputTooLargeError(
                f"a BATCH message names {count:,} files, more than {self.files:,}; {_ADVICE}"
            )
