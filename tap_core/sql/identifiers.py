"""Conversion of stream and property names to database identifiers.

Results equal those of singer_sdk, so that a table created by it is found again. Where singer_sdk
has no result, a deterministic name is used.
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
    """Convert a name to lower-case letters, digits and underscores, without a leading digit.

    If a name has no such character, the result consists of its code points: ``u65e5_u672c``.
    """
    plain = _DROPPED.sub("", name).lower().strip().translate(_UNDERSCORES)
    if not plain:
        return "_".join(f"u{ord(letter):x}" for letter in name) or "_"
    return replace_leading_digit(plain)


def replace_leading_digit(string: str) -> str:
    """Return a name with a leading digit replaced by a letter: 0 by a, 1 by b and so on."""
    return _LETTERS.get(string[:1], string[:1]) + string[1:]


def snakecase(string: str) -> str:
    """Return a name in snake case: ``userName`` becomes ``user_name``."""
    joined = re.sub(r"[-.\s]", "_", string)
    parted = joined[:1].lower() + re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", joined[1:])
    return re.sub(r"_{2,}", "_", parted).rstrip("_")


def check_name_clashes(conformed: Mapping[str, str]) -> None:
    """Check that no two names are converted to the same identifier.

    Args:
        conformed: The identifier for each name.

    Raises:
        ConformedNameClashException: Two names have the same identifier; the message lists all.
    """
    if len(set(conformed.values())) == len(conformed):
        return
    origins: dict[str, list[str]] = {}
    for name, identifier in conformed.items():
        origins.setdefault(identifier, []).append(name)
    clashes = [(identifier, names) for identifier, names in origins.items() if len(names) > 1]
    raise ConformedNameClashException(
        f"Duplicate stream properties produced when conforming property names: {clashes}"
    )
