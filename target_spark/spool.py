"""What waits for its commit: one file of lines per stream and batch.

Rules of the room:

- A line is ``{"n":ordinal,"t":time_extracted,"v":version,"r":record}``; the record's bytes
  go in as they came. The ordinal, the place of the message in the input, is what decides
  later which of two rows is newer: files and their splits keep no order.
- A folder belongs to one process, which holds a lock on a file in it for as long as it
  lives. A folder whose lock is free is a dead run's and is removed; another running
  target's never is.
- Nobody but the owner may read it: rows stand here in plain text.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, repeat
from pathlib import Path
from typing import IO, Final

import msgspec

from tap_core.events import Rows, StreamId

__all__ = ["MAX_OPEN_FILES", "Batch", "Spool", "SpoolFolder"]

_FOLDER_PREFIX: Final = "target-spark-"
_LOCK_NAME: Final = "lock"
_BUFFER_SIZE: Final = 32 * 1024
MAX_OPEN_FILES: Final = 200
"""How many spools are written without closing and opening files in between."""

_DELETED_AT: Final = b'"_sdc_deleted_at"'


class _Line(msgspec.Struct, gc=False):
    """One line; the names are short because each row carries them."""

    n: int
    t: str | None
    v: int | None
    r: msgspec.Raw


_encode_lines: Final = msgspec.json.Encoder().encode_lines


@dataclass(frozen=True)
class Batch:
    """Rows of one stream that are committed together.

    ``first`` and ``last`` are the ordinals of the first and last row; ``nbytes`` counts
    the bytes of the spool; ``received_at`` and ``cut_at`` are the wall times (seconds
    since 1970) of its first row and of its end. ``has_deletes`` is False only if no row
    can be a delete record.
    """

    stream: StreamId
    paths: tuple[str, ...]
    first: int
    last: int
    count: int
    nbytes: int
    version: int | None
    has_deletes: bool
    received_at: float
    cut_at: float

    def remove(self) -> None:
        """Delete the files; they may be gone already."""
        for path in self.paths:
            Path(path).unlink(missing_ok=True)


class SpoolFolder:
    """A private folder for one run's spools and staged files.

    ``base`` is a folder that exists or can be made; none means the system's temporary
    one. Raises `OSError` where it cannot be written.
    """

    def __init__(self, base: str | os.PathLike[str] | None = None) -> None:
        """Make the folder, lock it, and remove what dead runs left beside it."""
        root = Path(base) if base is not None else Path(tempfile.gettempdir())
        root.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(root)
        # Under a name that nobody looks for until the lock is held.
        unborn = Path(tempfile.mkdtemp(prefix=".new-", dir=root))
        self._lock = (unborn / _LOCK_NAME).open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = unborn.rename(root / f"{_FOLDER_PREFIX}{uuid.uuid4().hex}")
        self._open_files: OrderedDict[Path, IO[bytes]] = OrderedDict()

    def new_path(self, name: str) -> Path:
        """Return an unused path in the folder; nothing is created."""
        return self.path / f"{name}-{uuid.uuid4().hex[:12]}"

    def write(self, path: Path, data: bytes) -> None:
        """Append to a file. Few files stay open, however many streams take turns."""
        file = self._open_files.get(path)
        if file is None:
            if len(self._open_files) >= MAX_OPEN_FILES:
                _, oldest = self._open_files.popitem(last=False)
                oldest.close()
            file = self._open_files[path] = path.open("ab", buffering=_BUFFER_SIZE)
        else:
            self._open_files.move_to_end(path)
        file.write(data)

    def finish(self, path: Path) -> None:
        """Bring everything written to a file out of this process's memory."""
        file = self._open_files.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        for file in self._open_files.values():
            with contextlib.suppress(OSError):  # a full disk: it is being removed anyway
                file.close()
        self._open_files.clear()
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


@dataclass
class Spool:
    """The rows of one stream that wait, in their order.

    `add` is on the path of every record: its cost counts.
    """

    folder: SpoolFolder
    stream: StreamId
    count: int = 0
    nbytes: int = 0
    first: int = 0
    last: int = 0
    version: int | None = None
    has_deletes: bool = False
    oldest: float = 0.0
    received_at: float = 0.0
    _path: Path | None = None

    def add(self, rows: Rows, first_ordinal: int) -> int:
        """Append a chunk whose first row is message ``first_ordinal``; return its bytes."""
        if self._path is None:
            self._path = self.folder.new_path("rows")
            self.first = first_ordinal
            self.oldest, self.received_at = time.monotonic(), time.time()
        data = _encode_lines(_lines(rows, first_ordinal))
        self.folder.write(self._path, data)
        self.count += len(rows.rows)
        self.nbytes += len(data)
        self.last = first_ordinal + len(rows.rows) - 1
        self.version = rows.version
        self.has_deletes = self.has_deletes or _DELETED_AT in data
        return len(data)

    def age(self) -> float:
        """Return for how many seconds the oldest row has waited; 0 when none does."""
        return time.monotonic() - self.oldest if self._path is not None else 0.0

    def cut(self) -> Batch:
        """Close the batch and start an empty one. Raises `ValueError` when none waits."""
        if self._path is None:
            raise ValueError(f"Nothing is spooled for stream {self.stream}.")
        self.folder.finish(self._path)
        batch = Batch(
            stream=self.stream,
            paths=(str(self._path),),
            first=self.first,
            last=self.last,
            count=self.count,
            nbytes=self.nbytes,
            version=self.version,
            has_deletes=self.has_deletes,
            received_at=self.received_at,
            cut_at=time.time(),
        )
        self._path, self.has_deletes = None, False
        self.count = self.nbytes = 0
        return batch


def _lines(rows: Rows, first_ordinal: int) -> list[_Line]:
    """Return the lines of a chunk, ready for the encoder."""
    raw = map(msgspec.Raw, rows.rows)
    return list(map(_Line, count(first_ordinal), _times(rows), repeat(rows.version), raw))


def _times(rows: Rows) -> Iterator[str | None] | Sequence[str | None]:
    times = rows.extracted_at
    return repeat(times) if times is None or isinstance(times, str) else times


def _remove_leftovers(root: Path) -> None:
    """Remove the folders of runs that are dead and were this user's."""
    for folder in root.glob(f"{_FOLDER_PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or gone meanwhile
            if folder.stat().st_uid == os.getuid() and not _is_locked(folder):
                shutil.rmtree(folder)


def _is_locked(folder: Path) -> bool:
    """Say whether a living process holds the folder; one without a lock file is not ours."""
    with (folder / _LOCK_NAME).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
