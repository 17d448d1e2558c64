"""Output files of a Spark task that reads partitions of a tap: one file per stream.

Rows are written as JSON lines. If the worker and the driver share a folder, the files are in this
folder and have hidden names. Spark ignores hidden files. After the job, `publish_files` renames the
files of successful tasks; those of lost or duplicate tasks stay hidden. Otherwise the rows are
written to temporary files of the worker, and sent to the driver in blocks of lines.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

__all__ = ["SpoolOutput", "WriteFailedError", "publish_files"]

_BLOCK_BYTES: Final = 1 << 18
"""Size in bytes from which a block of lines ends with the current line.

Blocks are well below 512 KiB, half of a heap region of a JVM with a small heap. The garbage
collector G1 stores larger objects separately.
"""


class WriteFailedError(BaseException):
    """Error for rows that cannot be written to disk.

    It is a BaseException, so that the retries of a failed tap do not catch it.
    """


class SpoolOutput:
    """Files to which one Spark task writes rows of a tap as lines of JSON, one file per stream.

    After a failed attempt to read a partition, `drop` discards its lines. After a successful
    attempt, `keep` marks its lines as complete. All methods raise `WriteFailedError` if the disk
    cannot be written to.

    Args:
        folder: A folder that the driver can read. None to write temporary files, whose lines
            `take_blocks` returns.

    Attributes:
        name: The name of the task's file in the folder of each stream.
    """

    def __init__(self, folder: str | None) -> None:
        self.name = uuid.uuid4().hex
        self._folder = folder
        self._files: dict[int, IO[bytes]] = {}
        self._kept: dict[int, int] = {}
        """By stream, the bytes of the complete lines in its file."""

    def write(self, stream: int, lines: bytes) -> None:
        """Append rows of a stream as lines of JSON to the file of this stream.

        Args:
            stream: The number of the stream, counted from 0.
            lines: Complete lines.
        """
        with _translate_errors():
            self._open_file(stream).write(lines)

    def drop(self) -> None:
        """Discard all lines written since the last call of `keep`, after a failed attempt."""
        with _translate_errors():
            for stream, file in self._files.items():
                file.seek(self._kept.get(stream, 0))
                file.truncate()

    def keep(self) -> None:
        """Mark all lines written so far as complete, including lines that a child process wrote."""
        with _translate_errors():
            for stream, file in self._files.items():
                self._kept[stream] = file.seek(0, os.SEEK_END)

    def share(self, streams: int) -> None:
        """Open the files of all streams before a fork, so that the child process can write to them.

        Write buffers are flushed. Otherwise, the child process would inherit and write them again.

        Args:
            streams: The number of streams.
        """
        with _translate_errors():
            for stream in range(streams):
                self._open_file(stream)
        self.flush()

    def flush(self) -> None:
        """Flush the write buffers of all files to the operating system, without fsync."""
        with _translate_errors():
            for file in self._files.values():
                file.flush()

    def take_blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the rows as blocks of (stream number, lines of JSON), and then discard them.

        Each block has complete lines. If the files are in a folder that the driver can read, yield
        nothing, because Spark then reads the rows from the files.
        """
        if self._folder is not None:
            return
        for stream, file in self._files.items():
            file.seek(0)
            while block := file.read(_BLOCK_BYTES):
                yield stream, block if block.endswith(b"\n") else block + file.readline()
        self._kept.clear()
        self.drop()

    def close(self) -> None:
        """Close the files of all streams. Temporary files are deleted."""
        with _translate_errors():
            for file in self._files.values():
                file.close()

    def _open_file(self, stream: int) -> IO[bytes]:
        file = self._files.get(stream)
        if file is None:
            file = self._files[stream] = self._create_file(stream)
        return file

    def _create_file(self, stream: int) -> IO[bytes]:
        if self._folder is None:
            return tempfile.TemporaryFile()
        path = _get_hidden_path(self._folder, stream, self.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return os.fdopen(os.open(path, flags, 0o600), "wb")


def publish_files(folder: str, files: Iterable[tuple[int, str]]) -> None:
    """Rename the hidden files of successful tasks, so that Spark's readers no longer ignore them.

    Args:
        folder: The folder that was passed to `SpoolOutput`.
        files: The stream number and the name of each file.
    """
    for stream, name in files:
        path = _get_hidden_path(folder, stream, name)
        path.rename(path.with_name(f"{name}.txt"))


def _get_hidden_path(folder: str, stream: int, name: str) -> Path:
    return Path(folder) / f"stream={stream}" / f".{name}"


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text = f"Lines for the next commit cannot be written to disk: {error}"
        raise WriteFailedError(text) from None
