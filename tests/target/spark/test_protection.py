"""Access of other users to a running Spark: its command lines, blocks, web pages and logs."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import shlex
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from target_spark.errors import SparkUnavailableError
from target_spark.spark.access_protection import (
    find_weaknesses,
    find_weaknesses_of_remote,
    loopback_environment,
    warn_if_open,
)
from target_spark.spark.launch_files import launch_environment
from target_spark.spark.session import SparkSettings, build_start_conf, check_java
from tests.cluster.standalone import list_descendants
from tests.target.loader.block_holder import hold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from target_spark.spark.session import Session

JAVA = "/java/bin/java"
CLIENT = Path(__file__).with_name("block_client.py")
SAMPLER = Path(__file__).with_name("command_sampler.py")

SECRETS = {
    "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net": "CANARY-01==",
    "spark.hadoop.fs.azure.sas.fixed.a.dfs.core.windows.net": "sv=1&sig=CANARY-02",
    "spark.hadoop.fs.azure.sas.container.account.blob.core.windows.net": "CANARY-03",
    "spark.hadoop.fs.azure.account.oauth2.client.secret": "CANARY-04",
    "spark.hadoop.fs.gs.auth.service.account.private.key": "CANARY-05",
    "spark.hadoop.google.cloud.auth.service.account.private.key": "CANARY-06",
    "spark.hadoop.fs.s3a.access.key": "CANARY-07",
    "spark.hadoop.fs.s3a.secret.key": "CANARY-08",
    "spark.hadoop.fs.s3a.session.token": "CANARY-09",
    "spark.hadoop.fs.s3a.encryption.key": "CANARY-10",
    "spark.hadoop.fs.swift.service.x.apikey": "CANARY-11",
    "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:;user=a;x=CANARY-12",
    "spark.hadoop.javax.jdo.option.ConnectionPassword": "CANARY-13",
    "spark.hadoop.parquet.encryption.key.list": "k1:CANARY-14",
    "spark.hadoop.fs.sftp.key.passphrase": "CANARY-15",
    "spark.sql.catalog.rest.credential": "client:CANARY-16",
    "spark.sql.catalog.rest.token": "CANARY-17",
    "spark.sql.catalog.rest.header.Authorization": "Basic CANARY-18",
    "spark.sql.catalog.rest.header.X-Custom": "CANARY-19",
    "spark.sql.catalog.pg.uri": "jdbc:postgresql://h/db?user=a&password=CANARY-20",
    "spark.sql.catalog.pg2.uri": "jdbc:postgresql://user:CANARY-21@h/db",
    "spark.sql.catalog.ora.uri": "jdbc:oracle:thin:scott/CANARY-22@h:1521/x",
    "spark.sql.catalog.gcs.gcs.encryption-key": "CANARY-23",
    "spark.sql.catalog.s3.s3.sse.key": "CANARY-24",
    "spark.sql.catalog.s3.s3.access-key-id": "CANARY-25",
    "spark.sql.catalog.adls.adls.connection-string.account": "CANARY-26",
    "spark.kafka.sasl.jaas.config": "x required y=CANARY-27;",
    "spark.ssl.keyPassword": "CANARY-28",
    "spark.hadoop.proxy": "http://user:CANARY-29@proxy:3128",
    "spark.snowflake.pem_private_key": "CANARY-30",
    "spark.http.x": "Bearer CANARY-31",
    "spark.es.net.http.auth.pass": "CANARY-34",
    "spark.redis.auth": "CANARY-35",
    "spark.db.pwd": "CANARY-36",
    "spark.hadoop.fs.cosn.iam.api.key": "CANARY-37",
    "spark.mongodb.read.connection.uri": "mongodb://CANARY-38",
    "spark.x.cookie": "CANARY-39",
    "spark.driver.extraJavaOptions": "-Djavax.net.ssl.trustStorePassword=CANARY-32 -Da=1",
    "spark.driver.defaultJavaOptions": "'-Dhttp.proxyPassword=CANARY-33' -Db=2",
}
"""Settings that contain a secret, recognized by their names or values."""

PLAIN = {
    "spark.executor.memory": "2g",
    "spark.sql.catalog.rest.uri": "https://catalog.example/api",
    "spark.sql.warehouse.dir": "/data/design/keys",
    "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
    "spark.hadoop.hadoop.security.authorization": "true",
    "spark.io.encryption.keySizeBits": "256",
    "target_spark.source.kept": "true",
    "target_spark.fivetran": "789c8bae56ca4e2db4",
    "sort-order": "id ASC",
    "delta.deletedFileRetentionDuration": "interval 168 hours",
}
"""Settings and table properties without secrets, which must stay readable."""


def settings_shown(arguments: dict[str, str], conf: dict[str, str]) -> list[str]:
    text = " ".join(arguments.values())
    return [key for key, value in conf.items() if key in text or value in text]


# Without Spark


def test_settings_are_not_passed_to_the_jvm_as_arguments() -> None:
    """SEC6: settings reach the JVM in private files, which are removed after the start."""
    conf = {**PLAIN, **SECRETS, "spark.master": "local[1]"}
    with launch_environment(conf, JAVA, {}) as arguments:
        assert settings_shown(arguments, conf) == []
        words = shlex.split(arguments["PYSPARK_SUBMIT_ARGS"])
        assert words[0] == "--properties-file"
        assert words[2:] == ["--load-spark-defaults", "pyspark-shell"]
        folder = Path(words[1]).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        files = list(folder.iterdir())
        assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 3
        text = "".join(file.read_text(encoding="utf-8") for file in files)
        assert all(f"CANARY-{number:02}" in text for number in range(1, len(SECRETS) + 1))
    assert not folder.exists()


def test_files_of_a_failed_start_are_removed() -> None:
    files: list[Path] = []

    def fail() -> None:
        with launch_environment(SECRETS, JAVA, {}) as arguments:
            files.append(Path(shlex.split(arguments["PYSPARK_SUBMIT_ARGS"])[1]))
            assert files[0].is_file()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not files[0].parent.exists()


def test_settings_from_the_environment_apply_and_are_hidden(tmp_path: Path) -> None:
    theirs = tmp_path / "their.properties"
    theirs.write_text("spark.theirs=1\nspark.both=theirs", encoding="utf-8")
    environ = {
        "PYSPARK_SUBMIT_ARGS": f"--conf spark.x.password=CANARY-1 --jars 'a b.jar'"
        f" -c spark.y=CANARY-2 --properties-file {theirs} --conf=spark.z=CANARY-3"
        " --driver-java-options '-Dpassword=CANARY-4 -Xss4m' pyspark-shell",
        "SPARK_SUBMIT_OPTS": "-Dtoken=CANARY-5 -XX:+UseG1GC",
    }
    with launch_environment({"spark.both": "ours"}, JAVA, environ) as arguments:
        assert "CANARY" not in " ".join(arguments.values())
        words = shlex.split(arguments["PYSPARK_SUBMIT_ARGS"])
        assert words[2:] == ["--jars", "a b.jar", "pyspark-shell"]
        file = Path(words[1])
        lines = file.read_text(encoding="utf-8").splitlines()
        assert lines.index("spark.both=theirs") < lines.index("spark.both=ours")
        assert {"spark.theirs=1", "spark.x.password=CANARY-1", "spark.y=CANARY-2"} <= set(lines)
        assert arguments["SPARK_SUBMIT_OPTS"] == (
            f'-XX:+UseG1GC "@{file.parent}/java-submit.options"'
        )
        options = (file.parent / "java-1.options").read_text(encoding="utf-8")
        assert options == '"-Dpassword=CANARY-4"\n'


@pytest.mark.parametrize("options", ["-Da='CANARY", '-Da="CANARY', "-Da=CANARY\\"])
def test_options_with_an_unpaired_quote_are_rejected_without_being_shown(options: str) -> None:
    conf = {"spark.driver.extraJavaOptions": options}
    with pytest.raises(SparkUnavailableError, match="Options has an unpaired quot") as raised:
        launch_environment(conf, JAVA, {}).__enter__()
    assert "CANARY" not in str(raised.value)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,3]", "local-cluster[1,1,1024]"])
def test_local_master_requires_a_new_secret_for_each_run(
    master: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC3: a local master requires a secret that is new for each run."""
    first, second = (
        build_start_conf(SparkSettings(master=master, format="parquet"), "4.1.4") for _ in range(2)
    )
    assert first["spark.authenticate"] == "true"
    assert len(first["spark.authenticate.secret"]) >= 32
    assert first["spark.authenticate.secret"] != second["spark.authenticate.secret"]
    warn_if_open(master, first)
    assert not caplog.records
    user_conf = {"spark.authenticate": "false", "spark.redaction.regex": "mine"}
    opened = build_start_conf(
        SparkSettings(master=master, format="parquet", conf=user_conf), "4.1.4"
    )
    assert user_conf.items() <= opened.items()
    with caplog.at_level(logging.WARNING):
        warn_if_open(master, opened)
    assert "spark.authenticate is false" in caplog.text


def test_local_spark_listens_on_loopback() -> None:
    assert loopback_environment("local[2]", {}) == {"SPARK_LOCAL_IP": "127.0.0.1"}
    assert loopback_environment("spark://localhost:7077", {}) == {"SPARK_LOCAL_IP": "127.0.0.1"}
    assert loopback_environment("spark://head:7077", {}) == {}
    assert loopback_environment("local", {"SPARK_LOCAL_IP": "10.0.0.1"}) == {}


CLOSED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "s",
    "spark.network.crypto.enabled": "true",
}


@pytest.mark.parametrize(
    ("master", "conf", "arguments"),
    [
        ("local[2]", {}, []),
        ("local[2]", {"spark.authenticate": "false"}, ["spark.authenticate is false"]),
        ("local", {"spark.ui.enabled": "true"}, ["Spark's web UI"]),
        ("spark://head:7077", {}, ["set spark.authenticate", "spark.network.crypto.enabled"]),
        ("spark://127.0.0.1:7077", {}, ["set spark.authenticate", "spark.network.crypto.enabled"]),
        ("spark://head:7077", CLOSED, []),
        ("spark://head:7077", {**CLOSED, "spark.authenticate.secret": ""}, ["without a secret"]),
        ("yarn", {**CLOSED, "spark.authenticate.secret": ""}, []),
        (
            "k8s://https://h",
            {"spark.authenticate": "true", "spark.ssl.rpc.enabled": "true"},
            [],
        ),
        (
            "k8s://https://h",
            {"spark.authenticate": "true"},
            ["spark.network.crypto.enabled"],
        ),
        (
            "yarn",
            {**CLOSED, "spark.ui.enabled": "true", "spark.eventLog.enabled": "true"},
            ["Spark's web UI", "event log in file:/tmp/spark-events"],
        ),
        (
            "yarn",
            {
                **CLOSED,
                "spark.ui.enabled": "true",
                "spark.acls.enable": "true",
                "spark.ui.filters": "a.Filter",
            },
            [],
        ),
        (
            "yarn",
            {**CLOSED, "spark.executor.extraJavaOptions": "-Dx.password=CANARY"},
            ["spark.executor.extraJavaOptions seems to contain a secret"],
        ),
    ],
)
def test_unprotected_cluster_settings_are_reported(
    master: str, conf: dict[str, str], arguments: list[str]
) -> None:
    weaknesses = list(find_weaknesses(master, conf))
    assert len(weaknesses) == len(arguments), weaknesses
    for weakness, word in zip(weaknesses, arguments, strict=True):
        assert word in weakness
        assert "CANARY" not in weakness


@pytest.mark.parametrize(
    ("remote", "is_open"),
    [
        ("sc://head:15002", True),
        ("sc://head", True),
        ("sc://head:15002/;use_ssl=false", True),
        ("sc://localhost.evil.example", True),
        ("sc://head:15002/;use_ssl=true", False),
        ("sc://head:15002/;token=CANARY", False),  # PySpark then takes TLS
        ("sc://localhost:15002", False),
        ("sc://127.0.0.2:15002", False),
        ("sc://[::1]:15002", False),
    ],
)
def test_spark_connect_without_tls_is_reported(remote: str, is_open: bool) -> None:
    weaknesses = list(find_weaknesses_of_remote(remote))
    assert bool(weaknesses) is is_open
    assert all("use_ssl=true" in weakness and "CANARY" not in weakness for weakness in weaknesses)


# With the tests' Spark


@contextlib.contextmanager
def properties_file(conf: dict[str, str]) -> Iterator[str]:
    with launch_environment(conf, JAVA, {}) as arguments:
        yield shlex.split(arguments["PYSPARK_SUBMIT_ARGS"])[1]


@pytest.mark.spark
def test_settings_round_trip_through_the_properties_file(spark: SparkSession) -> None:
    """Java reads from the file what was written, for any characters in keys and values."""
    conf = {"spark.plain": "a,b=c:d", "spark.odd key=:#!": ' "x\\y" ', "spark.lines": "1\n2\r\t3"}
    conf |= {"spark.words": "#é€😀\u2028", "spark.empty": "", "!spark": "\\u0041"}
    jvm: Any = spark.sparkContext._jvm
    with properties_file(conf) as file:
        properties = jvm.java.util.Properties()
        properties.load(jvm.java.io.FileReader(file))
    assert {key: properties.getProperty(key) for key in properties.stringPropertyNames()} == conf


@pytest.mark.spark
def test_command_line_of_the_jvm_contains_no_setting(spark_session: Session) -> None:
    """SEC6: the command line of the JVM contains no setting."""
    command_line = Path(f"/proc/{spark_session.jvm_pid}/cmdline").read_text(encoding="utf-8")
    arguments = command_line.split("\0")
    assert "--conf" not in arguments
    definitions = [word for word in arguments if word.startswith("-D")]
    assert not [word for word in definitions if "spark." in word or "log4j" in word]
    context = spark_session.spark().sparkContext
    secret = context.getConf().get("spark.authenticate.secret")
    assert secret
    assert secret not in command_line
    assert not Path(arguments[arguments.index("--properties-file") + 1]).exists()


@pytest.mark.spark
def test_spark_redacts_secrets_and_shows_other_settings(spark: SparkSession) -> None:
    """SEC5: Spark redacts settings that are secret by name or value, and shows others."""
    jvm: Any = spark.sparkContext._jvm
    conf = spark.sparkContext._jsc.sc().conf()
    utils: Any = jvm.org.apache.spark.util.Utils

    def shown(settings: dict[str, str]) -> list[str]:
        java = jvm.java.util.HashMap()
        for key, value in settings.items():
            java.put(key, value)
        scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala(java).toSeq()
        redacted = utils.redact(conf, scala)
        pairs = [redacted.apply(index) for index in range(redacted.size())]
        return [pair._1() for pair in pairs if pair._2() == settings[pair._1()]]

    assert shown(SECRETS) == []
    assert sorted(shown(PLAIN)) == sorted(PLAIN)
    address = "jdbc:postgresql://user:CANARY-1@h/db?password=CANARY-2&x=1"
    plan = spark.range(1).selectExpr(f"'{address}' AS a")._jdf.queryExecution().toString()
    assert "CANARY" not in plan
    assert "redacted" in plan


def listening_ports(pid: int) -> dict[int, str]:
    """Return the ports on which a process listens, and the address of each in hex."""
    sockets = set()
    with contextlib.suppress(OSError):  # a process that has just ended
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                sockets.add(str(link.readlink()).removeprefix("socket:[").rstrip("]"))
    addresses = {}
    for table in ("tcp", "tcp6"):
        text = Path(f"/proc/net/{table}").read_text(encoding="ascii")
        for line in text.splitlines()[1:]:
            fields = line.split()
            address, _, port = fields[1].partition(":")
            if fields[3] == "0A" and fields[9] in sockets:
                addresses[int(port, 16)] = address
    return addresses


def is_loopback(address: str) -> bool:
    """Return True if an address, as `/proc` writes it, is a loopback address."""
    mapped = "0000000000000000FFFF0000"
    return address.removeprefix(mapped).endswith("7F") or address == "0" * 24 + "01000000"


def fetch_without_secret(
    ports: list[int], blocks: list[str], streams: list[str]
) -> dict[str, bytes]:
    """Return the data that a client without a secret gets, as another user if possible."""
    request = json.dumps({"ports": ports, "blocks": blocks, "streams": streams})
    process = subprocess.run(
        [sys.executable, str(CLIENT)], input=request, capture_output=True, text=True, check=True
    )
    output = json.loads(process.stdout)
    assert output["uid"] != 0
    return {name: base64.b64decode(data) for name, data in output["got"].items()}


@pytest.mark.spark
def test_other_users_get_no_blocks_of_a_running_spark(spark_session: Session) -> None:
    """SEC3: another user gets no rows, broadcasts or files from a running local Spark.

    The control, a Spark that requires no secret, is among the thorough tests.
    """
    assert spark_session.jvm_pid is not None
    blocks, cached_frames = hold(spark_session.spark(), "MARKED-ROW-")
    assert [name for name in blocks if name.startswith("shuffle")]
    ports = listening_ports(spark_session.jvm_pid)
    assert len(ports) >= 3
    assert all(map(is_loopback, ports.values())), ports
    jars = spark_session.spark().sparkContext.getConf().get("spark.jars") or ""
    streams = [f"/jars/{Path(jar).name}" for jar in jars.split(",") if jar]
    assert fetch_without_secret(list(ports), blocks, streams) == {}
    del cached_frames


# With their own Spark


@pytest.fixture
def other_java(tmp_path: Path) -> str:
    """Return a library folder with the JVM of another Java."""
    folder = tmp_path / "other" / "lib" / "server"
    folder.mkdir(parents=True)
    java = check_java()
    (folder / "libjvm.so").symlink_to(Path(java).resolve().parents[1] / "lib/server/libjvm.so")
    return str(folder)


def test_java_options_stay_hidden_with_any_library_path(other_java: str, tmp_path: Path) -> None:
    """Java could re-execute itself with the hidden options on its command line."""
    options = {"spark.driver.extraJavaOptions": "-Dpassword=CANARY"}
    program = tmp_path / "Shown.java"
    program.write_text(
        "import java.nio.file.*; class Shown { public static void main(String[] a) throws Exception"
        ' { System.out.print(Files.readString(Path.of("/proc/self/cmdline"))'
        ' + System.getProperty("password")); } }',
        encoding="utf-8",
    )
    java = check_java()
    environment = {"LD_LIBRARY_PATH": f"{tmp_path}:{other_java}"}
    with launch_environment(options, java, environment) as variables:
        folder = Path(shlex.split(variables["PYSPARK_SUBMIT_ARGS"])[1]).parent
        command = [java, f"@{folder}/java-1.options", str(program)]
        process = subprocess.run(
            command, env={**environment, **variables}, capture_output=True, text=True, check=True
        )
    line, _, known = process.stdout.rpartition("\0")
    assert known == "CANARY"
    assert "CANARY" not in line
    library = {"spark.driver.extraLibraryPath": other_java}
    with launch_environment(library, java, {}) as variables:
        assert variables["LD_LIBRARY_PATH"].endswith("/lib/server")
    with launch_environment({}, java, {}) as variables:
        assert "LD_LIBRARY_PATH" not in variables


@contextlib.contextmanager
def start_block_holder(master: str, **spark: str) -> Iterator[dict[str, Any]]:
    """Start a Spark that keeps marked blocks during the context; yield its description."""
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.target.loader.block_holder"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    with program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(json.dumps({"master": master, "spark": spark}) + "\n")
        program.stdin.flush()
        yield json.loads(program.stdout.readline())
        program.stdin.close()
        program.wait()


def find_small_jar() -> str:
    """Return the path of a small jar of Spark."""
    import pyspark

    jars = Path(pyspark.__path__[0], "jars").iterdir()
    return str(min(jars, key=lambda jar: jar.stat().st_size))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[1,1,1200]"])
def test_blocks_are_readable_only_without_authentication(master: str) -> None:
    """The control of the test above, also for a master that starts executors."""
    jar = find_small_jar()
    stream = f"/jars/{Path(jar).name}"
    conf = {"spark.jars": jar, "spark.executor.memory": "1200m"}

    def stolen(spark: dict[str, Any]) -> dict[str, bytes]:
        processes = [spark["jvm"], *list_descendants(spark["jvm"])]
        ports = {port: host for pid in processes for port, host in listening_ports(pid).items()}
        assert all(map(is_loopback, ports.values())), ports
        shuffles = [f"shuffle_0_{task}_{part}" for task in range(4) for part in range(2)]
        return fetch_without_secret(list(ports), [*spark["blocks"], *shuffles], [stream])

    with start_block_holder(master, **conf, **{"spark.authenticate": "false"}) as spark:
        blocks = stolen(spark)
        assert blocks.keys() >= {*spark["blocks"], "shuffle_0_0_0", stream}
        assert all(b"MARKED-ROW-" in data for name, data in blocks.items() if name != stream)
    with start_block_holder(master, **conf) as spark:
        assert stolen(spark) == {}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.spark
def test_no_secret_is_visible_during_the_whole_run(tmp_path: Path) -> None:
    """SEC6: no command line, page or event log shows a secret while Spark runs."""
    events = tmp_path / "events"
    events.mkdir()
    conf = {
        **SECRETS,
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    sampler = subprocess.Popen(
        [sys.executable, str(SAMPLER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with sampler, start_block_holder("local[2]", **conf) as spark:
        ports = listening_ports(spark["jvm"])
        assert all(map(is_loopback, ports.values())), ports
        texts = {}
        for page in ("environment", "jobs", "SQL"):
            address = f"{spark['page']}/{page}/"
            with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310
                texts[page] = answer.read().decode()
        output, _ = sampler.communicate()
    texts |= {str(file): file.read_text() for file in events.rglob("*") if file.is_file()}
    sampled = json.loads(output)
    assert {"org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"} <= set(
        sampled["seen"]
    )
    assert sampled["found"] == []
    assert [name for name, text in texts.items() if "CANARY" in text] == []
    assert "fs.azure.account.key" in texts["environment"]
    assert len(texts) >= 4
