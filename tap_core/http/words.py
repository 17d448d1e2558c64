"""What may stand in a message: URLs, errors and bodies, without secrets.

Rules of the room: everything that goes into a log or an error passes here first. A value
is a secret when its name says so, when the settings' schema does, or when it was sent to
authenticate; one character too many hidden is better than one too few. Bodies are shown
only where they are short text.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit, urlunsplit

import requests

from tap_core.config import is_secret, property_schema

__all__ = [
    "HIDDEN",
    "LONGEST_BODY",
    "LONGEST_EXCERPT",
    "Secrets",
    "body_excerpt",
    "content_type",
    "hide_secrets_of_urllib3",
    "is_secret_name",
    "secrets_of",
    "sent_secrets",
    "url_without_secrets",
]

HIDDEN = "***"

LONGEST_BODY = 16_384
"""Bytes of a body from which an excerpt is taken; of longer ones nothing is shown."""

LONGEST_EXCERPT = 500
"""Characters of a body that are shown."""

_SHORTEST_SECRET = 4
"""Characters; hiding shorter values would eat into the words around them."""

_SECRET_WORDS = frozenset(
    {
        *("apikey", "assertion", "auth", "authorization", "bearer", "cookie", "credential"),
        *("credentials", "jwt", "oauth", "pass", "passcode", "passphrase", "password", "passwd"),
        *(
            "pat",
            "pwd",
            "secret",
            "secrets",
            "session",
            "sid",
            "sig",
            "signature",
            "token",
            "tokens",
        ),
    }
)
_SECRET_ENDS = ("apikey", "accesskey", "password", "passwd", "secret", "token", "sessionid")
_KEYS = frozenset({"access", "account", "api", "app", "encryption", "private", "subscription"})
_WHOLE = frozenset({"code", "key"})
_PAGE_WORDS = frozenset({"continuation", "cursor", "next", "page", "sync"})

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_USER_INFO = re.compile(r"(?<=://)[^/?#\s@]+@")
_NAMED_VALUE = re.compile(
    r"""(?P<name>[A-Za-z_][\w.-]*)(?P<sign>["']?\s*[=:]\s*)(?P<value>"[^"]*"?|'[^']*'?|[^\s&,;<>]+)"""
)
_PROSE = r"""\s+[a-z]{1,12}(?=\s|$|[.,;:!?"')}\]]+(?:\s|$))"""
"""What follows in "your token has expired": a short word in small letters, and its end."""
_SCHEME = re.compile(
    rf"\b(Bearer|Basic|(?i:Bearer|Basic|Token)(?!{_PROSE}))\s+[\w.~+/=-]+",
)
"""A credential behind its scheme."""
_TAG = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>", re.IGNORECASE | re.DOTALL)


def is_secret_name(name: str) -> bool:
    """Tell whether what is called so is better not shown.

    Tokens of pages are no secrets: ``page_token``, ``nextToken``, ``cursor``.
    """
    words = [word.lower() for word in _WORD.findall(name)]
    joined = "".join(words)
    if joined in _WHOLE:
        return True
    if _PAGE_WORDS.intersection(words):
        return False
    return (
        not _SECRET_WORDS.isdisjoint(words)
        or joined.endswith(_SECRET_ENDS)
        or any(first in _KEYS and then == "key" for first, then in pairwise(words))
    )


def url_without_secrets(url: str | bytes | None) -> str:
    """Return a URL without user-info and fragment; values of secret-looking names hidden."""
    text = url.decode("utf-8", "replace") if isinstance(url, bytes) else url or ""
    try:
        parts = urlsplit(text)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:  # not a URL: say nothing of it but that
        return HIDDEN
    query = parts.query
    if any(is_secret_name(name) for name, _ in pairs):
        shown = [(name, HIDDEN if is_secret_name(name) else value) for name, value in pairs]
        query = urlencode(shown, safe="*/:,")
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, query, ""))


@dataclass(frozen=True)
class Secrets:
    """Values that no message shows, longest first."""

    values: tuple[str, ...] = ()

    def hide(self, text: str) -> str:
        """Return a text without these values, as they are or quoted for a URL or JSON."""
        for value in self.values:
            if value in text:
                text = text.replace(value, HIDDEN)
        return _SCHEME.sub(rf"\1 {HIDDEN}", _USER_INFO.sub(f"{HIDDEN}@", text))

    def __or__(self, other: Secrets) -> Secrets:
        """Return the values of both."""
        return _secrets((*self.values, *other.values))


def _secrets(values: Iterable[str]) -> Secrets:
    written = {
        form
        for value in values
        if len(value) >= _SHORTEST_SECRET
        for form in (value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1])
    }
    return Secrets(tuple(sorted(written, key=lambda value: (-len(value), value))))


def secrets_of(config: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> Secrets:
    """Return the secrets of a configuration: by its JSON Schema, else by their names."""
    return _secrets(_secret_values(config, schema or {}))


def _secret_values(config: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    for name, value in config.items():
        declared = property_schema(schema, name)
        about = declared if isinstance(declared, Mapping) else {}
        if is_secret("", about) or is_secret_name(str(name)):
            yield from _texts(value)
        elif isinstance(value, Mapping):
            yield from _secret_values(value, about)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a value: all of a secret object is secret."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def sent_secrets(request: requests.PreparedRequest | None) -> Secrets:
    """Return what a request carries to authenticate: secret headers, query values, user-info."""
    if request is None:
        return Secrets()
    headers = [
        _text(value)
        for name, value in (request.headers or {}).items()
        if is_secret_name(_text(name))
    ]
    bare = [value.partition(" ")[2] for value in headers]
    parts = urlsplit(request.url or "")
    query = [value for name, value in parse_qsl(parts.query) if is_secret_name(name)]
    return _secrets((*headers, *bare, *query, parts.password or ""))


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


# Bodies


def content_type(response: requests.Response) -> str:
    """Return the media type of a response, without parameters; empty where it has none."""
    return str(response.headers.get("Content-Type") or "").partition(";")[0].strip().lower()


def body_excerpt(response: requests.Response, secrets: Secrets) -> str:
    """Return what may be shown of a body: the start of a short text, else nothing.

    Values of secret-looking names are hidden, in JSON by its structure; of HTML the text
    alone is shown.
    """
    body = response.content or b""
    kind = content_type(response)
    if not body or len(body) > LONGEST_BODY or not _is_text(kind, body):
        return ""
    text = body.decode(_codec(response), "replace").strip()
    if "html" in kind or text[:1] == "<":
        text = _TAG.sub(" ", text)
    shown = _json_without_secrets(text)
    if shown is None:
        shown = _NAMED_VALUE.sub(_hidden_value, text)
    shown = " ".join(secrets.hide(shown).split())
    return shown if len(shown) <= LONGEST_EXCERPT else f"{shown[:LONGEST_EXCERPT]}…"


def _is_text(kind: str, body: bytes) -> bool:
    if kind and not kind.startswith("text/") and not re.search(r"json|xml|urlencoded", kind):
        return False
    return b"\x00" not in body


def _codec(response: requests.Response) -> str:
    try:
        "".encode(response.encoding or "utf-8")
    except LookupError:
        return "utf-8"
    return response.encoding or "utf-8"


def _json_without_secrets(text: str) -> str | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, (dict, list)):
        return None
    return json.dumps(_without_secrets(document), ensure_ascii=False)


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: HIDDEN if is_secret_name(name) and item is not None else _without_secrets(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return _NAMED_VALUE.sub(_hidden_value, value) if isinstance(value, str) else value


def _hidden_value(match: re.Match[str]) -> str:
    if not is_secret_name(match["name"]):
        return match[0]
    quotes = match["value"][0] if match["value"][0] in "\"'" else ""
    return f"{match['name']}{match['sign']}{quotes}{HIDDEN}{quotes}"


# The HTTP library's own log


class _UrlFilter(logging.Filter):
    """Hides secrets in the URLs that urllib3 logs at level DEBUG."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record's arguments, and keep it."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                url_without_secrets(arg) if isinstance(arg, str) and "?" in arg else arg
                for arg in record.args
            )
        return True


_URL_FILTER = _UrlFilter()


def hide_secrets_of_urllib3() -> None:
    """Let urllib3 log its requests, but no secrets in them; once is enough, often no harm."""
    logging.getLogger("urllib3.connectionpool").addFilter(_URL_FILTER)
