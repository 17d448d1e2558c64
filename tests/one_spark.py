"""One Spark for all tests that want one: starting it costs more than most tests do.

It is optimized for small runs: tests run much code once, so Java's second compiler costs them a
fifth more CPU time than it saves. Its memory for compiled code is larger than the 48 MB which Java
reserves without that compiler: a Spark that lives for hundreds of tests fills them, and Java would
then drop code and compile it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

__all__ = ["spark", "spark_session"]

_CODE_CACHE: Final = {"spark.driver.extraJavaOptions": "-XX:ReservedCodeCacheSize=256m"}


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Session]:
    """The target's own session, on two cores, with Iceberg and Delta; tests use no other."""
    from target_spark.spark.jars import format_conf
    from target_spark.spark.session import Session, SparkSettings

    iceberg = format_conf("iceberg", {}, (), metadata.version("pyspark"))
    conf = iceberg | _CODE_CACHE
    session = Session.start(SparkSettings(master="local[2]", conf=conf, small_runs=True))
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
