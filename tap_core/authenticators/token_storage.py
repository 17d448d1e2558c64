"""A new refresh token into the configuration file that held the old one.

Rules of the room: only the token changes; the rest of the file keeps its text, its
permissions and its owner. The file is the old one or the new one at every moment: written
beside it, flushed to the disk, renamed. Nobody's file is written that does not hold a token
which this run has used up, so that settings of another origin are left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Collection
from pathlib import Path

__all__ = ["is_refresh_token_name", "replace_token", "write_refresh_token"]

_ANYBODY_WRITES = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
"""The superuser may write what nobody else may; whoever made the file did not mean that."""

_TEXT = r'"(?:[^"\\]|\\.)*"'
_MEMBER = re.compile(rf"(?P<name>{_TEXT})(?P<colon>\s*:\s*)(?P<value>{_TEXT})|{_TEXT}")
"""Read from the left, each text of a JSON document as a whole; a member with its name."""


def write_refresh_token(path: Path, used: Collection[str], token: str) -> str | None:
    """Put a new refresh token in the place of a used one.

    Returns:
        Why that could not be done or is not enough, None when all is well.
    """
    try:
        file = path.resolve(strict=True)  # a link stays a link
        refused = _refused(file)
        if refused is None:
            text = file.read_bytes().decode("utf-8")
            changed = replace_token(text, used, token)
            if changed == text:
                return f"the one that was used is not in the configuration file {path}"
            _replace(file, changed.encode("utf-8"))
    except OSError as error:
        return f"the configuration file {path} cannot be written: {error.strerror}"
    except ValueError:
        return f"the configuration file {path} is no longer JSON text in UTF-8"
    else:
        return f"the configuration file {path} {refused}" if refused else _short_lived(file)


def _refused(file: Path) -> str | None:
    if not stat.S_ISREG(file.stat().st_mode):
        return "is not a regular file"
    if not file.stat().st_mode & _ANYBODY_WRITES or not os.access(file, os.W_OK):
        return "is read-only"
    return None


def _short_lived(file: Path) -> str | None:
    """Meltano makes the file anew for each run, from settings of its own."""
    if ".meltano" in file.parts and "run" in file.parts:
        return f"the configuration file {file} is a copy that Meltano makes for each run"
    return None


def is_refresh_token_name(name: str) -> bool:
    """Tell whether a setting of this name holds a refresh token: ``oauth_refreshToken``."""
    return "refreshtoken" in name.lower().replace("_", "").replace("-", "")


def replace_token(text: str, used: Collection[str], token: str) -> str:
    """Return a JSON text with a token in place of those that are used up, nothing else changed.

    Raises:
        ValueError: it is no JSON.
    """

    def member(match: re.Match[str]) -> str:
        if match["name"] is None or not is_refresh_token_name(_read(match["name"])):
            return match[0]
        value = json.dumps(token) if _read(match["value"]) in used else match["value"]
        return f"{match['name']}{match['colon']}{value}"

    return _MEMBER.sub(member, text)


def _read(text: str) -> str:
    return str(json.loads(text))


def _replace(file: Path, content: bytes) -> None:
    about = file.stat()
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as beside:
            beside.write(content)
            beside.flush()
            os.fsync(beside.fileno())
        # Only the superuser may give a file away, and not every system knows owners.
        with contextlib.suppress(OSError, AttributeError):
            os.chown(name, about.st_uid, about.st_gid)
        Path(name).chmod(stat.S_IMODE(about.st_mode))
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _flush_folder(file.parent)


def _flush_folder(folder: Path) -> None:
    """Make the new name last too, where folders can be flushed."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
