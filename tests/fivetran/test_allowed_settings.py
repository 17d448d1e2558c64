"""Settings that a call may contain at a destination, and what the operator can allow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.exceptions import ConfigurationError
from tap_core.protocols.fivetran.configuration import parse_configuration
from target_spark.config.settings import SCHEMA
from target_spark.errors import BatchFileLoadError
from target_spark.fivetran.allowed_settings import SETTINGS, CallRules, find_value_pattern
from target_spark.fivetran.batch_request import FileKind, FileParams, RequestFile
from target_spark.fivetran.file_reader import read_blocks
from target_spark.target import TargetSpark

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"

DANGEROUS_KEYS = [
    "spark.pyspark.python",
    "spark.pyspark.driver.python",
    "spark.driver.extraJavaOptions",
    "spark.executor.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
    "spark.executor.defaultJavaOptions",
    "spark.yarn.am.extraJavaOptions",
    "spark.driver.extraClassPath",
    "spark.executor.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.executor.extraLibraryPath",
    "spark.driver.userClassPathFirst",
    "spark.jars",
    "spark.jars.packages",
    "spark.jars.ivy",
    "spark.jars.ivySettings",
    "spark.jars.repositories",
    "spark.jars.excludes",
    "spark.files",
    "spark.archives",
    "spark.submit.pyFiles",
    "spark.submit.deployMode",
    "spark.plugins",
    "spark.plugins.defaultList",
    "spark.extraListeners",
    "spark.sql.extensions",
    "spark.sql.queryExecutionListeners",
    "spark.sql.streaming.streamingQueryListeners",
    "spark.executorEnv.LD_PRELOAD",
    "spark.executorEnv.PYTHONPATH",
    "spark.yarn.appMasterEnv.PATH",
    "spark.master",
    "spark.remote",
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.driver.port",
    "spark.blockManager.port",
    "spark.ui.enabled",
    "spark.ui.port",
    "spark.ui.filters",
    "spark.local.dir",
    "spark.serializer",
    "spark.closure.serializer",
    "spark.kryo.registrator",
    "spark.io.compression.codec",
    "spark.shuffle.manager",
    "spark.shuffle.sort.io.plugin.class",
    "spark.eventLog.enabled",
    "spark.eventLog.dir",
    "spark.metrics.conf",
    "spark.metrics.conf.*.sink.csv.class",
    "spark.redaction.regex",
    "spark.authenticate",
    "spark.authenticate.secret.file",
    "spark.ssl.keyStore",
    "spark.worker.resourcesFile",
    "spark.driver.resource.gpu.discoveryScript",
    "spark.executor.resource.gpu.discoveryScript",
    "spark.resources.discoveryPlugin",
    "spark.kubernetes.driver.podTemplateFile",
    "spark.kerberos.keytab",
    "spark.yarn.dist.files",
    "spark.security.credentials.hive.enabled",
    "spark.home",
    "spark.executor.uri",
    "spark.r.command",
    "spark.python.daemon.module",
    "spark.python.worker.module",
    "spark.python.use.daemon",
    "spark.executor.python.worker.log.details",
    "spark.python.profile.dump",
    "spark.logConf",
    "spark.sql.warehouse.dir",
    "spark.sql.catalogImplementation",
    "spark.sql.hive.metastore.jars",
    "spark.sql.hive.metastore.jars.path",
    "spark.sql.adaptive.customCostEvaluatorClass",
    "spark.sql.sources.commitProtocolClass",
    "spark.sql.parquet.output.committer.class",
    "spark.sql.cache.serializer",
    "spark.sql.variable.substitute",
    "spark.sql.streaming.checkpointLocation",
    "spark.sql.artifact.isolation.enabled",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled",
    "spark.sql.catalog.lake.catalog-impl",
    "spark.sql.catalog.lake.io-impl",
    "spark.sql.catalog.lake.metrics-reporter-impl",
    "spark.sql.catalog.lake.jdbc.user",
    "spark.sql.catalog.lake.client.credentials-provider",
    "spark.sql.catalog.lake.rest.auth.type",
    "spark.sql.catalog.lake.rest.sigv4-enabled",
    "spark.sql.catalog.lake.client.factory",
    "spark.sql.catalog.lake.s3.client-factory-impl",
    "spark.sql.catalog.lake.lock-impl",
    "spark.sql.catalog.lake.hadoop.fs.s3a.impl",
    "spark.sql.catalog.lake.table-default.write.data.path",
    "spark.sql.catalog.lake.table-default.write.location-provider.impl",
    "spark.sql.catalog.lake.table-override.write.location-provider.impl",
    "spark.delta.logStore.s3a.impl",
    "spark.delta.logStore.class",
    "spark.databricks.delta.x",
    "spark.hadoop.fs.s3a.impl",
    "spark.hadoop.fs.file.impl",
    "spark.hadoop.fs.AbstractFileSystem.s3a.impl",
    "spark.hadoop.fs.s3a.aws.credentials.provider",
    "spark.hadoop.fs.s3a.signing-algorithm",
    "spark.hadoop.fs.s3a.custom.signers",
    "spark.hadoop.fs.s3a.s3.client.factory.impl",
    "spark.hadoop.fs.s3a.bucket.x.aws.credentials.provider",
    "spark.hadoop.fs.s3a.buffer.dir",
    "spark.hadoop.fs.s3a.security.credential.provider.path",
    "spark.hadoop.fs.s3a.committer.name",
    "spark.hadoop.hadoop.security.credential.provider.path",
    "spark.hadoop.hadoop.security.groups.shell.command",
    "spark.hadoop.hadoop.security.group.mapping",
    "spark.hadoop.hadoop.rpc.socket.factory.class.default",
    "spark.hadoop.io.serializations",
    "spark.hadoop.io.compression.codecs",
    "spark.hadoop.net.topology.script.file.name",
    "spark.hadoop.fs.azure.account.keyprovider.a.dfs.core.windows.net",
    "spark.hadoop.fs.azure.shellkeyprovider.script",
    "spark.hadoop.fs.azure.sas.token.provider.type",
    "spark.hadoop.fs.azure.account.oauth2.msi.endpoint",
    "spark.hadoop.fs.azure.account.oauth2.token.file",
    "spark.hadoop.fs.gs.storage.root.url",
    "spark.hadoop.fs.gs.auth.service.account.json.keyfile",
    "spark.hadoop.fs.gs.auth.access.token.provider",
    "spark.hadoop.google.cloud.auth.service.account.json.keyfile",
    "spark.hadoop.fs.gs.proxy.address",
    "spark.hadoop.hive.metastore.uris",
    "spark.hadoop.hive.exec.pre.hooks",
    "spark.hadoop.hive.metastore.event.listeners",
    "spark.hadoop.javax.jdo.option.ConnectionURL",
    "spark.hadoop.javax.jdo.option.ConnectionDriverName",
    "spark.hadoop.fs.defaultFS",
    "spark.hadoop.fs.viewfs.mounttable.x.link./y",
    "spark.hive.exec.pre.hooks",
]

DOCUMENTED: list[dict[str, Any]] = [
    {"path": "lake", "format": "delta"},
    {
        "path": "s3a://b/lake",
        "format": "iceberg",
        "table_prefix": "f_",
        "target_file_size": 1 << 24,
    },
    {
        "path": "s3a://my-bucket/warehouse",
        "spark": {
            "spark.hadoop.fs.s3a.endpoint": "https://objects.example.com",
            "spark.hadoop.fs.s3a.path.style.access": True,
            "spark.hadoop.fs.s3a.access.key": "AK+/=",
            "spark.hadoop.fs.s3a.secret.key": "s$cr{t",
            "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
            "spark.hadoop.fs.s3a.bucket.my-bucket.access.key": "other",
            "spark.driver.memory": "2g",
            "spark.sql.shuffle.partitions": 16,
        },
    },
    {
        "path": "abfss://c@acc.dfs.core.windows.net/lake",
        "spark": {
            "spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net": "a2V5==",
            "spark.hadoop.fs.azure.account.auth.type.acc.dfs.core.windows.net": "OAuth",
            "spark.hadoop.fs.azure.account.oauth2.client.id.acc.dfs.core.windows.net": "id",
            "spark.hadoop.fs.azure.account.oauth2.client.endpoint.acc.dfs.core.windows.net": (
                "https://login.microsoftonline.com/t/oauth2/token"
            ),
            "spark.hadoop.fs.azure.account.oauth.provider.type": (
                "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
            ),
        },
    },
    {
        "catalog": "lake",
        "format": "iceberg",
        "spark": {
            "spark.sql.catalog.lake": ICEBERG,
            "spark.sql.catalog.lake.type": "rest",
            "spark.sql.catalog.lake.uri": "https://catalog.example.com/api",
            "spark.sql.catalog.lake.warehouse": "main",
            "spark.sql.catalog.lake.credential": "client:secret",
            "spark.sql.catalog.lake.table-default.write.parquet.compression-codec": "zstd",
            "spark.sql.defaultCatalog": "lake",
        },
    },
]


def rules(**variables: str) -> CallRules:
    return CallRules.of("target-spark", {f"TARGET_SPARK_{k}": v for k, v in variables.items()})


def read(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings parsed from a call's configuration, in which every value is text."""
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in configuration.items()
    }
    return parse_configuration(texts, TargetSpark._full_schema())


@pytest.mark.parametrize("configuration", DOCUMENTED)
def test_documented_settings_are_allowed(configuration: dict[str, Any]) -> None:
    rules().check(read(configuration))


@pytest.mark.parametrize("key", DANGEROUS_KEYS)
@pytest.mark.parametrize("value", ["x", True, 1])
def test_dangerous_spark_key_is_refused_and_named(key, value) -> None:
    """SEC1: keys that start programs, load code or read files are refused by name."""
    with pytest.raises(ConfigurationError) as caught:
        rules().check(read({"path": "lake", "spark": {key: value}}))
    assert key in str(caught.value)
    assert f"TARGET_SPARK_ALLOW_SETTINGS={key}" in str(caught.value)


def spellings(key: str) -> list[str]:
    return [key.upper(), key.title(), f" {key}", f"{key} ", f"{key}\n", f"\ufeff{key}", f"{key}\0"]


@pytest.mark.parametrize(
    "key",
    [
        each
        for key in ("spark.driver.extraJavaOptions", "spark.driver.memory", "spark.plugins")
        for each in spellings(key)
    ],
)
def test_misspelled_spark_key_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match="a call may not set this"):
        rules().check(read({"path": "lake", "spark": {key: "2g"}}))


@pytest.mark.parametrize(
    "configuration",
    [
        {"master": "spark://evil:7077"},
        {"remote": "sc://evil"},
        {"jars": '["/tmp/evil.jar"]'},
        {"jars": "/tmp/evil.jar"},
        {"staging": "/etc"},
        {"report": "/etc/cron.d/x"},
        {"delete_batch_files": "true"},
        {"on_schema_change": "fail"},
        {"streams": '{"a": {"table": "b", "on_schema_change": "fail"}}'},
        {"stream_maps": '{"a": {"b": "1"}}'},
        {"stream_map_config": "{}"},
        {"faker_config": '{"locale": "x"}'},
        {"flattening_enabled": "true"},
        {"spark.driver.extraJavaOptions": "-X"},
        {"spark.plugins": "x.Y"},
        {"spark.spark.plugins": "x.Y"},
        {"spark": '{"spark.driver": {"extraJavaOptions": "-X"}}'},
        {"spark": '{"spark": {"driver.extraJavaOptions": "-X"}}'},
        {"spark": '{"spark.driver.memory": "1g", "spark.plugins": "x", "spark.driver.memory": 1}'},
        {"MASTER": "yarn"},
        {"master ": "yarn"},
        {"batch_config": '{"storage": {"root": "/etc"}}'},
        {"nonsense": "1"},
        {"__injected_components_py": "import os"},
    ],
    ids=str,
)
def test_unlisted_setting_is_refused(configuration: dict[str, str]) -> None:
    """SEC1: a setting that is not listed is refused."""
    with pytest.raises(ConfigurationError, match="a call may not set this") as caught:
        rules().check(read({"path": "lake", **configuration}))
    assert "evil" not in str(caught.value)


def test_known_setting_is_suggested_for_a_misspelled_one() -> None:
    with pytest.raises(ConfigurationError, match=r"may not set this\. Did you mean 'format'\?"):
        rules().check(read({"path": "lake", "formt": "delta"}))


def test_every_setting_is_listed_as_allowed_or_refused() -> None:
    """A new setting of the target must be reviewed and put in one of the two lists."""
    refused = {
        "master",
        "remote",
        "engine",
        "engine_idle_seconds",
        "jars",
        "staging",
        "report",
        "report_html",
        "after_load",  # starts programs
        "webhook",  # reaches a host
        "run_history",
        "print_report",
        "on_interrupt",
        "batch_max_files",
        "batch_max_line_bytes",
        "batch_schemes",
        "delete_batch_files",
        "on_schema_change",  # Fivetran itself requests each change of a table
    }
    assert SETTINGS | refused == SCHEMA["properties"].keys()
    assert not SETTINGS & refused


SECRET = "V4LUE"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.hadoop.fs.s3a.endpoint", f"http://${{env.HOME}}.{SECRET}.com"),
        ("spark.hadoop.fs.s3a.access.key", f"${{env:{SECRET}}}"),
        ("spark.hadoop.fs.s3a.secret.key", f"{SECRET}\nspark.plugins=x"),
        ("spark.driver.memory", f"1g -XX:OnError={SECRET}"),
        ("spark.driver.memory", "1g\n"),
        ("spark.sql.shuffle.partitions", f"8;{SECRET}"),
        ("spark.sql.catalog.lake", f"evil.{SECRET}"),
        ("spark.sql.catalog.lake.type", "jdbc"),
        ("spark.sql.catalog.lake.type", "hive"),
        ("spark.sql.catalog.lake.uri", f"jdbc:h2:mem:x;INIT=RUNSCRIPT FROM '{SECRET}'"),
        ("spark.sql.catalog.lake.uri", "thrift://evil:9083"),
        ("spark.sql.catalog.lake.uri", "file:///etc/passwd"),
        ("spark.hadoop.fs.azure.account.oauth.provider.type", "evil.Provider"),
        ("spark.hadoop.fs.azure.account.auth.type", "Custom"),
        ("spark.hadoop.fs.s3a.path.style.access", SECRET),
    ],
)
def test_unsafe_value_is_refused_and_not_shown(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        rules().check(read({"path": "lake", "spark": {key: value}}))
    assert str(caught.value).startswith(key)
    assert SECRET not in str(caught.value)


def test_iceberg_catalog_without_a_type_is_refused() -> None:
    """Without a type Iceberg uses a Hive catalog, whose metastore can name JAR files."""
    with pytest.raises(ConfigurationError, match=r"catalog\.lake\.type"):
        rules().check(read({"path": "lake", "spark": {"spark.sql.catalog.lake": ICEBERG}}))


@pytest.mark.parametrize(
    "configuration",
    [
        {"path": "/lake/${env:AWS_SECRET_ACCESS_KEY}"},
        {"path": "/lake\n"},
        {"table_prefix": "${system:user.name}"},
        {"streams": '{"a": {"table": "${env:HOME}"}}'},
        {"partition_by": '["${env:HOME}"]'},
    ],
    ids=str,
)
def test_value_with_a_spark_variable_is_refused(configuration) -> None:
    """SEC1: a value that contains a variable such as ${env:X} is refused."""
    with pytest.raises(ConfigurationError, match="a call may not use"):
        rules().check(read({"path": "lake", **configuration}))


@given(st.from_regex(r"spark\.[a-zA-Z0-9._*-]{1,60}", fullmatch=True))
def test_unlisted_spark_key_is_refused(key: str) -> None:
    """SEC1: a random Spark key that is not listed is refused."""
    if find_value_pattern(key) is None:
        with pytest.raises(ConfigurationError):
            rules().check({"path": "lake", "spark": {key: "1"}})


DANGEROUS_SUFFIXES = (
    "impl class classes provider factory listeners hooks script command file files path"
)


@given(st.sampled_from(DANGEROUS_SUFFIXES.split()), st.from_regex(r"[a-z.-]{0,30}", fullmatch=True))
def test_keys_named_like_classes_or_files_are_never_listed(last: str, middle: str) -> None:
    for begin in (
        "spark.hadoop.fs.s3a.",
        "spark.sql.catalog.x.",
        "spark.hadoop.fs.azure.",
        "spark.",
    ):
        assert find_value_pattern(f"{begin}{middle}.{last}") is None
        assert find_value_pattern(f"{begin}{middle}-{last}") is None


# Settings allowed by the operator


def test_operator_allows_settings_and_spark_keys_by_name_or_pattern() -> None:
    call_rules = rules(
        ALLOW_SETTINGS="master, spark.jars*,spark.hadoop.hive.*,spark.sql.catalog.lake*"
    )
    call_rules.check({"path": "x", "master": "local[2]"})
    keys = {
        "spark.jars.packages": "a:b:1",
        "spark.hadoop.hive.metastore.uris": "thrift://metastore:9083",
        "spark.sql.catalog.lake": "com.example.Catalog",
        "spark.sql.catalog.lake.type": "jdbc",
    }
    call_rules.check({"path": "x", "spark": keys})
    for other in ("spark.sql.catalog.other.catalog-impl", "spark.plugins", "xspark.jars"):
        with pytest.raises(ConfigurationError, match="may not set"):
            call_rules.check({"path": "x", "spark": {other: "y"}})
    with pytest.raises(ConfigurationError, match="jars"):
        call_rules.check({"path": "x", "jars": ["y"]})


def test_allowing_the_spark_setting_does_not_allow_its_keys() -> None:
    with pytest.raises(ConfigurationError, match=r"spark\.plugins"):
        rules(ALLOW_SETTINGS="spark").check({"path": "x", "spark": {"spark.plugins": "y"}})


@pytest.mark.parametrize(
    ("address", "is_inside"),
    [
        ("{root}/lake", True),
        ("{root}/lake/a/b", True),
        ("file://{root}/lake/a", True),
        ("file:{root}/lake/a", True),
        ("s3a://bucket/tables", True),
        ("s3a://bucket/tables/a", True),
        ("S3A://bucket/tables/a", True),
        ("s3://bucket/tables/a", True),
        ("s3://other/tables", False),
        ("{root}", False),
        ("{root}/lakes", False),
        ("{root}/lake/../other", False),
        ("{root}/lake/link", False),
        ("file://{root}/lake/%2e%2e/other", False),
        ("s3a://bucket/tablespace", False),
        ("s3a://bucket/tables/../x", False),
        ("s3a://bucket/tables/%2e%2e/x", False),
        ("s3a://bucket/", False),
        ("s3a://other/tables", False),
        ("s3a://x@bucket/tables", False),
        ("s3a://bucket/tables?x=1", False),
        ("hdfs://bucket/tables", False),
        ("s3a://[bucket/tables", False),
        ("/etc", False),
        ("{root}/lake/\0", False),
    ],
)
def test_tables_are_allowed_only_below_the_operators_paths(
    tmp_path: Path, address, is_inside
) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "link").symlink_to("/etc")
    call_rules = rules(ALLOW_PATHS=f"{tmp_path}/lake, s3a://bucket/tables/")
    for name in ("path", "warehouse"):
        settings = {name: address.format(root=tmp_path)}
        if is_inside:
            call_rules.check(settings)
        else:
            with pytest.raises(ConfigurationError, match="ALLOW_PATHS"):
                call_rules.check(settings)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"path": "/lake/a", "table_prefix": "../../other/"}, "table_prefix"),
        ({"path": "s3://bucket/a", "table_prefix": "../x/"}, "table_prefix"),
        ({"path": "/lake/a", "streams": {"x": {"table": "../../other/x"}}}, "table"),
        ({"path": "/lake", "streams": {"x": {"table": ".."}}}, "table"),
        ({"path": "/lake", "streams": {"x": {"table": "link/x"}}}, "table"),
        ({"table_prefix": "../"}, "table_prefix"),
    ],
)
def test_names_of_tables_do_not_lead_out_of_the_operators_paths(
    tmp_path: Path, settings: dict[str, Any], name: str
) -> None:
    """SEC1, SEC22: a call's tables are below the operator's paths, whatever their names are."""
    (tmp_path / "link").symlink_to("/etc")
    call_rules = rules(ALLOW_PATHS=f"{tmp_path},s3a://bucket")
    moved = json.loads(json.dumps(settings).replace("/lake", str(tmp_path)))
    with pytest.raises(ConfigurationError, match=rf"^{name}: .*ALLOW_PATHS"):
        call_rules.check(moved)
    call_rules.check(
        {"path": str(tmp_path), "table_prefix": "a_", "streams": {"x": {"table": "b"}}}
    )


def test_call_may_not_define_a_catalog_when_paths_are_restricted() -> None:
    call_rules = rules(ALLOW_PATHS="/lake")
    call_rules.check({"catalog": "theirs"})
    with pytest.raises(ConfigurationError, match=r"spark\.sql\.catalog\.x\.warehouse"):
        call_rules.check({"path": "/lake/a", "spark": {"spark.sql.catalog.x.warehouse": "/etc"}})


def test_batch_files_are_read_only_below_the_operators_folders(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link.csv").symlink_to("/etc/passwd")
    call_rules = rules(ALLOW_FILES=str(tmp_path / "in"))
    inside = str(tmp_path / "in" / "a.csv")
    assert call_rules.check_file(inside) == inside
    assert rules().check_file("/etc/passwd") == "/etc/passwd"
    for path in (
        "/etc/passwd",
        f"{tmp_path}/in/link.csv",
        f"{tmp_path}/in/../b.csv",
        "a.csv",
        "a\0b",
    ):
        with pytest.raises(BatchFileLoadError, match="TARGET_SPARK_ALLOW_FILES") as caught:
            call_rules.check_file(path)
        assert "passwd" not in str(caught.value)


def test_links_in_a_circle_are_not_reported_as_a_bug(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    circle = str(tmp_path / "a" / "b.csv")
    call_rules = rules(ALLOW_FILES=str(tmp_path), ALLOW_PATHS=str(tmp_path))
    call_rules.check({"path": circle})
    file = RequestFile(call_rules.check_file(circle), FileKind.REPLACE)
    with pytest.raises(BatchFileLoadError, match=r"cannot be read: Too many levels of symbolic"):
        next(read_blocks(file, FileParams()))


def test_unknown_setting_names_are_shortened_to_one_line_in_errors() -> None:
    names = {f"x\n\x1b[31m{'y' * 5000}{number}": "1" for number in range(50)}
    with pytest.raises(ConfigurationError) as caught:
        rules().check(names)
    assert len(str(caught.value)) < 2000
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
