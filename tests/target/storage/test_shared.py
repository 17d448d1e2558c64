"""Folders that the executors of a cluster must share with the driver, and their check."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from target_spark.config.settings import shared_folders, spark_settings
from target_spark.errors import TableError
from target_spark.storage.shared_storage_check import check_shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = {"master": "spark://host:7077", "path": "/tables", "staging": "file:///staging"}


def test_local_folders_are_shared_folders_only_with_a_cluster() -> None:
    """A local Spark has the same folders; an object-store address is no folder."""
    assert shared_folders({**CLUSTER, "master": "local[*]"}) == {}
    assert shared_folders(CLUSTER) == {"staging": "/staging", "path": "/tables"}
    assert shared_folders({**CLUSTER, "path": "s3a://b/tables"}) == {"staging": "/staging"}
    assert shared_folders({**CLUSTER, "staging": "s3a://b/rows"}, "/tmp/x") == {"path": "/tables"}


def test_run_checks_its_own_staging_folder() -> None:
    """A dry run writes to no table, so it checks no table folder; other commands check none."""
    assert spark_settings(CLUSTER, "/staging/x").shared == {
        "staging": "/staging/x",
        "path": "/tables",
    }
    assert spark_settings({**CLUSTER, "dry_run": True}, "/s/x").shared == {"staging": "/s/x"}
    assert spark_settings(CLUSTER).shared == {}


@pytest.mark.spark
def test_check_of_a_shared_folder_leaves_no_files(spark: SparkSession, tmp_path: Path) -> None:
    """Created folders and old probes of dead runs are removed; others' probes are kept."""
    staging, new = tmp_path / "mine", tmp_path / "a" / "b"
    for name, age in (("_target-spark-probe-old", 7200), ("_target-spark-probe-new", 0)):
        (staging / name).mkdir(parents=True)
        os.utime(staging / name, times=(time.time() - age, time.time() - age))
    check_shared(spark, {"staging": str(staging), "path": str(new)}, lambda: 2, 4)
    assert [path.name for path in staging.iterdir()] == ["_target-spark-probe-new"]
    assert not (tmp_path / "a").exists()


@pytest.mark.spark
def test_folder_that_cannot_be_created_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """The error names the setting and its requirement."""
    (tmp_path / "file").touch()
    with pytest.raises(TableError, match=r"path: Spark's executors cannot use .*shared file"):
        check_shared(spark, {"path": str(tmp_path / "file" / "tables")})
