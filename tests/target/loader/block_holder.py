"""A process with a Spark session that keeps marked rows in its blocks until stdin ends.

The settings are read from standard input, a JSON object of `master` and `spark` in one line, so
that they appear on no command line. The process prints one line of JSON: the JVM, its web page, and
its blocks.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from target_spark.spark.session import Session, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["hold"]


def hold(spark: SparkSession, marker: str) -> tuple[list[str], Any]:
    """Put a text into a broadcast and a shuffle; return the blocks' names and their owners."""
    context: Any = spark.sparkContext
    broadcast = context._jsc.broadcast(marker)
    rows = spark.range(4).selectExpr(f"concat('{marker}', id) AS row").repartition(2)
    local = rows.rdd  # keeps the files of its shuffle
    assert local.count() == 4
    block_manager = context._jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager()
    files = block_manager.getAllBlocks().mkString(",").split(",")
    shuffles = [name.removesuffix(".data") for name in files if name.endswith(".data")]
    names = [f"{name.rpartition('_')[0]}_{part}" for name in shuffles for part in range(2)]
    return [f"broadcast_{broadcast.id()}_piece0", *names], (broadcast, local)


def main() -> None:
    config = json.loads(sys.stdin.readline())
    session = Session(
        SparkSettings(
            master=config["master"], conf=config["spark"], format="parquet", small_runs=True
        )
    ).start()
    try:
        spark = session.spark()
        blocks, owners = hold(spark, "MARKED-ROW-")
        page = spark.sparkContext.uiWebUrl
        print(json.dumps({"jvm": session.jvm_pid, "page": page, "blocks": blocks}), flush=True)
        sys.stdin.read()
        del owners
    finally:
        session.stop()


if __name__ == "__main__":
    main()
