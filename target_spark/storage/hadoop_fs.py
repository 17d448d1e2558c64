"""File operations on the file systems that Spark uses: list, delete, upload, fetch and fsync.

With a local JVM, Hadoop's file systems are called through py4j. Spark Connect has no JVM to call:
local paths are accessed with Python, and URLs of other file systems are rejected.
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
    "flush_table",
    "flush_to_disk",
    "get_last_modified",
    "is_remote_session",
    "list_folders",
    "remove_file",
    "remove_folder",
    "upload_file",
]


def is_remote_session(spark: SparkSession) -> bool:
    """Return True for a Spark Connect session, which has no local JVM, else False."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def list_folders(spark: SparkSession, address: str) -> list[str]:
    """Return the sorted names of the subfolders of a folder; an empty list if it does not exist.

    Args:
        spark: The session.
        address: The path or URL of the folder.

    Raises:
        UnsupportedError: The session is a Spark Connect session and the folder is not local.
    """
    if is_remote_session(spark):
        folder = _require_local_path(address)
        if not folder.is_dir():
            return []
        return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    system, path = _get_hadoop_objects(spark, address)
    if not system.exists(path):
        return []
    folders = (status for status in system.listStatus(path) if status.isDirectory())
    return sorted(status.getPath().getName() for status in folders)


def remove_folder(spark: SparkSession, address: str) -> None:
    """Delete the folder or file at a path or URL, if it exists. A folder is deleted recursively.

    Raises:
        UnsupportedError: The session is a Spark Connect session and the folder is not local.
    """
    if is_remote_session(spark):
        folder = _require_local_path(address)
        if folder.is_dir():
            shutil.rmtree(folder)
        else:
            folder.unlink(missing_ok=True)
        return
    system, path = _get_hadoop_objects(spark, address)
    system.delete(path, True)  # noqa: FBT003  (recursively)


def remove_file(spark: SparkSession, address: str) -> None:
    """Delete the file at a path or URL, if it exists.

    Raises:
        IsADirectoryError: The address is a folder; the folder is not deleted.
        UnsupportedError: The session is a Spark Connect session and the file is not local.
    """
    if is_remote_session(spark):
        file = _require_local_path(address)
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
    """Copy the local file ``path`` to the URL ``address``. An existing file there is replaced."""
    if is_remote_session(spark):
        spark.copyFromLocalToFs(path, to_spark_uri(address))
        return
    system, target = _get_hadoop_objects(spark, address)
    _, source = _get_hadoop_objects(spark, path)
    system.copyFromLocalFile(False, True, source, target)  # noqa: FBT003  (keep it; overwrite)


def fetch_file(spark: SparkSession, address: str, path: Path) -> None:
    """Copy the file at the URL ``address`` to the local path ``path``, which must not exist yet.

    Raises:
        IsADirectoryError: The address is a folder.
        UnsupportedError: The session is a Spark Connect session and the file is not local.
    """
    if is_remote_session(spark):
        shutil.copyfile(_require_local_path(address), path)
        return
    context: Any = spark.sparkContext
    hadoop, conf = context._jvm.org.apache.hadoop.fs, context._jsc.hadoopConfiguration()  # noqa: SLF001
    system, source = _get_hadoop_objects(spark, address)
    status = system.getFileStatus(source)
    if not status.isFile():
        raise IsADirectoryError("it is a folder, not a file")
    local_system = hadoop.FileSystem.getLocal(conf).getRawFileSystem()
    target = hadoop.Path(to_spark_uri(str(path)))
    hadoop.FileUtil.copy(system, status, local_system, target, False, False, conf)  # noqa: FBT003  (keep it)


def get_last_modified(spark: SparkSession, address: str) -> float | None:
    """Return the latest modification time of all files below a path or URL, in seconds since 1970.

    Return None if there are no files.

    Raises:
        UnsupportedError: The session is a Spark Connect session and the folder is not local.
    """
    if is_remote_session(spark):
        folder = _require_local_path(address)
        files = (file for file in (folder, *folder.rglob("*")) if file.is_file())
        return max((file.stat().st_mtime for file in files), default=None)
    system, path = _get_hadoop_objects(spark, address)
    statuses = system.listFiles(path, True)  # noqa: FBT003  (recursively)
    times: list[float] = []
    while statuses.hasNext():
        times.append(statuses.next().getModificationTime() / 1000)
    return max(times, default=None)


def flush_to_disk(path: Path) -> None:
    """Flush a local file's content, or a local folder's list of entries, to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_table(folder: Path, files: Iterable[Path], hints: Iterable[Path] = ()) -> None:
    """Flush files of a local table and the folders that contain them to the disk (fsync).

    Hadoop's checksum file (``.crc``) of each file is flushed too.

    Args:
        folder: The table's folder.
        files: The files to flush.
        hints: Further files to flush, such as Iceberg's ``version-hint.text``. A missing file is
            ignored, because another writer may have deleted it.
    """
    files, folders = list(files), {folder, folder.parent}
    for file in files:
        flush_to_disk(file)
        folders |= {file.parent, *(path for path in file.parents if folder in path.parents)}
    for file in (*(file.with_name(f".{file.name}.crc") for file in files), *hints):
        with suppress(FileNotFoundError):
            flush_to_disk(file)
    for path in folders:
        flush_to_disk(path)


def _require_local_path(address: str) -> Path:
    folder = to_local_folder(address)
    if folder is None:
        raise UnsupportedError(
            f"Through Spark Connect (the setting remote) {address} can be neither read nor removed:"
            " only files and folders that also exist on this machine can. Set master instead of"
            " remote."
        )
    return folder


def _get_hadoop_objects(spark: SparkSession, address: str) -> tuple[Any, Any]:
    """Return Hadoop's Java objects for a path or URL: a tuple of the FileSystem and the Path."""
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(to_spark_uri(address))  # noqa: SLF001
    return path.getFileSystem(context._jsc.hadoopConfiguration()), path  # noqa: SLF001
