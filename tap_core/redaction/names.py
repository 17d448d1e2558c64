"""Detection of secrets by their names, such as ``api_key``, in settings, parameters and headers.

The pattern for Python and the one for Spark are built from the same terms, and use only syntax that
is valid in Python and Java. Page tokens (``page_token``, ``nextToken``) are not secrets.
Source: Spark's configuration guide, ``spark.redaction.regex``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = [
    "SECRET_NAME_PATTERN",
    "SPARK_REDACTION_REGEX",
    "is_secret_name",
    "is_secret_parameter",
]

_GAP: Final = "[._ -]?"
_KEYS: Final = (
    "access|account|api|app|auth|decryption|encryption|functions?|hmac|master|private|session"
    "|shared|signing|sse|ssh|storage|subscription"
)

_TERMS: Final = (
    "secret(?!ar)",
    "passw(?:or)?d",
    "passphrase",
    "passcode",
    "pwd",
    "(?:key|store)pass",
    "credential(?!s?[._]provider)",
    "jaas",
    "token(?!i[sz])",
    r"(?<!security\.)authorization",
    f"signature(?!{_GAP}(?:version|method|algorithm))",
    "webhook",
    f"session{_GAP}id",
    f"(?:{_KEYS}){_GAP}key(?!board|{_GAP}(?:size|length))",
    f"service{_GAP}account{_GAP}(?:json|info)",
    f"conn(?:ection)?{_GAP}(?:str(?:ing)?(?![a-z])|ur[il])",
    f"(?:jdbc|sqlalchemy){_GAP}ur[il]",
)
"""Patterns of terms that make a name secret at any position, in any case."""

_WORDS: Final = (
    *("assertion", "bearer", "cookie", "cookies", "dsn", "jwt", "otp", "pass", "pat"),
    *("sas", "sid", "sig"),
)
"""Short terms that count only as a whole word: ``sig``, but not ``design``."""

_LAST_WORDS: Final = ("auth", "oauth", "session", "sessions")
"""Words that count only at the end of a name: ``X-Auth``, but not ``auth_type``."""

_LONGEST_CACHED: Final = 200
"""Maximum length, in characters, of a name to cache. A source may send millions of long names."""

_SECRET_PARAMETERS: Final = frozenset({"code", "key"})
"""Names of request parameters that are secret; as the name of a setting they are not."""

_PAGE_TOKEN: Final = re.compile(
    r"(?:(?:continuation|cursor|next|page|sync)[._ -]?)+tokens?", re.IGNORECASE
)


def _as_word(word: str, end: str = "") -> str:
    """Return a regular expression that finds ``word`` as a separate word in a name.

    For ``sig`` it matches ``url_sig``, ``URL_SIG`` and ``urlSig``, but not ``design``. ``end`` is a
    pattern that must follow the word.
    """
    title = word.capitalize()
    return (
        rf"(?<![A-Za-z]){word}(?![a-z]){end}"
        rf"|{title}(?![a-z]){end}"
        rf"|(?<![A-Z]){word.upper()}(?![A-Za-z]){end}"
    )


_ANYWHERE: Final = f"(?i:{'|'.join(_TERMS)})"

SECRET_NAME_PATTERN: Final = re.compile(
    "|".join([_ANYWHERE, *map(_as_word, _WORDS), *(_as_word(word, "$") for word in _LAST_WORDS)])
)
"""Pattern that finds a secret term in a name; see `is_secret_name` for the exceptions."""

SPARK_REDACTION_REGEX: Final = "|".join(
    [
        _ANYWHERE,
        f"(?i:(?:^|[._-])(?:{'|'.join((*_WORDS, *_LAST_WORDS))})(?:[._-]|$))",
        r"//[^/?#\s]+:[^/?#\s]+@",
    ]
)
"""Value for ``spark.redaction.regex``: Spark hides a setting if its key or value matches.

The last part matches URLs with a user and a password, which occur in values.
"""


def is_secret_name(name: str) -> bool:
    """Return True if a setting's name suggests a secret, such as ``password`` or ``api_key``."""
    if len(name) > _LONGEST_CACHED:
        return _has_secret_term.__wrapped__(name)
    return _has_secret_term(name)


@lru_cache(maxsize=4096)
def _has_secret_term(name: str) -> bool:
    match = SECRET_NAME_PATTERN.search(name)
    if match is None:
        return False
    return SECRET_NAME_PATTERN.search(_PAGE_TOKEN.sub("", name)) is not None


def is_secret_parameter(name: str) -> bool:
    """Return True if the name of a query parameter, header or body field suggests a secret.

    In addition to names for which `is_secret_name` is True, ``key`` and ``code`` are secret.
    """
    return name.lower() in _SECRET_PARAMETERS or is_secret_name(name)
