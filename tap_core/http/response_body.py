"""Reading of a response's body, within its limits and to the end of its compressed data.

urllib3 decodes `Content-Encoding`. It loses or repeats bytes of some valid bodies, and accepts
gzip, deflate and Brotli data that ends too early; the functions here do neither.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any, Final

import requests
from requests.exceptions import ChunkedEncodingError, ContentDecodingError, RequestException
from urllib3.exceptions import DecodeError
from urllib3.response import DeflateDecoder, GzipDecoder, GzipDecoderState

from tap_core.http.response_limits import ResponseLimits, make_too_large_error
from tap_core.redaction.http import content_type, is_unusable_charset

__all__ = ["CHUNK", "read_body"]

CHUNK: Final = 65_536
"""Size of the chunks in which a body is read, in bytes."""


def read_body(
    response: requests.Response, limits: ResponseLimits, into: IO[bytes] | None = None
) -> None:
    """Read the decoded body of a response into memory, or into the file ``into``.

    Do nothing if the body has already been read. If the response declares a codec that is no text
    encoding, such as ``punycode``, as its charset, UTF-8 is used instead.

    Raises:
        ResponseTooLargeError: The body is larger than allowed; the rest is not read.
        requests.exceptions.RequestException: The body cannot be read to its end.
    """
    attributes = vars(response)
    if attributes.get("_content_consumed") or attributes.get("_content") is not False:
        return  # the body has been read already
    if response.raw is None:
        return
    if response.encoding is not None and is_unusable_charset(response.encoding):
        response.encoding = "utf-8"
    chunks = _chunks(response, limits, is_file=into is not None)
    try:
        if into is None:
            content = b"".join(chunks)
            _check_compressed_end(response, content)
            attributes.update(_content=content, _content_consumed=True)
        else:
            for chunk in chunks:
                into.write(chunk)
            _check_compressed_end(response)
    except BaseException as error:
        response.close()
        if isinstance(error, ValueError) and not isinstance(error, RequestException):
            raise ChunkedEncodingError(f"Connection broken: {error}") from error  # a length of -1
        raise


def _chunks(
    response: requests.Response, limits: ResponseLimits, *, is_file: bool
) -> Iterator[bytes]:
    """Yield the decoded body of a response in chunks.

    ``is_file`` is True to apply the size limit for files, False to apply the limit for memory.

    Raises:
        ResponseTooLargeError: The body exceeds the limit.
    """
    max_bytes = limits.max_download_bytes if is_file else limits.max_response_bytes
    if max_bytes is not None and (_get_expected_size(response) or 0) > max_bytes:
        raise make_too_large_error(limits, is_file=is_file)
    _use_member_decoder(response.raw)
    size = 0
    for chunk in response.iter_content(CHUNK):
        size += len(chunk)
        if max_bytes is not None and size > max_bytes:
            raise make_too_large_error(limits, is_file=is_file)
        yield chunk
    if rest := _read_rest(response.raw):
        yield rest


class _MemberDecoder(GzipDecoder):
    """Gzip decoder of urllib3, with a correction for data of several gzip members.

    Without it, if a member fills a chunk, urllib3 passes the bytes after it to the same
    decompressor again, which adds them to its unused bytes. So records of the next members are
    repeated or missing.
    """

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Return the decompressed data, at most ``max_length`` bytes unless that is negative."""
        is_reading = self._state != GzipDecoderState.SWALLOW_DATA
        if is_reading and self._obj.eof and (data or self._unconsumed_tail):
            self._state = GzipDecoderState.OTHER_MEMBERS
            self._obj = zlib.decompressobj(16 + zlib.MAX_WBITS)
        return super().decompress(data, max_length)


def _use_member_decoder(raw: Any) -> None:
    """Set `_MemberDecoder` as the gzip decoder of ``raw``, a urllib3 response not read so far."""
    if not hasattr(raw, "_init_decoder"):
        return
    with suppress(DecodeError):  # raised again when the body is read
        raw._init_decoder()  # noqa: SLF001
    decoder = getattr(raw, "_decoder", None)
    for member in getattr(decoder, "_decoders", [decoder]):
        if type(member) is GzipDecoder:
            member.__class__ = _MemberDecoder


def _read_rest(raw: Any) -> bytes:
    """Return the last bytes (at most a few hundred) of a deflate body without zlib header.

    If a chunk is full when the decompressor has read all data, urllib3 does not ask for the rest.
    """
    decoder = getattr(raw, "_decoder", None)
    if not isinstance(decoder, DeflateDecoder) or vars(decoder)["_obj"].eof:
        return b""
    return decoder.flush()


def _check_compressed_end(response: requests.Response, content: bytes = b"") -> None:
    """Raise ContentDecodingError if the compressed body of a response ends too early.

    urllib3 checks this for Zstandard only. A complete JSON document is no error, because some
    servers omit the end of compressed data, which most HTTP clients accept. Other bytes after the
    end of gzip data are no error, either. ``content`` is the decoded body, if it is in memory.
    """
    is_empty = not getattr(response.raw, "_has_decoded_content", False)
    is_cut_off = not is_empty and _is_cut_off(getattr(response.raw, "_decoder", None))
    if is_cut_off and not _is_json_document(response, content):
        encoding = response.headers.get("Content-Encoding")
        raise ContentDecodingError(
            f"The response was cut off: its compressed body ({encoding}) ends too early",
            response=response,
        )


def _is_json_document(response: requests.Response, content: bytes) -> bool:
    """Return True if ``content`` is declared as JSON and is one complete JSON object or list.

    Return False for a number, whose last digits may be missing, and for JSON Lines, whose last
    objects may be missing.
    """
    is_json = content_type(response).endswith(("/json", "+json"))
    if not is_json or not content.lstrip().startswith((b"{", b"[")):
        return False
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def _is_cut_off(decoder: Any) -> bool:
    """Return True if a decoder of urllib3 has not reached the end of its compressed data."""
    if decoders := getattr(decoder, "_decoders", None):
        return any(map(_is_cut_off, decoders))
    data = getattr(decoder, "_obj", None)
    if is_finished := getattr(data, "is_finished", None):  # Brotli
        return not is_finished()
    state = getattr(decoder, "_state", None)
    if getattr(data, "eof", True) or state is GzipDecoderState.SWALLOW_DATA:
        return False
    return state is not GzipDecoderState.OTHER_MEMBERS or _has_gzip_header(data)


def _has_gzip_header(decompressor: Any) -> bool:
    """Return True if the bytes after a gzip member can begin another gzip member.

    zlib rejects a wrong header only at its second byte, which may not have been received. So a copy
    of ``decompressor`` gets the correct second byte here, after the received bytes.
    """
    try:
        decompressor.copy().decompress(b"\x8b")  # second byte of each gzip member
    except zlib.error as error:
        return "incorrect header check" not in str(error)
    return True


def _get_expected_size(response: requests.Response) -> int | None:
    """Return the number of body bytes that http.client expects, or None if it is unknown.

    The Content-Length header is not used, because it may be repeated or not be a number.
    """
    original = getattr(response.raw, "_original_response", None)
    size: int | None = getattr(original, "length", None)
    return size
