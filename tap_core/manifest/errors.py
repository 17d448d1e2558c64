"""What is wrong with a manifest.

The code that finds a fault of a manifest says what it is and the way out; where it stands (file,
line, path of keys) is put before it by the code that knows.
"""

from __future__ import annotations

from tap_core.exceptions import ConfigurationError, DataError

__all__ = ["FailedRecordsError", "ManifestError"]


class ManifestError(ConfigurationError):
    """A manifest cannot be read, or says something that cannot be done.

    ``message`` is the fault alone, ``line`` and ``path`` where it stands, as far as is known.
    """

    def __init__(self, message: str, *, place: str = "", line: int = 0, path: str = "") -> None:
        """Put the place, as people read it, before the message."""
        super().__init__(f"{place}: {message}" if place else message)
        self.message: str = message
        self.is_placed: bool = bool(place)
        self.line: int = line
        self.path: str = path


class FailedRecordsError(DataError):
    """Templates failed on some records of a context; all others were sent."""
