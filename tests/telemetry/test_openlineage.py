"""Events of runs of target-spark, as an OpenLineage server receives them."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from target_spark.config.options import RunInfo
from target_spark.loader.lineage import begin_lineage, name_table
from target_spark.tables.table import Table
from tests.http.server import Reply, Server, serving
from tests.other_user import set_home
from tests.target.cli.test_target_cli import ROOT, environment, record, run, schema, state

KEY = "K3Y4567890ABC"

FACETS = {
    "type": "object",
    "additionalProperties": {"type": "object", "required": ["_producer", "_schemaURL"]},
}
DATASETS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["namespace", "name"],
        "properties": {"facets": FACETS, "inputFacets": FACETS, "outputFacets": FACETS},
    },
}
RUN_EVENT = {
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "eventTime": {"type": "string", "format": "date-time"},
        "producer": {"type": "string", "format": "uri"},
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {"runId": {"type": "string", "format": "uuid"}, "facets": FACETS},
        },
        "job": {
            "type": "object",
            "required": ["namespace", "name"],
            "properties": {"facets": FACETS},
        },
        "inputs": DATASETS,
        "outputs": DATASETS,
    },
}
"""JSON Schema of the properties that OpenLineage's specification requires in a run event."""


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        server.answers(Reply(status=201))
        yield server


def load(
    tmp_path: Path, data: bytes, variables: dict[str, str], **config: Any
) -> subprocess.CompletedProcess[bytes]:
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = environment(**variables, PYTHONPATH=paths, JAVA_HOME=str(tmp_path / "no-java"))
    settings = {"format": "delta", "small_batches": "delta-rs", "job": "orders", **config}
    return run(tmp_path, data, env=env, **settings)


def variables(server: Server) -> dict[str, str]:
    return {"OPENLINEAGE_URL": server.url, "OPENLINEAGE_API_KEY": KEY}


def received(server: Server) -> list[dict[str, Any]]:
    """Return the events that a server got, each of which is valid."""
    events = [request.json for request in server.requests]
    for event in events:
        jsonschema.validate(event, RUN_EVENT, format_checker=jsonschema.FormatChecker())
    return events


def test_complete_run_sends_its_start_and_its_datasets(tmp_path: Path, server: Server) -> None:
    data = b"".join([schema("a", "id"), record(1), record(2), state(1)])
    process = load(tmp_path, data, {**variables(server), "OPENLINEAGE_NAMESPACE": "lake"})
    assert process.returncode == 0, process.stderr
    start, end = received(server)
    assert {request.path for request in server.requests} == {"/api/v1/lineage"}
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert (end["job"]["namespace"], end["job"]["name"]) == ("lake", "orders")
    assert end["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    (source,), (table,) = end["inputs"], end["outputs"]
    assert (source["namespace"], source["name"]) == ("stream://orders", "a")
    assert source["inputFacets"]["inputStatistics"]["rowCount"] == 2
    assert (table["namespace"], table["name"]) == ("file", str(tmp_path / "tables" / "a"))
    assert {"name": "id", "type": "bigint"}.items() <= table["facets"]["schema"]["fields"][
        0
    ].items()
    assert table["facets"]["storage"]["storageLayer"] == "delta"
    statistics = table["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["fileCount"]) == (2, 1)
    assert statistics["size"] > 0


@pytest.mark.thorough
def test_changed_columns_are_a_facet(tmp_path: Path, server: Server) -> None:
    load(tmp_path, b"".join([schema("a", "id"), record(1), state(1)]), {})
    wider = json.loads(schema("a", "id"))
    wider["schema"]["properties"]["name"] = {"type": "string"}
    data = b"".join([json.dumps(wider).encode() + b"\n", record(2), state(2)])
    process = load(tmp_path, data, variables(server))
    assert process.returncode == 0, process.stderr
    (table,) = received(server)[-1]["outputs"]
    (change,) = table["facets"]["targetSpark_columnChanges"]["changes"]
    assert (change["column"], change["type"], change["kind"]) == ("name", "string", "add")


def test_failed_run_sends_its_error_without_secrets(tmp_path: Path, server: Server) -> None:
    """SEC5: the error of the event contains no secret setting."""
    secret = "S3CR3T456789"
    data = schema("a", "id") + b'{"type":"%s"}\n' % secret.encode()
    settings = {"spark": {"spark.hadoop.fs.s3a.secret.key": secret}}
    process = load(tmp_path, data, variables(server), **settings)
    assert process.returncode == 1
    start, end = received(server)
    assert (start["eventType"], end["eventType"]) == ("START", "FAIL")
    error = end["run"]["facets"]["errorMessage"]
    assert error["message"].startswith("Line 2")
    assert secret not in json.dumps(end)


def test_refusing_server_is_a_warning_without_the_key(tmp_path: Path, server: Server) -> None:
    """SEC5: a failure never affects the run, and its message has no credentials."""
    server.answers(Reply(f"unknown {KEY}", status=401))
    process = load(tmp_path, schema("a", "id") + record(1) + state(1), variables(server))
    assert process.returncode == 0, process.stderr
    assert b"OpenLineage did not get the event COMPLETE of this run" in process.stderr
    assert KEY.encode() not in process.stderr


def test_key_of_a_transport_in_a_list_is_hidden(
    tmp_path: Path,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SEC5: a composite transport logs the response, in which the server may repeat the key."""
    server.answers(Reply(status=403, reason=f"unknown key {KEY}"))
    http_transport = {"type": "http", "url": server.url, "auth": {"type": "api_key", "apiKey": KEY}}
    transport = {"type": "composite", "transports": [{"name": "first", **http_transport}]}
    file = tmp_path / "lineage.yml"
    file.write_text(json.dumps({"transport": transport}))
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(file))
    lineage = begin_lineage(RunInfo("job", str(uuid.uuid4()), 1), "delta", {})
    assert lineage is not None
    lineage.end({"outcome": "complete", "streams": {}})
    assert "unknown key ***" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.thorough
def test_silent_server_delays_the_end_of_a_run_by_seconds_only(
    tmp_path: Path, server: Server
) -> None:
    server.answers(Reply(silent=True))
    process = load(tmp_path, schema("a", "id") + record(1) + state(1), variables(server))
    assert process.returncode == 0, process.stderr
    assert b"OpenLineage did not take all events of this run within 10 seconds" in process.stderr


@pytest.mark.thorough
def test_file_of_the_client_switches_lineage_on(tmp_path: Path, server: Server) -> None:
    transport = {"type": "http", "url": server.url, "auth": {"type": "api_key", "apiKey": KEY}}
    file = tmp_path / "openlineage.yml"
    file.write_text(json.dumps({"transport": transport}))
    file.chmod(0o666)
    data = schema("a", "id") + record(1) + state(1)
    assert load(tmp_path, data, {"OPENLINEAGE_DISABLED": "true"}).returncode == 0
    process = load(tmp_path, data, {})
    assert process.returncode == 0
    assert (
        b"openlineage.yml, which may name code to load, may be written by every user"
        in process.stderr
    )
    assert not server.requests
    file.chmod(0o644)
    assert load(tmp_path, data, {}).returncode == 0
    assert [event["eventType"] for event in received(server)] == ["START", "COMPLETE"]
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("is_link", [True, False])
def test_file_that_another_user_can_replace_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_link: bool
) -> None:
    """SEC18: between check and use, the owner of its folder could replace a file or a link."""
    (tmp_path / "own.yml").write_text('{"transport": {"type": "console"}}')
    shared = tmp_path / "shared"
    shared.mkdir()
    if is_link:
        (shared / "openlineage.yml").symlink_to(tmp_path / "own.yml")
    else:
        (tmp_path / "own.yml").rename(shared / "openlineage.yml")
    shared.chmod(0o777)
    monkeypatch.chdir(shared)
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    assert begin_lineage(RunInfo("job", str(uuid.uuid4()), 1), "delta", {}) is None
    assert f"is in the folder {shared}, which may be written by every user" in caplog.text


@pytest.mark.parametrize("home", ["/" + "x" * 300, None])
def test_home_folder_that_cannot_be_read_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    """For example, a container runs as another user than the one that ``HOME`` belongs to."""
    monkeypatch.chdir(tmp_path)
    set_home(monkeypatch, home)
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    assert begin_lineage(RunInfo("job", str(uuid.uuid4()), 1), "delta", {}) is None


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (Table("/lake/a b", "a b"), ("file", "/lake/a b")),
        (Table("file:///lake/a", "a"), ("file", "/lake/a")),
        (Table("s3a://bucket/lake/a", "a"), ("s3://bucket", "lake/a")),
        (Table("s3a://key:pass@bucket/lake/a", "a"), ("s3://bucket", "lake/a")),
        (Table("ftp://me:pass@host:21/lake/a", "a"), ("ftp://host:21", "/lake/a")),
        (Table("gs://bucket/a/", "a"), ("gs://bucket", "a")),
        (
            Table("abfss://box@store.dfs.core.windows.net/lake/a", "a"),
            ("abfss://box@store.dfs.core.windows.net", "lake/a"),
        ),
        (Table("hdfs://name:8020/lake/a", "a"), ("hdfs://name:8020", "/lake/a")),
        (Table("", "a", ("rest", "db", "a")), ("https://catalog.example/v1", "db.a")),
        (Table("", "a", ("hive", "db", "a")), ("hive://meta:9083", "db.a")),
        (Table("", "a", ("login", "db", "a")), ("hive://meta:9083", "db.a")),
        (Table("", "a", ("jdbc", "db", "a")), ("jdbc:mysql://***@host/lake", "db.a")),
        (Table("", "a", ("mssql", "db", "a")), ("jdbc:sqlserver://host;password=***", "db.a")),
        (Table("", "a", ("oracle", "db", "a")), ("jdbc:oracle:thin:***@host/lake", "db.a")),
        (Table("", "a", ("other", "db", "a")), ("other", "db.a")),
        (Table("", "a", ("db", "a")), ("spark_catalog", "db.a")),
    ],
)
def test_tables_are_named_by_openlineages_rules(table: Table, name: tuple[str, str]) -> None:
    """SEC5: the names have no login of a location or a catalog."""
    conf = {
        "spark.sql.catalog.rest.uri": "https://catalog.example/v1",
        "spark.sql.catalog.hive.uri": "thrift://meta:9083",
        "spark.sql.catalog.login.uri": "thrift://me:pass@meta:9083",
        "spark.sql.catalog.jdbc.uri": "jdbc:mysql://me:pass@host/lake",
        "spark.sql.catalog.mssql.uri": "jdbc:sqlserver://host;password=pass",
        "spark.sql.catalog.oracle.uri": "jdbc:oracle:thin:me/pass@host/lake",
    }
    assert name_table(table, conf) == name
