"""Warehouses that most tests of the target load into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.target.warehouse import FORMATS, Warehouse, make_warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session


@pytest.fixture(params=["delta", "delta-rs"])
def delta(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Warehouse:
    """A warehouse of Delta tables; ``delta-rs``: small batches are written without Spark."""
    return make_warehouse(request.param, spark_session, spark, tmp_path)


@pytest.fixture(params=[*FORMATS, "delta-rs"])
def warehouse(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Warehouse:
    return make_warehouse(request.param, spark_session, spark, tmp_path)
