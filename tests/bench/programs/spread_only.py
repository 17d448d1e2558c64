"""A tap's parts read by Spark's workers into files in the form of the spool, and nothing loaded.

The tap, its engine, the spreader and what runs in workers are the real ones;
what would fold the rows removes them. One application does step after step, each
``parts:tasks:records``, so that what Spark's start costs is in the first ones alone. Called with
the master, a folder, the steps after ``--steps``, and the processes whose trees are looked at.
Prints for each step what it used by the kind of process, and how many rows it brought.
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
from tests.bench.roles import Roles


class Engine:
    """A Spark that is there."""

    started = True
    failure = None

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def spark(self) -> SparkSession:
        """Return it."""
        return self._spark


class Reach:
    """Folders below one."""

    def __init__(self, folder: str) -> None:
        self.location = folder
        self._numbers = count()

    def new_address(self, name: str) -> str:
        """Return a folder that is not there yet."""
        return f"{self.location}/{name}-{next(self._numbers)}"

    def delete(self, _spark: SparkSession, address: str) -> None:
        """Remove what is there."""
        shutil.rmtree(address, ignore_errors=True)


class Outlet:
    """Counts what comes, and hands contexts to a spreader that notes how large they are."""

    def __init__(self, spreader: SparkDistributor) -> None:
        self.spreader = spreader
        self.rows = self.sent = self.told = 0
        self.encode = lambda record: record
        sync = spreader.sync

        def noted(parts: Sequence[Any], *, in_order: bool) -> Any:
            self.sent = len(pickle.dumps(parts)) // len(parts)
            found = sync(parts, in_order=in_order)
            self.told = len(pickle.dumps(found.results)) // len(parts)
            return found

        spreader.sync = noted  # type: ignore[method-assign]

    def emit(self, event: Any) -> None:
        """Count rows that stand in files."""
        self.rows += getattr(event, "count", 0)


def step(spark: SparkSession, folder: str, roots: Sequence[int], asked: str) -> dict[str, Any]:
    """Read so many parts in so many tasks of a job; say what it used."""
    parts, tasks, records = map(int, asked.split(":"))
    source = TapSpec(asked, "spread_tap:SpreadTap", {"parts": parts, "records": records})
    tap = source.new()
    own = Reach(folder)
    spreader = SparkDistributor(source, tap.streams, Engine(spark), own, lambda _: 0, width=tasks)
    outlet = Outlet(spreader)
    tap.speak_by(outlet)
    started = time.monotonic()
    with Roles(lambda: roots) as roles:
        tap.sync_all()
    wall = time.monotonic() - started
    spreader.close()
    if outlet.rows != parts * records:
        message = f"{outlet.rows} rows of {parts * records}"
        raise AssertionError(message)
    usage = roles.usage()
    told = {"sent": outlet.sent, "result": outlet.told, "wall": wall}
    return {"step": asked, "cpu": usage.cpu, "memory": usage.memory, **told}


def main() -> None:
    """Do the steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("master")
    parser.add_argument("folder")
    parser.add_argument("--steps", nargs="+", required=True)
    parser.add_argument("--roots", nargs="*", type=int, default=[])
    asked = parser.parse_args()
    spark = (
        SparkSession.builder.master(asked.master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.executor.memory", "1g")
        .getOrCreate()
    )
    Path(asked.folder).mkdir(exist_ok=True)
    roots = [os.getpid(), *asked.roots]
    print(json.dumps([step(spark, asked.folder, roots, each) for each in asked.steps]))
    spark.stop()


if __name__ == "__main__":
    main()
