"""Reader of a plugin's settings from a ``.env`` file.

The variables are not put into ``os.environ``, so neither libraries nor child processes see them.
The file is in the working directory or, if not there, in the root folder of the project. It is read
only if no other user could have written it.
"""

from __future__ import annotations

import io
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tap_core.io.private_files import (
    UntrustedPathError,
    find_owner_fault,
    find_trust_fault,
    open_regular,
)
from tap_core.types import StrPath

__all__ = ["MAX_BYTES", "read_dotenv"]

MAX_BYTES = 1024 * 1024
"""Maximum size of a ``.env`` file in bytes; a larger one is skipped."""

_NAME = ".env"
_ROOT_MARKS = (".git", "meltano.yml")

logger: logging.Logger = logging.getLogger(__name__)


def read_dotenv(prefix: str, path: StrPath | None = None) -> dict[str, str]:
    """Return the variables of a ``.env`` file whose names begin with a prefix.

    ``${NAME}`` in a value is replaced by the variable of that name in the environment or the file.
    A file that cannot be read or trusted is skipped with a warning.

    Args:
        prefix: Prefix of the variable names, such as ``TAP_X_``.
        path: Path of the file. By default, the first usable file in the working directory or the
            project root is read; without a file the result is empty.
    """
    for file in [Path(path)] if path else _list_candidates():
        text = _read_file(file)
        if text is not None:
            return _parse_variables(text, prefix, file)
    return {}


def _list_candidates() -> Iterator[Path]:
    """Yield the possible paths of a ``.env`` file: working directory, then project root.

    Yield nothing if the working directory was removed.
    """
    try:
        current = Path.cwd()
    except FileNotFoundError:
        return
    yield current / _NAME
    root = next(filter(_is_project_root, (current, *current.parents)), current)
    if root != current:
        yield root / _NAME


def _is_project_root(folder: Path) -> bool:
    """Return True if a folder is the root of a project: it contains ``.git`` or ``meltano.yml``."""
    return any(os.access(folder / mark, os.F_OK) for mark in _ROOT_MARKS)


def _read_file(file: Path) -> str | None:
    """Return the text of a ``.env`` file, or None if there is no usable file.

    Log a warning if the file exists but cannot be used.
    """
    remedy = "Correct it"
    try:
        return _read_trusted(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UntrustedPathError as error:
        reason = error.fault
        remedy = "Make it a regular file of this user that no other user may write (chmod go-w)"
    except UnicodeDecodeError:
        reason = "is not UTF-8 text"
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    logger.warning(
        "The settings in %s are not used, because it %s. %s, or set the variables in the"
        " environment.",
        file,
        reason,
        remedy,
    )
    return None


def _read_trusted(file: Path) -> str | None:
    """Return the text of a ``.env`` file that only this user (or root) controls.

    Return None for a directory, such as a virtual environment named ``.env``.

    Raises:
        UntrustedPathError: Another user controls the file, it is too long, or not a regular file.
    """
    status = file.lstat()
    if stat.S_ISDIR(status.st_mode):
        return None
    if stat.S_ISLNK(status.st_mode):  # the link decides which file is read
        if fault := find_owner_fault(status):
            raise UntrustedPathError(file, f"is a link that {fault}")
        file = Path(os.path.realpath(file))  # unlike resolve(), it accepts a loop of links
    handle, status = open_regular(file, os.O_RDONLY)
    with os.fdopen(handle, "rb") as opened:
        if fault := find_trust_fault(status):
            raise UntrustedPathError(file, fault)
        content = opened.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UntrustedPathError(file, f"is larger than {MAX_BYTES:,} bytes")
    return content.decode("utf-8-sig")


def _parse_variables(text: str, prefix: str, file: Path) -> dict[str, str]:
    """Parse the text of a ``.env`` file; return the variables whose names begin with ``prefix``.

    Log a warning with the line of each invalid statement, without its text, which may be secret.
    """
    from dotenv.main import resolve_variables
    from dotenv.parser import parse_stream

    bindings = list(parse_stream(io.StringIO(text)))
    for invalid in (binding.original for binding in bindings if binding.error):
        blank_lines = invalid.string.removesuffix(invalid.string.lstrip()).count("\n")
        line = invalid.line + blank_lines
        logger.warning("%s, line %d: this is not NAME=value and is skipped.", file, line)
    # As in load_dotenv, a variable of the environment wins over one of the file.
    named = ((binding.key, binding.value) for binding in bindings if binding.key is not None)
    parsed = resolve_variables(named, override=False)
    return {
        name: value
        for name, value in parsed.items()
        if name.startswith(prefix) and value is not None
    }
