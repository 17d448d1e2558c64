"""Secrets of HTTP requests, and excerpts of response bodies for error messages.

The credentials that a request has sent are secret wherever they occur. Bodies are shown only if
they are short text.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tap_core.redaction.names import is_secret_parameter
from tap_core.redaction.row_values import are_rows_shown
from tap_core.redaction.text import Secrets, clean_document, redact_parameters

if TYPE_CHECKING:
    import requests

__all__ = [
    "LONGEST_BODY",
    "LONGEST_EXCERPT",
    "body_excerpt",
    "collect_sent_secrets",
    "content_type",
    "decode_header",
    "is_unusable_charset",
]

LONGEST_BODY = 16_384
"""Size in bytes above which no excerpt of a body is shown."""

LONGEST_EXCERPT = 500
"""Maximum length of an excerpt in characters."""

_SHORTEST_SENT = 4
"""Minimum length, in characters, of a header, parameter or password that counts as a secret."""

_UNUSABLE_CHARSETS: Final = frozenset({"idna", "punycode", "undefined"})
"""Codecs of Python that are no charsets. The first two take time that grows with the length of a
body squared."""

_TAG = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>", re.IGNORECASE | re.DOTALL)


def collect_sent_secrets(request: requests.PreparedRequest | None) -> Secrets:
    """Return the secrets in the headers, the query parameters and the user info of a request."""
    if request is None:
        return Secrets()
    headers = [
        decode_header(value)
        for name, value in (request.headers or {}).items()
        if is_secret_parameter(decode_header(name))
    ]
    bare = [value.partition(" ")[2] for value in headers]
    try:
        parts = urlsplit(request.url or "")
        query = [value for name, value in parse_qsl(parts.query) if is_secret_parameter(name)]
        password = parts.password or ""
    except ValueError:
        query, password = [], ""
    sent = (*headers, *bare, *query, password, unquote(password))
    return Secrets.from_values(value for value in sent if len(value) >= _SHORTEST_SENT)


def decode_header(value: object) -> str:
    """Return the name or the value of a header as text; bytes are ISO 8859-1."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


# Bodies


def content_type(response: requests.Response) -> str:
    """Return the media type of a response, such as ``text/html``, or an empty string."""
    return str(response.headers.get("Content-Type") or "").partition(";")[0].strip().lower()


def body_excerpt(response: requests.Response, secrets: Secrets) -> str:
    """Return at most 500 characters of a response body for an error message, secrets redacted.

    Return an empty string for binary bodies, for bodies over 16 KiB, and if messages must not show
    row values. HTML is reduced to its text.
    """
    if not are_rows_shown():
        return ""
    body = response.content or b""
    kind = content_type(response)
    if not body or len(body) > LONGEST_BODY or not _is_text(kind, body):
        return ""
    text = _decode(response, body).strip()
    if "html" in kind or text[:1] == "<":
        text = _TAG.sub(" ", text)
    redacted = _json_without_secrets(text) or redact_parameters(text)
    redacted = " ".join(secrets.hide(redacted).split())
    return redacted if len(redacted) <= LONGEST_EXCERPT else f"{redacted[:LONGEST_EXCERPT]}…"


def _is_text(kind: str, body: bytes) -> bool:
    """Return True if the media type ``kind`` is a text type (or missing) and the body is text."""
    if kind and not kind.startswith("text/") and not re.search(r"json|xml|urlencoded", kind):
        return False
    return b"\x00" not in body


def _decode(response: requests.Response, body: bytes) -> str:
    """Decode a body with the charset of the response; as UTF-8 if it is missing or unusable."""
    charset = response.encoding or "utf-8"
    try:
        return body.decode("utf-8" if is_unusable_charset(charset) else charset, "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def is_unusable_charset(charset: str) -> bool:
    """Return True if a response's charset is a codec that must not decode a body.

    An unknown charset is not unusable, because the requests package ignores it.
    """
    try:
        return codecs.lookup(charset).name in _UNUSABLE_CHARSETS
    except LookupError:
        return False
    except ValueError:  # the requests package does not ignore a name with a null character
        return True


def _json_without_secrets(text: str) -> str | None:
    """Replace the secrets in a JSON object or array by ``***``; return None for any other text."""
    try:
        document = json.loads(text)
        if not isinstance(document, (dict, list)):
            return None
        return json.dumps(clean_document(document, redact_parameters), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
