"""Reader of the records in a batch file (JSON Lines or Parquet).

Memory is limited regardless of the file size, because lines and cells have a maximum length. JSON
numbers with a fraction become `Decimal`. Any error in a file, from its URL to its last byte, raises
a `BatchFileError` that names the file and the stream.
"""

from __future__ import annotations

import gzip
import io
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import IO, Any, Final, cast
from urllib.parse import unquote

import msgspec

from tap_core.batch.encodings import (
    BaseBatchFileEncoding,
    BatchFileFormat,
    is_builtin_encoding,
)
from tap_core.batch.limits import FileLimits
from tap_core.batch.storage import StorageTarget, to_local_path
from tap_core.batch.url_schemes import check_url
from tap_core.exceptions import BatchFileError, UnsupportedBatchEncodingError
from tap_core.limits.memory import MIB, Bound, open_regular_file
from tap_core.redaction import redact_url
from tap_core.singerlib.json import UnreadableJSONError, load_json
from tap_core.types import Record

__all__ = ["check_file", "read_rows"]

_COMPRESSIONS: Final = frozenset({None, "none", "gzip"})
_decode: Final = msgspec.json.Decoder(float_hook=Decimal).decode


def read_rows(
    address: str,
    encoding: BaseBatchFileEncoding,
    *,
    stream: str,
    storage: StorageTarget | None = None,
    limits: FileLimits | None = None,
) -> Iterator[Record]:
    """Yield the records of a batch file.

    Args:
        address: URL of the file.
        encoding: Format and compression of the file.
        stream: Name of the stream, for error messages.
        storage: Folder that contains the file. If the URL is outside this folder, a file of the
            same name in the folder is read instead. By default the URL itself is opened.
        limits: Limits for the file; by default `FileLimits()`.

    Raises:
        BatchFileError: The file cannot be read completely.
        NotImplementedError: The format or compression is not supported.
    """
    _check_encoding(encoding)
    read = _read_json_lines if encoding.format == BatchFileFormat.JSONL else _read_parquet
    limits = limits or FileLimits()
    with ExitStack() as stack:
        try:
            file = stack.enter_context(_open(address, storage, limits))
            yield from read(_decompress(file, encoding, stack), limits.line)
        except Exception as error:
            url = redact_url(address, with_query=False)
            raise BatchFileError(
                f"Stream '{stream}': batch file {url} cannot be read: {_format_reason(error)}"
            ) from error


def check_file(path: Path, encoding: BaseBatchFileEncoding, bound: Bound) -> None:
    """Check that a local batch file keeps the size limits that `read_rows` enforces.

    Call this function before a reader without limits, such as Spark, reads the file. ``bound`` is
    the limit for a line or a cell. A JSON Lines file is read completely, but not parsed.

    Raises:
        ValueError: A limit is exceeded, or the file is corrupt.
        OSError: The file cannot be opened, or the storage fails.
    """
    try:
        with ExitStack() as stack:
            file = stack.enter_context(open_regular_file(path))
            if encoding.format == BatchFileFormat.PARQUET:
                from tap_core.batch.parquet import check_copies

                check_copies(file, bound)
            else:
                deque(bound.lines(_decompress(file, encoding, stack)), maxlen=0)
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:  # without one: a corrupt file
            raise
        raise ValueError(_format_reason(error)) from error


def _check_encoding(encoding: BaseBatchFileEncoding) -> None:
    """Raise UnsupportedBatchEncodingError if the encoding of a batch file is not supported."""
    if not is_builtin_encoding(encoding):
        raise UnsupportedBatchEncodingError(f"Unsupported batch encoding format: {encoding.format}")
    if encoding.format == BatchFileFormat.JSONL and encoding.compression not in _COMPRESSIONS:
        raise UnsupportedBatchEncodingError(
            f"Unsupported batch file compression: {encoding.compression}"
        )


def _decompress(file: IO[bytes], encoding: BaseBatchFileEncoding, stack: ExitStack) -> IO[bytes]:
    """Return a binary stream of a file's content, decompressed if it is gzip JSON Lines.

    Any other file is returned unchanged. The decompressed stream is closed when ``stack`` is
    closed.
    """
    if encoding.format != BatchFileFormat.JSONL or encoding.compression != "gzip":
        return file
    unpacked = stack.enter_context(gzip.GzipFile(fileobj=file))
    return cast("IO[bytes]", stack.enter_context(io.BufferedReader(cast("Any", unpacked), MIB)))


def _open(address: str, storage: StorageTarget | None, limits: FileLimits) -> IO[bytes]:
    """Open the batch file at the URL ``address`` for reading.

    With a ``storage``, the file is always read from the storage's folder. For a URL outside of it,
    the file of the same name in this folder is opened.

    Raises:
        ValueError: The URL is not allowed.
    """
    if storage is not None:
        address = _resolve_address(storage, address)
    check_url(address, limits.schemes, [storage.root] if storage is not None else ())
    path = to_local_path(address)
    if path is not None:
        return open_regular_file(path)
    return (storage or StorageTarget(address)).open_address(address)


def _resolve_address(storage: StorageTarget, address: str) -> str:
    """Return the URL from which to read a batch file; it is always in the storage's folder.

    A URL ``address`` in this folder is returned unchanged. For any other URL, return the URL of the
    file with the same name in the folder, so that a BATCH message cannot name a file elsewhere.

    Raises:
        ValueError: The URL does not end in the name of a file.
    """
    root, root_url = storage.root, storage.get_url("")
    if address.startswith(tuple(f"{folder.rstrip('/')}/" for folder in (root, root_url))):
        path = to_local_path(address)
        if ".." not in (address.split("/") if path is None else path.parts):
            return address
    name = StorageTarget.split_url(address)[1]
    if Path(unquote(name)).name != unquote(name) or unquote(name) == "..":
        raise ValueError("its address does not end in the name of a file")
    return f"{(root if '://' in root else root_url).rstrip('/')}/{name}"


def _read_json_lines(file: IO[bytes], bound: Bound) -> Iterator[Record]:
    for number, line in enumerate(bound.lines(file), 1):
        if line.strip():
            yield _parse_record(line, number)


def _parse_record(line: bytes, number: int) -> Record:
    """Parse a line of a JSON Lines batch file to a record.

    ``number`` is the line number, for error messages.

    Raises:
        ValueError: The line is not a JSON object, or the file contains Singer messages.
    """
    try:
        record = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InvalidOperation):
        record = _parse_leniently(line, number)
    if not isinstance(record, dict):
        raise ValueError(f"line {number} is not a JSON object")  # noqa: TRY004  as other faults
    if number == 1 and record.get("type") == "RECORD" and isinstance(record.get("record"), dict):
        raise ValueError("it contains Singer messages instead of records")
    return record


def _parse_leniently(line: bytes, number: int) -> Any:
    """Parse a JSON line that msgspec rejects but Python's parser accepts, such as one with NaN.

    ``number`` is the line number, for error messages.

    Raises:
        ValueError: The line is not JSON, or is truncated.
    """
    try:
        return load_json(line)
    except UnreadableJSONError as error:
        raise ValueError(f"line {number} cannot be read: {error.msg}") from None
    except ValueError:
        raise ValueError(f"line {number} is not JSON, or is truncated") from None


def _read_parquet(file: IO[bytes], bound: Bound) -> Iterator[Record]:
    from tap_core.batch.parquet import read_parquet

    return read_parquet(file, bound)


def _format_reason(error: Exception) -> str:
    """Return the reason why a batch file cannot be read, such as ``it does not exist``."""
    reason = str(error)
    if isinstance(error, FileNotFoundError):
        reason = "it does not exist"
    elif isinstance(error, EOFError):
        reason = "it ends too early"
    elif isinstance(error, ImportError):
        reason = f"a package is missing: {error}"
    elif isinstance(error, OSError):
        reason = error.strerror or reason
    return reason or type(error).__name__
