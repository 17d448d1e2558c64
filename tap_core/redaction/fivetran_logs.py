"""Removal of data that Fivetran bans from logs: URLs, request paths, query parameters, responses.

The time is linear in the length of a text, and a second pass changes nothing. Other terms with a
slash, dates and media types are kept.
Source: Fivetran's Partner SDK development guide, "Security".
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["remove_addresses"]

_GONE: Final = "***"
_SIGNS: Final = frozenset("/%?&@")
"""A word without any of these is none of what is looked for."""

_WORD: Final = re.compile(r'[^\s"<>`]+')
"""What stands between spaces, and between signs that no URL has."""

_SLASHES: Final = r"(?://|\\/\\/|(?:%2[fF]){2})"
_URL: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]{{0,40}}(?::|%3[aA]){_SLASHES}")
_ROOTED: Final = re.compile(r"(?<![\w/.~%)\]}\\])(?:\\?/)+(?=[\w{%$~.:@*+(\[-])")
"""Slashes with which a word begins, or what follows a sign within it."""

_HOST: Final = re.compile(r"(?<![\w.-])[\w.-]{1,300}?(?:\.[A-Za-z]{2,24}|:\d{1,5}){1,2}/")
_SERVER: Final = re.compile(
    r"HTTPS?Connection(?:Pool)?\(host='[^']{0,300}', port=[^)]{1,20}\)"
    r"|(?<=Failed to resolve )'[^']{1,300}'"
)
"""How urllib3 names a server."""

_BODY: Final = re.compile(r"(, content is |; it begins: )[^\n]*?(?=, headers: |\n|\Z)")
"""Where messages of failed requests show a piece of an answer, which may be a row."""

_PHRASE: Final = re.compile(
    r"""(?x)
    ( (?-i: \b for\ URL\ )
    | \b (?: for | with | to | at | from ) \ (?: url | path | uri | endpoint ) : \s{1,3}
    | \b (?: url | uri | path | path_url | endpoint | query | params ) =
    )
    (?: (?: '[^'\n]{1,2000}' | "[^"\n]{1,2000}" ) [^\s,;'"()\[\]{}<>]*
    | [^\s,;'"()\[\]{}<>]+
    )
    """,
    re.IGNORECASE,
)
"""Words that say that a path follows, which need not look like one: ``for URL users``."""

_OPENING: Final = "([{'=:,;!*|"
_CLOSING: Final = ")]}',.;:!?*|"
_DEEP: Final = 2
"""So many slashes make a path of a word that has both letters and digits."""


def remove_addresses(text: str) -> str:
    """Return a text without URLs, request paths, query parameters and response excerpts."""
    while (clean := _once(text)) != text:  # what is taken out may join what stood apart
        text = clean
    return text


def _once(text: str) -> str:
    text = _BODY.sub(rf"\1{_GONE}", _SERVER.sub("the server", text))
    words = _WORD.sub(_clean, text)
    return _PHRASE.sub(rf"\1{_GONE}", words)


def _clean(match: re.Match[str]) -> str:
    word = match[0]
    if _SIGNS.isdisjoint(word):
        return word
    for begins in (_URL, _ROOTED):
        found = begins.search(word)
        if found is not None:
            word = f"{word[: found.start()]}{_GONE}{_tail(word)}"
    core = word.lstrip(_OPENING).rstrip(_CLOSING)
    if not _is_address(core):
        return word
    head = word[: len(word) - len(word.lstrip(_OPENING))]
    return f"{head}{_GONE}{_tail(word)}"


def _tail(word: str) -> str:
    """Return the punctuation at the end of a term, which belongs to the sentence."""
    return word[len(word.rstrip(_CLOSING)) :]


def _is_address(word: str) -> bool:
    """Return True for a user with a password, a query, or a path without a leading slash."""
    user, at, host = word.partition("@")
    if at and host and ":" in user[1:]:
        return True
    if "=" in word and "&" in word:
        return True
    path, mark, query = word.partition("?")
    if mark and ("=" in query or "/" in path):
        return True
    if _HOST.search(word):
        return True
    has_both = any(map(str.isdigit, word)) and any(map(str.isalpha, word))
    return has_both and word.count("/") >= _DEEP
