"""Secure opening of job lock files, so that no other user can block a job or redirect a write.

The group of the warehouse folder may use the lock files in the warehouse if it may write to the
folder. Otherwise only the current user, the folder's owner and root may use them. Lock files of
warehouses on other machines are in the user's cache folder and are not shared.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tap_core.io.private_files import (
    UntrustedPathError,
    check_parents,
    find_owner_fault,
    make_parents,
    open_regular,
)

__all__ = ["open_lock_file"]

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Sharing(NamedTuple):
    """The owner and the group that may use a job's lock file, besides the current user and root.

    Attributes:
        owner: The id of the user who owns the warehouse folder.
        group: The group id of the warehouse folder; None if the group may not write to the folder.
    """

    owner: int
    group: int | None

    def find_fault(self, status: os.stat_result) -> str:
        """Return the reason not to trust a lock file with this status, or "" if it is safe.

        The reason is a phrase for an error message, such as "belongs to another user".
        """
        if status.st_gid == self.group:
            return ""
        return find_owner_fault(status, {self.owner})

    def tighten(self, file: int, status: os.stat_result, mode: int) -> None:
        """Set an open lock file's permissions to ``mode``, and its group to the warehouse folder's.

        ``status`` is the file's present status. The group is set only if it may use the lock. A
        file of another user is not changed, and errors are ignored.
        """
        if status.st_uid != os.geteuid():
            return
        with suppress(OSError):  # a user outside the group; a file system without modes
            if self.group is not None and status.st_gid != self.group:
                os.fchown(file, -1, self.group)
            if stat.S_IMODE(status.st_mode) != mode:
                os.fchmod(file, mode)


def open_lock_file(path: Path, flags: int, *, in_warehouse: bool) -> int:
    """Open a job's lock file and return its file descriptor.

    If ``flags`` contains ``O_CREAT``, a missing file and its missing folders are created.

    Args:
        path: The path of the lock file.
        flags: The flags for `os.open`, such as ``os.O_RDWR | os.O_CREAT``.
        in_warehouse: True if the permissions of the warehouse folder decide which users share the
            lock; False if only the current user may use it.

    Raises:
        UntrustedPathError: A user who may not use the lock could change the file or its folder, or
            the path is a link.
        OSError: The file does not exist or cannot be opened.
    """
    folder, warehouse = path.parent, path.parent.parent
    may_create = bool(flags & os.O_CREAT)
    if may_create and in_warehouse:
        warehouse.mkdir(parents=True, exist_ok=True)
    elif may_create:
        make_parents(folder)
    sharing = _get_sharing(warehouse) if in_warehouse else _Sharing(os.geteuid(), None)
    if may_create:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    if not in_warehouse:
        check_parents(folder)
    handle = _open_folder(folder, sharing, tighten=may_create)
    try:
        return _open_file(path, flags, handle, sharing)
    finally:
        os.close(handle)


def _get_sharing(warehouse: Path) -> _Sharing:
    status = warehouse.stat()
    is_of_group = status.st_mode & stat.S_IWGRP and not status.st_mode & stat.S_IWOTH
    return _Sharing(status.st_uid, status.st_gid if is_of_group else None)


def _open_folder(folder: Path, sharing: _Sharing, *, tighten: bool) -> int:
    try:
        handle = os.open(folder, _FOLDER_FLAGS)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise UntrustedPathError(folder, "is a link or a file instead of a folder") from None
        raise
    status = os.fstat(handle)
    if fault := sharing.find_fault(status):
        os.close(handle)
        raise UntrustedPathError(folder, fault)
    if tighten:
        sharing.tighten(handle, status, 0o700 if sharing.group is None else 0o2770)
    return handle


def _open_file(path: Path, flags: int, folder: int, sharing: _Sharing) -> int:
    mode = 0o600 if sharing.group is None else 0o660
    try:
        file, status = open_regular(path.name, flags, mode, dir_fd=folder)
    except UntrustedPathError as error:
        raise UntrustedPathError(path, error.fault) from None
    except OSError as error:
        error.filename = str(path)
        raise
    fault = sharing.find_fault(status)
    if status.st_nlink > 1:
        fault = "has a second name, so that a write could change another file"
    if fault:
        os.close(file)
        raise UntrustedPathError(path, fault)
    if flags & os.O_RDWR:
        sharing.tighten(file, status, mode)
    return file
