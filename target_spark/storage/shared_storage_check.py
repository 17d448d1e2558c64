"""Test that all executors of a Spark cluster can read and write the shared folders of a load.

An executor that does not have the shared folder would create a folder on its local disk, and its
rows would be lost. So at the start of a run this process writes test files into the shared folder,
Spark tasks read them and write copies, and this process reads the copies. A task ignores a missing
file, because Spark would retry a failed task on another executor and hide the failure.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final

from target_spark.errors import TableError
from target_spark.storage.commit_retry import first_error_line
from target_spark.storage.uris import to_spark_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_shared"]

_FOLDER_PREFIX: Final = "_target-spark-probe-"
_TEST_FILES: Final = 16
_ROUNDS: Final = 3
_OLD_SECONDS: Final = 3600
_CONTENT_AND_READER: Final = (
    "concat_ws(' ', value, try_reflect('java.net.InetAddress', 'getLocalHost'),"
    " try_reflect('java.lang.ProcessHandle', 'current')) AS value"
)
"""SQL expression for the content of a test file, followed by the host and process that read the
file."""


def check_shared(
    spark: SparkSession,
    folders: Mapping[str, str],
    executors: Callable[[], int] = int,
    tasks: int = _TEST_FILES,
) -> None:
    """Test that Spark's executors can read and write the same folders as this process.

    Args:
        spark: A Spark session that no other code uses, because one of its settings is changed.
        folders: The folders to test, by the name of the config setting that contains the path.
        executors: A function that returns the current number of executors. The test is repeated up
            to three times, until it has run on this number of executors. The default, ``int``,
            returns 0, so that the test runs once.
        tasks: The number of test files. Each file is read by one Spark task.

    Raises:
        TableError: An executor cannot use a folder.
    """
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1")  # one task per file
    for setting, folder in folders.items():
        with _errors_naming_setting(setting, folder):
            _check(spark, Path(folder), executors, tasks)


class _NotSharedError(Exception):
    """Error for a folder that an executor does not share with this process."""


def _check(spark: SparkSession, folder: Path, executors: Callable[[], int], tasks: int) -> None:
    executors_seen: set[str] = set()
    with _temporary_folder(folder):
        _remove_leftovers(folder)
        for _ in range(_ROUNDS):
            executors_seen |= _run_test_tasks(spark, folder, tasks)
            if len(executors_seen) >= executors():
                return


def _run_test_tasks(spark: SparkSession, folder: Path, tasks: int) -> set[str]:
    """Run Spark tasks that copy test files inside a folder.

    Return the names (host and process) of the executors that ran the tasks.

    Raises:
        _NotSharedError: An executor did not see a test file, or this process does not see a copy.
    """
    probe = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=folder))
    try:
        input_folder, output_folder = probe / "given", probe / "back"
        input_folder.mkdir()
        names = {f"{number:05}" for number in range(tasks)}
        for name in names:
            (input_folder / name).write_text(name, encoding="utf-8")
        read = spark.read.option("ignoreMissingFiles", "true")
        lines_read = read.text(to_spark_uri(str(input_folder)), wholetext=True).selectExpr(
            _CONTENT_AND_READER
        )
        lines_read.write.text(to_spark_uri(str(output_folder)))
        lines = [file.read_text(encoding="utf-8").strip() for file in output_folder.glob("part-*")]
    finally:
        rmtree(probe, ignore_errors=True)
    answers = dict(line.partition(" ")[::2] for line in lines)
    if missing := names - answers.keys():
        raise _NotSharedError(
            f"of {len(names)} files that were written there, {len(missing)} were not seen by the"
            " executors, or the executors' files were not seen here"
        )
    return set(answers.values())


def _remove_leftovers(folder: Path) -> None:
    """Delete test folders older than one hour, which a killed run has left in a shared folder."""
    for leftover in folder.glob(f"{_FOLDER_PREFIX}*"):
        with suppress(OSError):
            if leftover.stat().st_mtime < time.time() - _OLD_SECONDS:
                rmtree(leftover)


@contextmanager
def _temporary_folder(folder: Path) -> Iterator[None]:
    """Context manager: create a folder, and its parents, for the duration of the block.

    Folders that exist already are kept. Created folders that are not empty at the end are kept too.
    """
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for path in new_folders:
            with suppress(OSError):  # a run has written something there meanwhile
                path.rmdir()


@contextmanager
def _errors_naming_setting(setting: str, folder: str) -> Iterator[None]:
    """Context manager: convert any error to a TableError that names the setting and the folder."""
    try:
        yield
    except Exception as error:
        raise TableError(
            f"{setting}: Spark's executors cannot use {folder}: {first_error_line(error)}. On a"
            " cluster it must be a folder that every worker has under the same path (a shared file"
            " system), and the executors must run as this user, or as one that may read and write"
            " this user's files; an address that all of them reach (s3a://bucket/folder) needs"
            " neither. No row was written."
        ) from error
