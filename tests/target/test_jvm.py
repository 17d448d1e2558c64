"""How Spark's JVM is started."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from target_spark.jvm import archive_file, jvm_options
from target_spark.session import SparkSettings, check_java, spark_conf

KEY = "spark.driver.extraJavaOptions"


def options(given: str = "", *, small_runs: bool = False, archive: Path | None = None) -> list[str]:
    return list(jvm_options(given, small_runs=small_runs, archive=archive))


def test_small_runs_do_without_the_second_compiler() -> None:
    assert "-XX:TieredStopAtLevel=1" in options(small_runs=True)
    assert not any("Tier4" in option for option in options(small_runs=True))
    assert "-XX:TieredStopAtLevel=1" not in options()
    assert any("Tier4" in option for option in options())


def test_the_users_collector_is_the_only_one() -> None:
    assert "-XX:+UseSerialGC" in options()
    assert "-XX:+UseSerialGC" not in options("-Xmn100m -XX:+UseG1GC")


def test_an_archive_is_used_where_there_is_one(tmp_path) -> None:
    there, absent = tmp_path / "a.jsa", tmp_path / "b.jsa"
    there.touch()
    assert f"-XX:SharedArchiveFile={there}" in options(archive=there)
    assert not any("Archive" in option for option in options(archive=absent))
    own = "-XX:SharedArchiveFile=/mine"
    assert not any("Archive" in option for option in options(own, archive=there))


def test_the_users_options_come_last() -> None:
    conf = spark_conf(SparkSettings(conf={KEY: "-Dmine=1"}, format="parquet"), "4.1.4")
    assert conf[KEY].endswith(" -Dmine=1")
    assert "Tier4" in conf[KEY]


def test_the_archive_is_one_of_this_environment_java_and_spark() -> None:
    java = check_java()
    assert archive_file(java, "4.1.4") == archive_file(java, "4.1.4")
    assert archive_file(java, "4.1.4") != archive_file(java, "4.1.5")


def test_the_jvm_maps_the_archive_that_was_made(spark_session) -> None:
    archive = archive_file(check_java(), metadata.version("pyspark"))
    if not archive.is_file():
        pytest.skip("no archive of classes was made: python -m target_spark.archive makes it")
    maps = Path("/proc", str(spark_session.jvm_pid), "maps")
    if not maps.exists():
        pytest.skip("only Linux tells what a process maps")
    assert str(archive) in maps.read_text(encoding="utf-8")
