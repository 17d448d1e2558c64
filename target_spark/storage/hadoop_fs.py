"""File operations on the file systems that Spark uses: list, delete, upload and sync.

With a local JVM, Hadoop's file systems are called through Spark's internal interface. Spark Connect
has no such interface: a folder that exists on this machine too is accessed directly, and any other
address is rejected. Synced files survive a power failure if the disk honors the sync.
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
    """Return True if a session is a Spark Connect session, which has no local JVM."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def list_folders(spark: SparkSession, address: str) -> list[str]:
    """Return the sorted names of the folders inside a folder, or none if it does not exist.

    Raises:
        UnsupportedError: The folder is not on this machine, and Spark is used through Connect.
    """
    if is_remote_session(spark):
        folder = _of_this_machine(address)
        return (
            sorted(each.name for each in folder.iterdir() if each.is_dir())
            if (folder.is_dir())
            else []
        )
    system, path = _get_hadoop_objects(spark, address)
    if not system.exists(path):
        return []
    folders = (each for each in system.listStatus(path) if each.isDirectory())
    return sorted(each.getPath().getName() for each in folders)


def remove_folder(spark: SparkSession, address: str) -> None:
    """Delete a folder with its content, or a file. Nothing happens if the address does not exist.

    Raises:
        UnsupportedError: The folder is not on this machine, and Spark is used through Connect.
    """
    if is_remote_session(spark):
        folder = _of_this_machine(address)
        if folder.is_dir():
            shutil.rmtree(folder)
        else:
            folder.unlink(missing_ok=True)
        return
    system, path = _get_hadoop_objects(spark, address)
    system.delete(path, True)  # noqa: FBT003  (recursively)


def remove_file(spark: SparkSession, address: str) -> None:
    """Delete a file. Nothing happens if the file does not exist.

    Raises:
        IsADirectoryError: The address is a folder, which is not deleted.
        UnsupportedError: The file is not on this machine, and Spark is used through Connect.
    """
    if is_remote_session(spark):
        file = _of_this_machine(address)
        if file.is_dir():
            raise IsADirectoryError("it is a folder, not a file")
        file.unlink(missing_ok=True)
        return
    system, path = _get_hadoop_objects(spark, address)
    if not system.exists(path):
        return
    if not system.getFileStatus(path).isFile():
        raise IsADirectoryError("it is a folder, not a file")
    system.delete(path, False)  # noqa: FBT003  (not recursively)


def upload_file(spark: SparkSession, path: str, address: str) -> None:
    """Copy a local file to a URL that Spark can write to. An existing file is replaced."""
    if is_remote_session(spark):
        spark.copyFromLocalToFs(path, to_spark_uri(address))
        return
    system, target = _get_hadoop_objects(spark, address)
    _, source = _get_hadoop_objects(spark, path)
    system.copyFromLocalFile(False, True, source, target)  # noqa: FBT003  (keep it; overwrite)


def fetch_file(spark: SparkSession, address: str, path: Path) -> None:
    """Copy a file from a URL that Spark can read to an unused path on this machine.

    Raises:
        IsADirectoryError: The address is a folder.
    """
    context: Any = spark.sparkContext
    hadoop, conf = context._jvm.org.apache.hadoop.fs, context._jsc.hadoopConfiguration()  # noqa: SLF001
    system, source = _get_hadoop_objects(spark, address)
    status = system.getFileStatus(source)
    if not status.isFile():
        raise IsADirectoryError("it is not one file, but a folder")
    local_system = hadoop.FileSystem.getLocal(conf).getRawFileSystem()
    target = hadoop.Path(to_spark_uri(str(path)))
    hadoop.FileUtil.copy(system, status, local_system, target, False, False, conf)  # noqa: FBT003  (keep it)


def get_last_modified(spark: SparkSession, address: str) -> float | None:
    """Return the latest modification time of the files below an address, in seconds since 1970.

    Return None if no files exist below the address.
    """
    system, path = _get_hadoop_objects(spark, address)
    files, times = system.listFiles(path, True), list[float]()  # noqa: FBT003  (recursively)
    while files.hasNext():
        times.append(files.next().getModificationTime() / 1000)
    return max(times, default=None)


def sync(path: Path) -> None:
    """Flush a local file's content, or a local folder's list of entries, to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_table(folder: Path, files: Iterable[Path], hints: Iterable[Path] = ()) -> None:
    """Flush files of a local table to the disk, together with their folders.

    Hadoop's checksum files (``.crc``) of the files are flushed as well.

    Args:
        folder: The table's folder.
        files: The files to flush.
        hints: Further files to flush. Missing ones are ignored, because other writers may delete
            them.
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
            " removed: only folders that also exist on this machine can. Set master instead of"
            " remote."
        )
    return folder


def _get_hadoop_objects(spark: SparkSession, address: str) -> tuple[Any, Any]:
    """Return Hadoop's Java objects for an address: the file system and the path."""
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(to_spark_uri(address))  # noqa: SLF001
    return path.getFileSystem(context._jsc.hadoopConfiguration()), path  # noqa: SLF001
