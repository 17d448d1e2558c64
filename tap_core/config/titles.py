"""Titles and labels of settings, as configuration forms and plugin definitions show them."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["make_label", "make_title"]

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[^\W_A-Z]+")
_ABBREVIATIONS: Final = frozenset(
    {
        *("api", "aws", "ca", "csv", "db", "ftp", "gcp", "gcs", "http", "https", "id", "ip"),
        *("json", "jwt", "pem", "s3", "sftp", "sql", "ssh", "ssl", "tls", "ui", "uri", "url"),
        *("utc", "uuid", "xml"),
    }
)
_SPELLINGS: Final = {"ids": "IDs", "oauth": "OAuth", "urls": "URLs"}


def make_label(title: str, above: str) -> str:
    """Return the label of a setting inside an object: "Database: Port" for ``title`` "Port".

    ``above`` is the title of the object. The object's title is left out if it is empty or part of
    ``title``.
    """
    return title if not above or above.casefold() in title.casefold() else f"{above}: {title}"


def make_title(name: str) -> str:
    """Return a property name as a title: ``client_id`` becomes "Client ID"."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return name or "Settings"
    spelled = [_spell(word) for word in words]
    return " ".join([spelled[0][:1].upper() + spelled[0][1:], *spelled[1:]])


def _spell(word: str) -> str:
    return word.upper() if word in _ABBREVIATIONS else _SPELLINGS.get(word, word)
