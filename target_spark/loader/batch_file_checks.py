"""Validation of the files that BATCH messages list, and conversion of their paths to Spark's URLs.

A message with an invalid file is rejected before any of its rows are committed. This module
inspects only local files. A tap names a file by a path, a ``file:`` URL with or without percent
escapes, or an object URL (``s3://`` becomes Spark's ``s3a://``). The loader never changes a tap's
files, and deletes them only if the user configured it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from tap_core.batch.encodings import BaseBatchFileEncoding
from tap_core.batch.limits import FileLimits
from tap_core.batch.reader import check_file
from tap_core.batch.storage import to_local_path
from tap_core.batch.url_schemes import check_url
from tap_core.events import BatchFiles, StreamId
from tap_core.exceptions import ConfigurationError
from tap_core.limits.memory import InputTooLargeError, open_regular_file
from tap_core.redaction import redact_url
from tap_core.schema.type_variants import object_schema, split_variants
from tap_core.types import JsonSchema
from target_spark.errors import FilesError, UnsupportedError
from target_spark.storage.uris import to_local_folder, to_spark_scheme, to_spark_uri

__all__ = [
    "JSONL",
    "PARQUET",
    "BatchFile",
    "check_batch_files",
    "check_content",
    "find_json_columns",
    "get_file_key",
    "make_unreadable_error",
]

JSONL: Final = "jsonl"
PARQUET: Final = "parquet"

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_COMPRESSION_SUFFIX: Final = re.compile(
    r"\.(gz|bz2|zst|zstd|lz4|snappy|deflate|xz|zip)$", re.IGNORECASE
)
_NOTHING_COMMITTED: Final = "Nothing of its batch is committed, and no state after it is emitted."
_GLOB: Final = re.compile(r"[*?\[\]{}\\]")


@dataclass(frozen=True, slots=True)
class BatchFile:
    """A data file with records, named in a Singer BATCH message.

    Attributes:
        stream: The stream that the rows belong to.
        address: The URL of the file, with the URL scheme that Spark uses, such as ``s3a``.
        format: ``jsonl`` or ``parquet``.
        ordinal: The position of the BATCH message in the input.
        version: The table version of the rows, or None for an unversioned stream.
        nbytes: The size in bytes; 0 if unknown.
        json_properties: Names of the properties whose JSON Schema allows other types than string,
            and of the columns that a Parquet file marks as JSON. If the file stores such a property
            in a text column, the text is parsed as JSON.
        copy: The path of a downloaded copy, from which the rows are read. "" if the rows are read
            from the address.
    """

    stream: StreamId
    address: str
    format: str
    ordinal: int
    version: int | None = None
    nbytes: int = 0
    json_properties: frozenset[str] = frozenset()
    copy: str = ""

    @property
    def read_url(self) -> str:
        """URL that Spark reads: the URL of the downloaded copy if one exists, else the address."""
        return to_spark_uri(self.copy or self.address)

    @property
    def compression_suffix(self) -> str:
        """Compression suffix of a JSONL file's name, such as ``.gz``; "" for any other file."""
        match = _COMPRESSION_SUFFIX.search(self.address) if self.format == JSONL else None
        return "" if match is None else match[0]

    @property
    def encoding(self) -> BaseBatchFileEncoding:
        """File format and compression as the ``encoding`` object that BATCH messages contain."""
        return BaseBatchFileEncoding(self.format, "gzip" if self.compression_suffix else None)

    @property
    def redacted_address(self) -> str:
        """Address of the file without credentials, for log and error messages."""
        return _redact_address(self.address)

    @property
    def read_pattern(self) -> str:
        """URL to pass to Spark's reader: `read_url` with glob characters escaped.

        Without the escapes Spark would treat the URL as a glob pattern.
        """
        return _GLOB.sub(r"\\\g<0>", self.read_url)


def check_batch_files(
    event: BatchFiles,
    ordinal: int,
    schema: JsonSchema,
    limits: FileLimits | None = None,
    roots: Iterable[str] = (),
) -> tuple[BatchFile, ...]:
    """Validate a BATCH message and return its files in the order of the message.

    Args:
        event: The BATCH message.
        ordinal: The position of the message in the input.
        schema: The JSON Schema of the stream.
        limits: Limits on files and allowed URL schemes; None means the defaults.
        roots: Locations from the target's settings. A file with the same scheme and host (or
            bucket) as one of them is allowed in any case.

    Raises:
        UnsupportedError: The format or compression of the files is not supported.
        FilesError: A file is not a regular file, its address is not allowed, or the message names
            too many files.
    """
    limits = limits or FileLimits()
    try:
        limits.check_manifest(len(event.paths))
    except InputTooLargeError as error:
        raise FilesError(f"Stream {event.stream}: {error}. {_NOTHING_COMMITTED}") from None
    encoding = _get_encoding(event)
    properties = object_schema(schema).get("properties") or {}
    json_properties = frozenset(
        name for name, definition in properties.items() if not _is_text(definition)
    )
    for path in event.paths:
        _check_url_allowed(event.stream, path, limits.schemes, roots)
    addresses = [_resolve_url(event.stream, path, encoding) for path in event.paths]
    return tuple(
        BatchFile(
            stream=event.stream,
            address=address,
            format=encoding.format,
            ordinal=ordinal,
            version=event.version,
            nbytes=_get_local_size(address),
            json_properties=json_properties,
        )
        for address in addresses
    )


def check_content(file: BatchFile, limits: FileLimits) -> None:
    """Raise an error if a batch file is corrupt or has a line that is too long.

    Only files on this machine are checked: a local file, or the downloaded copy of a remote one.
    """
    path = to_local_folder(file.read_url)
    if path is None:
        return
    try:
        check_file(path, file.encoding, limits.line)
    except ValueError as error:
        raise make_unreadable_error(file.stream, file.address, str(error).rstrip(".")) from error


def find_json_columns(file: BatchFile) -> frozenset[str]:
    """Return the names of the columns that a Parquet file marks as JSON text.

    Taps of this SDK write a property as JSON if a value does not have the type that the schema
    declares, such as a number in a column of strings. Only files on this machine are read.
    """
    path = to_local_folder(file.read_url)
    if path is None or file.format != PARQUET:
        return frozenset()
    from tap_core.batch import parquet

    with open_regular_file(path) as opened:
        return parquet.find_json_columns(opened)


def get_file_key(address: str, *, escaped: bool = False) -> str:
    """Return a normalized form of a file's URL, so that different forms of one URL compare equal.

    ``file:///a//b`` and ``file:/a/b`` both give ``file:/a/b``.

    Args:
        address: A URL.
        escaped: True if the URL is percent-encoded, as the URLs that Spark reports are.
    """
    plain = unquote(address) if escaped else address
    scheme, _, rest = plain.partition(":")
    return f"{scheme}:{re.sub('/+', '/', f'/{rest}')}"


def make_unreadable_error(stream: StreamId, address: str, reason: str) -> FilesError:
    """Return a FilesError for a file of a BATCH message that cannot be read.

    Its message names the stream, the file and the reason, and says that no row of the file was
    committed.
    """
    return FilesError(
        f"Stream {stream}: batch file {_redact_address(address)} cannot be read: {reason}."
        f" {_NOTHING_COMMITTED}"
    )


def _redact_address(address: str) -> str:
    """Return a URL without its credentials and query, for messages.

    A local path is returned unchanged.
    """
    return address if to_local_path(address) is not None else redact_url(address, with_query=False)


def _get_encoding(event: BatchFiles) -> BaseBatchFileEncoding:
    """Return the format and compression that a BATCH message declares.

    Raises:
        UnsupportedError: The loader cannot read this format or compression.
    """
    try:
        encoding = BaseBatchFileEncoding.from_dict(event.format)
    except ConfigurationError as error:
        raise _unsupported_error(event.stream, str(error)) from error
    if encoding.format not in {JSONL, PARQUET}:
        raise _unsupported_error(event.stream, f"their format is {encoding.format!r}")
    if encoding.format == JSONL and encoding.compression not in {None, "none", "gzip"}:
        raise _unsupported_error(event.stream, f"their compression is {encoding.compression!r}")
    return encoding


def _unsupported_error(stream: StreamId, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"Stream {stream}: the files of a BATCH message cannot be read: {reason}. Formats are"
        " jsonl (compression gzip or none) and parquet; set that in the tap's batch_config."
    )


def _check_url_allowed(
    stream: StreamId, path: str, schemes: Collection[str], roots: Iterable[str]
) -> None:
    try:
        check_url(path, schemes, roots)
    except ValueError as error:
        raise make_unreadable_error(stream, path, str(error)) from None


def _resolve_url(stream: StreamId, path: str, encoding: BaseBatchFileEncoding) -> str:
    """Return the URL from which Spark reads the file that a BATCH message names as ``path``.

    Raises:
        FilesError: The file does not exist, or Spark would skip or misread it because of its name.
    """
    name = path.rsplit("/", 1)[-1]
    if not name:
        raise make_unreadable_error(stream, path, "it is a folder, not a file")
    if name.startswith(("_", ".")):
        raise make_unreadable_error(stream, path, "Spark skips files whose names begin with _ or .")
    if encoding.format == JSONL:
        _check_suffix(stream, path, name, encoding.compression == "gzip")
    local = to_local_path(path)
    if local is None:
        return to_spark_scheme(path)
    return f"file://{_find_local_file(stream, path, local)}"


def _check_suffix(stream: StreamId, path: str, name: str, gzipped: bool) -> None:
    """Raise FilesError unless a file name's suffix matches the compression in its BATCH message.

    Spark detects the compression only by the suffix, so it would misread the file. ``gzipped`` is
    False if the message declares no compression; ``stream`` and ``path`` are for the error message.
    """
    ending = _COMPRESSION_SUFFIX.search(name)
    if gzipped and (ending is None or ending[1].lower() != "gz"):
        reason = "its encoding is gzip, which Spark detects only if the name ends in .gz"
        raise make_unreadable_error(stream, path, reason)
    if not gzipped and ending is not None:
        reason = f"its encoding is not compressed, but its name ends in {ending[0]}"
        raise make_unreadable_error(stream, path, reason)


def _find_local_file(stream: StreamId, path: str, local: Path) -> Path:
    """Return the absolute path of an existing local file.

    ``path`` is the path or ``file:`` URL from the BATCH message, ``local`` the same path with
    percent escapes decoded. If ``local`` is not a file, ``path`` is used without decoding, because
    a file name may contain ``%``.

    Raises:
        FilesError: Neither path is a regular file, or the system rejects the path.
    """
    literal = Path(_SCHEME.sub("", path, count=1))
    try:
        for candidate in (local, literal):
            if candidate.is_file():
                return Path(os.path.abspath(candidate))  # noqa: PTH100  (keeps links, removes ..)
        is_special_file = local.exists() and not local.is_dir()
    except OSError as error:  # the name is too long
        raise make_unreadable_error(stream, path, str(error.strerror).lower()) from None
    raise make_unreadable_error(
        stream, path, "it is not a regular file" if is_special_file else "it does not exist"
    )


def _get_local_size(address: str) -> int:
    """Return the size in bytes of the file at a URL, or 0 if the file is not on this machine."""
    local = to_local_folder(address)
    return local.stat().st_size if local is not None else 0


def _is_text(schema: Any) -> bool:
    """Return True if a property's JSON Schema allows only strings, or strings and null."""
    return {kind for kind, _ in split_variants(schema)} == {"string"}
