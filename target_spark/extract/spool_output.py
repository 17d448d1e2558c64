"""The lines that one task of Spark's makes of its parts, in a file for each stream.

Rules of the room: this runs in a worker. Where whoever commits has the worker's folders, the files
stand there at once, under names that no reader of Spark's looks at, and `shown` gives those their
names whose task has ended well: a task that was lost, or that another one did as well, leaves a
file that nobody reads. Elsewhere they are files that nobody else can open, and leave as blocks of
whole lines. What comes of a part counts when it is kept; until then it can be dropped again.
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

_BLOCK: Final = 1 << 18
"""Bytes of lines that leave together, at least: Java's collector treats an object apart that is
larger than half of one of its regions, which in a small heap are of a mebibyte."""


class WriteFailedError(BaseException):
    """Lines could not be written. It is no failure of a part, so it passes all who handle those."""


class SpoolOutput:
    """The files of one task: in ``folder``, or where that is None, apart.

    ``name`` is what the files are called there, one in the folder of each stream.

    Raises:
        NotWrittenError: from all that writes.
    """

    def __init__(self, folder: str | None) -> None:
        self.name = uuid.uuid4().hex
        self._folder = folder
        self._files: dict[int, IO[bytes]] = {}
        self._kept: dict[int, int] = {}

    def write(self, stream: int, lines: bytes) -> None:
        """Put lines behind those of a stream."""
        with _writing():
            self._open_file(stream).write(lines)

    def drop(self) -> None:
        """Forget what was not kept."""
        with _writing():
            for stream, file in self._files.items():
                file.seek(self._kept.get(stream, 0))
                file.truncate()

    def keep(self) -> None:
        """Let what was written count, also what a child of this process wrote."""
        with _writing():
            for stream, file in self._files.items():
                self._kept[stream] = file.seek(0, os.SEEK_END)

    def share(self, streams: int) -> None:
        """Make ready for a child of this process to write, to any of so many streams."""
        with _writing():
            for stream in range(streams):
                self._open_file(stream)
        self.flush()

    def flush(self) -> None:
        """Bring all out of this process's memory."""
        with _writing():
            for file in self._files.values():
                file.flush()

    def leaving(self) -> Iterator[tuple[int, bytes]]:
        """Yield what is kept as blocks of lines, with their stream, and forget it.

        Files in a folder stay as they are: they are where they are read.
        """
        if self._folder is not None:
            return
        for stream, file in self._files.items():
            file.seek(0)
            while block := file.read(_BLOCK):
                yield stream, block if block.endswith(b"\n") else block + file.readline()
        self._kept.clear()
        self.drop()

    def close(self) -> None:
        """Close the files."""
        with _writing():
            for file in self._files.values():
                file.close()

    def _open_file(self, stream: int) -> IO[bytes]:
        file = self._files.get(stream)
        if file is None:
            file = self._files[stream] = self._opened(stream)
        return file

    def _opened(self, stream: int) -> IO[bytes]:
        if self._folder is None:
            return tempfile.TemporaryFile()
        path = _hidden(self._folder, stream, self.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return os.fdopen(os.open(path, flags, 0o600), "wb")


def publish_files(folder: str, files: Iterable[tuple[int, str]]) -> None:
    """Let Spark's readers see files of tasks, each given as the number of a stream and a name."""
    for stream, name in files:
        path = _hidden(folder, stream, name)
        path.rename(path.with_name(f"{name}.txt"))


def _hidden(folder: str, stream: int, name: str) -> Path:
    return Path(folder) / f"stream={stream}" / f".{name}"


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        words = f"Lines that wait for their commit cannot be written: {error}"
        raise WriteFailedError(words) from None
