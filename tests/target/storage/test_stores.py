"""Object storage without a server: its jars, settings, addresses and errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from target_spark.config import settings
from target_spark.config.options import RunInfo
from target_spark.errors import SparkUnavailableError, StorageError
from target_spark.spark.jar_versions import HADOOP_AWS
from target_spark.spark.jars import (
    EXCLUDES,
    format_conf,
    jars_hint,
    required_storage_jars,
    s3_library,
)
from target_spark.spark.session import build_start_conf
from target_spark.storage import commit_retry
from target_spark.storage.error_explanations import find_storage_error
from target_spark.storage.spool import SpoolFolder, open_spool_folder
from target_spark.storage.staging_area import StagingArea, run_folder
from target_spark.storage.uris import get_scheme, is_s3
from tests.target.spark.cached_jars import publish

DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
ASKED = ("org.apache.hadoop:hadoop-aws:3.4.2", "software.amazon.awssdk:s3:2.29.52")
AZURE = "org.apache.hadoop:hadoop-azure:3.4.2"
ENDPOINT = {"spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000"}


def get_conf(
    folder: Path, *addresses: str, conf: dict[str, str] | None = None, form: str = "delta"
) -> dict[str, str]:
    return format_conf(
        form, {"spark.jars.ivy": str(folder), **(conf or {})}, (), "4.1.4", addresses
    )


# Jars


@pytest.mark.parametrize(
    "addresses,conf",
    [
        (("/here", "s3a://bucket/staging"), {}),
        (("S3A://bucket/tables",), {}),
        (("/here",), ENDPOINT),
        (("/here",), {"spark.sql.catalog.lake.warehouse": "s3a://bucket/lake"}),
    ],
)
def test_s3_jars_are_loaded_wherever_an_s3_address_is_set(
    tmp_path: Path, addresses: tuple[str, ...], conf: dict[str, str]
) -> None:
    """An address of the run, an address in Spark's settings, or a setting of the storage."""
    jar_conf = get_conf(tmp_path, *addresses, conf=conf)
    packages = jar_conf["spark.jars.packages"].split(",")
    assert packages[0] == DELTA
    assert set(ASKED) < set(packages)
    assert not any("bundle" in package for package in packages)


@pytest.mark.parametrize(
    "addresses,conf",
    [
        (("abfss://c@a.dfs.core.windows.net/t",), {}),
        (("/here",), {"spark.hadoop.fs.azure.account.auth.type": "OAuth"}),
        (("/here",), {"spark.sql.catalog.lake.warehouse": "abfs://c@a/lake"}),
    ],
)
def test_azure_jar_is_loaded_wherever_an_azure_address_is_set(
    tmp_path: Path, addresses: tuple[str, ...], conf: dict[str, str]
) -> None:
    """The jar is loaded without dependencies that Spark has, and without those of wasb://."""
    jar_conf = get_conf(tmp_path, *addresses, conf=conf)
    assert jar_conf["spark.jars.packages"] == f"{DELTA},{AZURE}"
    assert "com.microsoft.azure:*" in jar_conf["spark.jars.excludes"].split(",")
    assert required_storage_jars(addresses, conf, "4.1.4") == [AZURE]
    conf_with_jar = {**conf, "spark.jars": "/x/hadoop-azure-3.4.2.jar"}
    assert get_conf(tmp_path, *addresses, conf=conf_with_jar)["spark.jars.packages"] == DELTA


def test_no_s3_jars_are_loaded_without_s3(tmp_path: Path) -> None:
    """Local folders and other storages change nothing."""
    jar_conf = get_conf(tmp_path, "/tables", "hdfs://name/staging")
    assert jar_conf["spark.jars.packages"] == DELTA
    assert jar_conf["spark.jars.excludes"] == ",".join(EXCLUDES)
    assert not any(key.startswith("spark.hadoop") for key in jar_conf)


def test_sdk_bundle_and_jars_of_spark_are_excluded(tmp_path: Path) -> None:
    """The user's own exclusions are added, and each appears once."""
    conf = {"spark.jars.excludes": "a:b"}
    excludes = get_conf(tmp_path, "s3a://b/t", conf=conf)["spark.jars.excludes"].split(",")
    assert {"software.amazon.awssdk:bundle", "io.netty:*", "a:b", *EXCLUDES} <= set(excludes)
    assert len(excludes) == len(set(excludes))


def test_incompletely_cached_s3_jars_are_resolved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each module is checked by its name, since all are needed at run time."""
    jars = publish(monkeypatch, tmp_path, s3_library(*HADOOP_AWS["4.1"]).all_jars)
    jar_conf = get_conf(tmp_path, "s3a://b/t", form="parquet")
    assert jar_conf["spark.jars"].split(",") == jars
    assert "spark.jars.packages" not in jar_conf
    Path(jars[-1]).unlink()
    jar_conf = get_conf(tmp_path, "s3a://b/t", form="parquet")
    assert jar_conf["spark.jars.packages"].startswith(ASKED[0])
    assert "object storage" in jars_hint("parquet", jar_conf)


@pytest.mark.parametrize("where", ["jars", "spark.jars", "spark.jars.packages"])
def test_user_supplied_hadoop_aws_replaces_the_s3_jars(tmp_path: Path, where: str) -> None:
    """A user who supplies hadoop-aws supplies its dependencies too."""
    jar = "/x/hadoop-aws-3.4.2.jar"
    if where == "spark.jars.packages":
        jar = "org.apache.hadoop:hadoop-aws:3.4.2"
    conf = {"spark.jars.ivy": str(tmp_path)} | ({} if where == "jars" else {where: jar})
    jars = [jar] if where == "jars" else []
    jar_conf = format_conf("parquet", conf, jars, "4.1.4", ["s3a://b/t"])
    assert "awssdk" not in f"{jar_conf.get('spark.jars')} {jar_conf.get('spark.jars.packages')}"
    assert "awssdk" not in jar_conf.get("spark.jars.excludes", "")


def test_spark_without_a_known_hadoop_release_is_rejected() -> None:
    """The release must match the Hadoop in Spark, so none is guessed."""
    assert set(HADOOP_AWS) == {"4.1"}
    with pytest.raises(SparkUnavailableError, match=r"Spark 4\.3\.0.*4\.1.*setting jars"):
        required_storage_jars(["s3a://b/t"], {}, "4.3.0")
    with pytest.raises(SparkUnavailableError, match=r"hadoop-azure .*abfss://.*setting jars"):
        required_storage_jars(["abfss://c@a/t"], {}, "4.3.0")


def test_hadoop_retry_limit_is_reduced_unless_set(tmp_path: Path) -> None:
    """The run itself retries five times."""
    key = "spark.hadoop.fs.s3a.retry.limit"
    assert get_conf(tmp_path, "s3a://b/t")[key] == "4"
    assert get_conf(tmp_path, "s3a://b/t", conf={key: "7"})[key] == "7"


def test_upload_buffer_is_the_runs_private_folder_unless_set(tmp_path: Path) -> None:
    """Unless the user chose another folder, or executors are on other machines."""
    key, config = "spark.hadoop.fs.s3a.buffer.dir", {"path": "s3a://b/t"}

    def chosen(**kwargs: Any) -> str | None:
        spark_settings = settings.spark_settings({**config, **kwargs}, str(tmp_path))
        return build_start_conf(spark_settings, "4.1.4").get(key)

    assert chosen() == str(tmp_path)
    assert chosen(spark={key: "/mine"}) == "/mine"
    assert chosen(path="/t") is None
    assert chosen(master="spark://host:7077", staging="s3a://b/s") is None


# Settings


@pytest.mark.parametrize(
    "config,message",
    [
        ({"path": "s3a://b/t", "format": "parquet"}, "path: parquet tables must be in local or"),
        ({"warehouse": "hdfs://n/t", "format": "parquet"}, "warehouse: parquet tables"),
        ({"path": "s3://b/t", "format": "parquet"}, "path: parquet tables must be in local or"),
        ({"path": "az://c/t"}, "path: the address names no storage account; write abfss://"),
        ({"path": "/t", "staging": "abfss://c/t"}, "staging: the address names no storage"),
    ],
)
def test_unsupported_address_is_rejected_at_start(config: dict[str, Any], message: str) -> None:
    """The error is one sentence that begins with the setting."""
    (fault,) = settings.find_faults(config)
    assert fault.startswith(message)


@pytest.mark.parametrize(
    "config",
    [
        {"path": "s3a://b/t", "staging": "s3a://b/s"},
        {"path": "s3a://b/t", "format": "iceberg"},
        {"path": "/t", "format": "parquet", "staging": "s3a://b/s"},
        {"path": "s3://b/t", "staging": "s3n://b/s"},
        {"path": "az://c@a.dfs.core.windows.net/t"},
        {"path": "gs://b/t", "spark": {"spark.hadoop.fs.gs.impl": "org.example.GS"}},
        {"path": "s3://b/t", "spark": {"spark.hadoop.fs.s3.impl": "org.example.S3"}},
    ],
)
def test_supported_addresses_are_accepted(config: dict[str, Any]) -> None:
    """Parquet may stage rows at an address; a user's own file system may have the scheme s3."""
    assert settings.find_faults(config) == []


def test_all_spellings_of_an_address_are_one_location_and_job() -> None:
    """A scheme with a file system of the user's own is not changed."""
    spelled = [{"path": f"{scheme}://b/t"} for scheme in ("s3", "s3n", "S3A", "s3a")]
    assert {settings.get_location(config) for config in spelled} == {"s3a://b/t"}
    assert len({settings.get_job_name(config) for config in spelled}) == 1
    options = settings.load_options({"path": "az://c@a/t", "staging": "gcs://b/s"})
    assert (options.path, options.staging) == ("abfss://c@a/t", "gs://b/s")
    with_own_file_system = {
        "path": "s3://b/t",
        "spark": {"spark.hadoop.fs.s3.impl": "org.example.S3"},
    }
    assert settings.get_location(with_own_file_system) == "s3://b/t"


def test_spark_settings_contain_the_addresses_of_the_run() -> None:
    """Path and staging, if set."""
    config = {"warehouse": "s3a://b/t", "staging": "/s"}
    assert settings.spark_settings(config).addresses == ("s3a://b/t", "/s")
    assert settings.spark_settings({"catalog": "c", "database": "d"}).addresses == ()


def test_scheme_of_an_address_is_recognized() -> None:
    """The case of its letters is ignored."""
    assert [get_scheme(address) for address in ("/a:b/c", "S3a://b", "file:///x")] == [
        "",
        "s3a",
        "file",
    ]
    assert [is_s3(address) for address in ("s3a://b", "s3://b", "/s3a://b")] == [True, False, False]


# Locations


def test_rows_are_spooled_locally_if_staging_is_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No local folder gets the name of the URI; a URI such as file:/folder is a local folder."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "system"))
    monkeypatch.chdir(tmp_path)
    with closing(open_spool_folder("s3a://bucket/staging", "rows")) as folder:
        assert folder.path.parent == tmp_path / "system"
    with closing(open_spool_folder(f"file://{tmp_path}/mine", "rows")) as folder:
        assert folder.path.parent == tmp_path / "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "system"]


def test_local_staging_area_is_the_spool_folder(tmp_path: Path) -> None:
    """Nothing is copied, and staged files are below the spool's folder."""
    with closing(SpoolFolder(tmp_path)) as folder:
        for staging in (None, str(tmp_path), f"file://{tmp_path}"):
            reach = StagingArea(folder, staging, RunInfo("job", "r", 1))
            assert not reach.is_remote
            assert reach.location == str(folder.path)
            assert reach.new_address("staged").startswith(f"file://{folder.path}/staged-")


def test_staging_address_has_a_folder_per_job_and_run(tmp_path: Path) -> None:
    """Job names that sanitize to the same text have different folders."""
    runs = [RunInfo(job, run, 1) for job, run in (("a b", "1"), ("a b", "2"), ("a/b", "1"))]
    folders = [run_folder("s3a://bucket/staging/", run) for run in runs]
    assert all(address.startswith("s3a://bucket/staging/target-spark/a-b-") for address in folders)
    assert len(set(folders)) == 3
    assert folders[0].rpartition("/")[0] == folders[1].rpartition("/")[0]
    with closing(SpoolFolder(tmp_path)) as folder:
        reach = StagingArea(folder, "s3a://bucket/staging/", runs[0])
        assert reach.is_remote
        assert reach.location == folders[0]
        assert reach.new_address("rows") != reach.new_address("rows")


# Errors of storage


DENIED = (
    "An error occurred while calling o1.parquet.\n: java.nio.file.AccessDeniedException:"
    " s3a://lake/t: getFileStatus on s3a://lake/t: S3Exception: FORBIDDEN (Service: S3, Status"
    " Code: 403, Request ID: x):null\n\tat org.apache.hadoop"
)


@pytest.mark.parametrize(
    "text,parts",
    [
        (DENIED, ["bucket lake", "fs.s3a.secret.key", "credentials.provider"]),
        (
            (
                ": java.nio.file.AccessDeniedException: s3a://b/x:"
                " org.apache.hadoop.fs.s3a.auth.NoAwsCredentialsException: SimpleAWSCredentials"
            ),
            ["bucket b", "AWS_ACCESS_KEY_ID"],
        ),
        (
            ": org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://none/q': getFileStatus",
            ["bucket none", "no such bucket", "endpoint"],
        ),
        (
            (
                ": java.lang.RuntimeException: java.lang.ClassNotFoundException: Class"
                " org.apache.hadoop.fs.s3a.S3AFileSystem not found"
            ),
            ["no jars", "setting jars"],
        ),
        (
            (
                ": org.apache.hadoop.fs.UnsupportedFileSystemException:"
                ' No FileSystem for scheme "gs"'
            ),
            ["no jars for addresses that begin with gs://", "shaded.jar", "setting jars"],
        ),
        (
            ': org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "oss"',
            ["no jars for addresses that begin with oss://", "setting jars"],
        ),
        (
            (
                ": java.io.IOException: ComputeEngineCredentials cannot find the metadata server."
                " This is likely because code is not running on Google Compute Engine."
            ),
            ["no credentials", "fs.gs.auth.service.account.json.keyfile"],
        ),
        (
            (
                ": java.lang.RuntimeException: java.lang.ClassNotFoundException: Class"
                " org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem not found"
            ),
            ["no jars", "fs.azure.", "hadoop-azure", "setting jars"],
        ),
        (
            (
                ": Failure to initialize configuration for acct.dfs.core.windows.net"
                ' key ="null": Invalid configuration value detected for fs.azure.account.key'
            ),
            ["no credentials", "fs.azure.account.key.ACCOUNT", "auth.type"],
        ),
        (
            ": Invalid configuration value detected for fs.azure.account.hns.enabled\n\tat org.x",
            ["account does not answer", "path and staging"],
        ),
        (
            (
                ': java.nio.file.AccessDeniedException: Operation failed: "Server failed to'
                ' authenticate the request.", 403, HEAD, https://acct.dfs.core.windows.net/c//x'
                "\nabfss://c@acct.dfs.core.windows.net/x"
            ),
            ["bucket c@acct.dfs.core.windows.net", "rejects these credentials", "fs.azure.account"],
        ),
        (
            ": org.apache.hadoop.fs.s3a.impl.InstantiationIOException: `s3a://b/x': Class None",
            ["bucket b", "is invalid"],
        ),
    ],
)
def test_denied_access_error_names_the_bucket_and_the_setting(text: str, parts: list[str]) -> None:
    """Each error of Hadoop has its own explanation."""
    message = find_storage_error(text) or ""
    assert all(word in message for word in parts), message


@pytest.mark.parametrize(
    "text,parts",
    [
        (
            (
                ": org.apache.iceberg.exceptions.NotAuthorizedException: Not authorized:"
                " invalid_client: Unknown client"
            ),
            ["rejects these credentials", "expired", "spark.sql.catalog.<name>.credential"],
        ),
        (
            ": org.apache.iceberg.exceptions.ForbiddenException: Forbidden: no",
            ["lack a permission", "spark.sql.catalog.<name>.warehouse"],
        ),
        (
            (
                "Cannot initialize FileIO implementation org.apache.iceberg.aws.s3.S3FileIO:"
                " Cannot find constructor for interface org.apache.iceberg.io.FileIO"
            ),
            ["cannot load org.apache.iceberg.aws.s3.S3FileIO", "iceberg-aws-bundle"],
        ),
        (
            "\nCaused by: java.sql.SQLException: No suitable driver found for jdbc:x",
            ["no driver", "spark.jars.packages"],
        ),
    ],
)
def test_catalog_errors_name_the_setting(text: str, parts: list[str]) -> None:
    message = find_storage_error(text) or ""
    assert message.startswith("the catalog: ")
    assert all(word in message for word in parts), message


@pytest.mark.parametrize(
    "text",
    [
        "[BUG] Expected sorted snapshot log entries.",
        "[BUG] Expected sorted previous metadata log entries.",
        "Invalid update timestamp 1795971413012: before last snapshot log entry at 1795975013012",
    ],
)
def test_clock_behind_the_last_commit_of_iceberg_is_explained(text: str) -> None:
    message = find_storage_error(f": java.lang.IllegalArgumentException: {text}") or ""
    assert message.startswith("Iceberg: the clock of this machine is more than a minute behind")


def test_other_errors_are_not_explained() -> None:
    """Transient errors and errors unrelated to object storage have no explanation."""
    assert find_storage_error(": java.net.ConnectException: s3a://b: Connection refused") is None
    assert find_storage_error("java.nio.file.AccessDeniedException: /etc/x") is None


class Py4JJavaError(Exception):
    """An error as py4j's, whose text is requested from the JVM while it runs."""

    def __init__(self, text: Callable[[], str]) -> None:
        super().__init__()
        self._text = text

    def __str__(self) -> str:
        return self._text()


class TranslatedError(Py4JJavaError):
    """An error as one of PySpark's for a Java exception."""


TranslatedError.__module__ = "pyspark.errors.exceptions.captured"


def test_error_that_pyspark_translates_keeps_its_text() -> None:
    """Another error is not changed: other code explains it."""
    error = TranslatedError(lambda: "Cannot initialize Catalog: odd\n\nJVM stacktrace:\n\tat x")
    with pytest.raises(StorageError, match=r"^Table t: Cannot initialize Catalog: odd"):
        commit_retry.raise_translated_error("Table t", error)
    commit_retry.raise_translated_error("Table t", Py4JJavaError(lambda: "x"))


@pytest.mark.parametrize("is_denied", [True, False])
def test_permanent_error_keeps_its_text_after_the_jvm_ends(*, is_denied: bool) -> None:
    """The final error is printed after the JVM has ended."""
    alive = [True]

    def text() -> str:
        if not alive:
            raise ConnectionRefusedError
        return DENIED if is_denied else ": java.lang.IllegalStateException: odd\n\tat org.x"

    def step() -> None:
        raise Py4JJavaError(text)

    with pytest.raises(StorageError) as caught:
        commit_retry.retry_transient(step, "Table t")
    alive.clear()
    cause = "object storage (bucket lake)" if is_denied else "java.lang.IllegalStateException: odd"
    assert str(caught.value).startswith("Table t: ")
    assert cause in str(caught.value)
    assert "no state that covers it is emitted" in str(caught.value)
