"""Writer of batch files (JSON Lines or Parquet) from records already encoded as JSON.

The URL of a file is returned only after the file is complete. If writing fails, the incomplete file
is deleted if possible.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec

from tap_core.batch.encodings import BaseBatchFileEncoding, BatchConfig, BatchFileFormat
from tap_core.batch.storage import StorageTarget
from tap_core.exceptions import BatchFileError, ConfigurationError
from tap_core.records.serializer import encode_record
from tap_core.redaction import redact_url
from tap_core.types import JsonSchema, Record

if TYPE_CHECKING:
    from tap_core.batch.parquet import ParquetEncoder

__all__ = [
    "BatchFileWriter",
    "EncodedFormat",
    "FileNamer",
    "encode_row",
    "get_format",
]

_GZIP_LEVEL: Final = 1
"""Compression level: twice as fast as gzip's default 6, but files are an eighth larger."""

_GZIP_WBITS: Final = 31
"""Value of zlib's argument ``wbits`` for output with a gzip header and trailer."""

_encode: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode
_UNSAFE_CHARACTERS: Final = re.compile(r"[\\/\0]")


def encode_row(record: Record) -> bytes:
    """Encode a record as JSON bytes without line breaks.

    Values of types that JSON does not have become strings.
    """
    body: bytes = encode_record(record, _encode)
    return body


@dataclass(frozen=True)
class EncodedFormat:
    """File name suffix and encoder of a batch file format.

    ``make_encoder`` is a function that creates the encoder for an open file and a JSON Schema.
    """

    suffix: str
    make_encoder: Callable[
        [IO[bytes], JsonSchema], _JSONLinesEncoder | _GzipJSONLinesEncoder | ParquetEncoder
    ]


def get_format(encoding: BaseBatchFileEncoding) -> EncodedFormat:
    """Return the file name suffix and the encoder for ``jsonl`` or ``parquet`` files.

    Raises:
        ConfigurationError: The format does not support the compression.
    """
    compression = encoding.compression
    if encoding.format == BatchFileFormat.PARQUET:
        from tap_core.batch.parquet import ParquetEncoder

        return EncodedFormat(
            ".parquet.gz" if compression == "gzip" else ".parquet",
            lambda file, schema: ParquetEncoder(file, schema, compression),
        )
    if compression == "gzip":
        return EncodedFormat(".json.gz", _GzipJSONLinesEncoder)
    if compression in {None, "none"}:
        return EncodedFormat(".json", _JSONLinesEncoder)
    raise ConfigurationError(
        f"batch_config: JSON Lines are compressed by 'gzip' or 'none', not {compression!r}."
    )


class _JSONLinesEncoder:
    """Encoder that writes records to an open file as uncompressed JSON Lines."""

    def __init__(self, file: IO[bytes], _schema: JsonSchema) -> None:
        self._write = file.write

    def write(self, bodies: Sequence[bytes]) -> None:
        """Write the records in ``bodies``, which are already encoded as JSON, one per line."""
        self._write(b"\n".join(bodies) + b"\n")

    def finish(self) -> None:
        """Do nothing, because `write` has already written all records to the file."""


class _GzipJSONLinesEncoder:
    """Encoder that writes records to an open file as JSON Lines with gzip compression."""

    def __init__(self, file: IO[bytes], _schema: JsonSchema) -> None:
        self._write = file.write
        self._packer = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WBITS)

    def write(self, bodies: Sequence[bytes]) -> None:
        """Compress and write the records in ``bodies``, which are encoded as JSON, one per line."""
        self._write(self._packer.compress(b"\n".join(bodies) + b"\n"))

    def finish(self) -> None:
        """Write the rest of the compressed data, and the bytes that end a gzip file."""
        self._write(self._packer.flush())


class FileNamer:
    """Generator of unique file names for the batch files of one stream in one sync.

    The names are ``<prefix><tap>--<stream>-<uuid>-<number><suffix>``.
    """

    def __init__(self, tap_name: str, stream_name: str, storage: StorageTarget) -> None:
        stream_part = _UNSAFE_CHARACTERS.sub("_", f"{tap_name}--{stream_name}")
        self._stem = f"{storage.prefix or ''}{stream_part}-{uuid4()}"
        self._count = 0

    def next(self, suffix: str) -> str:
        """Return the next file name, with a suffix such as ``.json``; numbers start at 1."""
        self._count += 1
        return f"{self._stem}-{self._count}{suffix}"


class BatchFileWriter:
    """Writer of one batch file; ``count`` is the number of records written so far."""

    def __init__(
        self, config: BatchConfig, kind: EncodedFormat, names: FileNamer, schema: JsonSchema
    ) -> None:
        """Create the batch file and open it.

        Args:
            config: Batch configuration, with the storage of the file.
            kind: File name suffix and encoder for the format of the file.
            names: Generator of the file name.
            schema: JSON Schema of the records, for the column types of Parquet.

        Raises:
            BatchFileError: The file cannot be created.
        """
        self.count = 0
        self._storage = config.storage
        self._name = names.next(kind.suffix)
        self._file: Any = None
        self._file = self._run_step(lambda: self._storage.file(self._name, "wb"))
        self._encoder = kind.make_encoder(self._file, schema)

    def write(self, bodies: Sequence[bytes]) -> None:
        """Write the records in ``bodies``, which are already encoded as JSON.

        Raises:
            BatchFileError: Writing failed; the file was deleted.
        """
        self._run_step(lambda: self._encoder.write(bodies))
        self.count += len(bodies)

    def close(self) -> str:
        """Complete and close the batch file, and return its URL.

        Raises:
            BatchFileError: Closing failed; the file was deleted.
        """
        self._run_step(self._encoder.finish)
        self._run_step(self._file.close)
        return self._storage.get_url(self._name)

    def _run_step(self, step: Callable[[], Any]) -> Any:
        """Call ``step`` and return its result; if it fails, close and delete the batch file.

        Args:
            step: Function to call, such as the one that closes the file.

        Raises:
            BatchFileError: The function failed.
        """
        try:
            return step()
        except Exception as error:
            self._discard()
            address = redact_url(f"{self._storage.root.rstrip('/')}/{self._name}", with_query=False)
            raise BatchFileError(f"Batch file {address} cannot be written: {error}") from error

    def _discard(self) -> None:
        """Close and delete the incomplete batch file; errors are ignored."""
        if self._file is not None:
            with suppress(Exception):
                self._file.close()
            self._storage.remove(self._name)
