"""Replacement of a used refresh token in the tap's config file.

- Only the token changes; the rest of the text, the permissions and the owner are kept.
- The write is atomic: a temporary file is written, flushed to disk and renamed.
- A file is written only if it contains a refresh token that this run has used.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Collection
from pathlib import Path

from tap_core.io.private_files import replace_file

__all__ = ["is_refresh_token_name", "replace_token", "write_refresh_token"]

_ANYBODY_WRITES = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
"""Permission bits that allow any user to write a file.

A file without these bits is deliberately read-only. This applies to root too, although the system
lets root write it.
"""

_TEXT = r'"(?:[^"\\]|\\.)*"'
_MEMBER = re.compile(rf"(?P<name>{_TEXT})(?P<colon>\s*:\s*)(?P<value>{_TEXT})|{_TEXT}")
"""Pattern that matches a JSON string, or an object member whose value is a string.

Because a string is always matched as a whole, quotation marks inside it are no delimiters.
"""


def write_refresh_token(
    path: Path, used: Collection[str], token: str, names: Collection[str] = ()
) -> str | None:
    """Replace used refresh tokens in a tap's config file with a new one, for the next run.

    Args:
        path: Path of the config file (JSON).
        used: Refresh tokens that this run has used.
        token: The new refresh token.
        names: Further names of settings that may contain refresh tokens.

    Returns:
        None on success, else a text that says why the file does not store the token permanently.
    """
    try:
        file = path.resolve(strict=True)  # a link stays a link
        if obstacle := _find_write_obstacle(file):
            return f"the configuration file {path} {obstacle}"
        text = file.read_bytes().decode("utf-8")
        changed = replace_token(text, used, token, names)
        if changed == text:
            return f"the one that was used is not in the configuration file {path}"
        status = file.stat()
        replace_file(file, changed, stat.S_IMODE(status.st_mode), owner=status)
    except OSError as error:
        return f"the configuration file {path} cannot be written: {error.strerror}"
    except ValueError:
        return f"the configuration file {path} is no longer JSON text in UTF-8"
    return _find_reason_for_loss(file)


def _find_write_obstacle(file: Path) -> str | None:
    """Return the reason why a config file must not be written, such as ``is read-only``.

    Return None if the file may be written.
    """
    mode = file.stat().st_mode
    if not stat.S_ISREG(mode):
        return "is not a regular file"
    if not mode & _ANYBODY_WRITES or not os.access(file, os.W_OK):
        return "is read-only"
    return None


def _find_reason_for_loss(file: Path) -> str | None:
    """Return the reason why changes to a config file would be lost; None if they would be kept.

    Meltano creates the files below ``.meltano/run`` again for each run, so changes to them are
    lost.
    """
    if ".meltano" in file.parts and "run" in file.parts:
        return f"the configuration file {file} is a copy that Meltano makes for each run"
    return None


def is_refresh_token_name(name: str) -> bool:
    """Return True if a setting's name suggests a refresh token, such as ``oauth_refreshToken``."""
    return "refreshtoken" in name.lower().replace("_", "").replace("-", "")


def replace_token(text: str, used: Collection[str], token: str, names: Collection[str] = ()) -> str:
    """Return the text of a JSON config file with used refresh tokens replaced by ``token``.

    Only settings in ``names``, and those for which `is_refresh_token_name` is True, change.
    ``used`` are the tokens to replace.

    Raises:
        ValueError: A string in the text is not valid JSON. The rest of the text is not checked.
    """

    def member(match: re.Match[str]) -> str:
        name = "" if match["name"] is None else _decode_text(match["name"])
        if name not in names and not is_refresh_token_name(name):
            return match[0]
        value = json.dumps(token) if _decode_text(match["value"]) in used else match["value"]
        return f"{match['name']}{match['colon']}{value}"

    return _MEMBER.sub(member, text)


def _decode_text(text: str) -> str:
    """Decode a JSON string literal, which includes its quotes, to a str."""
    return str(json.loads(text))
