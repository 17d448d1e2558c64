"""Cache of a run's responses, so that streams with the same parent request its pages once.

Two requests are equal if method, URL, headers and body are equal. Bodies are stored in an unnamed
temporary file, which is deleted when the process ends. While one thread sends a request, other
threads with an equal request wait for its response. Only complete, successful responses are stored.
Each caller gets a new copy.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, TypeAlias

import requests
from requests.structures import CaseInsensitiveDict

from tap_core.http.response import JSONResponse

__all__ = ["ResponseCache"]

_Send: TypeAlias = Callable[[requests.PreparedRequest], requests.Response]
_IsGood: TypeAlias = Callable[[requests.Response], bool]


@dataclass
class _Entry:
    """Cache entry of one request.

    A thread holds the lock ``turn`` while it sends the request, so that other threads wait for the
    response.
    """

    turn: threading.Lock = field(default_factory=threading.Lock)
    kept: _CachedResponse | None = None


@dataclass(frozen=True)
class _CachedResponse:
    """Cached response: its status and headers, and the position of its body in the cache file."""

    offset: int
    length: int
    status_code: int
    reason: str
    url: str
    encoding: str | None
    headers: dict[str, str]


class ResponseCache:
    """Thread-safe cache of a sync's HTTP responses, so that equal requests are sent only once.

    The bodies are stored in a temporary file.
    """

    def __init__(self) -> None:
        self._entries: dict[bytes, _Entry] = {}
        self._guard: threading.Lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._end: int = 0

    def fetch(
        self, request: requests.PreparedRequest, send: _Send, is_good: _IsGood | None = None
    ) -> requests.Response:
        """Return the cached response to a request, or send the request and cache the response.

        A request whose body is a stream is always sent.

        Args:
            request: Request.
            send: Function that sends the request and returns its response.
            is_good: Function that returns True if a response with a success status may be cached;
                None caches all of them.
        """
        key = _build_key(request)
        if key is None:
            return send(request)
        with self._guard:
            entry = self._entries.setdefault(key, _Entry())
        if entry.kept is None:
            with entry.turn:
                if entry.kept is None:
                    response = send(request)
                    if response.ok and (is_good is None or is_good(response)):
                        entry.kept = self._keep(response)
                    return response
        return self._answer(request, entry.kept)

    def close(self) -> None:
        """Delete all cached responses and close the cache file."""
        with self._guard:
            self._entries.clear()
            if self._file is not None:
                self._file.close()
            self._file, self._end = None, 0

    def _keep(self, response: requests.Response) -> _CachedResponse:
        body = response.content or b""
        with self._guard:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115  (closed with this object)
                weakref.finalize(self, self._file.close)
            offset = self._end
            self._file.seek(offset)
            self._file.write(body)
            self._end += len(body)
        return _CachedResponse(
            offset,
            len(body),
            response.status_code,
            response.reason,
            response.url,
            response.encoding,
            dict(response.headers),
        )

    def _answer(
        self, request: requests.PreparedRequest, kept: _CachedResponse
    ) -> requests.Response:
        made = JSONResponse()
        made.status_code, made.reason = kept.status_code, kept.reason
        made.url, made.encoding = kept.url, kept.encoding
        made.headers = CaseInsensitiveDict(kept.headers)
        made.request = request
        body = self._body(kept)
        made._content, made._content_consumed = body, True  # type: ignore[attr-defined]  # noqa: SLF001
        made.raw = io.BytesIO(body)
        return made

    def _body(self, kept: _CachedResponse) -> bytes:
        with self._guard:
            if self._file is None:
                raise RuntimeError("The response cache of this run is closed.")
            self._file.seek(kept.offset)
            return self._file.read(kept.length)


def _build_key(request: requests.PreparedRequest) -> bytes | None:
    """Return the cache key of a request; equal requests have the same key.

    Return None if the body of the request is a stream, which cannot be compared.
    """
    body: object = request.body or b""
    if not isinstance(body, (str, bytes)):
        return None
    headers = sorted((name.lower(), str(value)) for name, value in request.headers.items())
    text = repr((request.method, request.url, headers)).encode()
    content = body.encode() if isinstance(body, str) else body
    return hashlib.sha256(text + b"\n" + content).digest()
