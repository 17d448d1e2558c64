"""Folders of engines: Spark processes that keep running, and that the runs of one user share.

An engine's folder contains its Unix socket, its lock file, its description and its log. The lock
is held until the engine and its JVM have ended. Only the current user may have access to a
folder: owner and mode are checked before a file is used, and both ends of a connection check the
user of the other process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tap_core.exceptions import ConfigurationError
from tap_core.io.private_files import (
    UntrustedPathError,
    check_parents,
    get_user_name,
    make_parents,
    open_regular,
    replace_file,
)
from target_spark.spark.jvm import cache_folder

__all__ = [
    "EngineFolder",
    "check_peer",
    "engines_folder",
    "has_engines_folder",
    "list_engines",
    "receive_message",
    "send_message",
    "wait_for_engine",
]

_MAX_ADDRESS_BYTES: Final = 100
"""Maximum bytes of the path of a Unix socket. Kernels accept at most 104 to 108 bytes."""

_MAX_MESSAGE_BYTES: Final = 1 << 20
_MAX_MESSAGE_FILES: Final = 16
_ACCESS_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_PAUSE_SECONDS: Final = 0.1


def engines_folder() -> Path:
    """Return the folder with a subfolder for each engine (shared Spark process) of this user."""
    return cache_folder() / "engines"


def has_engines_folder() -> bool:
    """Return True if this user has started an engine before, so that `engines_folder` exists.

    Return False if the user has no home folder or may not enter it.
    """
    try:
        return os.path.isdir(engines_folder())  # noqa: PTH112  (Path.is_dir raises PermissionError)
    except ConfigurationError:
        return False


@dataclass(frozen=True, slots=True)
class EngineFolder:
    """Folder of one engine (shared Spark process), with its socket, lock, description and log.

    Attributes:
        path: The path of the folder. Its name is `Identity.key`, a hash of the engine's versions
            and settings.
    """

    path: Path

    @classmethod
    def find(cls, key: str) -> EngineFolder | None:
        """Return the folder of the shared Spark whose settings have the hash ``key``, or None.

        Raises:
            UntrustedPathError: Another user owns the folder or has access to it.
        """
        if not has_engines_folder():
            return None
        folder = cls(engines_folder() / key)
        if not folder.path.is_dir():
            return None
        folder.check()
        return folder

    @classmethod
    def make(cls, key: str) -> EngineFolder:
        """Return the folder for a shared Spark process whose settings have the hash ``key``.

        The folder is created if it is missing.

        Raises:
            UntrustedPathError: Another user owns the folder or has access to it.
            OSError: The folder cannot be created.
        """
        folder = cls(engines_folder() / key)
        make_parents(folder.path.parent)
        for path in (folder.path.parent, folder.path):
            path.mkdir(mode=0o700, exist_ok=True)
        folder.check()
        return folder

    @property
    def log(self) -> Path:
        """The path of the log file of the shared Spark process and its JVM."""
        return self.path / "log"

    def check(self) -> None:
        """Check that only the current user has access to this folder of a shared Spark process.

        Raises:
            UntrustedPathError: Another user owns the folder or a parent folder, or has access to
                it.
        """
        check_parents(self.path)
        for path in (self.path.parent, self.path):
            status = path.lstat()
            if not stat.S_ISDIR(status.st_mode):
                raise UntrustedPathError(path, "is a link or a file instead of a folder")
            _check_private(path, status)

    def lock(self) -> int | None:
        """Acquire the lock of this folder, and return its file descriptor.

        Return None if another process holds it, so that only one Spark process uses the folder. The
        JVM must inherit the descriptor, so that the lock lasts until the JVM has ended too.
        """
        file = self._open("lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        return file

    def open_log(self) -> int:
        """Create or empty the log file of the shared Spark process; return its file descriptor."""
        return self._open("log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def describe(self, **facts: Any) -> None:
        """Write facts about the shared Spark process, such as its process id, to a JSON file."""
        replace_file(self.path / "engine.json", json.dumps(facts))

    def read_description(self) -> dict[str, Any]:
        """Return the stored facts about the shared Spark process; {} without a valid file.

        Raises:
            UntrustedPathError: Another user could have written the file.
        """
        try:
            file = self._open("engine.json", os.O_RDONLY)
        except FileNotFoundError:
            return {}
        with os.fdopen(file, "rb") as opened:
            try:
                document = json.loads(opened.read(_MAX_MESSAGE_BYTES))
            except ValueError:
                return {}
        return document if isinstance(document, dict) else {}

    def listen(self) -> socket.socket:
        """Return a new Unix socket in this folder, on which a shared Spark process accepts runs.

        The caller must hold the lock of this folder.
        """
        (self.path / "socket").unlink(missing_ok=True)  # of an engine that was killed
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with self._address() as address:
            listener.bind(address)
        listener.listen(64)
        return listener

    def connect(self, timeout: float) -> socket.socket:
        """Return a connection to the shared Spark process (engine) of this folder.

        Args:
            timeout: The timeout of the connection and of each response, in seconds.

        Raises:
            OSError: No engine is running, or it belongs to another user.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout)
        try:
            with self._address() as address:
                connection.connect(address)
            check_peer(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def request(self, timeout: float, **message: Any) -> dict[str, Any]:
        """Send one message to the shared Spark process (engine), and return its response.

        Args:
            timeout: The timeout of the connection and of the response, in seconds.
            **message: The fields of the message, such as ``request="status"``.

        Raises:
            OSError: No engine is running, or it does not respond.
        """
        with self.connect(timeout) as connection:
            send_message(connection, message)
            return receive_message(connection)[0]

    def remove_socket(self) -> None:
        """Delete the socket and the description, so that no run connects to this Spark process."""
        for name in ("socket", "engine.json"):
            (self.path / name).unlink(missing_ok=True)

    def _open(self, name: str, flags: int) -> int:
        path = self.path / name
        file, status = open_regular(path, flags)
        try:
            _check_private(path, status)
        except BaseException:
            os.close(file)
            raise
        return file

    @contextlib.contextmanager
    def _address(self) -> Iterator[str]:
        """Context manager: yield a path of the folder's socket that is short enough for the kernel.

        If the folder's path is too long, a path below ``/proc/self/fd`` is yielded.
        """
        path = str(self.path / "socket")
        if len(os.fsencode(path)) <= _MAX_ADDRESS_BYTES:
            yield path
            return
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{handle}/socket"
        finally:
            os.close(handle)


def list_engines() -> list[EngineFolder]:
    """Return the folders of all engines (shared Spark processes) of the current user.

    Only folders with a description file are returned. Their engine may have been killed.

    Raises:
        UntrustedPathError: Another user owns a folder or has access to it.
    """
    if not has_engines_folder():
        return []
    files = sorted(engines_folder().glob("*/engine.json"))
    folders = [EngineFolder(path.parent) for path in files]
    for folder in folders:
        folder.check()
    return folders


def wait_for_engine(path: str, seconds: float) -> bool:
    """Wait until an engine (shared Spark process) accepts connections, or has ended.

    The JVM of a killed engine may still commit for a moment, so its end is awaited too.

    Args:
        path: The path of the engine's folder.
        seconds: The longest wait.

    Returns:
        True if the engine accepts connections or has ended; False if neither happened in time.
    """
    folder = EngineFolder(Path(path))
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            folder.connect(1).close()
            return True
        try:
            lock = folder.lock()
        except OSError:  # the folder is gone, and so is the engine
            return True
        if lock is not None:
            os.close(lock)
            return True
        if time.monotonic() > end:
            return False
        time.sleep(_PAUSE_SECONDS)


def send_message(
    connection: socket.socket, message: dict[str, Any], files: Sequence[int] = ()
) -> None:
    """Send a message between a run and a shared Spark process (engine), as a line of JSON.

    ``files`` are open file descriptors that are passed to the receiver.
    """
    data = json.dumps(message).encode() + b"\n"
    if not files:
        connection.sendall(data)
        return
    sent = socket.send_fds(connection, [data], files)
    if sent < len(data):  # else the receiver may have closed the connection already
        connection.sendall(data[sent:])


def receive_message(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return the next message from a run or from a shared Spark process, with its open files.

    The caller closes the files. If an error is raised, they are closed already.

    Raises:
        OSError: The connection was closed, or the message is longer than 1 MiB.
        ValueError: The message is not JSON.
    """
    files = list[int]()
    try:
        return json.loads(_receive_line(connection, files)), files
    except BaseException:  # an open file may be a lock
        for file in files:
            os.close(file)
        raise


def _receive_line(connection: socket.socket, files: list[int]) -> bytes:
    """Return the next line from a connection, and append its file descriptors to ``files``.

    Raises:
        OSError: The connection was closed, or the line is longer than 1 MiB.
    """
    data = b""
    while not data.endswith(b"\n"):
        chunk, received, _, _ = socket.recv_fds(connection, _MAX_MESSAGE_BYTES, _MAX_MESSAGE_FILES)
        files += received
        data += chunk
        if not chunk or len(data) > _MAX_MESSAGE_BYTES:
            raise ConnectionResetError("the connection was closed")
    return data


def check_peer(connection: socket.socket) -> None:
    """Check that the process at the other end of a Unix socket belongs to this user.

    Raises:
        PermissionError: The process belongs to another user.
    """
    if not hasattr(socket, "SO_PEERCRED"):  # elsewhere the mode of the folder decides
        return
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _process, user, _group = struct.unpack("3i", credentials)
    if user != os.geteuid():
        raise PermissionError(f"the process at the other end belongs to {get_user_name(user)}")


def _check_private(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise UntrustedPathError(path, f"belongs to another user ({get_user_name(status.st_uid)})")
    if status.st_mode & _ACCESS_OF_OTHERS:
        raise UntrustedPathError(path, f"has mode {stat.S_IMODE(status.st_mode):04o}, not 0700")
