"""Conversion of stream and property names to database identifiers.

The identifiers are those of singer_sdk, so that a table created by singer_sdk is used again. A name
that singer_sdk cannot convert, because it has no ASCII letters or digits, becomes its code points.
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
_LETTER_BY_DIGIT: Final = dict(zip(string.digits, string.ascii_lowercase, strict=False))


def conform_name(name: str) -> str:
    """Convert a name to lower-case letters, digits and underscores: ``Order-ID`` to ``order_id``.

    A leading digit is replaced by a letter, and dots, dashes and spaces by underscores. Other
    characters are removed. If none remains, the name is converted to its code points, such as
    ``u65e5_u672c``.
    """
    plain = _DROPPED.sub("", name).lower().strip().translate(_UNDERSCORES)
    if not plain:
        return "_".join(f"u{ord(letter):x}" for letter in name) or "_"
    return replace_leading_digit(plain)


def replace_leading_digit(string: str) -> str:
    """Return a name with a leading digit replaced by a letter: 0 by a, 1 by b, up to 9 by j."""
    return _LETTER_BY_DIGIT.get(string[:1], string[:1]) + string[1:]


def snakecase(string: str) -> str:
    """Return a name in snake case: ``userName`` becomes ``user_name``."""
    joined = re.sub(r"[-.\s]", "_", string)
    separated = joined[:1].lower() + re.sub(
        r"[A-Z]", lambda match: f"_{match[0].lower()}", joined[1:]
    )
    return re.sub(r"_{2,}", "_", separated).rstrip("_")


def check_name_clashes(conformed: Mapping[str, str]) -> None:
    """Check that no two names are converted to the same identifier.

    Args:
        conformed: Dict from each name to its identifier.

    Raises:
        ConformedNameClashException: Several names have the same identifier. The message lists them.
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
