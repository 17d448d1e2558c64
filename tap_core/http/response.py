"""HTTP responses whose JSON is decoded once, quickly and without loss of digits.

- msgspec decodes the body, with fractions as ``Decimal``. If msgspec rejects a body that the json
  module accepts (NaN, a lone surrogate, another encoding), the json module decodes it.
- A body that is not JSON raises an error with an excerpt. A truncated body may be retried.
- A decoded document is used once and not cached, because its user may change the records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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

_DECIMAL_DECODER = msgspec.json.Decoder(float_hook=Decimal)
_FLOAT_DECODER = msgspec.json.Decoder()
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidOperation)
_UTF_8 = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
_UNREAD: Any = object()
_MEMORY_FACTOR = 4
"""Maximum memory of a decoded document, as a multiple of `JSONResponse.max_bytes`."""
_JSON_SIZES = ((b"{", 130), (b"[", 80), (b",", 112))
"""Approximate memory of a decoded JSON document in bytes, per brace, bracket and comma.

A brace begins an object with its first value, and a bracket an array. A comma precedes one more
value, which takes most memory as a ``Decimal``.
"""
_MOST_PER_BYTE = 40
"""Upper bound of the average memory of a decoded JSON document, in bytes per character."""
_XML_SIZES = ((b"<", 90), (b"=", 250))
"""Approximate memory of a parsed XML document in bytes, per tag and per attribute.

An attribute takes more memory, because its element becomes a mapping.
"""
_EXPANDED_SIZE = 200
"""Maximum memory of a parsed XML document with entities in attributes, in bytes per byte.

The parser, expat, expands a document to at most 100 times its size, and Python copies the text.
"""
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
    """Response that decodes JSON with msgspec: faster than the json module, with equal results."""

    _document: Any = _UNREAD
    first_match: tuple[str, Any] | None = None
    """A JSONPath and its first match (None without a match), which `read` has stored."""

    max_bytes: int | None = None
    """Largest body in memory, in bytes; None for no limit. See `check_json_size`."""

    deadline: Deadline | None = None
    """Time limit of the response; None applies the default limit."""

    @classmethod
    def of(
        cls,
        response: requests.Response,
        max_bytes: int | None = None,
        deadline: Deadline | None = None,
    ) -> requests.Response:
        """Convert a `requests.Response` to a `JSONResponse` in place, and return it.

        Args:
            response: The response. If it is of another class, it is returned unchanged.
            max_bytes: Maximum size of a body in memory, in bytes; see `check_json_size`.
            deadline: Time limit of the response, which continues while its records are read.
        """
        if type(response) is not requests.Response:
            return response
        response.__class__ = cls
        vars(response).update(max_bytes=max_bytes, deadline=deadline)
        return response

    def json(self, **kwargs: Any) -> Any:
        """Decode the JSON body and return the document; ``kwargs`` are those of `json.loads`."""
        body = self.content or b""
        try:
            return _decode_json(self, body, kwargs)
        except _DECODE_ERRORS:
            raise NotJSONError(_describe_non_json(self, body, Secrets()), self) from None

    def read(self, secrets: Callable[[], Secrets], jsonpath: str | None = None) -> Any:
        """Decode the JSON body and return the document; the next `parse_json` returns it again.

        Args:
            secrets: Function that returns the values to hide in error messages.
            jsonpath: JSONPath that will be passed to `parse_first_document`, or None. Its first
                match is stored now, because a tap's code may change the document later. Only
                strings, integers and missing values are stored.
        """
        if self._document is _UNREAD:
            self._document = _parse_body(self, secrets)
            if jsonpath:
                first = next(extract_jsonpath(jsonpath, self._document), None)
                if first is None or type(first) in {str, int}:
                    self.first_match = jsonpath, first
        return self._document

    def take(self) -> Any:
        """Return the document that `read` has decoded, and remove it from this response."""
        document, self._document = self._document, _UNREAD
        return document


def get_reading_time(response: requests.Response) -> ReadingTime:
    """Return the limit on the processor time that reading the records of a response may take."""
    deadline = response.deadline if isinstance(response, JSONResponse) else None
    return (deadline or Deadline(ResponseLimits())).reading_time()


def parse_first_document(response: requests.Response, path: str) -> Any:
    """Return the first match of a JSONPath in the JSON body of a response, or None."""
    if (
        isinstance(response, JSONResponse)
        and response.first_match is not None
        and response.first_match[0] == path
    ):
        return response.first_match[1]
    return next(extract_jsonpath(path, response.json()), None)


def parse_json(response: requests.Response, secrets: Callable[[], Secrets] = Secrets) -> Any:
    """Return the JSON document of a response, with fractions as ``Decimal``.

    The caller may change the document, because it is not cached. ``secrets`` is a function that
    returns the values to hide in error messages.

    Raises:
        TruncatedBodyError: The body ends too early.
        NotJSONError: The body is not JSON.
    """
    document = response.take() if isinstance(response, JSONResponse) else _UNREAD
    return _parse_body(response, secrets) if document is _UNREAD else document


def check_content_length(response: requests.Response) -> None:
    """Check that a JSON body was not cut off, before code other than `parse_json` reads it.

    To save time, the body is only decoded if it begins with a bracket and does not end with one.
    Other errors in the body are not reported.

    Raises:
        TruncatedBodyError: The body ends too early.
    """
    body = (response.content or b"").strip()
    seems_complete = not body.startswith((b"{", b"[")) or body.endswith((b"}", b"]"))
    if seems_complete or "json" not in content_type(response):
        return
    try:
        _FLOAT_DECODER.decode(body)
    except _DECODE_ERRORS as error:
        if _is_cut_off(response, body, error):
            raise TruncatedBodyError(_describe_truncation(response, body), response) from None


def is_empty_body(response: requests.Response) -> bool:
    """Return True if a response has the status 204 or 205 and an empty body."""
    return response.status_code in _NO_CONTENT and not response.content


def check_json_size(response: requests.Response, body: bytes, *, as_text: bool = False) -> None:
    """Reject JSON that would take far more memory as Python objects than as bytes.

    The limit is four times `JSONResponse.max_bytes`. Ordinary records take three to six times their
    size in bytes, but ``[[],[],…]`` takes thirty times. ``as_text`` is True to include the memory
    for the body as text, which the json module needs.

    Raises:
        ResponseTooLargeError: The size estimated from brackets and commas exceeds the limit.
    """
    max_bytes = response.max_bytes if isinstance(response, JSONResponse) else None
    if max_bytes is None or _MOST_PER_BYTE * len(body) <= _MEMORY_FACTOR * max_bytes:
        return
    size = sum(size_per_mark * body.count(mark) for mark, size_per_mark in _JSON_SIZES)
    if as_text and not body.isascii():
        size += 4 * len(body)
    _check_memory(response, "JSON", size)


def check_xml_size(response: requests.Response, body: bytes) -> None:
    """Reject XML that would take far more memory as Python objects than as bytes.

    The limit is four times `JSONResponse.max_bytes`.

    Raises:
        ResponseTooLargeError: The size estimated from tags and attributes exceeds the limit.
    """
    _check_memory(
        response, "XML", sum(size_per_mark * body.count(mark) for mark, size_per_mark in _XML_SIZES)
    )


def check_xml_entities(response: requests.Response, body: bytes) -> None:
    """Reject XML that could fill the memory when the entities in its attributes are expanded.

    The limit is four times `JSONResponse.max_bytes`.

    Raises:
        ResponseTooLargeError: The maximum size of the expanded attributes exceeds the limit.
    """
    _check_memory(response, "XML with entities", _EXPANDED_SIZE * len(body))


def _check_memory(response: requests.Response, format: str, size: int) -> None:
    max_bytes = response.max_bytes if isinstance(response, JSONResponse) else None
    if max_bytes is not None and size > _MEMORY_FACTOR * max_bytes:
        raise ResponseTooLargeError(
            f"The {format} of the response would take about {size:,} bytes of memory, more than the"
            f" limit of {_MEMORY_FACTOR * max_bytes:,}: request smaller pages, or raise"
            f" max_response_bytes (here {max_bytes:,})."
        )


def _parse_body(response: requests.Response, secrets: Callable[[], Secrets]) -> Any:
    body = response.content or b""
    try:
        return _decode_json(response, body, {"parse_float": Decimal})
    except _DECODE_ERRORS as error:
        if _is_cut_off(response, body, error):
            raise TruncatedBodyError(_describe_truncation(response, body), response) from None
        raise NotJSONError(_describe_non_json(response, body, secrets()), response) from None


def _decode_json(response: requests.Response, body: bytes, options: Mapping[str, Any]) -> Any:
    """Decode the JSON body of a response; ``options`` are keyword arguments of `json.loads`.

    Raises:
        Exception: The body is not JSON, or has a value that Python cannot represent. The error is
            one of `_DECODE_ERRORS`; it comes from msgspec if msgspec supports the encoding.
    """
    check_json_size(response, body)
    last_error: Exception = UnicodeDecodeError("utf-8", b"", 0, 0, "another encoding")
    is_decimal = options == {"parse_float": Decimal}
    if (is_decimal or not options) and _may_be_utf_8(response):
        try:
            return (_DECIMAL_DECODER if is_decimal else _FLOAT_DECODER).decode(body)
        except _DECODE_ERRORS as error:
            last_error = error
    check_json_size(response, body, as_text=True)
    try:
        return json.loads(_decode_body(response, body), **options)
    except (ValueError, RecursionError, InvalidOperation):
        raise last_error from None


def _may_be_utf_8(response: requests.Response) -> bool:
    """Return True if a JSON body may be UTF-8: its response declares no other charset.

    For text without a charset, the requests package assumes Latin-1, which is wrong for JSON.
    """
    named = "charset" in str(response.headers.get("Content-Type") or "").lower()
    return (response.encoding or "utf-8").lower() in _UTF_8 or (
        not named and (response.encoding or "").upper() == "ISO-8859-1"
    )


def _decode_body(response: requests.Response, body: bytes) -> str:
    """Decode a JSON body to text, with the encoding that its first bytes indicate.

    If that fails, or the response declares another charset, decode it as the requests package does.
    """
    detected = json.detect_encoding(body)
    if detected != "utf-8" or _may_be_utf_8(response):
        try:
            return body.decode(detected)
        except UnicodeDecodeError:
            pass
    return response.text


def _is_cut_off(response: requests.Response, body: bytes, error: Exception) -> bool:
    """Return True if a JSON body ends too early, so that a retry may help.

    Args:
        response: The response. An empty body is incomplete unless there is a Content-Length header.
        body: Body of the response.
        error: Error of the JSON decoder for the body.
    """
    if not body.strip():
        return response.headers.get("Content-Length") is None
    if not isinstance(error, msgspec.DecodeError) or body.lstrip()[:1] not in b'{["':
        return False
    text = str(error)  # msgspec's errors have no attribute for the kind of the fault
    return "truncated" in text or text.endswith(f"invalid number (byte {len(body)})")


def _describe_truncation(response: requests.Response, body: bytes) -> str:
    if not body.strip():
        return "The response is empty, but JSON was expected, and there is no Content-Length header"
    kind = content_type(response) or "no content type"
    return f"The response was cut off: its JSON ends too early, after {len(body):,} bytes ({kind})"


def _describe_non_json(response: requests.Response, body: bytes, secrets: Secrets) -> str:
    kind = content_type(response) or "of no content type"
    message = (
        f"The response is not JSON but {kind}, {len(body):,} bytes, status {response.status_code}"
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
