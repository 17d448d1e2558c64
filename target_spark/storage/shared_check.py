"""Test at the start of a run that all executors of a cluster can use the shared folders.

An executor without the folder would create one on its local disk, and its rows would be lost. So
the test writes files into a private folder there; tasks read each file and write it back, and the
result is read here. A task that does not see its file returns nothing instead of failing, since
Spark would retry the task on another executor and hide the failure. The executors need only Spark.
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
from target_spark.storage.retry import first_error_line
from target_spark.storage.uris import to_spark_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_shared"]

_PREFIX: Final = "_target-spark-probe-"
_FILES: Final = 16
_ROUNDS: Final = 3
_OLD_SECONDS: Final = 3600
_WHO: Final = (
    "concat_ws(' ', value, try_reflect('java.net.InetAddress', 'getLocalHost'),"
    " try_reflect('java.lang.ProcessHandle', 'current')) AS value"
)
"""SQL of the text that was read, followed by the reader's host and process."""


def check_shared(
    spark: SparkSession,
    folders: Mapping[str, str],
    executors: Callable[[], int] = int,
    tasks: int = _FILES,
) -> None:
    """Test that Spark's executors can read and write folders of this machine.

    Args:
        spark: A Spark session whose settings no other code uses.
        folders: The folders to test, by the name of the setting that names the folder.
        executors: Function that returns the current number of executors. The test is run up to
            three times, until this number of executors has taken part.
        tasks: The number of test files, each of which one Spark task reads.

    Raises:
        TableError: An executor cannot use a folder.
    """
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1")  # one task per file
    for setting, folder in folders.items():
        with _errors_naming_setting(setting, folder):
            _check(spark, Path(folder), executors, tasks)


class _NotSharedError(Exception):
    """Raised if this machine and an executor do not see each other's files in a folder."""


def _check(spark: SparkSession, folder: Path, executors: Callable[[], int], tasks: int) -> None:
    executors_seen: set[str] = set()
    with _temporary_folder(folder):
        _remove_leftovers(folder)
        for _ in range(_ROUNDS):
            executors_seen |= _run_test_tasks(spark, folder, tasks)
            if len(executors_seen) >= executors():
                return


def _run_test_tasks(spark: SparkSession, folder: Path, tasks: int) -> set[str]:
    """Let Spark tasks read test files and write them back; return the names of the executors.

    Raises:
        _NotSharedError: An executor did not see a file, or the file that it wrote is not visible
            here.
    """
    probe = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
    try:
        input_folder, output_folder = probe / "given", probe / "back"
        input_folder.mkdir()
        names = {f"{number:05}" for number in range(tasks)}
        for name in names:
            (input_folder / name).write_text(name, encoding="utf-8")
        read = spark.read.option("ignoreMissingFiles", "true")
        lines_read = read.text(to_spark_uri(str(input_folder)), wholetext=True).selectExpr(_WHO)
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
    """Delete the test folders of runs that were killed during their test."""
    for leftover in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if leftover.stat().st_mtime < time.time() - _OLD_SECONDS:
                rmtree(leftover)


@contextmanager
def _temporary_folder(folder: Path) -> Iterator[None]:
    """Context manager: create a folder if it does not exist, with its missing parents.

    When the block ends, the created folders are deleted, unless they have content.
    """
    new_folders = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for each in new_folders:
            with suppress(OSError):  # a run has written something there meanwhile
                each.rmdir()


@contextmanager
def _errors_naming_setting(setting: str, folder: str) -> Iterator[None]:
    """Context manager: convert any failure to a TableError that names a setting and its folder."""
    try:
        yield
    except (OSError, _NotSharedError) as error:
        raise _not_shared_error(setting, folder, str(error)) from error
    except Exception as error:
        raise _not_shared_error(setting, folder, first_error_line(error)) from error


def _not_shared_error(setting: str, folder: str, why: str) -> TableError:
    return TableError(
        f"{setting}: Spark's executors cannot use {folder}: {why}. On a cluster it must be a"
        " folder that every worker has under the same path (a shared file system), and the"
        " executors must run as this user, or as one that may read and write this user's"
        " files; an address that all of them reach (s3a://bucket/folder) needs neither. No row"
        " was written."
    )
