"""Spark by hand: plain CSV with a given schema into a Delta table, appended or merged.

For each line of standard input, a JSON document, one load; answers with a line
of JSON. ``{"table", "paths", "merge"}`` loads and answers with CPU seconds of this process and of
its JVM; ``{"hash"}`` answers with count and hash of a table of any writer.
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


def cpu(session: Session) -> float:
    """Return the CPU seconds of both processes so far."""
    fields = Path(f"/proc/{session.jvm_pid}/stat").read_text().rpartition(")")[2].split()
    own = os.times()
    return sum(map(int, fields[11:15])) / TICKS + own.user + own.system


def load(spark: Any, ddl: str, asked: dict[str, Any]) -> None:
    """Read and write."""
    batch = spark.read.schema(ddl).option("header", "true").csv(asked["paths"])
    if asked["merge"]:
        batch.createOrReplaceTempView("batch")
        spark.sql(MERGE.format(asked["table"]))
    else:
        batch.write.format("delta").save(asked["table"])


def main(ddl: str) -> None:
    """Answer until the input ends."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    session = Session.start(SparkSettings(conf={"spark.sql.session.timeZone": "UTC"}))
    spark = session.thread_session()
    for line in sys.stdin:
        asked = json.loads(line)
        if "hash" in asked:
            table = spark.read.format("delta").load(asked["hash"])
            named = ", ".join(table.columns)
            [row] = table.selectExpr("count(*)", f"sum(xxhash64({named}) % 1000)").collect()
            answer: dict[str, Any] = {"rows": row[0], "sum": row[1]}
        else:
            before = cpu(session)
            load(spark, ddl, asked)
            answer = {"cpu": cpu(session) - before, "start": before}
        out.write(json.dumps(answer) + "\n")
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
