"""Hand-written MERGEs of several streams into as many existing Delta tables.

Arguments: the folder of the tables, and optionally ``small_runs`` for that setting of the JVM.
Spark starts as in target-spark. There are no types of a schema, metadata columns, counts, states or
checks: the cost is the minimum with a cold Spark.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from target_spark.spark.session import Session, SparkSettings

MERGE = """
MERGE INTO delta.`{table}` AS t USING batch AS s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
"""


def main(folder: Path, *, small_runs: bool) -> None:
    """Load the records of standard input."""
    streams = defaultdict[str, list[dict[str, Any]]](list)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message["type"] == "RECORD":
            streams[message["stream"]].append(message["record"])
    session = Session(SparkSettings(small_runs=small_runs)).start()
    spark = session.spark()
    for name, records in streams.items():
        batch, table = spark.createDataFrame(pa.Table.from_pylist(records)), folder / name
        if table.exists():
            batch.createOrReplaceTempView("batch")
            spark.sql(MERGE.format(table=table))
        else:
            batch.write.format("delta").save(str(table))
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), small_runs=sys.argv[2:] == ["small_runs"])
