"""Checks that no other user of the machine controls a file or folder.

A path is trusted if the current user or root owns it and no other user may write to it. A file is
opened without following symbolic links, and then checked through its descriptor. So no other user
can replace the file between check and use.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import stat
from collections.abc import Collection
from pathlib import Path

from tap_core.types import StrPath

__all__ = [
    "UntrustedPathError",
    "check_folder",
    "check_parents",
    "find_owner_fault",
    "find_trust_fault",
    "find_write_fault",
    "get_user_name",
    "make_parents",
    "make_private_folder",
    "open_regular",
    "replace_file",
]

_ROOT = 0
# Without O_NONBLOCK, opening a FIFO waits for a process at its other end.
_SAFE_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class UntrustedPathError(PermissionError):
    """Raised if a path is not safe to use.

    Another user controls the path, or it is not the required regular file or folder.
    """

    def __init__(self, path: StrPath, fault: str) -> None:
        """Create the error; ``fault`` completes the message, such as "is a symbolic link"."""
        super().__init__(f"{os.fspath(path)} {fault}")
        self.path = os.fspath(path)
        self.fault = fault


def open_regular(
    path: StrPath, flags: int, mode: int = 0o600, *, dir_fd: int | None = None
) -> tuple[int, os.stat_result]:
    """Open a regular file, without following a symbolic link; return its descriptor and status.

    The arguments are those of `os.open`, and the status is that of `os.fstat`.

    Raises:
        UntrustedPathError: The path is a symbolic link, a FIFO, a device or a folder.
        OSError: The file cannot be opened.
    """
    try:
        file = os.open(path, flags | _SAFE_FLAGS, mode, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EMLINK}:  # FreeBSD reports EMLINK
            raise UntrustedPathError(path, "is a symbolic link") from None
        if error.errno in {errno.EISDIR, errno.ENXIO}:
            raise UntrustedPathError(path, "is not a regular file") from None
        raise
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        os.close(file)
        raise UntrustedPathError(path, "is not a regular file")
    return file, status


def find_trust_fault(status: os.stat_result, owners: Collection[int] = ()) -> str:
    """Return the reason why a file or folder must not be trusted, or "" if it may be trusted.

    ``owners`` are ids of users that are trusted in addition to the current user and root.
    """
    return find_owner_fault(status, owners) or find_write_fault(status)


def find_owner_fault(status: os.stat_result, owners: Collection[int] = ()) -> str:
    """Return "belongs to another user …" if the owner of a file or folder is not trusted, else "".

    ``owners`` are ids of users that are trusted in addition to the current user and root.
    """
    if status.st_uid in {_ROOT, os.geteuid(), *owners}:
        return ""
    return f"belongs to another user ({get_user_name(status.st_uid)})"


def find_write_fault(status: os.stat_result) -> str:
    """Return "may be written by …" if other users may write to a file or folder, else ""."""
    if status.st_mode & stat.S_IWOTH:
        return "may be written by every user"
    return "may be written by its group" if status.st_mode & stat.S_IWGRP else ""


def get_user_name(uid: int) -> str:
    """Return the name of the user with the id ``uid``, or ``user id <uid>`` if it is unknown."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user id {uid}"


def check_folder(path: StrPath) -> None:
    """Check that a path is a folder, and that only trusted users own it and may write to it.

    Raises:
        UntrustedPathError: The path is not a folder, or another user owns it or may write to it.
        OSError: The folder does not exist or cannot be reached.
    """
    status = Path(path).stat()
    fault = find_trust_fault(status) if stat.S_ISDIR(status.st_mode) else "is not a folder"
    if fault:
        raise UntrustedPathError(path, fault)


def check_parents(path: StrPath) -> None:
    """Check that no other user can replace a path by changing a folder above it.

    If the path contains symbolic links, the folders above the real path are checked too.

    Raises:
        UntrustedPathError: Another user can change a folder above the path.
        OSError: A folder does not exist or cannot be reached.
    """
    written, real = Path(path).absolute(), Path(os.path.realpath(path, strict=True))
    for folder in dict.fromkeys((*written.parents, *real.parents)):
        status = folder.stat()
        sticky = bool(status.st_mode & stat.S_ISVTX)
        fault = find_owner_fault(status) or ("" if sticky else _find_parent_write_fault(status))
        if fault:
            raise UntrustedPathError(folder, fault)


def _find_parent_write_fault(status: os.stat_result) -> str:
    """Return "may be written by …", for an error message, if other users may write to a folder.

    Return "" otherwise. A group whose only member is the current user may write to the folder.
    """
    fault = find_write_fault(status)
    if fault and not status.st_mode & stat.S_IWOTH and _is_own_group(status.st_gid):
        return ""
    return fault


def _is_own_group(gid: int) -> bool:
    """Return True if the group ``gid`` is the user's own: same name, and no other members."""
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    name = get_user_name(os.geteuid())
    return group.gr_name == name and set(group.gr_mem) <= {name}


def make_private_folder(path: StrPath) -> Path:
    """Create a folder that only the current user may enter; return its path.

    The parents are created too. If the folder exists, check that only the current user controls it.

    Raises:
        UntrustedPathError: The folder exists, and another user owns it or may write to it.
        OSError: The folder cannot be created.
    """
    folder = Path(path)
    make_parents(folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    check_folder(folder)
    return folder


def make_parents(path: StrPath) -> None:
    """Create the missing folders above a path; only the current user may write to them.

    Raises:
        OSError: A folder cannot be created.
    """
    for folder in reversed(Path(path).absolute().parents):
        if not folder.is_dir():  # with parents=True, the umask alone would decide on the mode
            folder.mkdir(mode=0o755, exist_ok=True)


def replace_file(
    path: StrPath, text: str, mode: int = 0o600, owner: os.stat_result | None = None
) -> None:
    """Write text to a file atomically: write a temporary file, flush it to disk and rename it.

    The file is UTF-8 and gets the permissions ``mode``. It also gets the owner in the status
    ``owner``, if that is given and this process may change it. Owner and permissions are set
    through the file's descriptor, because another user who may write to the folder can replace the
    temporary file by a link. If ``path`` is a symbolic link, the link is replaced.

    Raises:
        OSError: The file cannot be written, or there is a device or a pipe, such as ``/dev/null``,
            which root would replace.
    """
    import tempfile  # slow to import

    final = Path(path)
    if _is_special(final):
        raise OSError(errno.EINVAL, "it is not a regular file", str(final))
    handle, name = tempfile.mkstemp(prefix=f".{final.name}.", dir=final.parent)
    partial = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
            if owner is not None:
                with contextlib.suppress(OSError):  # only root may change a file's owner
                    os.fchown(handle, owner.st_uid, owner.st_gid)
            os.fchmod(handle, mode)
        partial.replace(final)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _flush_folder(final.parent)


def _is_special(path: Path) -> bool:
    """Return True if a path is a device, pipe or socket, or a link to an open file of a process."""
    if path.is_symlink() and path.readlink().is_relative_to("/proc"):  # such as /dev/stderr
        return True
    return path.exists() and not (path.is_file() or path.is_dir())


def _flush_folder(folder: Path) -> None:
    """Flush a directory to disk, so that a rename in it survives a crash; ignore errors."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
