"""Bytes of an answer to documents: JSON, lines of JSON, CSV, XML, each also compressed.

Rules of the room: a decoder reads a stream of bytes (`parse`), so that one may stand within
another; what an answer holds is unpacked while it is read. Numbers of JSON keep all digits. A
body that is not what it should be is an error, never an answer without records; an empty one
has none. A body is as the HTTP client gives it: what a ``Content-Encoding`` packed is unpacked.
"""

from __future__ import annotations

import csv
import gzip
import io
import logging
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Final, Protocol, cast
from xml.parsers import expat

import requests

from tap_core.documents import load_json
from tap_core.exceptions import FatalAPIError
from tap_core.http.answer import document_of
from tap_core.http.filed import body_of
from tap_core.manifest.errors import ManifestError
from tap_core.manifest.xml import document_of_xml

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
    "unpacked",
]

_GZIP: Final = b"\x1f\x8b"
"""What compressed data begins with (RFC 1952, section 2.3.1)."""

_REST: Final = "null"
"""The field of values beyond the last column, as airbyte-cdk's records show it."""


class Parser(Protocol):
    """A decoder that may stand within another."""

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the documents of a stream of bytes."""


@dataclass(frozen=True)
class JsonParser:
    """JSON within another decoder: one document, or the elements of a list."""

    encoding: str = "utf-8"

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Return the documents of a stream of bytes."""
        body = data.read()
        return _each(_read_json(body, self.encoding)) if body.strip() else iter(())


@dataclass(frozen=True)
class JsonDecoder:
    """JSON: one document, or the elements of a list."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Return the documents of an answer.

        Raises:
            TruncatedBodyError: the body ends too early.
            NotJSONError: it is something else.
        """
        return _each(document_of(response)) if response.content else iter(())

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Return the documents of a stream of bytes."""
        return JsonParser().parse(data)


@dataclass(frozen=True)
class JsonLineParser:
    """A JSON document on each line, within another decoder."""

    encoding: str = "utf-8"

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the documents of a stream of bytes; a line that is no JSON is told and left out."""
        for number, line in enumerate(data, 1):
            if not line.strip():
                continue
            try:
                yield load_json(line.decode(self.encoding))
            except ValueError as error:
                logging.getLogger("tap_core.manifest").warning(
                    "Line %s of an answer is left out, for it is no JSON: %s", number, error
                )


@dataclass(frozen=True)
class JsonlDecoder:
    """A JSON document on each line."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of an answer."""
        return self.parse(body_of(response))

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the documents of a stream of bytes."""
        return JsonLineParser().parse(data)


@dataclass(frozen=True)
class JsonItemsDecoder:
    """JSON: the elements of a list within one document."""

    items_path: str
    encoding: str = "utf-8"

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Return the elements of an answer's list."""
        return self.parse(body_of(response))

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Return the elements of the list in a stream of bytes; none where there is no list."""
        body = data.read()
        found = _read_json(body, self.encoding) if body.strip() else None
        for step in self.items_path.split("."):
            found = found.get(step) if isinstance(found, dict) else None
        return iter(found if isinstance(found, list) else ())


@dataclass(frozen=True)
class IterableDecoder:
    """Lines of text, each as the field ``record`` of a document."""

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield a document for each line of an answer."""
        for lines in body_of(response):
            for line in lines.splitlines():
                yield {"record": line.decode()}


@dataclass(frozen=True)
class CsvDecoder:
    """Rows of CSV, keyed by the first one; every value is a text."""

    encoding: str = "utf-8"
    delimiter: str = ","
    set_values_to_none: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        r"""Refuse a delimiter that is not one character (``\t`` and the like are)."""
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
        return self.parse(body_of(response))

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the rows of a stream of bytes; a missing value is null."""
        text = io.TextIOWrapper(data, encoding=self.encoding)
        rows = csv.DictReader(text, delimiter=self._delimiter, restkey=_REST)
        nothing = frozenset(self.set_values_to_none)
        if not nothing:
            yield from rows
            return
        for row in rows:
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
            FatalAPIError: it is no XML.
        """
        if not response.content.strip():
            return
        named = "charset" in str(response.headers.get("Content-Type") or "").lower()
        try:
            yield document_of_xml(response.content, response.encoding if named else None)
        except expat.ExpatError as error:
            raise FatalAPIError(f"The answer is not XML: {error}.", response=response) from error


@dataclass(frozen=True)
class GzipDecoder:
    """Another format, compressed with gzip; what is not compressed is read as it is."""

    decoder: Parser

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of an answer."""
        return self.parse(body_of(response))

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the documents of a stream of bytes."""
        return self.decoder.parse(unpacked(data))


@dataclass(frozen=True)
class GzipParser:
    """The name of `GzipDecoder` within others, in older manifests."""

    inner_parser: Parser

    def parse(self, data: IO[bytes]) -> Iterator[Any]:
        """Yield the documents of a stream of bytes."""
        return self.inner_parser.parse(unpacked(data))


@dataclass(frozen=True)
class CompositeRawDecoder:
    """A parser as a decoder, in older manifests."""

    parser: Parser

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of an answer."""
        return self.parser.parse(body_of(response))


@dataclass(frozen=True)
class ZipfileDecoder:
    """Another format, in each file of a zip archive."""

    decoder: Parser | None = None
    parser: Parser | None = None

    def __post_init__(self) -> None:
        """Refuse an archive of nothing."""
        if self.decoder is None and self.parser is None:
            raise ManifestError("decoder is missing: say what the files of the archive are.")

    def decode(self, response: requests.Response) -> Iterator[Any]:
        """Yield the documents of all files of an answer.

        Raises:
            FatalAPIError: it is no archive.
        """
        inner = cast(Parser, self.decoder or self.parser)
        try:
            archive = zipfile.ZipFile(body_of(response))
        except zipfile.BadZipFile as error:
            raise FatalAPIError(
                f"The answer is not a zip archive: {error}.", response=response
            ) from error
        with archive:
            for name in archive.namelist():
                with archive.open(name) as data:
                    yield from inner.parse(data)


def _each(document: Any) -> Iterator[Any]:
    return iter(document if isinstance(document, list) else (document,))


def _read_json(body: bytes, encoding: str) -> Any:
    try:
        return load_json(body.decode(encoding))
    except ValueError as error:
        raise FatalAPIError(f"A file of the answer is not JSON: {error}.") from error


def unpacked(data: IO[bytes]) -> IO[bytes]:
    """Return a stream of the bytes that were packed, or as they are where they were not."""
    buffered = cast(IO[bytes], io.BufferedReader(cast(io.RawIOBase, data)))
    peeked = cast(io.BufferedReader, buffered).peek(len(_GZIP))[: len(_GZIP)]
    return cast(IO[bytes], gzip.GzipFile(fileobj=buffered)) if peeked == _GZIP else buffered
