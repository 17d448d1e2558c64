"""Two processes that load one new Iceberg table: no row is lost, and no key is duplicated."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from target_spark.storage.uris import to_spark_uri
from tests.target.cli.test_target_cli import record, running, schema, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

RUNS = {"a": range(200_000), "b": range(199_990, 200_000)}
"""The ids of each job; those of b are a subset of those of a."""


@pytest.mark.parametrize("keys", [("id",), ()])
@pytest.mark.parametrize("moment", ["at once", "when the table is there", "at random"])
def test_two_jobs_loading_a_new_table_keep_their_rows_or_fail(
    spark: SparkSession, tmp_path: Path, keys: tuple[str, ...], moment: str
) -> None:
    tables = tmp_path / "tables"
    with ExitStack() as stack:
        loads = {}
        for job, numbers in RUNS.items():
            (tmp_path / job).mkdir()
            config = {"path": str(tables), "format": "iceberg", "job": job}
            loads[job] = stack.enter_context(running(tmp_path / job, **config))
            loads[job].send(schema("t", *keys), *(record(number, "t") for number in numbers))
            loads[job].send(state({"job": job}))
        loads["a"].stdin.close()
        metadata = tables / "t" / "metadata" / "v1.metadata.json"
        if moment == "when the table is there":
            loads["a"].until(metadata.exists)
        elif moment == "at random":
            time.sleep(random.uniform(0, 20))
        loads["b"].stdin.close()
        ends = {job: load.end() for job, load in loads.items()}

    stored = spark.read.format("iceberg").load(to_spark_uri(str(tables / "t")))
    ids = Counter(row.id for row in stored.select("id").collect())
    required, allowed = Counter[int](), Counter[int]()
    for job, load in loads.items():
        allowed.update(RUNS[job])
        if ends[job]:
            assert load.lines == []
            assert f", and this run is job '{job}'." in load.errors.decode(), load.errors.decode()
        else:
            assert len(load.lines) == 1
            required.update(RUNS[job])
    assert 0 in ends.values()
    if keys:
        required, allowed = Counter(set(required)), Counter(set(allowed))
    assert required <= ids <= allowed
