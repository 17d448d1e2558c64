"""Location of waiting rows that Spark can read: the local spool, or a remote staging URL.

- In a local folder Spark reads the spool files directly. If ``staging`` is a remote URL, rows are
still spooled locally; their files are uploaded when the commit begins and deleted when it
succeeds or fails.
- At the URL each run has a folder inside its job's folder, so runs never share files. The next
run of the job deletes folders of killed runs: at once for runs of this machine, whose end the job
lock proves, otherwise after a day without writes. A wrongly deleted folder only fails the other
run's commit, since a missing file raises an error.
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
from target_spark.storage.hadoop_fs import (
    get_last_modified,
    list_folders,
    remove_folder,
    upload_file,
)
from target_spark.storage.retry import first_error_line
from target_spark.storage.spool import SpoolFolder
from target_spark.storage.uris import to_local_folder, to_spark_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["STALE_AFTER_SECONDS", "StagingArea", "run_folder", "staged_for_spark"]

logger = logging.getLogger(__name__)

STALE_AFTER_SECONDS: Final = 24 * 60 * 60.0
"""Seconds without a write after which files of another machine's run are deleted."""

_OURS: Final = "target-spark"
_SHORT: Final = 40


def run_folder(staging: str, run: RunInfo) -> str:
    """Return the URL of a run's folder for temporary files, below a remote staging URL."""
    return f"{_job_folder(staging, run.job)}/{_this_machine()}{run.id}"


class StagingArea:
    """Locations of one run's temporary files: a local folder, and a folder at a remote URL.

    Thread-safe.

    Args:
        folder: The local spool folder.
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
        self._clearing = threading.Lock()
        self._is_cleared = False
        self._unwanted: set[str] = set()
        is_remote = bool(staging) and to_local_folder(staging or "") is None
        self._base = _job_folder(staging, run.job) if staging and is_remote else None
        self._address = run_folder(staging, run) if staging and is_remote else None

    @property
    def is_remote(self) -> bool:
        """True if files must be uploaded to a remote URL before Spark can read them."""
        return self._address is not None

    @property
    def location(self) -> str:
        """Location of the run's temporary files, for messages to the user."""
        return self._address or str(self._folder.path)

    def new_address(self, name: str) -> str:
        """Return an unused URL for files that Spark will write. No file is created."""
        if self._address is None:
            return to_spark_uri(str(self._folder.new_path(name)))
        return f"{self._address}/{name}-{uuid.uuid4().hex[:12]}"

    def upload(self, spark: SparkSession, paths: Iterable[str], address: str) -> list[str]:
        """Upload local files to the folder at ``address``, and return the URLs of the copies."""
        self._clear(spark)
        copies: list[str] = []
        for path in paths:
            copy = f"{address}/{Path(path).name}"
            upload_file(spark, path, copy)
            copies.append(copy)
        return copies

    def delete(self, spark: SparkSession, address: str) -> None:
        """Delete the content of a staging URL.

        A failure is logged. The next call of the method tries the deletion again.
        """
        folder = to_local_folder(address)
        if folder is not None:
            rmtree(folder, ignore_errors=True)
            return
        self._unwanted.add(address)
        try:
            for each in tuple(self._unwanted):
                remove_folder(spark, each)
                self._unwanted.discard(each)
        except Exception as error:  # noqa: BLE001  (the rows are safe, or the run fails)
            words = "Rows that are no longer needed could not be removed from %s: %s"
            logger.warning(words, address, first_error_line(error))

    def _clear(self, spark: SparkSession) -> None:
        """Delete the remote folders that killed runs of this job left.

        Only the first call does so.
        """
        with self._clearing:
            if self._is_cleared or self._base is None or self._address is None:
                return
            self._is_cleared = True
            try:
                for name in list_folders(spark, self._base):
                    other = f"{self._base}/{name}"
                    if other != self._address and self._is_left(spark, other, name):
                        remove_folder(spark, other)
            except Exception as error:  # noqa: BLE001  (a later run does it)
                words = "Files of earlier runs at %s could not be removed: %s"
                logger.warning(words, self._base, first_error_line(error))

    def _is_left(self, spark: SparkSession, address: str, name: str) -> bool:
        if self._is_exclusive and name.startswith(_this_machine()):
            return True
        changed = get_last_modified(spark, address)
        return changed is None or time.time() - changed > STALE_AFTER_SECONDS


@contextmanager
def staged_for_spark(
    spark: SparkSession, staging_area: StagingArea, paths: Sequence[str]
) -> Iterator[Sequence[str]]:
    """Context manager: yield the URLs at which Spark can read local spool files.

    If Spark runs on other machines, the files are uploaded, and the copies are deleted at the end.
    """
    if not staging_area.is_remote:
        yield [to_spark_uri(path) for path in paths]
        return
    address = staging_area.new_address("rows")
    try:
        yield staging_area.upload(spark, paths, address)
    finally:
        staging_area.delete(spark, address)


def _job_folder(staging: str, job: str) -> str:
    name = re.sub(r"[^A-Za-z0-9-]", "-", job)[:_SHORT]
    name += "-" + hashlib.sha256(job.encode()).hexdigest()[:12]
    return f"{staging.rstrip('/')}/{_OURS}/{name}"


def _this_machine() -> str:
    """Return the prefix of remote staging folder names for this user on this machine."""
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())
    return f"of-{host}-{os.getuid()}-"
