"""Batch files are checked before Spark reads them, and downloaded first if they are remote.

Invariant: with Spark on this machine, the file that was checked is the file that is read. Hadoop's
file systems copy a file at an address to the spool folder, and Spark reads the copy. On a cluster
the copy is deleted after the check and the executors read the address. Through Spark Connect there
is no access to Hadoop's file systems, so files at addresses are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final

from tap_core.batch.limits import FileLimits
from target_spark.frames import reading_files
from target_spark.loader.batch_files import BatchFile, check_size, get_file_key
from target_spark.spark.access_protection import is_local_master
from target_spark.storage.hadoop_fs import fetch_file, is_remote_session
from target_spark.storage.retry import (
    FailureKind,
    classify_failure,
    disk_full_context,
    first_error_line,
)
from target_spark.storage.spool import SpoolFolder
from target_spark.storage.uris import to_local_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["downloaded_files"]

_AT_ONCE: Final = 8
"""Maximum number of parallel downloads; the latency of a storage is high even for small files."""


@contextmanager
def downloaded_files(
    spark: SparkSession, files: Sequence[BatchFile], folder: SpoolFolder, limits: FileLimits
) -> Iterator[list[BatchFile]]:
    """Yield the checked files, with the paths of local copies; delete the copies at the end.

    Raises:
        FilesError: a file is missing, broken, or holds more than the limits allow.
        DiskFullError: there is no room for the copies.
    """
    place = folder.new_path("files")
    try:
        copies = _check_files(spark, files, place, limits)
        yield [replace(file, copy=copies.get(get_file_key(file.address), "")) for file in files]
    finally:
        rmtree(place, ignore_errors=True)


def _check_files(
    spark: SparkSession, files: Sequence[BatchFile], place: Path, limits: FileLimits
) -> Mapping[str, str]:
    """Check each file once; return the paths of the copies to read, by the key of the file."""
    away: list[BatchFile] = []
    for file in {get_file_key(file.address): file for file in files}.values():
        if to_local_folder(file.address) is None:
            away.append(file)
            continue
        with reading_files([file]):
            check_size(file, limits)
    if not away or is_remote_session(spark):
        return {}
    place.mkdir(mode=0o700)
    stays, copies = is_local_master(spark.sparkContext.master or ""), dict[str, str]()
    full = disk_full_context(f"rows that wait ({place.parent})", "Free space there, or set staging")
    with full, ThreadPoolExecutor(_AT_ONCE) as pool:
        for start in range(0, len(away), _AT_ONCE):
            some = away[start : start + _AT_ONCE]
            for file in pool.map(
                partial(_download_file, spark, place), range(start, len(away)), some
            ):
                with reading_files([file]):
                    check_size(file, limits)
                if stays:
                    copies[get_file_key(file.address)] = file.copy
                else:
                    Path(file.copy).unlink()
    return copies


def _download_file(spark: SparkSession, place: Path, number: int, file: BatchFile) -> BatchFile:
    """Return a file with its copy; the suffix is kept, since Spark detects compression by it."""
    path = place / f"{number}{file.packing}"
    with reading_files([file]):
        try:
            fetch_file(spark, file.address, path)
        except Exception as error:
            if classify_failure(error) is not FailureKind.PASSING:
                raise
            raise RuntimeError(f"{file.shown}: {first_error_line(error)}\n{error}") from error
    return replace(file, copy=str(path))
