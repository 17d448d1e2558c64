"""The commits of target-spark without reading: the input is spooled before the time is measured.

The settings, loader, engine and writers are the real ones. Arguments: ``--config``, and a file to
which the seconds are written that Spark took, including its start.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from spool_only import NoCommits, NoEngine

from target_spark import target
from target_spark.loader.batch_commit import BatchWriter
from target_spark.loader.commit_request import CommitRequest, CommitResult
from target_spark.spark.spark_provider import SparkProvider
from target_spark.storage.spool import SpoolFolder


class RequestRecorder(NoCommits):
    """A batch writer that keeps the requests and their files for later.

    Attributes:
        folder: The folder of the kept files.
        requests: The requests, with the paths of the kept files.
        options: The options of the load.
        run: The run's information.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[CommitRequest] = []
        self.options: Any = None
        self.run: Any = None

    def write(self, request: CommitRequest) -> CommitResult:
        """Keep a request; link its files to other names, because the loader removes them."""
        batches = []
        for batch in request.batches:
            paths = []
            for path in batch.paths:
                link = self.folder / f"{len(self.requests)}-{Path(path).name}"
                os.link(path, link)
                paths.append(str(link))
            batches.append(replace(batch, paths=tuple(paths)))
        self.requests.append(replace(request, batches=tuple(batches)))
        return super().write(request)


def main(seconds: Path) -> None:
    """Spool the input, then commit it."""
    with tempfile.TemporaryDirectory() as link_folder:
        recorder = RequestRecorder(Path(link_folder))
        settings: list[Any] = []
        options: dict[str, Any] = {}

        def record_settings(*arguments: Any, **keywords: Any) -> NoEngine:
            settings[:] = arguments
            options.update(keywords)
            return NoEngine()

        def record_options(_engine: Any, options: Any, run: Any, *_others: Any) -> RequestRecorder:
            recorder.options, recorder.run = options, run
            return recorder

        target.SparkProvider = record_settings  # type: ignore[assignment,misc]
        target._new_writer = record_options  # type: ignore[assignment]
        with contextlib.suppress(SystemExit):
            target.TargetSpark.cli()
        started = time.monotonic()
        spark = SparkProvider(*settings, **options)
        spark.begin()
        folder = SpoolFolder()
        writer = BatchWriter(spark, recorder.options, recorder.run, folder)
        for request in recorder.requests:
            writer.write(request)
        spark.close()
        seconds.write_text(str(time.monotonic() - started))
        folder.close()


if __name__ == "__main__":
    main(Path(sys.argv.pop()))
