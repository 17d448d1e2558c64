"""Spark session that all tests share, because starting Spark takes longer than most tests.

It is optimized for small runs. Tests run most code only once, so Java's second compiler would cost
a fifth more CPU time than it saves. Without that compiler Java reserves 48 MB for compiled code,
which hundreds of tests fill; Java would then discard code and compile it again, so the session has
a larger code cache. Queries are interpreted and planned once, because compiling them and planning
them again takes longer than running them on a few rows; those of `compiled_spark` are compiled and
planned adaptively, as by default.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

__all__ = [
    "COMPILED",
    "INTERPRETED",
    "ConfiguredSession",
    "compiled_spark",
    "spark",
    "spark_session",
]

INTERPRETED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings with which Spark interprets its plans: for few rows, compiling them takes longer."""
COMPILED: Final = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""Spark's defaults: it compiles its plans and adapts them while a query runs."""


@dataclass(frozen=True)
class ConfiguredSession:
    """The tests' Spark, with a user's settings in each thread session."""

    session: Session
    settings: Mapping[str, str]
    local: threading.local = field(default_factory=threading.local)

    def thread_session(self) -> SparkSession:
        """Return the session of the calling thread, and create it at the first call."""
        if not hasattr(self.local, "spark"):
            self.local.spark = self.session.spark().newSession()
            for key, value in self.settings.items():
                self.local.spark.conf.set(key, value)
        spark: SparkSession = self.local.spark
        return spark


@pytest.fixture(scope="session")
def spark_session(pytestconfig: pytest.Config) -> Iterator[Session]:
    """The target's own session, on two cores, with Iceberg and Delta; tests use no other.

    With ``--every-format`` it plans queries adaptively, as by default.
    """
    from target_spark.spark.jars import format_conf
    from target_spark.spark.session import Session, SparkSettings

    iceberg = format_conf("iceberg", {}, (), metadata.version("pyspark"))
    adaptive = str(bool(pytestconfig.getoption("every_format"))).lower()
    conf = iceberg | INTERPRETED | {"spark.sql.adaptive.enabled": adaptive}
    session = Session(SparkSettings(master="local[2]", conf=conf, small_runs=True)).start()
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
    """Session with settings and temporary views that are separate from those of other tests."""
    return spark_session.spark().newSession()


@pytest.fixture
def compiled_spark(spark_session: Session) -> SparkSession:
    """Session like `spark` with compiled queries, for tests of the values that they compute."""
    return ConfiguredSession(spark_session, COMPILED).thread_session()
