"""Folders that every executor of a cluster must see, tried before a row is put there.

Rules of the room: an executor without the folder would make one of that name on a disk of
its own, and rows would be lost in it. So it is tried for real: files are put into a private
folder there, each is read by a task and written back beside them, and that is read here. A
task that does not see its file says nothing instead of failing, or Spark would hide its
failure behind another executor's success. Nothing but Spark is needed on the executors.
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
"""What was read, and where: the host and the process."""


def check_shared(
    spark: SparkSession,
    folders: Mapping[str, str],
    executors: Callable[[], int] = int,
    tasks: int = _FILES,
) -> None:
    """Let executors read and write in folders of this machine, by the setting of each.

    ``spark`` is a session whose settings nobody else uses. ``executors`` says how many there
    are now, of which each is asked if it comes to a task in time; ``tasks`` is how many of
    these each of them should find.

    Raises:
        TableError: a folder cannot be used by one of them.
    """
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1")  # a task for each file
    for setting, folder in folders.items():
        with _named(setting, folder):
            _check(spark, Path(folder), executors, tasks)


class _NotSharedError(Exception):
    """Executors do not see what is put into a folder."""


def _check(spark: SparkSession, folder: Path, executors: Callable[[], int], tasks: int) -> None:
    asked: set[str] = set()
    with _made(folder):
        _remove_leftovers(folder)
        for _ in range(_ROUNDS):
            asked |= _answers(spark, folder, tasks)
            if len(asked) >= executors():
                return


def _answers(spark: SparkSession, folder: Path, tasks: int) -> set[str]:
    """Return which executors read a file here, and wrote it back."""
    probe = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
    try:
        given, back = probe / "given", probe / "back"
        given.mkdir()
        names = {f"{number:05}" for number in range(tasks)}
        for name in names:
            (given / name).write_text(name, encoding="utf-8")
        read = spark.read.option("ignoreMissingFiles", "true")
        seen = read.text(to_spark_uri(str(given)), wholetext=True).selectExpr(_WHO)
        seen.write.text(to_spark_uri(str(back)))
        lines = [file.read_text(encoding="utf-8").strip() for file in back.glob("part-*")]
    finally:
        rmtree(probe, ignore_errors=True)
    answers = dict(line.partition(" ")[::2] for line in lines)
    if missing := names - answers.keys():
        raise _NotSharedError(
            f"of {len(names)} files that were put there, {len(missing)} were not seen by the"
            " executors that looked for them, or what they wrote was not seen here"
        )
    return set(answers.values())


def _remove_leftovers(folder: Path) -> None:
    """Remove what a run left that died at it."""
    for left in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if left.stat().st_mtime < time.time() - _OLD_SECONDS:
                rmtree(left)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Let there be a folder; what had to be made for it goes again where it stayed empty."""
    fresh = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for each in fresh:
            with suppress(OSError):  # a run has put something there meanwhile
                each.rmdir()


@contextmanager
def _named(setting: str, folder: str) -> Iterator[None]:
    """Say of which setting's folder a failure is."""
    try:
        yield
    except (OSError, _NotSharedError) as error:
        raise _not_shared(setting, folder, str(error)) from error
    except Exception as error:
        raise _not_shared(setting, folder, first_error_line(error)) from error


def _not_shared(setting: str, folder: str, why: str) -> TableError:
    return TableError(
        f"{setting}: Spark's executors cannot use {folder}: {why}. On a cluster it must be a"
        " folder that every worker has under the same path (a shared file system), and the"
        " executors must run as this user, or as one that may read and write what this user"
        " makes; an address that all of them reach (s3a://bucket/folder) needs neither. No row"
        " was written."
    )
