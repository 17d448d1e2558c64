"""Removal of the data that Fivetran bans from logs: URLs, request paths, parameters, responses.

Other words with a slash, such as dates and media types, are kept.
Source: Fivetran's Partner SDK development guide, "Security".
"""

from __future__ import annotations

import re
from typing import Final

from tap_core.redaction.text import HIDDEN

__all__ = ["remove_addresses"]

_ADDRESS_CHARACTERS: Final = frozenset("/%?&@")
"""Characters that mark a word to remove: each such word contains at least one of them."""

_WORD: Final = re.compile(r'[^\s"<>`]+')
"""Sequence of characters, except spaces and characters that no URL contains."""

_SLASHES: Final = r"(?://|\\/\\/|(?:%2[fF]){2})"
_URL: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]{{0,40}}(?::|%3[aA]){_SLASHES}")
_ROOTED: Final = re.compile(r"(?<![\w/.~%)\]}\\])(?:\\?/)+(?=[\w{%$~.:@*+(\[-])")
"""Slashes that begin a path, at the start of a word or after a punctuation mark in it."""

_HOST: Final = re.compile(r"(?<![\w.-])[\w.-]{1,300}?(?:\.[A-Za-z]{2,24}|:\d{1,5}){1,2}/")
_SERVER: Final = re.compile(
    r"HTTPS?Connection(?:Pool)?\(host='[^']{0,300}', port=[^)]{1,20}\)"
    r"|(?<=Failed to resolve )'[^']{1,300}'"
)
"""Description of a server in urllib3's messages."""

_BODY: Final = re.compile(r"(, content is |; it begins: )[^\n]*?(?=, headers: |\n|\Z)")
"""Excerpt of a response in messages of failed requests, which may contain a row."""

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
"""Path after words such as ``for URL``. It need not look like a path: ``for URL users``."""

_OPENING: Final = "([{'=:,;!*|"
_CLOSING: Final = ")]}',.;:!?*|"
_MIN_SLASHES: Final = 2
"""Minimum number of slashes in a word with letters and digits that counts as a path."""


def remove_addresses(text: str) -> str:
    """Replace URLs, request paths, query parameters and response excerpts in a text by ``***``."""
    while (clean := _remove_once(text)) != text:  # a removal may join words to a new path
        text = clean
    return text


def _remove_once(text: str) -> str:
    """Replace URLs, paths and response excerpts in a text by ``***``, in one pass.

    The caller repeats this until nothing changes, because a replacement may create a new path.
    """
    text = _BODY.sub(rf"\1{HIDDEN}", _SERVER.sub("the server", text))
    redacted = _WORD.sub(_clean_word, text)
    return _PHRASE.sub(rf"\1{HIDDEN}", redacted)


def _clean_word(match: re.Match[str]) -> str:
    """Return a matched word with the URL or path in it replaced by ``***``."""
    word = match[0]
    if _ADDRESS_CHARACTERS.isdisjoint(word):
        return word
    for begins in (_URL, _ROOTED):
        address = begins.search(word)
        if address is not None:
            word = f"{word[: address.start()]}{HIDDEN}{_get_closing(word)}"
    core = word.lstrip(_OPENING).rstrip(_CLOSING)
    if not _is_address(core):
        return word
    head = word[: len(word) - len(word.lstrip(_OPENING))]
    return f"{head}{HIDDEN}{_get_closing(word)}"


def _get_closing(word: str) -> str:
    """Return the punctuation at the end of a word: ``).`` for the word ``users/5).``."""
    return word[len(word.rstrip(_CLOSING)) :]


def _is_address(word: str) -> bool:
    """Return True if a word looks like a login, URL query, host, or path such as ``users/5/x``."""
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
    return has_both and word.count("/") >= _MIN_SLASHES
