"""Folders that the executors of a cluster must see: which they are, and how they are tried."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from target_spark.config.settings import shared_folders, spark_settings
from target_spark.errors import TableError
from target_spark.storage.shared_check import check_shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = {"master": "spark://host:7077", "path": "/tables", "staging": "file:///staging"}


def test_folders_of_this_machine_are_shared_with_a_cluster_alone() -> None:
    """A Spark on this machine has the folders anyway; an address is not a folder."""
    assert shared_folders({**CLUSTER, "master": "local[*]"}) == {}
    assert shared_folders(CLUSTER) == {"staging": "/staging", "path": "/tables"}
    assert shared_folders({**CLUSTER, "path": "s3a://b/tables"}) == {"staging": "/staging"}
    assert shared_folders({**CLUSTER, "staging": "s3a://b/rows"}, "/tmp/x") == {"path": "/tables"}


def test_a_run_lets_its_own_folder_in_staging_be_tried() -> None:
    """A dry run writes to no table, so it tries no folder of tables; other commands try none."""
    assert spark_settings(CLUSTER, "/staging/x").shared == {
        "staging": "/staging/x",
        "path": "/tables",
    }
    assert spark_settings({**CLUSTER, "dry_run": True}, "/s/x").shared == {"staging": "/s/x"}
    assert spark_settings(CLUSTER).shared == {}


@pytest.mark.spark
def test_a_folder_that_is_seen_passes_and_nothing_is_left_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also where it had to be made, and where a dead run left a probe; others' stay."""
    mine, new = tmp_path / "mine", tmp_path / "a" / "b"
    for name, age in (("_target-spark-probe-old", 7200), ("_target-spark-probe-new", 0)):
        (mine / name).mkdir(parents=True)
        os.utime(mine / name, times=(time.time() - age, time.time() - age))
    check_shared(spark, {"staging": str(mine), "path": str(new)}, lambda: 2, 4)
    assert [each.name for each in mine.iterdir()] == ["_target-spark-probe-new"]
    assert not (tmp_path / "a").exists()


@pytest.mark.spark
def test_a_folder_that_cannot_be_made_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """By its setting, with what it must be."""
    (tmp_path / "file").touch()
    with pytest.raises(TableError, match=r"path: Spark's executors cannot use .*shared file"):
        check_shared(spark, {"path": str(tmp_path / "file" / "tables")})
