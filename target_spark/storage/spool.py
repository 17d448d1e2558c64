"""Spool: files on disk that keep rows until their commit, one file per stream and batch.

- A row is a line ``{"n":ordinal,"t":time_extracted,"v":version,"r":record}`` of JSON. Metadata of
  an Airbyte source precedes the record as ``"m"``. The record's bytes are unchanged. The ordinal is
  the position of the row in the input. It decides which of two rows is newer, because Spark does
  not keep the order of lines.
- Each run has a spool folder with a locked file. A folder whose lock is free belongs to a run that
  has died, and is deleted by a later run.
- Only the current user can read the folder, because it contains rows in plain text.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, repeat
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from tap_core.events import Rows, SpooledRows, StreamId
from tap_core.exceptions import InvalidInputLine
from tap_core.limits.environment import Limit
from tap_core.limits.memory import MIB, format_size
from target_spark.columns import TableSchema
from target_spark.errors import TableError
from target_spark.loader.batch_file_checks import BatchFile
from target_spark.storage.commit_retry import translate_disk_full
from target_spark.storage.uris import to_local_folder

__all__ = [
    "LARGE_ROWS_BYTES",
    "MAX_OPEN_FILES",
    "RECORD_BYTES",
    "Batch",
    "Spool",
    "SpoolFolder",
    "encode_lines",
    "may_contain_deletes",
    "open_spool_folder",
]

_FOLDER_PREFIX: Final = "target-spark-"
_NEW_FOLDER_PREFIX: Final = ".new-target-spark-"
_LOCK_NAME: Final = "lock"
_RUN_FOLDER: Final = re.compile(f"{_FOLDER_PREFIX}[0-9a-f]{{32}}")
_BUFFER_SIZE: Final = 32 * 1024
RECORD_BYTES: Final = Limit("TARGET_SPARK_RECORD_BYTES", 16 * MIB)
"""Maximum bytes of one record. Spark's JVM needs about twenty times as much memory for it."""

MAX_OPEN_FILES: Final = 200
"""Maximum number of spool files that are open at the same time."""

_LONG_RECORD: Final = 1 << 20
"""Minimum bytes of a record that is written without copying it."""

_LARGE_ROW: Final = 2 * MIB
LARGE_ROWS_BYTES: Final = 16 * MIB
"""Maximum total bytes of the large rows (2 MiB or more each) in one batch. Spark needs about twenty
times as much memory for them."""

_DELETED_AT: Final = b'"_sdc_deleted_at"'
_NO_METADATA: Final = msgspec.Raw(b"null")
_encode_lines: Final = msgspec.json.Encoder().encode_lines


class _Line(msgspec.Struct, gc=False):
    """A row as a JSON line of a spool file.

    The names of the fields are short because they are repeated in each line.

    Attributes:
        n: The ordinal, which is the position of the row in the input.
        t: The time at which the source extracted the record, or None if unknown.
        v: The table version, or None for an unversioned stream.
        r: The record.
    """

    n: int
    t: str | None
    v: int | None
    r: msgspec.Raw


class _LineWithMeta(msgspec.Struct, gc=False):
    """A row as a JSON line of a spool file, like `_Line`, but with metadata of the Airbyte source.

    The metadata is in the field ``m``.
    """

    n: int
    t: str | None
    v: int | None
    m: msgspec.Raw
    r: msgspec.Raw


class _Head(msgspec.Struct, gc=False, omit_defaults=True):
    """The fields before the record ``r`` in a line of a spool file, as in `_LineWithMeta`."""

    n: int
    t: str | None
    v: int | None
    m: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True)
class Batch:
    """Rows of one stream that are kept on disk and committed to the table together.

    Attributes:
        stream: The stream of the rows.
        paths: The spool files.
        first: The ordinal (position in the input) of the batch's first row or BATCH message.
        last: The ordinal of the batch's last row or BATCH message.
        count: The number of rows in the spool files; rows in ``files`` are not counted.
        nbytes: The bytes of the rows in the spool files.
        version: The table version of the rows, or None.
        has_deletes: True if a row in the spool files may be a delete record; False if certainly no
            row is.
        received_at: The time at which the first row was received, in seconds since 1970.
        closed_at: The time at which the batch was closed, in seconds since 1970.
        files: The files of BATCH messages whose rows belong to the batch.
        starts: If several Spark workers have written the rows, the ordinal of the first row of each
            input partition, by partition number. Else empty.
        has_large_rows: True if a row has 2 MiB or more.
        table_schema: The stream's table schema when a batch of an overwrite was closed. None if the
            rows can be written with the stream's newest table schema, and for all other batches.
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
    closed_at: float
    files: tuple[BatchFile, ...] = ()
    starts: Mapping[int, int] = field(default_factory=dict)
    has_large_rows: bool = False
    table_schema: TableSchema | None = None

    @classmethod
    def of(cls, event: SpooledRows, ordinal: int) -> Batch:
        """Return a batch of rows that Spark workers have written to disk as JSON lines.

        Args:
            event: The event with the paths of the files and the number of rows.
            ordinal: The position of the event in the input.
        """
        now = time.time()
        return cls(
            stream=event.stream,
            paths=tuple(event.paths),
            first=ordinal,
            last=ordinal,
            count=event.count,
            nbytes=event.nbytes,
            version=event.version,
            has_deletes=event.has_deletes,
            received_at=now,
            closed_at=now,
            starts=event.starts,
        )

    def remove(self) -> None:
        """Delete the local files with the rows of this batch, after its commit."""
        for folder in filter(None, map(to_local_folder, self.paths)):
            if folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)
            else:
                folder.unlink(missing_ok=True)


def open_spool_folder(staging: str | None, content: str) -> SpoolFolder:
    """Create a folder for temporary files in the staging folder or the system's temporary folder.

    Args:
        staging: The setting ``staging``. If it is None or a remote URL, the system's temporary
            folder is used.
        content: The content of the folder, for the error message, such as "uncommitted rows".

    Raises:
        TableError: The folder cannot be written.
    """
    try:
        return SpoolFolder(to_local_folder(staging) if staging else None)
    except OSError as error:
        raise TableError(
            f"The folder for {content} cannot be written: {error}."
            " Set staging to a folder that can be written."
        ) from error


class SpoolFolder:
    """A private temporary folder of one run, which keeps rows in files until their commit.

    The folder is created inside the folder ``base``; None means the system's temporary folder. The
    constructor raises `OSError` if this fails.
    """

    def __init__(self, base: str | os.PathLike[str] | None = None) -> None:
        """Create and lock the run's folder, and delete the folders of killed runs in ``base``."""
        root = Path(base) if base is not None else Path(tempfile.gettempdir())
        root.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(root)
        self.path, self._lock = _new_folder(root)
        self._open_files: OrderedDict[Path, IO[bytes]] = OrderedDict()

    def new_path(self, name: str) -> Path:
        """Return an unused path in the folder, whose file name starts with ``name``."""
        return self.path / f"{name}-{uuid.uuid4().hex[:12]}"

    def write(self, path: Path, data: bytes) -> None:
        """Append bytes to a file of the folder; create the file if it does not exist.

        The file stays open for further writes. If more than `MAX_OPEN_FILES` are open, the least
        recently used is closed.

        Raises:
            DiskFullError: The disk is full.
            OSError: The file cannot be written.
        """
        try:
            self._get_open_file(path).write(data)
        except OSError as error:
            raise self._translate_error(error) from error

    def _get_open_file(self, path: Path) -> IO[bytes]:
        file = self._open_files.get(path)
        if file is not None:
            self._open_files.move_to_end(path)
            return file
        if len(self._open_files) >= MAX_OPEN_FILES:
            self.finish(next(iter(self._open_files)))
        file = self._open_files[path] = _open_private(path)
        return file

    def finish(self, path: Path) -> None:
        """Close a file of the folder, so that other processes can read all bytes written to it."""
        file = self._open_files.pop(path, None)
        if file is not None:
            try:
                file.close()
            except OSError as error:
                raise self._translate_error(error) from error

    def _translate_error(self, error: OSError) -> Exception:
        """Return a `DiskFullError` for an error that reports a full disk, else the error itself."""
        location = f"uncommitted rows ({self.path})"
        remedy = "Free space there, or set staging to another folder"
        return translate_disk_full(location, remedy, error) or error

    def close(self) -> None:
        """Delete the run's folder with its content, and release its lock."""
        for file in self._open_files.values():
            with contextlib.suppress(OSError):  # a full disk: the file is deleted anyway
                file.close()
        self._open_files.clear()
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()
        # Spark of a killed run may still have used its folder when this run began.
        _remove_leftovers(self.path.parent)


@dataclass
class Spool:
    """The open batch of one stream. Received rows are written to a file until the batch is closed.

    Attributes:
        folder: The folder in which the rows are kept.
        stream: The stream of the rows.
        count: The number of rows plus the number of files of BATCH messages.
        nbytes: The bytes of the rows.
        first: The ordinal (position in the input) of the batch's first row or BATCH message.
        last: The ordinal of the batch's last row or BATCH message.
        version: The table version of the newest rows, or None.
        has_deletes: True if a row may be a delete record; False if certainly no row is.
        oldest: The time at which the first row was received, as a value of `time.monotonic`.
        received_at: The time at which the first row was received, in seconds since 1970.
        large_bytes: The total bytes of those rows that have 2 MiB or more.
        files: The files of BATCH messages in the batch.
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
    large_bytes: int = 0
    files: list[BatchFile] = field(default_factory=list)
    _path: Path | None = None

    def add(self, rows: Rows, first_ordinal: int) -> int:
        """Append rows to the open batch, and return the number of bytes written to its file.

        ``first_ordinal`` is the position of the first row in the input.
        """
        if not self.count:
            self._begin(first_ordinal)
        if self._path is None:
            self._path = self.folder.new_path("rows")
        nbytes = 0
        for data in encode_lines(rows, first_ordinal):
            self.folder.write(self._path, data)
            nbytes += len(data)
            self.has_deletes = self.has_deletes or may_contain_deletes(data)
        self.count += len(rows.rows)
        self.nbytes += nbytes
        if nbytes >= _LARGE_ROW:
            self.large_bytes += sum(size for size in map(len, rows.rows) if size >= _LARGE_ROW)
        self.last = first_ordinal + len(rows.rows) - 1
        self.version = rows.version
        return nbytes

    def add_files(self, files: Sequence[BatchFile], ordinal: int, version: int | None) -> None:
        """Add the files of a BATCH message to the open batch. The files are not read.

        Args:
            files: The files that the message names.
            ordinal: The position of the message in the input.
            version: The table version of the rows in the files, or None.
        """
        if not self.count:
            self._begin(ordinal)
        self.files += files
        self.count += len(files)
        self.last = ordinal
        self.version = version

    def _begin(self, ordinal: int) -> None:
        self.first = ordinal
        self.oldest, self.received_at = time.monotonic(), time.time()

    def age(self) -> float:
        """Return the seconds since the batch received its first row; 0.0 if it is empty."""
        return time.monotonic() - self.oldest if self.count else 0.0

    def close_batch(self) -> Batch:
        """Close the open batch and return it for a commit. Later rows are added to a new batch.

        Raises:
            ValueError: The open batch is empty.
        """
        if not self.count:
            raise ValueError(f"Nothing is spooled for stream {self.stream}.")
        if self._path is not None:
            self.folder.finish(self._path)
        batch = Batch(
            stream=self.stream,
            paths=() if self._path is None else (str(self._path),),
            first=self.first,
            last=self.last,
            count=self.count - len(self.files),
            nbytes=self.nbytes,
            version=self.version,
            has_deletes=self.has_deletes,
            received_at=self.received_at,
            closed_at=time.time(),
            files=tuple(self.files),
            has_large_rows=self.large_bytes > 0,
        )
        self._path, self.has_deletes = None, False
        self.files.clear()
        self.count = self.nbytes = self.large_bytes = 0
        return batch


def _new_folder(root: Path) -> tuple[Path, IO[bytes]]:
    """Create a folder for uncommitted rows inside ``root`` and lock it.

    Return its path and its open lock file. If another run deletes the folder before it is locked,
    another folder is created.
    """
    while True:
        # The folder has a temporary name until its lock is held.
        new_folder = Path(tempfile.mkdtemp(prefix=_NEW_FOLDER_PREFIX, dir=root))
        with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as stack:
            lock = stack.enter_context(_open_private(new_folder / _LOCK_NAME))
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = new_folder.rename(root / f"{_FOLDER_PREFIX}{uuid.uuid4().hex}")
            stack.pop_all()
            return path, lock


def _open_private(path: Path) -> IO[bytes]:
    """Open a file for appending; create it if it is missing, readable by the current user only."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(path, flags, 0o600)
    return os.fdopen(file, "ab", buffering=_BUFFER_SIZE)


def may_contain_deletes(lines: bytes) -> bool:
    """Return True if rows, given as JSON lines, contain the text ``"_sdc_deleted_at"``.

    The name may also occur inside a value, so a result of True does not prove a delete record.
    """
    return _DELETED_AT in lines


def encode_lines(rows: Rows, first_ordinal: int) -> Iterator[bytes]:
    """Yield the content of a spool file for these rows: one line of JSON per row, as bytes.

    Usually one bytes object contains all lines. If a record has 1 MiB or more, each line is yielded
    as three bytes objects, so that large records are not copied.

    Args:
        rows: The rows.
        first_ordinal: The position of the first row in the input.

    Raises:
        InvalidInputLine: A record has more than `RECORD_BYTES` bytes, which is too long for Spark.
    """
    fields: list[Iterable[Any]] = [count(first_ordinal), _get_times(rows), repeat(rows.version)]
    if rows.meta is not None:
        fields.append(
            _NO_METADATA if metadata is None else msgspec.Raw(metadata) for metadata in rows.meta
        )
    longest = max(map(len, rows.rows))
    if longest < _LONG_RECORD:
        line = _Line if rows.meta is None else _LineWithMeta
        yield _encode_lines(list(map(line, *fields, map(msgspec.Raw, rows.rows))))
        return
    if longest > RECORD_BYTES.whole:
        raise InvalidInputLine(
            f"Stream {rows.stream}: a record of {longest:,} bytes is longer than"
            f" {format_size(RECORD_BYTES.whole)}. Let the tap send smaller records, or raise"
            f" {RECORD_BYTES.variable} (bytes) and spark.driver.memory (in spark)."
        )
    for head, body in zip(map(_Head, *fields), rows.rows, strict=False):
        yield msgspec.json.encode(head)[:-1] + b',"r":'
        yield body
        yield b"}\n"


def _get_times(rows: Rows) -> Iterator[str | None] | Sequence[str | None]:
    times = rows.extracted_at
    return repeat(times) if times is None or isinstance(times, str) else times


def _remove_leftovers(root: Path) -> None:
    """Delete the temporary folders in ``root`` that killed runs of this user have left."""
    for prefix in (_FOLDER_PREFIX, _NEW_FOLDER_PREFIX):
        for folder in root.glob(f"{prefix}*"):
            with contextlib.suppress(OSError):  # locked, of another user, or deleted meanwhile
                if folder.lstat().st_uid == os.getuid():
                    _remove_unlocked(folder)
    for folder in root.glob(f"{_NEW_FOLDER_PREFIX}*"):
        with contextlib.suppress(OSError):  # not empty, or owned by another user
            folder.rmdir()


def _remove_unlocked(folder: Path) -> None:
    """Delete a folder for uncommitted rows, unless a running process has locked it.

    The lock is held until the folder is deleted. A run that has just created the folder waits for
    the lock, and then creates another folder.

    Raises:
        BlockingIOError: A running process has locked the folder.
    """
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context((folder / _LOCK_NAME).open("rb"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            # An interrupted deletion leaves a run's folder without a lock file. A folder with
            # another name may belong to another program.
            if _RUN_FOLDER.fullmatch(folder.name) is None:
                return
        shutil.rmtree(folder)
