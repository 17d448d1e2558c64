"""Check that the files that a table's metadata names are in the folder of the table.

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
    """Check that files are in a folder, also after symbolic links and ``..`` are resolved.

    Args:
        folder: The folder of a table.
        files: Paths relative to the folder, absolute paths, or URIs.
        forbidden: Regular expression of texts that no file may contain, because the library that
            opens the file resolves them in another way.

    Raises:
        TableError: A file is not in the folder.
    """
    real, is_forbidden = os.path.realpath(folder), re.compile(forbidden).search
    for file in files:
        path = to_local_folder(file) if get_scheme(file) else folder / file
        is_outside = path is None or is_forbidden(file)
        if is_outside or os.path.commonpath((real, os.path.realpath(path or ""))) != real:
            raise TableError(
                f"{folder} cannot be read without Spark, because its metadata names the file"
                f" {file!r}, which is not in this folder. If you trust the table, read it with"
                " Spark."
            )
