"""Responses whose body is stored in a temporary file, for downloads too large for memory.

The body is received completely before it is parsed, so that the request can be retried after a
broken connection. The file is deleted when the response and its readers are no longer used. Each
reader has a separate position in the file.
"""

from __future__ import annotations

import io
import tempfile
import weakref
from typing import IO, TYPE_CHECKING, Any, cast

import requests

from tap_core.http.response import JSONResponse
from tap_core.http.response_body import read_body
from tap_core.http.response_limits import Deadline, ResponseLimits, make_too_large_error

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["SpooledResponse", "open_response_body", "spool_to_file"]


class SpooledResponse(JSONResponse):
    """Response whose body is in a temporary file instead of memory."""

    shared_file: _SharedFile

    @property
    def content(self) -> bytes:
        """Whole response body as bytes, read from the temporary file into memory.

        Raises:
            ResponseTooLargeError: The body exceeds the limit for memory.
        """
        size = self.body().seek(0, io.SEEK_END)
        if self.max_bytes is not None and size > self.max_bytes:
            raise make_too_large_error(
                ResponseLimits(self.max_bytes), is_file=False, noun="downloaded response"
            )
        return self.body().read()

    def body(self) -> IO[bytes]:
        """Return a new binary reader of the body, positioned at its start."""
        return cast("IO[bytes]", io.BufferedReader(_Reader(self.shared_file)))


class _SharedFile:
    """Temporary file that is closed and deleted when its last reader is garbage-collected."""

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed below)
        weakref.finalize(self, self.file.close)


class _Reader(io.RawIOBase):
    """Binary reader with a separate position in a shared temporary file.

    Closing the reader does not close the file.
    """

    def __init__(self, shared_file: _SharedFile) -> None:
        self._shared_file = shared_file  # keeps the file open
        self._file = shared_file.file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position}.get(whence)
        self._position = self._file.seek(0, io.SEEK_END) + offset if base is None else base + offset
        return self._position

    def readinto(self, buffer: Buffer, /) -> int:
        self._file.seek(self._position)
        size = cast("Any", self._file).readinto(buffer) or 0
        self._position += size
        return int(size)


def spool_to_file(
    response: requests.Response, limits: ResponseLimits, deadline: Deadline
) -> requests.Response:
    """Read the body of a streamed response into a temporary file.

    ``limits`` contains the maximum size of the body. ``deadline`` is the time limit for receiving
    the body and reading its records.

    Returns:
        The response as a `SpooledResponse`. An instance of a subclass of `requests.Response` is
        returned as it is.

    Raises:
        requests.exceptions.RequestException: The body cannot be read to its end.
        ResponseTooLargeError: The body exceeds the size limit of downloads.
    """
    if type(response) is not requests.Response:
        return response
    spooled = SpooledResponse()
    spooled.shared_file = _SharedFile()
    file = spooled.shared_file.file
    with response:
        if vars(response)["_content"] is not False:  # a redirect that is not followed
            file.write(response.content or b"")
        read_body(response, limits, into=file)
    file.flush()
    vars(spooled).update(vars(response), _content=False, _content_consumed=False)
    spooled.raw, spooled.max_bytes = spooled.body(), limits.max_response_bytes
    spooled.deadline = deadline
    return spooled


def open_response_body(response: requests.Response) -> IO[bytes]:
    """Return a binary reader of a response's body, which may be in memory or in a file."""
    return (
        response.body() if isinstance(response, SpooledResponse) else io.BytesIO(response.content)
    )
