"""Names of streams and properties made fit for a database.

Rules of the room: pure. The names that come out are singer_sdk's, so that a table which it
made is found again; where it knows none, one is made that stays the same.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Final

from tap_core.exceptions import ConformedNameClashException

__all__ = ["check_name_clashes", "conform_name", "replace_leading_digit", "snakecase"]

_DROPPED: Final = re.compile(r"[^a-zA-Z0-9_\-.\s]")
_UNDERSCORES: Final = str.maketrans(".- ", "___")
_LETTERS: Final = dict(zip(string.digits, string.ascii_lowercase, strict=False))


def conform_name(name: str) -> str:
    """Return a name of lower case letters, digits and underscores that starts with no digit.

    A name of which nothing would be left is spelled in code points: ``u65e5_u672c``.
    """
    plain = _DROPPED.sub("", name).lower().strip().translate(_UNDERSCORES)
    if not plain:
        return "_".join(f"u{ord(letter):x}" for letter in name) or "_"
    return replace_leading_digit(plain)


def replace_leading_digit(string: str) -> str:
    """Replace a digit at the start by a letter: 0 by a, 1 by b and so on."""
    return _LETTERS.get(string[:1], string[:1]) + string[1:]


def snakecase(string: str) -> str:
    """Return a name in snake case: ``userName`` becomes ``user_name``."""
    joined = re.sub(r"[-.\s]", "_", string)
    parted = joined[:1].lower() + re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", joined[1:])
    return re.sub(r"_{2,}", "_", parted).rstrip("_")


def check_name_clashes(conformed: Mapping[str, str]) -> None:
    """Check that no two names become one.

    Raises:
        ConformedNameClashException: some do; all of them are named.
    """
    if len(set(conformed.values())) == len(conformed):
        return
    origins: dict[str, list[str]] = {}
    for name, one in conformed.items():
        origins.setdefault(one, []).append(name)
    clashes = [(one, names) for one, names in origins.items() if len(names) > 1]
    raise ConformedNameClashException(
        f"Duplicate stream properties produced when conforming property names: {clashes}"
    )
