"""Errors about a manifest.

The code that finds a problem describes it and its solution; the code that knows the position (file,
line, path of keys) puts the position before the message.
"""

from __future__ import annotations

from tap_core.exceptions import ConfigurationError, DataError

__all__ = ["FailedRecordsError", "ManifestError"]


class ManifestError(ConfigurationError):
    """Error in a manifest that cannot be read, or that declares something unsupported.

    ``message`` is the problem without its position in the manifest. The position is ``line`` (0 if
    unknown) and ``path``.
    """

    def __init__(self, message: str, *, place: str = "", line: int = 0, path: str = "") -> None:
        """Create the error; ``place`` is the position as text, which precedes the message."""
        super().__init__(f"{place}: {message}" if place else message)
        self.message: str = message
        self.is_placed: bool = bool(place)
        self.line: int = line
        self.path: str = path


class FailedRecordsError(DataError):
    """Error for a slice with records on which a template failed; its other records were emitted."""
