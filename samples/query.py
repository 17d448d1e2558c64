"""Query the tables that target-spark wrote: `python samples/query.py FOLDER "SELECT …"`.

Each Delta or Parquet table in the folder is a view with the name of the table.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from target_spark.spark.session import Session, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_tables", "start_spark"]


def start_spark(folder: Path) -> Session:
    """Start Spark with each table of the folder as a view; the caller stops the session."""
    session = Session(SparkSettings(app_name="query", small_runs=True)).start()
    register_tables(session.spark(), folder)
    return session


def register_tables(spark: SparkSession, folder: Path) -> None:
    """Create a temporary view for each table of the folder."""
    for table in sorted(folder.iterdir()):
        if (table / "_delta_log").is_dir():
            frame = spark.read.format("delta").load(str(table))
        elif next(table.glob("*.parquet"), None):
            frame = spark.read.parquet(str(table))
        else:
            continue
        frame.createOrReplaceTempView(f"`{table.name}`")


def main(folder: str, query: str) -> None:
    """Run a query and print the first 50 rows of its result."""
    from pyspark.errors import AnalysisException

    session = start_spark(Path(folder))
    try:
        session.spark().sql(query).show(50, truncate=False)
    except AnalysisException as error:
        sys.exit(str(error.getMessage()))
    finally:
        session.stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:  # noqa: PLR2004  (the script, the folder, the query)
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
