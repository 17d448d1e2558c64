"""Partitions of a tap, read by Spark's workers into spool files without a load.

The tap, its engine, the distributor and the code in the workers are the real ones. One application
runs several steps, so that only the first includes the start of Spark. A step is
``partitions:tasks:records``, with the records per partition. The program prints a JSON list with
the usage of each step by the role of processes.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from target_spark.extract.spark_distributor import SparkDistributor
from target_spark.extract.tap_factory import TapSpec
from tests.bench.process_roles import RoleWatcher


class RunningSpark:
    """An engine for the loader whose Spark is already running."""

    started = True
    failure = None

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def spark(self) -> SparkSession:
        """Return the session."""
        return self._spark


class LocalStaging:
    """A staging area in a local folder."""

    def __init__(self, folder: str) -> None:
        self.location = folder
        self._numbers = count()

    def new_address(self, name: str) -> str:
        """Return the path of a new folder."""
        return f"{self.location}/{name}-{next(self._numbers)}"

    def delete(self, _spark: SparkSession, address: str) -> None:
        """Remove a folder."""
        shutil.rmtree(address, ignore_errors=True)


class CountingWriter:
    """A protocol writer that counts rows, and measures the work units sent to a distributor.

    Attributes:
        rows: The number of rows in files.
        sent: Bytes of a work unit of the last job.
        result: Bytes of the result of a work unit of the last job.
    """

    def __init__(self, distributor: SparkDistributor) -> None:
        self.distributor = distributor  # read by the engine of the tap
        self.rows = self.sent = self.result = 0
        self.encode = lambda record: record
        sync = distributor.sync

        def measure_sizes(parts: Sequence[Any], *, in_order: bool) -> Any:
            self.sent = len(pickle.dumps(parts)) // len(parts)
            results = sync(parts, in_order=in_order)
            self.result = len(pickle.dumps(results.results)) // len(parts)
            return results

        distributor.sync = measure_sizes  # type: ignore[method-assign]

    def emit(self, event: Any) -> None:
        """Count the rows of an event."""
        self.rows += getattr(event, "count", 0)


def run_step(spark: SparkSession, folder: str, roots: Sequence[int], step: str) -> dict[str, Any]:
    """Read the partitions of a step, and return its usage."""
    parts, tasks, records = map(int, step.split(":"))
    source = TapSpec(step, "partitioned_tap:PartitionedTap", {"parts": parts, "records": records})
    tap = source.new()
    engine, staging = RunningSpark(spark), LocalStaging(folder)
    distributor = SparkDistributor(source, tap.streams, engine, staging, lambda _: 0, width=tasks)
    writer = CountingWriter(distributor)
    tap.set_protocol_writer(writer)
    started = time.monotonic()
    with RoleWatcher(lambda: roots) as watcher:
        tap.sync_all()
    wall = time.monotonic() - started
    distributor.close()
    if writer.rows != parts * records:
        message = f"{writer.rows} rows of {parts * records}"
        raise AssertionError(message)
    usage = watcher.usage()
    sizes = {"sent": writer.sent, "result": writer.result, "wall": wall}
    return {"step": step, "cpu": usage.cpu, "memory": usage.memory, **sizes}


def main() -> None:
    """Run the steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("master")
    parser.add_argument("folder")
    parser.add_argument("--steps", nargs="+", required=True)
    parser.add_argument(
        "--roots", nargs="*", type=int, default=[], help="other process trees to measure"
    )
    options = parser.parse_args()
    spark = (
        SparkSession.builder.master(options.master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executor.memory", "1g")
        .getOrCreate()
    )
    Path(options.folder).mkdir(exist_ok=True)
    roots = [os.getpid(), *options.roots]
    print(json.dumps([run_step(spark, options.folder, roots, step) for step in options.steps]))
    spark.stop()


if __name__ == "__main__":
    main()
