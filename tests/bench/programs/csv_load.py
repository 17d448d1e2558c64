"""A hand-written program that loads plain CSV with a given schema into Delta tables with Spark.

Argument: the columns in SQL. Each line of standard input is a request in JSON, and each response is
a line of JSON. ``{"table", "paths", "merge"}`` appends or merges files, and returns the CPU seconds
of this process and its JVM. ``{"hash"}`` returns the row count and a hash of a table.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from target_spark.spark.session import Session, SparkSettings

TICKS = os.sysconf("SC_CLK_TCK")
MERGE = "MERGE INTO delta.`{}` AS t USING batch AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"


def read_cpu(session: Session) -> float:
    """Return the CPU seconds of this process and its JVM since their start."""
    fields = Path(f"/proc/{session.jvm_pid}/stat").read_text().rpartition(")")[2].split()
    process_times = os.times()
    return sum(map(int, fields[11:15])) / TICKS + process_times.user + process_times.system


def load(spark: Any, ddl: str, request: dict[str, Any]) -> None:
    """Append files to a table, or merge them into it."""
    batch = spark.read.schema(ddl).option("header", "true").csv(request["paths"])
    if request["merge"]:
        batch.createOrReplaceTempView("batch")
        spark.sql(MERGE.format(request["table"]))
    else:
        batch.write.format("delta").save(request["table"])


def main(ddl: str) -> None:
    """Handle requests until the input ends."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    session = Session(SparkSettings(conf={"spark.sql.session.timeZone": "UTC"})).start()
    spark = session.thread_session()
    for line in sys.stdin:
        request = json.loads(line)
        if "hash" in request:
            table = spark.read.format("delta").load(request["hash"])
            columns = ", ".join(table.columns)
            [row] = table.selectExpr("count(*)", f"sum(xxhash64({columns}) % 1000)").collect()
            response: dict[str, Any] = {"rows": row[0], "sum": row[1]}
        else:
            before = read_cpu(session)
            load(spark, ddl, request)
            response = {"cpu": read_cpu(session) - before}
        out.write(json.dumps(response) + "\n")
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
