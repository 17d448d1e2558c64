"""Arguments of an Airbyte command: paths of files, each after its flag.

A path follows its flag after a space or after ``=``. Error messages end with the command's usage.
Source: the Airbyte protocol, section "Interface Invariants": all arguments are JSON files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tap_core.exceptions import ConfigurationError
from tap_core.limits.memory import STATE_BYTES, InputTooLargeError, read_at_most

__all__ = ["CommandArgs", "read_text"]


class _UsageError(ConfigurationError):
    """Raised for command-line arguments that the Airbyte protocol does not allow."""


@dataclass(frozen=True, slots=True)
class CommandArgs:
    """Name of an Airbyte command, its known flags, and the optional ones among these flags."""

    word: str
    known: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def files(self, args: Sequence[str]) -> Mapping[str, str]:
        """Return the file paths on the command line, keyed by flag (without ``--``).

        Raises:
            ConfigurationError: A required flag or a path is missing, or a flag is unknown.
        """
        found = dict(self._pairs(args))
        missing = [name for name in self.known if name not in {*found, *self.optional}]
        if missing:
            flags = ", ".join(f"--{name}" for name in missing)
            raise _UsageError(f"'{self.word}' needs {flags}. {self.usage()}")
        return found

    def usage(self, program: str = "") -> str:
        """Return the usage line of the command, without a line end."""
        flags = (
            f"[--{name} FILE]" if name in self.optional else f"--{name} FILE" for name in self.known
        )
        return " ".join(["Usage:", *filter(None, [program]), self.word, *flags])

    def _pairs(self, args: Sequence[str]) -> Iterator[tuple[str, str]]:
        rest = iter(args)
        for arg in rest:
            name, is_joined, value = arg.partition("=")
            flag = name.removeprefix("--")
            if name == "--debug":
                logging.getLogger().setLevel(logging.DEBUG)
            elif flag == name or flag not in self.known:
                raise _UsageError(f"'{self.word}' does not know '{name}'. {self.usage()}")
            else:
                path = value if is_joined else next(rest, "")
                if not path:
                    raise _UsageError(f"--{flag} needs the path of a file.")
                yield flag, path


def read_text(path: str, error: type[ConfigurationError], what: str) -> bytes:
    """Return the content of a file.

    Args:
        path: Path of the file.
        error: Class of the error to raise if the file cannot be read or is too large.
        what: Name of the file in the error message, such as "Catalog".
    """
    try:
        return read_at_most(Path(path), STATE_BYTES)
    except InputTooLargeError as reason:
        raise error(f"{what} file '{path}' cannot be read: {reason}") from None
    except OSError as reason:
        raise error(f"{what} file '{path}' cannot be read: {reason.strerror}") from None
