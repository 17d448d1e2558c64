"""Decoders of response bodies: JSON, JSON Lines, CSV, XML and text lines, also compressed.

- A decoder yields documents, such as a dict per line or row.
- A decoder parses a byte stream (`parse`), so that decoders can be nested.
- A body is decompressed while it is read; `max_unpacked_bytes` limits the size of a document, a
  line and a row.
- JSON numbers keep all of their digits.
- An invalid body is an error, not a response without records; only single invalid lines of JSON
  Lines are skipped. An empty body has no documents.
- The HTTP client has already decoded ``Content-Encoding``.
"""

from __future__ import annotations

import codecs
import csv
import io
import logging
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import IO, Any, Final, TypeAlias, cast
from xml.parsers import expat

import msgspec
import requests

from tap_core.exceptions import FatalAPIError
from tap_core.http.response import check_xml_entities, check_xml_size, parse_json
from tap_core.limits.memory import RowBound
from tap_core.manifest.decompression import (
    BoundedReader,
    decompress,
    iterate_files,
    open_body,
    translate_read_errors,
)
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.xml_parsing import parse_xml
from tap_core.singerlib.json import load_json

__all__ = [
    "CompositeRawDecoder",
    "CsvDecoder",
    "CsvParser",
    "GzipDecoder",
    "GzipParser",
    "IterableDecoder",
    "JsonDecoder",
    "JsonItemsDecoder",
    "JsonLineParser",
    "JsonParser",
    "JsonlDecoder",
    "Parser",
    "XmlDecoder",
    "ZipfileDecoder",
]

_logger: Final = logging.getLogger("tap_core.manifest")
_decode_json: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_LOGGED_LINES: Final = 10
"""Maximum number of log messages about skipped lines of one response."""

_MAX_INVALID_IN_A_ROW: Final = 100_000
"""Number of consecutive invalid lines at which reading a response fails."""

_REST_KEY: Final = "null"
"""Key for values beyond the last column of a CSV row, as in airbyte-cdk."""


def _check_encoding(encoding: str) -> None:
    """Raise ManifestError if ``encoding`` is not the name of a text encoding of Python."""
    try:
        codecs.lookup(encoding)
        b"a".decode(encoding)
    except UnicodeDecodeError:
        pass  # one byte is not a character in this encoding
    except (LookupError, ValueError):
        raise ManifestError(
            f"encoding is {encoding!r}: it must be the name of a text encoding, such as 'utf-8' or"
            " 'latin-1'."
        ) from None


@dataclass(frozen=True)
class _StreamDecoder(BoundedReader):
    """Base class of decoders that parse a byte stream; subclasses implement `parse`."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of a response while its body is still being received.

        Raises:
            FatalAPIError: The body is damaged, too large, or not in the decoder's format.
        """
        return translate_read_errors(response, self.parse(open_body(response)))

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the documents of a byte stream; implemented by subclasses for their format."""
        raise NotImplementedError


@dataclass(frozen=True)
class JsonParser(BoundedReader):
    """JSON parser for use inside another decoder.

    It yields the document, or if the document is a list, each element.
    """

    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        """Raise ManifestError if the option `encoding` is not the name of a text encoding."""
        super().__post_init__()
        _check_encoding(self.encoding)

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the JSON document in a byte stream; if it is a list, yield its elements."""
        yield from _iterate_documents(_read_json(self.bound(data).read(data), self.encoding))


@dataclass(frozen=True)
class JsonDecoder(BoundedReader):
    """Decoder of JSON responses; it yields one document, or each element of a top-level list."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the JSON document of a response.

        If the document is a list, yield its elements instead. Yield nothing for an empty body.

        Raises:
            TruncatedBodyError: The body is incomplete.
            NotJSONError: The body is not JSON.
        """
        return _iterate_documents(parse_json(response)) if response.content else iter(())

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the JSON document in a byte stream; if it is a list, yield its elements."""
        return JsonParser(max_unpacked_bytes=self.max_unpacked_bytes).parse(data)


@dataclass(frozen=True)
class JsonLineParser(BoundedReader):
    """JSON Lines parser for use inside another decoder; it yields one document per line."""

    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        """Raise ManifestError if the encoding is unknown or unsuitable, such as UTF-16.

        Lines are separated before they are decoded, so a line break must be the byte 10.
        """
        super().__post_init__()
        _check_encoding(self.encoding)
        if not "a\n".encode(self.encoding).endswith(b"a\n"):
            raise ManifestError(
                f"encoding is {self.encoding!r}: JSON Lines are read only in encodings with the"
                " line breaks of ASCII, such as 'utf-8' or 'latin-1'."
            )

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the JSON document of each line; skip and log lines that are not JSON.

        A byte order mark at the start is ignored.

        Raises:
            FatalAPIError: 100,000 consecutive lines are not JSON.
            UnicodeDecodeError: A line is not text in `encoding`.
        """
        skipped = in_a_row = 0
        for number, line in enumerate(self.bound(data).lines(data), 1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)  # noqa: PLW2901
            if not line.strip():
                continue
            text = line.decode(self.encoding)
            try:
                document = load_json(text)
            except ValueError as error:
                skipped, in_a_row = skipped + 1, in_a_row + 1
                if skipped <= _LOGGED_LINES:
                    _logger.warning(
                        "Line %s of a response is skipped, since it is not JSON: %s", number, error
                    )
                if in_a_row >= _MAX_INVALID_IN_A_ROW:
                    raise FatalAPIError(
                        f"The response is not JSON Lines: {in_a_row:,} lines in a row are not JSON."
                    ) from None
                continue
            in_a_row = 0
            yield document
        if skipped > _LOGGED_LINES:
            _logger.warning("A total of %s lines of a response are skipped.", skipped)


@dataclass(frozen=True)
class JsonlDecoder(_StreamDecoder):
    """Decoder of JSON Lines responses; it yields one document per line."""

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the JSON document of each line of a byte stream; skip and log invalid lines."""
        return JsonLineParser(max_unpacked_bytes=self.max_unpacked_bytes).parse(data)


@dataclass(frozen=True)
class JsonItemsDecoder(_StreamDecoder):
    """Decoder of JSON bodies that yields each element of the list at `items_path`.

    `items_path` is a path such as ``data.items``.
    """

    items_path: str
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        """Raise ManifestError if the option `encoding` is not the name of a text encoding."""
        super().__post_init__()
        _check_encoding(self.encoding)

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the elements of the list at `items_path`; nothing if there is no list."""
        value = _read_json(self.bound(data).read(data), self.encoding)
        for step in self.items_path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        yield from value if isinstance(value, list) else ()


@dataclass(frozen=True)
class IterableDecoder(_StreamDecoder):
    """Decoder of text responses; it yields ``{"record": line}`` for each line."""

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield ``{"record": line}`` for each line of a byte stream."""
        for lines in self.bound(data).lines(data):
            for line in lines.splitlines():  # also at a carriage return
                yield {"record": line.decode()}


@dataclass(frozen=True)
class CsvDecoder(_StreamDecoder):
    """Decoder of CSV responses; it yields one dict per row, keyed by the names in the header row.

    Values are strings; a value listed in `set_values_to_none` becomes None.
    """

    encoding: str = "utf-8"
    delimiter: str = ","
    set_values_to_none: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raise ManifestError if the encoding is unknown or the delimiter is not one character."""
        super().__post_init__()
        _check_encoding(self.encoding)
        if len(self._delimiter) != 1:
            raise ManifestError(
                f"delimiter is {self.delimiter!r}: it must be one character, such as ',' or '\\t'."
            )

    @property
    def _delimiter(self) -> str:
        """The option `delimiter`; an escape sequence for a tab, for example, is replaced."""
        if self.delimiter.startswith("\\"):
            return self.delimiter.encode().decode("unicode_escape")
        return self.delimiter

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield a dict for each CSV row of a byte stream, keyed by the names in the header row.

        Columns missing at the end of a short row get the value None.
        """
        text = io.TextIOWrapper(data, encoding=self.encoding)
        bound = self.bound(data)
        lines = RowBound(bound, text, self._delimiter)
        rows = csv.DictReader(lines, delimiter=self._delimiter, restkey=_REST_KEY)
        bound.check_columns(len(rows.fieldnames or ()))
        null_values = frozenset(self.set_values_to_none)
        for row in rows:
            lines.next_row()
            if not null_values:
                yield row
                continue
            yield {
                name: None if isinstance(value, str) and value in null_values else value
                for name, value in row.items()
            }


@dataclass(frozen=True)
class CsvParser(CsvDecoder):
    """CSV parser for use inside another decoder; it parses like `CsvDecoder`."""


@dataclass(frozen=True)
class XmlDecoder:
    """Decoder of XML responses; it yields a dict with the structure of the xmltodict library.

    An attribute becomes the key ``@name``. Text in an element with attributes or children becomes
    ``#text``. Repeated elements become a list.
    """

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the parsed XML document of a response; nothing for an empty body.

        Raises:
            FatalAPIError: The body is not XML, or parsing it would need too much memory.
        """
        body = response.content
        if not body.strip():
            return
        check_xml_size(response, body)
        has_charset = "charset" in str(response.headers.get("Content-Type") or "").lower()
        try:
            yield parse_xml(
                body,
                response.encoding if has_charset else None,
                check_entities=lambda: check_xml_entities(response, body),
            )
        except (expat.ExpatError, LookupError, ValueError) as error:  # also of the charset
            raise FatalAPIError(f"The response is not XML: {error}.", response=response) from error


@dataclass(frozen=True)
class GzipDecoder(_StreamDecoder):
    """Decoder of gzip-compressed bodies; it decompresses the body and passes it to `decoder`.

    A body that is not compressed is passed to `decoder` unchanged.
    """

    decoder: Parser

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Decompress a byte stream and yield the documents that `decoder` parses from it."""
        yield from self.decoder.parse(decompress(data, self.bound(data)))


@dataclass(frozen=True)
class GzipParser(BoundedReader):
    """Gzip parser for use inside another decoder; it decompresses data for `inner_parser`."""

    inner_parser: Parser

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Decompress a byte stream and yield the documents that `inner_parser` parses."""
        yield from self.inner_parser.parse(decompress(data, self.bound(data)))


@dataclass(frozen=True)
class CompositeRawDecoder:
    """Decoder that passes the response body to `parser`, for older manifests."""

    parser: Parser

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents that `parser` parses from a response."""
        return translate_read_errors(response, self.parser.parse(open_body(response)))


@dataclass(frozen=True)
class ZipfileDecoder(BoundedReader):
    """Decoder of zip archives; it passes each file in the archive to `decoder`.

    Older manifests use the option `parser` instead of `decoder`.
    """

    decoder: Parser | None = None
    parser: Parser | None = None

    def __post_init__(self) -> None:
        """Raise ManifestError if neither `decoder` nor `parser` is set."""
        super().__post_init__()
        if self.decoder is None and self.parser is None:
            raise ManifestError("decoder is missing: declare the decoder of the files.")

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents in each file of a zip archive, as the inner decoder parses them.

        Raises:
            FatalAPIError: The body is not a zip archive.
        """
        return translate_read_errors(response, self._parse_files(response))

    def _parse_files(self, response: requests.Response) -> Iterator[Any]:
        inner = cast(Parser, self.decoder or self.parser)
        files = iterate_files(response, self.bound())
        try:
            first = next(files, None)
        except zipfile.BadZipFile as error:
            raise FatalAPIError(f"The response is not a zip archive: {error}.") from error
        if first is not None:
            for file in chain((first,), files):
                yield from inner.parse(file)


Parser: TypeAlias = (
    JsonParser
    | JsonDecoder
    | JsonLineParser
    | JsonlDecoder
    | JsonItemsDecoder
    | CsvDecoder
    | GzipDecoder
    | GzipParser
)
"""Decoder of a byte stream, which can be nested within another decoder."""


def _iterate_documents(document: Any) -> Iterator[Any]:
    return iter(document if isinstance(document, list) else (document,))


def _read_json(body: bytes, encoding: str) -> Any:
    """Parse a JSON body and return the document; for an empty body, return [].

    A byte order mark is ignored.

    Raises:
        FatalAPIError: The body is not JSON.
    """
    body = body.removeprefix(codecs.BOM_UTF8)
    if not body or body.isspace():
        return []
    if encoding.lower() in {"utf-8", "utf8"}:
        try:
            return _decode_json(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidOperation):
            pass  # load_json reads more numbers, and its error shows the position
    try:
        return load_json(body.decode(encoding))
    except ValueError as error:
        raise FatalAPIError(f"A file of the response is not JSON: {error}.") from error
