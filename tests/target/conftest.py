"""Warehouses that most tests of the target load into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.target.warehouse import FORMATS, Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session


@pytest.fixture
def delta(spark_session: Session, spark: SparkSession, tmp_path: Path) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables")


@pytest.fixture(params=FORMATS)
def warehouse(
    request: pytest.FixtureRequest, spark_session: Session, spark: SparkSession, tmp_path: Path
) -> Warehouse:
    return Warehouse(spark_session, spark, tmp_path / "tables", request.param)
