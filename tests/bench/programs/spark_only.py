"""target-spark's commits alone: everything is spooled before the clock starts.

The settings, loader, engine and writers are the real ones. Called with
``--config`` and a file for the seconds that Spark took, its start included.
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
from target_spark.loader.batch_writer import BatchWriter
from target_spark.loader.commit_request import CommitRequest, CommitResult
from target_spark.spark.engine import LeasedSpark
from target_spark.storage.spool import SpoolFolder


class Later(NoCommits):
    """Keeps what was to be committed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.works: list[CommitRequest] = []
        self.options: Any = None
        self.run: Any = None

    def write(self, work: CommitRequest) -> CommitResult:
        """Keep the files under other names, since the loader removes its own."""
        batches = []
        for batch in work.batches:
            paths = []
            for path in batch.paths:
                kept = self.folder / f"{len(self.works)}-{Path(path).name}"
                os.link(path, kept)
                paths.append(str(kept))
            batches.append(replace(batch, paths=tuple(paths)))
        self.works.append(replace(work, batches=tuple(batches)))
        return super().write(work)


def main(seconds: Path) -> None:
    """Spool everything, then commit it."""
    with tempfile.TemporaryDirectory() as kept:
        later = Later(Path(kept))
        settings: list[Any] = []

        def engine(*arguments: Any) -> NoEngine:
            settings[:] = arguments
            return NoEngine()

        def commits(_engine: Any, options: Any, run: Any, *_more: Any) -> Later:
            later.options, later.run = options, run
            return later

        target.LeasedSpark = engine  # type: ignore[assignment,misc]
        target._commits = commits  # type: ignore[assignment]
        with contextlib.suppress(SystemExit):
            target.TargetSpark.cli()
        started = time.monotonic()
        spark = LeasedSpark(*settings)
        spark.begin()
        folder = SpoolFolder()
        writer = BatchWriter(spark, later.options, later.run, folder)
        for work in later.works:
            writer.write(work)
        spark.close()
        seconds.write_text(str(time.monotonic() - started))
        folder.close()


if __name__ == "__main__":
    main(Path(sys.argv.pop()))
