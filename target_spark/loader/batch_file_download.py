"""Batch files that are looked through before Spark reads them, wherever they are.

Invariant: with a Spark on this machine, what was looked through is what is read. A file at an
address is copied to the spool by Hadoop's own file systems, and the copy is read; a cluster reads
the address, and the copy goes at once. A Spark that is reached through Spark Connect lends no file
systems: files at addresses are the business of its server's memory.
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
"""Files that are copied side by side: a storage answers late, however small a file is."""


@contextmanager
def downloaded_files(
    spark: SparkSession, files: Sequence[BatchFile], folder: SpoolFolder, limits: FileLimits
) -> Iterator[list[BatchFile]]:
    """Give the files with the copies that Spark is to read; none is left afterwards.

    Raises:
        FilesError: a file is not there, broken, or holds more than the limits allow.
        DiskFullError: there is no room for the copies.
    """
    place = folder.new_path("files")
    try:
        copies = _look_through(spark, files, place, limits)
        yield [replace(file, copy=copies.get(get_file_key(file.address), "")) for file in files]
    finally:
        rmtree(place, ignore_errors=True)


def _look_through(
    spark: SparkSession, files: Sequence[BatchFile], place: Path, limits: FileLimits
) -> Mapping[str, str]:
    """Look at each file once; return the addresses of the copies that stay, by its key."""
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
    full = disk_full_context(f"rows that wait ({place.parent})", "Make room there, or set staging")
    with full, ThreadPoolExecutor(_AT_ONCE) as pool:
        for start in range(0, len(away), _AT_ONCE):
            some = away[start : start + _AT_ONCE]
            for file in pool.map(partial(_copied, spark, place), range(start, len(away)), some):
                with reading_files([file]):
                    check_size(file, limits)
                if stays:
                    copies[get_file_key(file.address)] = file.copy
                else:
                    Path(file.copy).unlink()
    return copies


def _copied(spark: SparkSession, place: Path, number: int, file: BatchFile) -> BatchFile:
    """Return a file with its copy, whose name ends as the file's: Spark tells a packing by it."""
    path = place / f"{number}{file.packing}"
    with reading_files([file]):
        try:
            fetch_file(spark, file.address, path)
        except Exception as error:
            if classify_failure(error) is not FailureKind.PASSING:
                raise
            raise RuntimeError(f"{file.shown}: {first_error_line(error)}\n{error}") from error
    return replace(file, copy=str(path))
