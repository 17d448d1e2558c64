"""Folders as Spark sees them: what is in one, and how it is removed.

Rules of the room: where Spark is a JVM of ours its own file systems are asked, below its public
interface. A Spark that is reached through Spark Connect has no such door, so a folder of this
machine, which is the server's as well, is asked here, and any other address is refused.
What is synced outlasts a power failure, as far as the disk keeps its word.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from target_spark.errors import UnsupportedError
from target_spark.storage.uris import to_local_folder, to_spark_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "fetch_file",
    "get_last_modified",
    "is_remote_session",
    "list_folders",
    "remove_file",
    "remove_folder",
    "sync",
    "sync_table",
    "upload_file",
]


def is_remote_session(spark: SparkSession) -> bool:
    """Tell whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def list_folders(spark: SparkSession, address: str) -> list[str]:
    """Return the names of the folders in a folder, wherever Spark finds it; none if it is not.

    Raises:
        UnsupportedError: it is not on this machine, and Spark is reached through Connect.
    """
    if is_remote_session(spark):
        folder = _of_this_machine(address)
        return (
            sorted(each.name for each in folder.iterdir() if each.is_dir())
            if (folder.is_dir())
            else []
        )
    system, path = _hadoop(spark, address)
    if not system.exists(path):
        return []
    found = (each for each in system.listStatus(path) if each.isDirectory())
    return sorted(each.getPath().getName() for each in found)


def remove_folder(spark: SparkSession, address: str) -> None:
    """Remove a folder or a file and all that is in it, wherever Spark finds it.

    Raises:
        UnsupportedError: it is not on this machine, and Spark is reached through Connect.
    """
    if is_remote_session(spark):
        folder = _of_this_machine(address)
        if folder.is_dir():
            shutil.rmtree(folder)
        else:
            folder.unlink(missing_ok=True)
        return
    system, path = _hadoop(spark, address)
    system.delete(path, True)  # noqa: FBT003  (Java knows no keywords)


def remove_file(spark: SparkSession, address: str) -> None:
    """Remove a file, wherever Spark finds it; never a folder.

    Raises:
        IsADirectoryError: it is a folder.
        UnsupportedError: it is not on this machine, and Spark is reached through Connect.
    """
    if is_remote_session(spark):
        file = _of_this_machine(address)
        if file.is_dir():
            raise IsADirectoryError("it is a folder, not a file")
        file.unlink(missing_ok=True)
        return
    system, path = _hadoop(spark, address)
    if not system.exists(path):
        return
    if not system.getFileStatus(path).isFile():
        raise IsADirectoryError("it is a folder, not a file")
    system.delete(path, False)  # noqa: FBT003  (not what is in it; Java knows no keywords)


def upload_file(spark: SparkSession, path: str, address: str) -> None:
    """Put a copy of a file of this machine to an address, wherever Spark finds that."""
    if is_remote_session(spark):
        spark.copyFromLocalToFs(path, to_spark_uri(address))
        return
    system, there = _hadoop(spark, address)
    _, here = _hadoop(spark, path)
    system.copyFromLocalFile(False, True, here, there)  # noqa: FBT003  (keep it; overwrite)


def fetch_file(spark: SparkSession, address: str, path: Path) -> None:
    """Put a copy of a file, wherever a Spark of ours finds it, to a free path of this machine.

    Raises:
        IsADirectoryError: it is a folder.
    """
    context: Any = spark.sparkContext
    hadoop, conf = context._jvm.org.apache.hadoop.fs, context._jsc.hadoopConfiguration()  # noqa: SLF001
    system, there = _hadoop(spark, address)
    found = system.getFileStatus(there)
    if not found.isFile():
        raise IsADirectoryError("it is not one file, but a folder")
    here = hadoop.FileSystem.getLocal(conf).getRawFileSystem()
    target = hadoop.Path(to_spark_uri(str(path)))
    hadoop.FileUtil.copy(system, found, here, target, False, False, conf)  # noqa: FBT003  (keep it)


def get_last_modified(spark: SparkSession, address: str) -> float | None:
    """Return when a file below an address was last written (seconds since 1970), if any was."""
    system, path = _hadoop(spark, address)
    found, times = system.listFiles(path, True), list[float]()  # noqa: FBT003  (recursively)
    while found.hasNext():
        times.append(found.next().getModificationTime() / 1000)
    return max(times, default=None)


def sync(path: Path) -> None:
    """Write a file, or the names in a folder, of this machine to its disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_table(folder: Path, files: Iterable[Path], hints: Iterable[Path] = ()) -> None:
    """Write files of a table to the disk, with Hadoop's checksums of them and their names.

    ``hints`` are files that other writers may take away meanwhile.
    """
    files, folders = list(files), {folder, folder.parent}
    for file in files:
        sync(file)
        folders |= {file.parent, *(each for each in file.parents if folder in each.parents)}
    for file in (*(file.with_name(f".{file.name}.crc") for file in files), *hints):
        with suppress(FileNotFoundError):
            sync(file)
    for each in folders:
        sync(each)


def _of_this_machine(address: str) -> Path:
    folder = to_local_folder(address)
    if folder is None:
        raise UnsupportedError(
            f"Through Spark Connect (the setting remote) {address} can be neither listed nor"
            " removed: only folders that this machine has as well can. Run this with master"
            " instead of remote."
        )
    return folder


def _hadoop(spark: SparkSession, address: str) -> tuple[Any, Any]:
    """Return Hadoop's file system of an address, and its path there."""
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(to_spark_uri(address))  # noqa: SLF001
    return path.getFileSystem(context._jsc.hadoopConfiguration()), path  # noqa: SLF001
