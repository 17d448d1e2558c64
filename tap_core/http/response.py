"""HTTP responses whose JSON is decoded once, quickly and without loss of digits.

- msgspec decodes the body, with fractions as ``Decimal``. If msgspec rejects a body that the json
  module accepts (NaN, a lone surrogate, another encoding), the json module decodes it.
- A body that is not JSON raises an error with an excerpt. A truncated body may be retried.
- A decoded document is not cached after its first use, because the user may change the records.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import requests
from requests.exceptions import JSONDecodeError

from tap_core.exceptions import FatalAPIError, RetriableAPIError
from tap_core.http.response_limits import (
    Deadline,
    ReadingTime,
    ResponseLimits,
    ResponseTooLargeError,
)
from tap_core.parsing.jsonpath import extract_jsonpath
from tap_core.redaction import Secrets, redact_url
from tap_core.redaction.http import body_excerpt, collect_sent_secrets, content_type

__all__ = [
    "JSONResponse",
    "NotJSONError",
    "TruncatedBodyError",
    "check_content_length",
    "check_json_size",
    "check_xml_entities",
    "check_xml_size",
    "get_reading_time",
    "is_empty_body",
    "parse_first_document",
    "parse_json",
]

_EXACT = msgspec.json.Decoder(float_hook=Decimal)
_PLAIN = msgspec.json.Decoder()
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidOperation)
_UTF_8 = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
_UNREAD: Any = object()
_DOCUMENT = 4
"""Largest memory of a JSON document, as a multiple of the largest body."""
_SIZES = ((b"{", 130), (b"[", 80), (b",", 112))
"""Approximate bytes of memory per JSON character: an object with its first value, an array, and a
further value, which is largest as a ``Decimal``."""
_MOST_PER_BYTE = 40
"""Upper bound of the average bytes of memory per JSON character."""
_XML_SIZES = ((b"<", 90), (b"=", 250))
"""Approximate bytes of memory per XML character: a tag, and an attribute, which makes its element
a mapping."""
_EXPANDED = 200
"""Largest memory of expanded attributes per byte of XML: the parser, expat, expands a document to
at most 100 times its size, and a Python text is a copy of it."""
_NO_CONTENT = frozenset({204, 205})


class NotJSONError(FatalAPIError, JSONDecodeError):
    """Raised for a response body that is not JSON, such as a login page. It is not retried."""

    def __init__(self, message: str, response: requests.Response | None = None) -> None:
        JSONDecodeError.__init__(self, message, "", 0, response=response)
        self.args = (message,)


class TruncatedBodyError(RetriableAPIError, JSONDecodeError):
    """Raised for an incomplete JSON body, for example after a lost connection. It is retried."""

    def __init__(self, message: str, response: requests.Response | None = None) -> None:
        JSONDecodeError.__init__(self, message, "", 0, response=response)
        self.args = (message,)


class JSONResponse(requests.Response):
    """Response of the requests package with a faster JSON decoder that gives the same results."""

    _document: Any = _UNREAD
    noted: tuple[str, Any] | None = None
    """A JSONPath and its first match."""

    max_bytes: int | None = None
    """Largest body in memory, in bytes; None for no limit. See `check_json_size`."""

    deadline: Deadline | None = None
    """Time used by the response; None if it was not measured."""

    @classmethod
    def of(
        cls,
        response: requests.Response,
        max_bytes: int | None = None,
        deadline: Deadline | None = None,
    ) -> requests.Response:
        """Convert a `requests.Response` in place to a `JSONResponse`, and return it.

        A response of another class is returned unchanged. ``max_bytes`` limits the size of the JSON
        body, and ``deadline`` the time for reading it.
        """
        if type(response) is not requests.Response:
            return response
        response.__class__ = cls
        known = vars(response)
        known["max_bytes"], known["deadline"] = max_bytes, deadline
        return response

    def json(self, **kwargs: Any) -> Any:
        """Decode the JSON body and return it; ``kwargs`` are arguments of `json.loads`."""
        check_json_size(self, self.content)
        decoder = _EXACT if kwargs == {"parse_float": Decimal} else _PLAIN
        if (decoder is _EXACT or not kwargs) and _may_be_utf_8(self):
            try:
                return decoder.decode(self.content)
            except _REFUSED:
                pass
        check_json_size(self, self.content, as_text=True)
        try:
            return json.loads(_text(self, self.content), **kwargs)
        except (json.JSONDecodeError, UnicodeDecodeError):
            with suppress(JSONDecodeError):
                return super().json(**kwargs)  # detects other encodings
        except (ValueError, RecursionError, InvalidOperation):
            pass  # a value that Python cannot represent
        raise NotJSONError(_describe_non_json(self, self.content, Secrets()), self) from None

    def read(self, secrets: Callable[[], Secrets], noting: str | None = None) -> Any:
        """Decode the document, store it for `parse_json`, and return it.

        ``secrets`` returns the values to hide in error messages. The first match of the JSONPath
        ``noting`` is stored for `parse_first_document` if it is a string, an integer or missing,
        because the tap's code may change the document.
        """
        if self._document is _UNREAD:
            self._document = _parse_body(self, secrets)
            if noting:
                found = next(extract_jsonpath(noting, self._document), None)
                if found is None or type(found) in {str, int}:
                    self.noted = noting, found
        return self._document

    def take(self) -> Any:
        """Return the document that `read` has decoded, and remove it from the response."""
        document, self._document = self._document, _UNREAD
        return document


def get_reading_time(response: requests.Response) -> ReadingTime:
    """Return the limit of the processor time for reading the records of a response."""
    deadline = response.deadline if isinstance(response, JSONResponse) else None
    return (deadline or Deadline(ResponseLimits())).reading_time()


def parse_first_document(response: requests.Response, path: str) -> Any:
    """Return the first match of the JSONPath ``path`` in a response's JSON, or None."""
    if (
        isinstance(response, JSONResponse)
        and response.noted is not None
        and response.noted[0] == path
    ):
        return response.noted[1]
    return next(extract_jsonpath(path, response.json()), None)


def parse_json(response: requests.Response, secrets: Callable[[], Secrets] = Secrets) -> Any:
    """Return the JSON document of a response, with fractions as ``Decimal``.

    The caller may change the document. ``secrets`` returns the values to hide in error messages.

    Raises:
        TruncatedBodyError: The body ends too early.
        NotJSONError: The body is not JSON.
    """
    document = response.take() if isinstance(response, JSONResponse) else _UNREAD
    return _parse_body(response, secrets) if document is _UNREAD else document


def check_content_length(response: requests.Response) -> None:
    """Check that a JSON body is complete before another parser reads it.

    To save time, a body is only decoded if it begins with a bracket and does not end with one.
    Other errors in the body are not reported here.

    Raises:
        TruncatedBodyError: The body ends too early.
    """
    body = (response.content or b"").strip()
    whole = not body.startswith((b"{", b"[")) or body.endswith((b"}", b"]"))
    if whole or "json" not in content_type(response):
        return
    try:
        _PLAIN.decode(body)
    except _REFUSED as refused:
        if _is_cut_off(response, body, refused):
            raise TruncatedBodyError(_describe_truncation(response, body), response) from None


def is_empty_body(response: requests.Response) -> bool:
    """Return True if the status is 204 or 205 and the body is empty."""
    return response.status_code in _NO_CONTENT and not response.content


def check_json_size(response: requests.Response, body: bytes, *, as_text: bool = False) -> None:
    """Reject JSON that would take far more memory as Python objects than as bytes.

    The limit is four times `JSONResponse.max_bytes`. Ordinary records take three to six times their
    size in bytes, but ``[[],[],…]`` takes thirty times. With ``as_text`` True, the memory for the
    body as text is included, which the json module needs.

    Raises:
        ResponseTooLargeError: The size estimated from brackets and commas exceeds the limit.
    """
    most = response.max_bytes if isinstance(response, JSONResponse) else None
    if most is None:
        return
    if _MOST_PER_BYTE * len(body) <= _DOCUMENT * most:
        return
    size = sum(each * body.count(mark) for mark, each in _SIZES)
    if as_text and not body.isascii():
        size += 4 * len(body)
    _check_memory(response, "JSON", size)


def check_xml_size(response: requests.Response, body: bytes) -> None:
    """Reject XML that would take far more memory as Python objects than as bytes.

    The limit is the same as in `check_json_size`.

    Raises:
        ResponseTooLargeError: The size estimated from tags and attributes exceeds the limit.
    """
    _check_memory(response, "XML", sum(each * body.count(mark) for mark, each in _XML_SIZES))


def check_xml_entities(response: requests.Response, body: bytes) -> None:
    """Reject XML that declares entities, if attributes that repeat them could fill the memory.

    The limit is the same as in `check_json_size`.

    Raises:
        ResponseTooLargeError: The size that expanded attributes may have exceeds the limit.
    """
    _check_memory(response, "XML with entities", _EXPANDED * len(body))


def _check_memory(response: requests.Response, format: str, size: int) -> None:
    most = response.max_bytes if isinstance(response, JSONResponse) else None
    if most is not None and size > _DOCUMENT * most:
        raise ResponseTooLargeError(
            f"The {format} of the response would take about {size:,} bytes of memory, more than the"
            f" limit of {_DOCUMENT * most:,}: request smaller pages, or raise max_response_bytes"
            f" (here {most:,})."
        )


def _parse_body(response: requests.Response, secrets: Callable[[], Secrets]) -> Any:
    body = response.content or b""
    check_json_size(response, body)
    refused: Exception
    if _may_be_utf_8(response):
        try:
            return _EXACT.decode(body)
        except _REFUSED as error:
            refused = error
    else:
        refused = UnicodeDecodeError("utf-8", b"", 0, 0, "another encoding")
    check_json_size(response, body, as_text=True)
    try:
        return json.loads(_text(response, body), parse_float=Decimal)
    except (ValueError, RecursionError, InvalidOperation):
        pass
    if _is_cut_off(response, body, refused):
        raise TruncatedBodyError(_describe_truncation(response, body), response)
    raise NotJSONError(_describe_non_json(response, body, secrets()), response)


def _may_be_utf_8(response: requests.Response) -> bool:
    """Return False if the response declares a charset other than UTF-8.

    For text without a charset, the requests package assumes Latin-1, which is wrong for JSON.
    """
    named = "charset" in str(response.headers.get("Content-Type") or "").lower()
    return (response.encoding or "utf-8").lower() in _UTF_8 or (
        not named and (response.encoding or "").upper() == "ISO-8859-1"
    )


def _text(response: requests.Response, body: bytes) -> str:
    """Decode a JSON body to text, with the encoding that its first bytes indicate.

    If that fails or another charset is declared, decode it as the requests package does.
    """
    detected = json.detect_encoding(body)
    if detected != "utf-8" or _may_be_utf_8(response):
        try:
            return body.decode(detected)
        except UnicodeDecodeError:
            pass
    return response.text


def _is_cut_off(response: requests.Response, body: bytes, refused: Exception) -> bool:
    """Return True if the body is an incomplete JSON array, object or string.

    ``refused`` is the error of the JSON decoder. An empty body counts as incomplete unless the
    response has a Content-Length header.
    """
    if not body.strip():
        return response.headers.get("Content-Length") is None
    if not isinstance(refused, msgspec.DecodeError) or body.lstrip()[:1] not in b'{["':
        return False
    text = str(refused)
    return "truncated" in text or text.endswith(f"invalid number (byte {len(body)})")


def _describe_truncation(response: requests.Response, body: bytes) -> str:
    if not body.strip():
        return "The answer is empty where JSON was expected, and nothing says that it is complete"
    kind = content_type(response) or "no content type"
    return f"The answer was cut off: its JSON ends too early, after {len(body):,} bytes ({kind})"


def _describe_non_json(response: requests.Response, body: bytes, secrets: Secrets) -> str:
    kind = content_type(response) or "of no content type"
    message = (
        f"The answer is not JSON but {kind}, {len(body):,} bytes, status {response.status_code}"
    )
    secrets = secrets | collect_sent_secrets(response.request)
    if response.history:
        final = secrets.hide(redact_url(response.url))
        message += f", after a redirect to {final}: is the login still valid?"
    elif response.is_redirect:
        target = secrets.hide(redact_url(response.headers["Location"]))
        message += f", a redirect to {target} that is not followed"
    excerpt = body_excerpt(response, secrets)
    return f"{message}; it begins: {excerpt[:200]}" if excerpt else message
