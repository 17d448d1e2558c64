"""A program that reads a tap as DataFrames, as in a notebook, and prints the results as JSON.

Its one argument is a JSON object: ``conf`` of Spark, ``folder`` to work in, ``secret``, and
``kills_worker`` if Spark retries failed tasks. Settings with the secret come from a file and from a
registered class. The pages of Spark's UI are saved in ``folder``.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_tap import register_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader

TAP = "tests.extract.sample_taps:SampleTap"


def main(conf: dict[str, str], folder: str, secret: str, *, kills_worker: bool) -> None:
    """Read, query, write and fail; print the results as JSON on the last line."""
    base = Path(folder)
    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    (base / "visits").mkdir()
    settings = {"visits": str(base / "visits"), "api_token": secret}
    (base / "config.json").write_text(json.dumps(settings))
    results: dict[str, Any] = {}

    def read(stream: str, **options: str) -> DataFrameReader:
        reader = spark.read.format("tap").option("tap", TAP).option("stream", stream)
        return reader.option("config", str(base / "config.json")).options(**options)

    spark.dataSource.register(register_source("shop", settings, tap=TAP))
    shop = spark.read.format("shop").option("stream", "orders").load()
    results["registered"] = shop.count()
    read("notes").load().createOrReplaceTempView("notes")
    spark.sql("CREATE TABLE kept USING parquet AS SELECT user, count(*) AS n FROM notes GROUP BY 1")
    results["notes"] = sorted(map(tuple, spark.table("kept").collect()))
    shop.explain(mode="formatted")
    failing = {**settings, "fails": "south"}
    results["error"] = _error(spark, failing)
    if kills_worker:
        spark.dataSource.register(
            register_source("dying", {**failing, "how": "kill", "times": 1}, tap=TAP)
        )
        dying = spark.read.format("dying").option("stream", "orders").load()
        results["killed"] = sorted(map(tuple, dying.groupBy("region").count().collect()))
    _save_ui_pages(spark, base / "ui")
    spark.stop()
    print(json.dumps(results))


def _error(spark: SparkSession, settings: dict[str, Any]) -> str:
    spark.dataSource.register(register_source("failing", settings, tap=TAP, tries="1"))
    try:
        spark.read.format("failing").option("stream", "orders").load().collect()
    except PySparkException as error:
        return str(error)
    return "none"


def _save_ui_pages(spark: SparkSession, folder: Path) -> None:
    """Save the pages of Spark's UI that may contain options of the reads."""
    folder.mkdir()
    address = spark.sparkContext.uiWebUrl
    about = f"{address}/api/v1/applications/{spark.sparkContext.applicationId}"
    pages = {"sql": "/sql?details=true&length=1000", "stages": "/stages", "conf": "/environment"}
    for name, path in pages.items():
        with urllib.request.urlopen(about + path) as answer:  # noqa: S310 - loopback
            (folder / name).write_bytes(answer.read())


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
