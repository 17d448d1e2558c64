"""Check that the metadata of a table names only files in the folder of the table.

Tables may come from other people. Their metadata must not lead a reader to other files or to URLs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from target_spark.errors import TableError
from target_spark.storage.uris import get_scheme, to_local_folder

__all__ = ["check_locations"]


def check_locations(folder: Path, files: Iterable[str], forbidden: str = r"\0") -> None:
    """Check that files are in a table's folder, after resolving symbolic links and ``..``.

    Missing files and folders are accepted. A pipe, a device or a socket is an error, because a
    read of it may never end.

    Args:
        folder: The folder of a table.
        files: Paths relative to the folder, absolute paths, or URIs.
        forbidden: Regular expression for text that no path may contain, because the library that
            opens the file would interpret the path differently.

    Raises:
        TableError: A file is not in the folder, or is not a regular file.
    """
    real, is_forbidden = os.path.realpath(folder), re.compile(forbidden).search
    for file in files:
        path = to_local_folder(file) if get_scheme(file) else folder / file
        real_path = os.path.realpath(path or "")
        is_outside = path is None or is_forbidden(file)
        if is_outside or os.path.commonpath((real, real_path)) != real:
            raise _make_error(folder, file, "in this folder")
        real_file = Path(real_path)
        if real_file.exists() and not (real_file.is_file() or real_file.is_dir()):
            raise _make_error(folder, file, "a regular file")


def _make_error(folder: Path, file: str, expected: str) -> TableError:
    return TableError(
        f"{folder} cannot be read without Spark, because its metadata names the file {file!r},"
        f" which is not {expected}. If you trust the table, read it with Spark."
    )
