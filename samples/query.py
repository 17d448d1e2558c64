"""Ask the tables that target-spark wrote: `python samples/query.py FOLDER "SELECT …"`.

Every table in the folder is there under its own name.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from target_spark.spark.session import Session, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["show_tables", "spark_for"]


def spark_for(folder: Path) -> Session:
    """Start Spark with every table of the folder as a view; the caller stops it."""
    session = Session.start(SparkSettings(app_name="query", small_runs=True))
    show_tables(session.spark(), folder)
    return session


def show_tables(spark: SparkSession, folder: Path) -> None:
    """Register each table of the folder under its own name."""
    for table in sorted(folder.iterdir()):
        if (table / "_delta_log").is_dir():
            frame = spark.read.format("delta").load(str(table))
        elif next(table.glob("*.parquet"), None):
            frame = spark.read.parquet(str(table))
        else:
            continue
        frame.createOrReplaceTempView(f"`{table.name}`")


def main(folder: str, question: str) -> None:
    """Print the answer as a table."""
    from pyspark.errors import AnalysisException

    session = spark_for(Path(folder))
    try:
        session.spark().sql(question).show(50, truncate=False)
    except AnalysisException as error:
        sys.exit(str(error.getMessage()))
    finally:
        session.stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:  # noqa: PLR2004  (the program itself, a folder, a question)
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
