"""Cache of a run's responses, so that streams with the same parent request its pages once.

Two requests are equal if method, URL, headers and body are equal. Bodies are stored in an unnamed
temporary file, which is deleted when the process ends. While one thread sends a request, other
threads with an equal request wait for its response. Only complete, successful responses are stored.
Each caller gets a separate copy.
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


@dataclass
class _Entry:
    """Cache entry of one request.

    A thread holds the lock while it sends the request, so that other threads wait for the response.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    response: _CachedResponse | None = None


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
        self._lock: threading.Lock = threading.Lock()
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed with this object)
        weakref.finalize(self, self._file.close)

    def fetch(
        self,
        request: requests.PreparedRequest,
        send: _Send,
        is_cacheable: Callable[[requests.Response], bool],
    ) -> requests.Response:
        """Return the cached response to a request, or send the request and cache the response.

        A request whose body is a stream is always sent.

        Args:
            request: Request.
            send: Function that sends the request and returns its response.
            is_cacheable: Function that returns True if a response with a success status may be
                cached.
        """
        key = _build_key(request)
        if key is None:
            return send(request)
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
        if entry.response is None:
            with entry.lock:
                if entry.response is None:
                    response = send(request)
                    if response.ok and is_cacheable(response):
                        entry.response = self._store(response)
                    return response
        return self._restore(request, entry.response)

    def _store(self, response: requests.Response) -> _CachedResponse:
        body = response.content or b""
        with self._lock:
            offset = self._file.seek(0, io.SEEK_END)
            self._file.write(body)
        return _CachedResponse(
            offset,
            len(body),
            response.status_code,
            response.reason,
            response.url,
            response.encoding,
            dict(response.headers),
        )

    def _restore(
        self, request: requests.PreparedRequest, cached: _CachedResponse
    ) -> requests.Response:
        response = JSONResponse()
        response.status_code, response.reason = cached.status_code, cached.reason
        response.url, response.encoding = cached.url, cached.encoding
        response.headers = CaseInsensitiveDict(cached.headers)
        response.request = request
        with self._lock:
            self._file.seek(cached.offset)
            body = self._file.read(cached.length)
        response._content, response._content_consumed = body, True  # type: ignore[attr-defined]  # noqa: SLF001
        response.raw = io.BytesIO(body)
        return response


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
