"""Jars per Spark version, their sources, and the settings that load them."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from target_spark.errors import SparkUnavailableError
from target_spark.spark.jar_cache import cached, ivy_folder
from target_spark.spark.jar_versions import ARTIFACTS
from target_spark.spark.jars import format_conf, jars_hint, required_jars, resolve_lock
from tests.target.spark.cached_jars import publish

DELTA = ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0")
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def test_artifacts_are_defined_per_spark_minor_version() -> None:
    lines = {(name, line) for name, line in ARTIFACTS}
    assert lines == {("delta", "4.0"), ("delta", "4.1"), ("delta", "4.2")} | {
        ("iceberg", "4.0"),
        ("iceberg", "4.1"),
    }
    assert required_jars("iceberg", "4.1.4") == (ICEBERG,)
    assert required_jars("iceberg", "4.0.5")[0].endswith("iceberg-spark-runtime-4.0_2.13:1.11.0")


@pytest.mark.parametrize("version", ["3.5.1", "4.2.1", "4.3.0"])
def test_spark_without_an_iceberg_library_is_rejected_with_a_remedy(version: str) -> None:
    with pytest.raises(SparkUnavailableError, match=r"no iceberg library.*4\.0, 4\.1.*parquet"):
        required_jars("iceberg", version)


def test_iceberg_jar_is_resolved_once_and_then_cached(tmp_path, monkeypatch) -> None:
    settings = {"spark.jars.ivy": str(tmp_path)}
    conf = format_conf("iceberg", settings, (), "4.1.4")
    assert conf["spark.jars.packages"] == ICEBERG
    assert conf["spark.sql.extensions"] == EXTENSIONS
    assert ICEBERG in jars_hint("iceberg", conf)
    (jar,) = publish(monkeypatch, tmp_path, [ICEBERG])
    assert jar.endswith("/org.apache.iceberg_iceberg-spark-runtime-4.1_2.13-1.12.0.jar")
    conf = format_conf("iceberg", settings, (), "4.1.4")
    assert conf["spark.jars"] == jar
    assert "spark.jars.packages" not in conf


@pytest.mark.parametrize("where", ["jars", "spark.jars", "spark.jars.packages"])
def test_user_supplied_iceberg_jar_of_any_version_is_used(tmp_path, where: str) -> None:
    jar = "/x/iceberg-spark-runtime-4.1_2.13-1.13.0.jar"
    conf = {} if where == "jars" else {where: jar}
    jar_conf = format_conf("iceberg", conf, [jar] if where == "jars" else (), "4.1.4")
    assert ICEBERG not in str(jar_conf)
    assert jar in {**conf, **jar_conf}["spark.jars" if where == "jars" else where]


def test_one_spark_can_load_two_formats(tmp_path) -> None:
    ivy = {"spark.jars.ivy": str(tmp_path)}
    conf = {**ivy, **format_conf("iceberg", ivy, (), "4.1.4")}
    conf_of_both = {**conf, **format_conf("delta", conf, (), "4.1.4")}
    assert conf_of_both["spark.sql.extensions"].split(",") == [
        "io.delta.sql.DeltaSparkSessionExtension",
        EXTENSIONS,
    ]
    assert conf_of_both["spark.jars.packages"].split(",") == [
        "io.delta:delta-spark_4.1_2.13:4.4.0",
        ICEBERG,
    ]


def test_user_packages_use_the_same_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    driver = {"spark.jars.packages": "org.xerial:sqlite-jdbc:3.50.3.0"}
    conf = format_conf("parquet", driver, (), "4.1.4")
    assert conf["spark.jars.packages"] == driver["spark.jars.packages"]
    assert conf["spark.jars.ivy"] == str(tmp_path / "target-spark" / "ivy")
    assert "org.slf4j:slf4j-api" in conf["spark.jars.excludes"].split(",")


def test_iceberg_catalog_caching_is_off_unless_set() -> None:
    kind = "org.apache.iceberg.spark.SparkCatalog"
    conf = {
        "spark.sql.catalog.a": kind,
        "spark.sql.catalog.b": kind,
        "spark.sql.catalog.b.cache-enabled": "true",
        "spark.sql.catalog.c": "org.example.Catalog",
    }
    jar_conf = format_conf("iceberg", conf, (), "4.1.4")
    assert jar_conf["spark.sql.catalog.a.cache-enabled"] == "false"
    assert jar_conf["spark.sql.catalog.b.cache-enabled"] == "true"
    assert "spark.sql.catalog.c.cache-enabled" not in jar_conf


def test_user_defined_spark_catalog_is_kept() -> None:
    conf = {"spark.sql.catalog.spark_catalog": "org.example.Catalog"}
    assert format_conf("delta", conf, (), "4.1.4")["spark.sql.catalog.spark_catalog"] == (
        "org.example.Catalog"
    )


def test_cached_jars_need_no_resolver(tmp_path, monkeypatch):
    jars = publish(monkeypatch, tmp_path, DELTA)
    conf = format_conf("delta", {"spark.jars.ivy": str(tmp_path)}, ["/own.jar"], "4.1.4")
    assert conf["spark.jars"] == ",".join(["/own.jar", *jars])
    assert "spark.jars.packages" not in conf
    assert jars_hint("delta", conf) == ""


def test_truncated_jar_in_the_cache_is_resolved_again(tmp_path, monkeypatch):
    jar = Path(publish(monkeypatch, tmp_path, DELTA)[1])
    jar.write_bytes(jar.read_bytes()[:40])
    assert cached(tmp_path, required_jars("delta", "4.1.4")) is None
    conf = format_conf("delta", {"spark.jars.ivy": str(tmp_path)}, [], "4.1.4")
    assert conf["spark.jars.packages"] == "io.delta:delta-spark_4.1_2.13:4.4.0"
    assert "org.apache.hadoop:hadoop-client-api" in conf["spark.jars.excludes"].split(",")


@pytest.mark.parametrize(
    "conf, jars",
    [
        ({}, ["/x/delta-spark_4.1_2.13-4.4.0.jar"]),
        ({"spark.jars": "/x/delta-spark_4.1_2.13-4.3.0.jar"}, []),
        ({"spark.jars.packages": "io.delta:delta-spark_4.1_2.13:4.3.1"}, []),
        ({"spark.jars": "/x/a.jar, s3a://b/io.delta_delta-spark_4.1_2.13-4.3.0.jar"}, []),
        ({"spark.jars": "/x/delta-spark*.jar"}, []),
        ({}, ["/x/delta-spark.jar"]),
    ],
)
def test_user_supplied_delta_jars_are_used(tmp_path, conf, jars):
    jar_conf = format_conf("delta", {**conf, "spark.jars.ivy": str(tmp_path)}, jars, "4.1.4")
    assert jar_conf.get("spark.jars.packages") == conf.get("spark.jars.packages")
    assert jar_conf.get("spark.jars") == (jars[0] if jars else None)
    assert "DeltaCatalog" in jar_conf["spark.sql.catalog.spark_catalog"]


@pytest.mark.parametrize(
    "name", ["x-delta-spark-y.jar", "x-delta-spark-1.jar", "delta-spark-y.jar"]
)
def test_jar_whose_name_contains_delta_spark_does_not_replace_it(tmp_path, name):
    conf = {"spark.jars": f"/delta-spark/{name}", "spark.jars.ivy": str(tmp_path)}
    jar_conf = format_conf("delta", conf, (), "4.1.4")
    assert jar_conf["spark.jars.packages"] == DELTA[0]


def test_spark_without_a_delta_library_is_rejected_with_a_remedy():
    with pytest.raises(SparkUnavailableError, match=r"Spark 4\.3\.0 .*4\.1.*format to parquet"):
        required_jars("delta", "4.3.0")
    assert required_jars("parquet", "4.3.0") == ()


def test_jar_cache_is_in_the_users_cache_folder(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert ivy_folder(None) == Path("/c/target-spark/ivy")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert ivy_folder(None) == Path("~/.cache/target-spark/ivy").expanduser()
    assert ivy_folder("/x") == Path("/x")


def test_jars_in_the_python_environment_come_before_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    installed = tmp_path / "share" / "target-spark" / "ivy"
    assert ivy_folder(None) != installed
    installed.mkdir(parents=True)
    assert ivy_folder(None) == installed
    assert ivy_folder("/x") == Path("/x")


def test_only_one_process_resolves_jars_at_a_time(tmp_path):
    conf = {"spark.jars.packages": "a:b:1", "spark.jars.ivy": str(tmp_path / "ivy")}
    with resolve_lock(conf):
        with (tmp_path / "ivy" / ".lock").open("w") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with resolve_lock({}):
            pass
    with resolve_lock(conf):
        pass
    (tmp_path / "file").write_text("", encoding="utf-8")
    blocked = {**conf, "spark.jars.ivy": str(tmp_path / "file" / "ivy")}
    with pytest.raises(SparkUnavailableError, match=r"cannot be written.*spark\.jars\.ivy"):
        resolve_lock(blocked).__enter__()
