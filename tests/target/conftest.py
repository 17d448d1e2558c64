"""One Spark for all tests of the target: starting it costs more than most tests do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from target_spark.jars import format_conf
from target_spark.session import Session, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_configure(config: pytest.Config) -> None:
    """Let PySpark's own carelessness pass: it leaves the socket of a `collect` to be collected."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket.*127.0.0.1:ResourceWarning")


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Session]:
    """The target's own session, on two cores, with Iceberg beside Delta; there is no other."""
    iceberg = format_conf("iceberg", {}, (), metadata.version("pyspark"))
    session = Session.start(SparkSettings(master="local[2]", small_runs=True, conf=iceberg))
    pid = None
    try:
        session.spark()
        pid = session.jvm_pid
        yield session
    finally:
        session.stop()
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.fixture
def spark(spark_session: Session) -> SparkSession:
    """A session whose settings and temporary views no other test sees."""
    return spark_session.spark().newSession()
