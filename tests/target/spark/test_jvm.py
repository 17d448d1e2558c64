"""The start of Spark's JVM: options, class archive and Spark home."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from target_spark.spark.jvm import (
    archive_file,
    archive_options,
    find_exit_seconds,
    jvm_options,
    spark_home,
)
from target_spark.spark.session import SparkSettings, build_start_conf, check_java, plan_launch
from tests.target.spark.cached_jars import publish

VERSION = metadata.version("pyspark")
PACKAGE = Path(str(find_spec("pyspark").origin)).parent  # type: ignore[union-attr]
JAVA_OPTIONS_KEY = "spark.driver.extraJavaOptions"


def list_options(user_options: str = "", *, small_runs: bool = False) -> list[str]:
    return list(jvm_options(user_options, small_runs=small_runs))


def test_small_runs_disable_the_c2_compiler() -> None:
    assert "-XX:TieredStopAtLevel=1" in list_options(small_runs=True)
    assert not any("Tier4" in option for option in list_options(small_runs=True))
    assert "-XX:TieredStopAtLevel=1" not in list_options()
    assert any("Tier4" in option for option in list_options())


def test_user_defined_garbage_collector_replaces_the_default() -> None:
    assert "-XX:+UseSerialGC" in list_options()
    assert "-XX:+UseSerialGC" not in list_options("-Xmn100m -XX:+UseG1GC")


def test_existing_class_archive_is_used(tmp_path) -> None:
    existing, absent = tmp_path / "a.jsa", tmp_path / "b.jsa"
    existing.touch()
    assert f"-XX:SharedArchiveFile={existing}" in list(archive_options("", existing))
    assert list(archive_options("", absent)) == []
    assert list(archive_options("-XX:SharedArchiveFile=/mine", existing)) == []


@pytest.mark.parametrize("change", ["file", "folder", "link", "owner"])
def test_class_archive_writable_by_others_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    """Java executes the code in a class archive, so others must not be able to write it."""
    archive = tmp_path / "share" / "a.jsa"
    archive.parent.mkdir()
    archive.touch()
    if change == "file":
        archive.chmod(0o666)
    elif change == "folder":
        archive.parent.chmod(0o775)
    elif change == "link":
        archive.rename(tmp_path / "b.jsa")
        archive.symlink_to(tmp_path / "b.jsa")
    elif os.geteuid() == 0:
        os.chown(archive, 65534, 65534)
    else:
        pytest.skip("only root can give a file to another user")
    assert list(archive_options("", archive)) == []
    assert f"{archive} is not used" in caplog.text


def test_jvm_that_writes_a_class_archive_has_more_time_to_end() -> None:
    """On a busy machine, the JVM would otherwise be killed while it writes the archive."""
    writing_options = "-Xmx1g -XX:ArchiveClassesAtExit=/a.jsa"
    assert find_exit_seconds(writing_options) > 10 * find_exit_seconds("-Xmx1g")


def test_user_options_come_last() -> None:
    conf = build_start_conf(
        SparkSettings(conf={JAVA_OPTIONS_KEY: "-Dmine=1"}, format="parquet"), "4.1.4"
    )
    assert conf[JAVA_OPTIONS_KEY].endswith(" -Dmine=1")
    assert "Tier4" in conf[JAVA_OPTIONS_KEY]


def test_class_archive_depends_on_java_and_spark() -> None:
    java, home = check_java(), Path("/spark")
    assert archive_file(java, home) == archive_file(java, home)
    assert archive_file(java, home) != archive_file(java, Path("/other"))
    assert archive_file(java, home) != archive_file("/other/java", home)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a new Python environment."""
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    return tmp_path


def test_local_spark_home_omits_the_ml_library(environment: Path) -> None:
    package_jars = {jar.name for jar in (PACKAGE / "jars").iterdir()}
    home = spark_home("local[*]", VERSION)
    assert home == spark_home("local", VERSION) != PACKAGE
    assert home.is_relative_to(environment)
    home_jars = {jar.name for jar in (home / "jars").iterdir() if jar.exists()}
    (omitted,) = package_jars - home_jars
    assert omitted.startswith("spark-mllib_")
    assert (home / "bin" / "spark-submit").is_file()
    assert list(home.parent.iterdir()) == [home]
    assert spark_home("local", "4.1.999") != home


def test_spark_home_writable_by_others_is_not_used(environment: Path) -> None:
    """The jars of SPARK_HOME are on the class path, so others must not be able to write them."""
    home = spark_home("local", VERSION)
    (home / "jars").chmod(0o777)
    assert spark_home("local", VERSION) == PACKAGE


def test_folders_above_the_spark_home_are_closed_to_others(environment: Path) -> None:
    """That holds for any umask. Java executes the files below, so others must not replace them."""
    before = os.umask(0)
    try:
        home = spark_home("local", VERSION)
    finally:
        os.umask(before)
    modes = {folder: stat.S_IMODE(folder.stat().st_mode) for folder in home.parents[:2]}
    assert set(modes.values()) == {0o755}, modes
    assert home.parents[2] == environment


def write_jar(folder: Path) -> tuple[Path, dict[str, str]]:
    jar = folder / "format.jar"
    jar.write_bytes(b"classes")
    return jar, {str(jar): hashlib.sha256(b"classes").hexdigest()}


def test_spark_home_has_copies_of_the_jars_of_the_format(environment: Path) -> None:
    """Java archives only classes of jars that are on its class path from the start."""
    jar, jars = write_jar(environment)
    home = spark_home("local", VERSION, jars)
    copy = home / "jars" / jar.name
    assert copy.read_bytes() == b"classes"
    assert not copy.is_symlink()
    assert len(list((home / "jars").iterdir())) == len(list((PACKAGE / "jars").iterdir()))
    assert home not in {spark_home("local", VERSION), PACKAGE}
    jar.unlink()
    assert spark_home("local", VERSION, jars) == home


@pytest.mark.parametrize("change", ["content", "mode"])
def test_spark_home_never_has_a_jar_that_another_user_can_choose(
    environment: Path, change: str
) -> None:
    jar, jars = write_jar(environment)
    if change == "content":
        jar.write_bytes(b"other classes")
    else:
        (spark_home("local", VERSION, jars) / "jars" / jar.name).chmod(0o666)
    home = spark_home("local", VERSION, jars)
    assert home == spark_home("local", VERSION)
    assert not (home / "jars" / jar.name).exists()


def test_spark_home_created_by_another_process_is_used(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdtemp = tempfile.mkdtemp

    def create_home_first(**kwargs: Any) -> str:
        home = Path(kwargs["dir"], kwargs["prefix"].rstrip("."))
        (home / "jars").mkdir(parents=True)
        return mkdtemp(**kwargs)

    monkeypatch.setattr("tempfile.mkdtemp", create_home_first)
    home = spark_home("local", VERSION)
    assert list(home.parent.iterdir()) == [home]
    assert home.is_relative_to(environment)


def test_cluster_masters_and_spark_home_variable_keep_their_home(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark_home("spark://host:7077", VERSION) == PACKAGE
    monkeypatch.setattr("sys.prefix", str(environment / "file" / "below"))
    (environment / "file").touch()  # nothing can be made below it
    assert spark_home("local", VERSION) == PACKAGE
    monkeypatch.setenv("SPARK_HOME", "/my/spark")
    assert spark_home("local", VERSION) == Path("/my/spark")


@pytest.mark.spark
def test_spark_home_variable_is_unset_after_the_start(spark_session) -> None:
    spark = spark_session.spark()
    assert "SPARK_HOME" not in os.environ
    jars = str(spark._jvm.System.getProperty("java.class.path"))
    assert "spark-sql_" in jars
    assert "spark-mllib_" not in jars


DELTA = ("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta:delta-storage:4.4.0")


def plan_jars(ivy: Path, **conf: str) -> tuple[str, set[str]]:
    """Return the jars that Spark loads after its start, and the names of those in its home."""
    settings = SparkSettings(conf={"spark.jars.ivy": str(ivy), **conf})
    launch = plan_launch(settings, VERSION, check_java())
    return launch.conf["spark.jars"], {jar.name for jar in (launch.home / "jars").iterdir()}


def test_jars_of_the_format_are_on_the_class_path(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = publish(monkeypatch, tmp_path / "ivy", DELTA)
    loaded_later, home_jars = plan_jars(tmp_path / "ivy")
    assert loaded_later == ""
    assert {Path(jar).name for jar in jars} < home_jars


@pytest.mark.parametrize("setting", ["spark.jars", "spark.driver.extraClassPath", "SPARK_CONF_DIR"])
def test_jars_of_the_format_are_used_with_other_jars(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """Classes on the class path cannot use classes of jars that Spark loads later."""
    jars = publish(monkeypatch, tmp_path / "ivy", DELTA)
    if setting.startswith("spark"):
        loaded_later, home_jars = plan_jars(tmp_path / "ivy", **{setting: "/mine/other.jar"})
    else:
        monkeypatch.setenv(setting, str(tmp_path))
        loaded_later, home_jars = plan_jars(tmp_path / "ivy")
    assert set(jars) <= set(loaded_later.split(","))
    assert not {Path(jar).name for jar in jars} & home_jars
