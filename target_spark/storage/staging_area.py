"""Location of a run's temporary files for Spark: a local folder, or a remote staging URL.

- Uncommitted rows are always written to local files first. If the setting ``staging`` is a remote
  URL, the files are uploaded when the commit begins, and the copies are deleted when it succeeds or
  fails. Otherwise Spark reads the local files.
- At a remote URL each run has a separate folder inside the folder of its job. The next run of the
  job deletes folders of killed runs: at once for runs on this machine, whose end the job lock
  proves, otherwise after a day without writes. If a folder is deleted too early, the commit of that
  run fails, because a missing file raises an error.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final

from target_spark.config.options import RunInfo
from target_spark.storage.commit_retry import first_error_line
from target_spark.storage.hadoop_fs import (
    get_last_modified,
    list_folders,
    remove_folder,
    upload_file,
)
from target_spark.storage.spool import SpoolFolder
from target_spark.storage.uris import to_local_folder, to_spark_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["STALE_AFTER_SECONDS", "StagingArea", "run_folder", "staged_for_spark"]

logger = logging.getLogger(__name__)

STALE_AFTER_SECONDS: Final = 24 * 60 * 60.0
"""Seconds without a write after which files of another machine's run are deleted."""

_FOLDER: Final = "target-spark"
_LONGEST_JOB: Final = 40


def run_folder(staging: str, run: RunInfo) -> str:
    """Return the URL of the folder for a run's temporary files.

    ``staging`` is the remote URL in the setting ``staging``. Below it, each job has a folder with a
    subfolder for each run.
    """
    job = re.sub(r"[^A-Za-z0-9-]", "-", run.job)[:_LONGEST_JOB]
    job += "-" + hashlib.sha256(run.job.encode()).hexdigest()[:12]
    return f"{staging.rstrip('/')}/{_FOLDER}/{job}/{_get_machine_prefix()}{run.id}"


class StagingArea:
    """Storage for one run's temporary files: a local folder and, if configured, a remote URL.

    The class is thread-safe.

    Args:
        folder: The local folder that keeps rows on disk until their commit.
        staging: The setting ``staging``: a local folder, a remote URL, or None.
        run: The identity of the run.
        is_exclusive: True if the run holds the lock of its job. Remote folders of earlier runs of
            the job on this machine may then be deleted. False if other runs may be active.
    """

    def __init__(
        self, folder: SpoolFolder, staging: str | None, run: RunInfo, *, is_exclusive: bool = True
    ) -> None:
        self._folder = folder
        self._is_exclusive = is_exclusive
        self._cleaning_lock = threading.Lock()
        self._is_cleaned = False
        self._undeleted: set[str] = set()
        self._address: str | None = None
        if staging and to_local_folder(staging) is None:
            self._address = run_folder(staging, run)

    @property
    def is_remote(self) -> bool:
        """True if files must be uploaded to a remote URL before Spark can read them."""
        return self._address is not None

    @property
    def location(self) -> str:
        """The URL or local path of the folder with the run's temporary files, for messages."""
        return self._address or str(self._folder.path)

    def new_address(self, name: str) -> str:
        """Return an unused URL for temporary files. Its last component starts with ``name``.

        No file is created.
        """
        if self._address is None:
            return to_spark_uri(str(self._folder.new_path(name)))
        return f"{self._address}/{name}-{uuid.uuid4().hex[:12]}"

    def upload(self, spark: SparkSession, paths: Iterable[str], address: str) -> list[str]:
        """Upload local files to the folder at ``address``, and return the URLs of the copies."""
        self._delete_abandoned_folders(spark)
        copies: list[str] = []
        for path in paths:
            copy = f"{address}/{Path(path).name}"
            upload_file(spark, path, copy)
            copies.append(copy)
        return copies

    def delete(self, spark: SparkSession, address: str) -> None:
        """Delete the folder at a URL that `new_address` has returned.

        If a remote folder cannot be deleted, a warning is logged, and the next call tries again.
        """
        folder = to_local_folder(address)
        if folder is not None:
            rmtree(folder, ignore_errors=True)
            return
        self._undeleted.add(address)
        try:
            for each in tuple(self._undeleted):
                remove_folder(spark, each)
                self._undeleted.discard(each)
        except Exception as error:  # noqa: BLE001  (the rows are safe, or the run fails)
            message = "Rows that are no longer needed could not be removed from %s: %s"
            logger.warning(message, address, first_error_line(error))

    def _delete_abandoned_folders(self, spark: SparkSession) -> None:
        """Delete the remote folders that killed runs of this job left. Later calls do nothing."""
        with self._cleaning_lock:
            if self._is_cleaned or self._address is None:
                return
            self._is_cleaned = True
            job_folder = self._address.rpartition("/")[0]
            try:
                for name in list_folders(spark, job_folder):
                    other = f"{job_folder}/{name}"
                    if other != self._address and self._is_abandoned(spark, other, name):
                        remove_folder(spark, other)
            except Exception as error:  # noqa: BLE001  (a later run does it)
                message = "Files of earlier runs at %s could not be removed: %s"
                logger.warning(message, job_folder, first_error_line(error))

    def _is_abandoned(self, spark: SparkSession, address: str, name: str) -> bool:
        """Return True if the run that created the folder ``name`` at ``address`` has ended.

        If this is not known, the run counts as ended if nothing in the folder was changed for a
        long time.
        """
        if self._is_exclusive and name.startswith(_get_machine_prefix()):
            return True
        changed = get_last_modified(spark, address)
        return changed is None or time.time() - changed > STALE_AFTER_SECONDS


@contextmanager
def staged_for_spark(
    spark: SparkSession, staging_area: StagingArea, paths: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Context manager: yield URLs at which Spark can read the local files ``paths``.

    If the setting ``staging`` is a remote URL, the files are uploaded to it, and the copies are
    deleted at the end of the block.
    """
    if not staging_area.is_remote:
        yield [to_spark_uri(path) for path in paths]
        return
    address = staging_area.new_address("rows")
    try:
        yield staging_area.upload(spark, paths, address)
    finally:
        staging_area.delete(spark, address)


def _get_machine_prefix() -> str:
    """Return the name prefix of the remote folders for runs of this user on this machine.

    An example is ``of-host1-1000-``, with the host name and the user id.
    """
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())
    return f"of-{host}-{os.getuid()}-"
