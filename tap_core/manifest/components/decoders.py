"""Bytes of an answer to documents: JSON, lines of JSON, CSV, XML, each also compressed.

A decoder reads a stream of bytes (`parse`), so that one may be within another; an answer is
unpacked while it is read, and a document, a line and a row have a greatest length
(`max_unpacked_bytes`). Numbers of JSON keep all digits. A body that is not what it should be is an
error, never an answer without records; an empty one has none. A body is as the HTTP client gives
it: a ``Content-Encoding`` is unpacked already.
"""

from __future__ import annotations

import csv
import io
import logging
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import IO, Any, Final, Protocol, cast
from xml.parsers import expat

import msgspec
import requests

from tap_core.exceptions import FatalAPIError
from tap_core.http.response import check_xml_size, parse_json
from tap_core.limits.memory import RowBound
from tap_core.manifest.decompression import (
    BoundedReader,
    decompress,
    iterate_files,
    open_body,
    translate_read_errors,
)
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.xml_parsing import document_of_xml
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
_decode: Final = msgspec.json.Decoder(float_hook=Decimal).decode
_TOLD: Final = 10
"""Lines that are left out with a warning each; more of them are counted."""

_UNREADABLE_IN_A_ROW: Final = 100_000
"""Lines without a document after which an answer is not lines of JSON at all."""

_NOTHING: Final = object()
"""The document of an empty body."""

_REST: Final = "null"
"""The field of values beyond the last column, as airbyte-cdk's records show it."""


class Parser(Protocol):
    """A decoder that may stand within another."""

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the documents of a stream of bytes."""


@dataclass(frozen=True)
class JsonParser(BoundedReader):
    """JSON within another decoder: one document, or the elements of a list."""

    encoding: str = "utf-8"

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Return the documents of a stream of bytes."""
        document = _read_json(self.bound(data).read(data), self.encoding)
        return iter(()) if document is _NOTHING else _each(document)


@dataclass(frozen=True)
class JsonDecoder(BoundedReader):
    """JSON: one document, or the elements of a list."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Return the documents of an answer.

        Raises:
            TruncatedBodyError: the body ends too early.
            NotJSONError: it is something else.
        """
        return _each(parse_json(response)) if response.content else iter(())

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Return the documents of a stream of bytes."""
        return JsonParser(max_unpacked_bytes=self.max_unpacked_bytes).parse(data)


@dataclass(frozen=True)
class JsonLineParser(BoundedReader):
    """A JSON document on each line, within another decoder."""

    encoding: str = "utf-8"

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the documents of a stream of bytes; lines that are not JSON are left out.

        Raises:
            FatalAPIError: nearly nothing of it is lines of JSON.
        """
        left_out = in_a_row = 0
        for number, line in enumerate(self.bound(data).lines(data), 1):
            if not line.strip():
                continue
            try:
                document = load_json(line.decode(self.encoding))
            except ValueError as error:
                left_out, in_a_row = left_out + 1, in_a_row + 1
                if left_out <= _TOLD:
                    _logger.warning(
                        "Line %s of an answer is left out, for it is no JSON: %s", number, error
                    )
                if in_a_row >= _UNREADABLE_IN_A_ROW:
                    raise FatalAPIError(
                        f"The answer is not lines of JSON: {in_a_row:,} lines in a row are not."
                    ) from None
                continue
            in_a_row = 0
            yield document
        if left_out > _TOLD:
            _logger.warning("In all %s lines of an answer are left out.", left_out)


@dataclass(frozen=True)
class JsonlDecoder(BoundedReader):
    """A JSON document on each line."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of an answer."""
        return translate_read_errors(response, self.parse(open_body(response)))

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the documents of a stream of bytes."""
        return JsonLineParser(max_unpacked_bytes=self.max_unpacked_bytes).parse(data)


@dataclass(frozen=True)
class JsonItemsDecoder(BoundedReader):
    """JSON: the elements of a list within one document."""

    items_path: str
    encoding: str = "utf-8"

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Return the elements of an answer's list."""
        return translate_read_errors(response, self._elements(open_body(response)))

    def _elements(self, data: IO[bytes]) -> Iterator[Any]:
        yield from self.parse(data)

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Return the elements of the list in a stream of bytes; none where there is no list."""
        found = _read_json(self.bound(data).read(data), self.encoding)
        for step in self.items_path.split("."):
            found = found.get(step) if isinstance(found, dict) else None
        return iter(found if isinstance(found, list) else ())


@dataclass(frozen=True)
class IterableDecoder(BoundedReader):
    """Lines of text, each as the field ``record`` of a document."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield a document for each line of an answer."""
        return translate_read_errors(response, self._documents(open_body(response)))

    def _documents(self, data: IO[bytes]) -> Iterator[Any]:
        for lines in self.bound(data).lines(data):
            for line in lines.splitlines():
                yield {"record": line.decode()}


@dataclass(frozen=True)
class CsvDecoder(BoundedReader):
    """Rows of CSV, keyed by the first one; every value is a text."""

    encoding: str = "utf-8"
    delimiter: str = ","
    set_values_to_none: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        r"""Refuse a delimiter that is not one character (``\t`` and the like are)."""
        super().__post_init__()
        if len(self._delimiter) != 1:
            raise ManifestError(
                f"delimiter is {self.delimiter!r}: it is one character, such as ',' or '\\t'."
            )

    @property
    def _delimiter(self) -> str:
        given = self.delimiter
        return given.encode().decode("unicode_escape") if given.startswith("\\") else given

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the rows of an answer."""
        return translate_read_errors(response, self.parse(open_body(response)))

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the rows of a stream of bytes; a missing value is null."""
        text = io.TextIOWrapper(data, encoding=self.encoding)
        bound = self.bound(data)
        lines = RowBound(bound, text, self._delimiter)
        rows = csv.DictReader(lines, delimiter=self._delimiter, restkey=_REST)
        bound.check_columns(len(rows.fieldnames or ()))
        nothing = frozenset(self.set_values_to_none)
        for row in rows:
            lines.next_row()
            if not nothing:
                yield row
                continue
            yield {
                name: None if isinstance(value, str) and value in nothing else value
                for name, value in row.items()
            }


@dataclass(frozen=True)
class CsvParser(CsvDecoder):
    """The name of `CsvDecoder` within others, in older manifests."""


@dataclass(frozen=True)
class XmlDecoder:
    """XML: attributes as ``@name``, text beside them as ``#text``, repeated elements as lists."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the document of an answer.

        Raises:
            FatalAPIError: it is no XML, or takes too much memory.
        """
        if not response.content.strip():
            return
        check_xml_size(response, response.content)
        named = "charset" in str(response.headers.get("Content-Type") or "").lower()
        try:
            yield document_of_xml(response.content, response.encoding if named else None)
        except expat.ExpatError as error:
            raise FatalAPIError(f"The answer is not XML: {error}.", response=response) from error


@dataclass(frozen=True)
class GzipDecoder(BoundedReader):
    """Another format, compressed with gzip; what is not compressed is read as it is."""

    decoder: Parser

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of an answer."""
        return translate_read_errors(response, self.parse(open_body(response)))

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the documents of a stream of bytes."""
        yield from self.decoder.parse(decompress(data, self.bound(data)))


@dataclass(frozen=True)
class GzipParser(BoundedReader):
    """The name of `GzipDecoder` within others, in older manifests."""

    inner_parser: Parser

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the documents of a stream of bytes."""
        yield from self.inner_parser.parse(decompress(data, self.bound(data)))


@dataclass(frozen=True)
class CompositeRawDecoder:
    """A parser as a decoder, in older manifests."""

    parser: Parser

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of an answer."""
        return translate_read_errors(response, self._documents(open_body(response)))

    def _documents(self, data: IO[bytes]) -> Iterator[Any]:
        yield from self.parser.parse(data)


@dataclass(frozen=True)
class ZipfileDecoder(BoundedReader):
    """Another format, in each file of a zip archive."""

    decoder: Parser | None = None
    parser: Parser | None = None

    def __post_init__(self) -> None:
        """Refuse an archive of nothing."""
        super().__post_init__()
        if self.decoder is None and self.parser is None:
            raise ManifestError("decoder is missing: say what the files of the archive are.")

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of all files of an answer.

        Raises:
            FatalAPIError: it is no archive.
        """
        return translate_read_errors(response, self._documents(response))

    def _documents(self, response: requests.Response) -> Iterator[Any]:
        inner = cast(Parser, self.decoder or self.parser)
        files = iterate_files(response, self.bound())
        try:
            first = next(files, None)
        except zipfile.BadZipFile as error:
            raise FatalAPIError(f"The answer is not a zip archive: {error}.") from error
        if first is not None:
            for file in chain((first,), files):
                yield from inner.parse(file)


def _each(document: Any) -> Iterator[Any]:
    return iter(document if isinstance(document, list) else (document,))


def _read_json(body: bytes, encoding: str) -> Any:
    """Return the document of a body, `_NOTHING` where it is empty."""
    if not body or body.isspace():
        return _NOTHING
    if encoding.lower() in {"utf-8", "utf8"}:
        try:
            return _decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidOperation):
            pass
    try:
        return load_json(body.decode(encoding))
    except ValueError as error:
        raise FatalAPIError(f"A file of the answer is not JSON: {error}.") from error
