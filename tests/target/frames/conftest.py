"""Conversions are tested in queries that Spark compiles, as it does by default."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def spark(compiled_spark: SparkSession) -> SparkSession:
    return compiled_spark
