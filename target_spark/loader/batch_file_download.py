"""Check the files that BATCH messages list, and download remote files before Spark reads them.

If Spark runs on this machine, a remote file is copied to a local temporary folder by Hadoop's file
systems. The copy is checked, and Spark reads the copy. On a cluster, the copy is deleted after the
check and the executors read the original URL. Spark Connect has no access to Hadoop's file systems,
so remote files are not checked there. The check also finds the columns that a Parquet file marks as
JSON, because Spark does not read these marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final

from tap_core.batch.limits import FileLimits
from target_spark.frames import reading_files
from target_spark.loader.batch_file_checks import (
    BatchFile,
    check_content,
    find_json_columns,
    get_file_key,
)
from target_spark.spark.access_protection import runs_on_this_machine
from target_spark.storage.commit_retry import (
    FailureKind,
    classify_failure,
    disk_full_context,
    first_error_line,
)
from target_spark.storage.hadoop_fs import fetch_file, is_remote_session
from target_spark.storage.spool import SpoolFolder
from target_spark.storage.uris import to_local_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["downloaded_files"]

_PARALLEL_DOWNLOADS: Final = 8
"""Maximum number of parallel downloads. Parallel downloads of small files are faster, because each
of them mostly waits for the response of the storage."""


@contextmanager
def downloaded_files(
    spark: SparkSession, files: Sequence[BatchFile], folder: SpoolFolder, limits: FileLimits
) -> Iterator[list[BatchFile]]:
    """Context manager that checks batch files, downloads remote ones, and yields those to read.

    In each yielded file, ``copy`` is the path of the local copy, or "" if Spark reads the URL, and
    ``json_properties`` includes the columns that the file marks as JSON. The copies are in a
    subfolder of ``folder``, and are deleted when the block ends.

    Raises:
        FilesError: A file is missing, corrupt, or exceeds the limits.
        DiskFullError: There is not enough disk space for the copies.
    """
    download_folder = folder.new_path("files")
    try:
        checked = _check_and_download(spark, files, download_folder, limits)
        yield [_merge_findings(file, checked.get(get_file_key(file.address))) for file in files]
    finally:
        rmtree(download_folder, ignore_errors=True)


def _merge_findings(file: BatchFile, checked: BatchFile | None) -> BatchFile:
    """Return a file with the copy and the JSON columns of the same file after its check.

    ``checked`` is None if the file was not checked.
    """
    if checked is None:
        return file
    return replace(
        file, copy=checked.copy, json_properties=file.json_properties | checked.json_properties
    )


def _check(file: BatchFile, limits: FileLimits) -> BatchFile:
    """Check that a file on this machine is valid; return it with only its JSON columns set.

    Raises:
        FilesError: The file is corrupt, or exceeds the limits.
    """
    with reading_files([file]):
        check_content(file, limits)
        return replace(file, json_properties=find_json_columns(file))


def _check_and_download(
    spark: SparkSession, files: Sequence[BatchFile], download_folder: Path, limits: FileLimits
) -> Mapping[str, BatchFile]:
    """Download remote files of BATCH messages, and check that all files are valid.

    Return the checked files, with the local paths of the copies that Spark is to read, and the
    columns that they mark as JSON. The keys are the results of `get_file_key` for the files'
    addresses.
    """
    remote_files: list[BatchFile] = []
    checked: dict[str, BatchFile] = {}
    for key, file in {get_file_key(file.address): file for file in files}.items():
        if to_local_folder(file.address) is None:
            remote_files.append(file)
        else:
            checked[key] = _check(file, limits)
    if not remote_files or is_remote_session(spark):
        return checked
    download_folder.mkdir(mode=0o700)
    reads_copies = runs_on_this_machine(spark.sparkContext.master or "")
    explaining_full_disk = disk_full_context(
        f"uncommitted rows ({download_folder.parent})",
        "Free space there, or set staging",
    )
    download = partial(_download_file, spark, download_folder)
    with explaining_full_disk, ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool:
        # In chunks, so that copies which are only checked do not fill the disk together.
        for start in range(0, len(remote_files), _PARALLEL_DOWNLOADS):
            chunk = remote_files[start : start + _PARALLEL_DOWNLOADS]
            for file in pool.map(download, count(start), chunk):
                checked_file = _check(file, limits)
                if not reads_copies:
                    Path(file.copy).unlink()
                    checked_file = replace(checked_file, copy="")
                checked[get_file_key(file.address)] = checked_file
    return checked


def _download_file(
    spark: SparkSession, download_folder: Path, number: int, file: BatchFile
) -> BatchFile:
    """Copy a remote batch file into a folder; return the file with ``copy`` set to the local path.

    The file name of the copy is ``number`` and the compression suffix, such as ``7.gz``. Spark
    detects the compression by this suffix.
    """
    path = download_folder / f"{number}{file.compression_suffix}"
    with reading_files([file]):
        try:
            fetch_file(spark, file.address, path)
        except Exception as error:
            if classify_failure(error) is not FailureKind.TRANSIENT:
                raise
            raise RuntimeError(
                f"{file.redacted_address}: {first_error_line(error)}\n{error}"
            ) from error
    return replace(file, copy=str(path))
