"""Loads into catalogs, with the configurations of docs/catalogs.md.

Each block of that page is read by a test, and its addresses are replaced by those of a server of
the test.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from target_spark.config import settings
from tests.cluster.s3_server import KEY, SECRET, S3Server
from tests.docs.test_code_blocks import find_blocks
from tests.peers import missing_reason, peer_python
from tests.target.writers.catalog_servers import (
    CLIENT,
    UNITY_CATALOG,
    SignatureGateway,
    TokenGateway,
    hive_metastore,
    rest_catalog,
    s3_tables_routes,
    unity_catalog,
)
from tests.target.writers.unity_catalog import TOKEN, UnityCatalogServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.postgres import Server

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "catalogs.md").read_text("utf-8")
BLOCKS: Final = {
    block.options["file"]: json.loads(block.body)
    for block in find_blocks(PAGE)
    if block.language == "json"
}
PROGRAM: Final = next(block.body for block in find_blocks(PAGE) if block.language == "python")
"""The program of the page that registers Delta tables in Unity Catalog."""

CATALOG: Final = "spark.sql.catalog.lake"
TARGET: Final = "from target_spark.target import TargetSpark; TargetSpark.cli()"

ID: Final = {"id": {"type": "integer"}}
NAME: Final = {"name": {"type": "string"}}


def order(**values: Any) -> dict[str, Any]:
    return {"type": "RECORD", "stream": "Orders-1", "record": values}


def schema_message(*keys: str, **properties: Any) -> dict[str, Any]:
    schema = {"properties": {**ID, **properties}}
    return {"type": "SCHEMA", "stream": "Orders-1", "schema": schema, "key_properties": [*keys]}


def state(number: int) -> dict[str, Any]:
    return {"type": "STATE", "value": {"at": number}}


@dataclass
class Job:
    """A job that loads into a catalog, with a block of docs/catalogs.md as its settings.

    Attributes:
        folder: The folder of the job's files.
        block: The name of the block.
        replaced: Values in place of those of the block; None removes the key.
        own: Spark settings that are not in the block.
        environment: Environment variables of the loads.
        settings: Settings other than `spark` in place of those of the block.
        log: What the last load has written to standard error.
    """

    folder: Path
    block: str
    replaced: dict[str, Any]
    own: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    log: str = ""

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the block, with the values of the test."""
        config = json.loads(json.dumps(BLOCKS[self.block]))
        for key, value in self.replaced.items():
            assert key in config["spark"], f"{self.block} documents no {key}"
            config["spark"][key] = value
        conf = {key: value for key, value in config["spark"].items() if value is not None}
        config["spark"] = {**conf, **self.own}
        # Runs of a job of the same name, in another process of tests, would exclude each other.
        job = hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]
        config |= self.settings
        return {**config, "small_runs": True, "master": "local[2]", "job": job}

    def load(self, *messages: dict[str, Any], code: int = 0, **spark: Any) -> dict[str, Any]:
        """Run the target; return the report of the run."""
        config = self.config
        config["spark"] |= spark
        report = self.folder / "report.json"
        path = self.folder / "target.json"
        path.write_text(json.dumps({**config, "report": str(report)}), encoding="utf-8")
        process = subprocess.run(
            [sys.executable, "-c", TARGET, "--config", str(path)],
            input="".join(json.dumps(message) + "\n" for message in messages),
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == code, process.stderr
        assert not any(secret in process.stderr for secret in (CLIENT[1], SECRET, TOKEN))
        self.log = process.stderr
        content: dict[str, Any] = json.loads(report.read_text("utf-8"))
        return content

    def create_and_change(self) -> None:
        """Load a new table with a row that does not fit, then a changed row and a new column."""
        first = self.load(schema_message("id"), order(id=1), order(id="x"), order(id=2), state(1))
        assert (first["outcome"], first["states"]) == ("complete", 1)
        assert first["streams"]["Orders-1"]["quarantined"] == 1
        changed = order(id=2, name="b"), order(id=3, name="c")
        second = self.load(schema_message("id", **NAME), *changed, state(2))
        counts = second["streams"]["Orders-1"]
        assert (counts["inserted"], counts["updated"], second["states"]) == (1, 1, 1)


def read_rows(spark: SparkSession, warehouse: Path) -> list[tuple[Any, ...]]:
    """Return the rows of the job's table, from the newest metadata file below a folder."""
    newest = max(
        warehouse.rglob("orders_1/metadata/*.metadata.json"),
        key=lambda file: file.stat().st_mtime_ns,
    )
    rows = spark.read.format("iceberg").load(str(newest)).collect()
    return sorted((tuple(row) for row in rows), key=repr)


CHANGED: Final = [(1, None), (2, "b"), (3, "c")]


# Without a server


@pytest.mark.parametrize("block", BLOCKS)
def test_documented_settings_are_valid(block: str) -> None:
    assert settings.find_faults(BLOCKS[block]) == []


def test_every_documented_catalog_names_its_tests_or_is_marked() -> None:
    """The table of the page says against what each configuration was run."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| [")]
    assert len(rows) == len(BLOCKS)
    for row in rows:
        tests = re.findall(r"`(test_\w+)`", row)
        assert bool(tests) != ("not run here" in row), row
        assert {*tests} <= {*globals()}, row


# With servers


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
def test_documented_jdbc_catalog_is_loaded(
    spark: SparkSession, postgres: Server, tmp_path: Path
) -> None:
    with postgres.database() as database:
        job = Job(
            tmp_path,
            "jdbc.json",
            {
                f"{CATALOG}.uri": f"jdbc:postgresql://{database.host}:{database.port}"
                f"/{database.name}",
                f"{CATALOG}.jdbc.user": database.user,
                f"{CATALOG}.jdbc.password": database.password,
                f"{CATALOG}.warehouse": f"{tmp_path}/lake",
            },
        )
        job.create_and_change()
        assert len(database.run("SELECT * FROM iceberg_tables")) == 3
    assert read_rows(spark, tmp_path / "lake") == CHANGED


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
def test_documented_hadoop_catalog_is_loaded(spark: SparkSession, tmp_path: Path) -> None:
    Job(tmp_path, "hadoop.json", {f"{CATALOG}.warehouse": f"{tmp_path}/lake"}).create_and_change()
    assert read_rows(spark, tmp_path / "lake") == CHANGED


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
def test_documented_hive_catalog_is_loaded(spark: SparkSession, tmp_path: Path) -> None:
    with hive_metastore(tmp_path) as port:
        conf = {
            f"{CATALOG}.uri": f"thrift://127.0.0.1:{port}",
            f"{CATALOG}.warehouse": f"{tmp_path}/lake",
        }
        # Hive 2.3 takes no locks in Derby; its alter_table compares the table instead.
        extra_conf = {"spark.hadoop.iceberg.engine.hive.lock-enabled": False}
        Job(tmp_path, "hive.json", conf, own=extra_conf).create_and_change()
    assert read_rows(spark, tmp_path / "lake") == CHANGED


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
def test_documented_hive_catalog_of_delta_tables_is_loaded(
    spark: SparkSession, tmp_path: Path
) -> None:
    with hive_metastore(tmp_path) as port:
        conf = {
            "spark.hadoop.hive.metastore.uris": f"thrift://127.0.0.1:{port}",
            "spark.sql.warehouse.dir": f"{tmp_path}/lake",
        }
        Job(tmp_path, "hive-delta.json", conf).create_and_change()
    (table,) = (tmp_path / "lake").rglob("orders_1")
    rows = spark.read.format("delta").load(str(table)).collect()
    assert sorted((tuple(row) for row in rows), key=repr) == CHANGED


def make_rest_job(folder: Path, gateway: TokenGateway) -> Job:
    conf = {
        f"{CATALOG}.uri": gateway.url,
        f"{CATALOG}.oauth2-server-uri": gateway.token_url,
        f"{CATALOG}.credential": ":".join(CLIENT),
    }
    return Job(folder, "rest.json", {**conf, f"{CATALOG}.warehouse": None})


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
def test_documented_rest_catalog_is_loaded_with_renewed_tokens(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A run that lasts longer than a token requests new ones."""
    lake = tmp_path / "lake"
    with (
        rest_catalog(tmp_path, warehouse=str(lake)) as port,
        TokenGateway(port, lifetime=3) as gateway,
    ):
        make_rest_job(tmp_path, gateway).create_and_change()
        assert gateway.issued > 2
    assert read_rows(spark, lake) == CHANGED


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "refusals, lost_answers", [([409], []), ([], [504])], ids=["conflict", "lost answer"]
)
def test_commit_to_a_rest_catalog_is_made_once(
    spark: SparkSession, tmp_path: Path, refusals: list[int], lost_answers: list[int]
) -> None:
    """A refused commit is repeated, and one whose answer was lost is found: no row is twice."""
    lake = tmp_path / "lake"
    with rest_catalog(tmp_path, warehouse=str(lake)) as port, TokenGateway(port) as gateway:
        job = make_rest_job(tmp_path, gateway)
        job.load(schema_message(), order(id=1), state(1))
        gateway.refusals, gateway.lost_answers = [*refusals], [*lost_answers]
        report = job.load(schema_message(), order(id=2), order(id=3), state(2))
        assert (gateway.refusals, gateway.lost_answers) == ([], [])
    assert (report["outcome"], report["states"]) == ("complete", 1)
    assert read_rows(spark, lake) == [(1,), (2,), (3,)]


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
def test_rejected_credentials_of_a_rest_catalog_are_one_sentence(tmp_path: Path) -> None:
    """An unknown client, and a token that is not valid any more."""
    with (
        rest_catalog(tmp_path, warehouse=f"{tmp_path}/lake") as port,
        TokenGateway(port) as gateway,
    ):
        job = make_rest_job(tmp_path, gateway)
        token = gateway.issue()
        gateway.revoke_all()
        wrong = {f"{CATALOG}.credential": "nobody:known"}
        expired = {f"{CATALOG}.credential": "", f"{CATALOG}.token": token}
        for spark in (wrong, expired):
            report = job.load(schema_message("id"), order(id=1), state(1), code=1, **spark)
            assert "the catalog: it rejects these credentials" in report["outcome"]
            assert "spark.sql.catalog.<name>.credential" in report["outcome"]
            assert report["states"] == 0
            assert not {"nobody:known", token} & {*report["outcome"].split()}


# With an S3 server

ACCESS: Final = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
"""Environment variables with the job's own credentials."""


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    if peer_python("s3_server") is None:
        pytest.skip(missing_reason("s3_server"))
    with S3Server(tmp_path / "s3.log") as server:
        server.make_bucket("lake")
        yield server


def on_s3(s3: S3Server) -> dict[str, str]:
    """Return the properties of a REST catalog whose tables are in a bucket of the server."""
    return {
        "warehouse": "s3://lake/tables",
        "io__impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3_endpoint": s3.url,
        "s3_path__style__access": "true",
        "s3_access__key__id": KEY,
        "s3_secret__access__key": SECRET,
    }


def reach(s3: S3Server) -> dict[str, Any]:
    """Return the Spark settings with which Iceberg's file access reaches the server."""
    return {f"{CATALOG}.s3.endpoint": s3.url, f"{CATALOG}.s3.path-style-access": True}


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.peer
def test_documented_vended_credentials_are_used(s3: S3Server, tmp_path: Path) -> None:
    """The job has no key of the storage: the catalog sends one with each table."""
    with (
        rest_catalog(tmp_path, {}, **on_s3(s3), include__credentials="true") as port,
        TokenGateway(port) as gateway,
    ):
        conf = make_rest_job(tmp_path, gateway).replaced
        conf |= {f"{CATALOG}.s3.endpoint": s3.url}
        Job(tmp_path, "rest-vended.json", conf).create_and_change()
        assert "vended-credentials" in gateway.delegations
    assert any(key.endswith(".parquet") for key in s3.keys("lake", "tables/sales/orders_1/"))


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.peer
def test_documented_glue_catalog_is_loaded(s3: S3Server, tmp_path: Path) -> None:
    extra_conf = {f"{CATALOG}.glue.endpoint": s3.url, **reach(s3)}
    warehouse = {f"{CATALOG}.warehouse": "s3://lake/tables"}
    Job(tmp_path, "glue.json", warehouse, extra_conf, ACCESS).create_and_change()
    assert any(key.endswith(".parquet") for key in s3.keys("lake", "tables/"))


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.peer
def test_documented_unity_catalog_is_loaded(s3: S3Server, tmp_path: Path) -> None:
    """The settings fit Unity Catalog's addresses, with Iceberg's reference server behind them."""
    with (
        rest_catalog(tmp_path, {}, **on_s3(s3), include__credentials="true") as port,
        TokenGateway(port, routes=UNITY_CATALOG) as gateway,
    ):
        conf = {**make_rest_job(tmp_path, gateway).replaced, f"{CATALOG}.warehouse": "CATALOG"}
        Job(tmp_path, "unity.json", conf, reach(s3)).create_and_change()
        assert gateway.delegations == {"vended-credentials"}
    assert any(key.endswith(".parquet") for key in s3.keys("lake", "tables/sales/orders_1/"))


ARN: Final = "arn:aws:s3tables:us-east-1:123456789012:bucket/lake"


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.peer
def test_documented_endpoint_of_s3_tables_is_loaded(s3: S3Server, tmp_path: Path) -> None:
    """Requests are signed for S3 Tables; Iceberg's reference server is behind its addresses."""
    with (
        rest_catalog(tmp_path, {}, **on_s3(s3)) as port,
        SignatureGateway(port, routes=s3_tables_routes(ARN)) as gateway,
    ):
        conf = {f"{CATALOG}.uri": gateway.url, f"{CATALOG}.warehouse": ARN}
        Job(tmp_path, "s3-tables.json", conf, reach(s3), ACCESS).create_and_change()
        assert gateway.issued == 0
    assert any(key.endswith(".parquet") for key in s3.keys("lake", "tables/sales/orders_1/"))


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.peer
def test_documented_library_of_s3_tables_is_loaded(s3: S3Server, tmp_path: Path) -> None:
    arn = s3.make_table_bucket("lake")
    extra_conf = {f"{CATALOG}.s3tables.endpoint": s3.url, **reach(s3)}
    job = Job(tmp_path, "s3-tables-library.json", {f"{CATALOG}.warehouse": arn}, extra_conf, ACCESS)
    job.create_and_change()
    metadata = s3.read_table_metadata(arn, "sales", "orders_1")
    names = [column["name"] for column in metadata["schemas"][-1]["fields"]]
    assert names == ["id", "name"]
    (current,) = (
        snapshot
        for snapshot in metadata["snapshots"]
        if snapshot["snapshot-id"] == metadata["current-snapshot-id"]
    )
    assert current["summary"]["total-records"] == "3"


# Delta tables in Unity Catalog


def make_unity_job(folder: Path, url: str, **settings: Any) -> Job:
    """Return a job that registers its Delta tables in a server with the program of the page."""
    (folder / "register_in_unity.py").write_text(PROGRAM, "utf-8")
    (action,) = BLOCKS["unity-delta.json"]["after_load"]
    assert action["command"][:3] == ["python", "register_in_unity.py", "https://WORKSPACE"]
    command = [sys.executable, "register_in_unity.py", url, *action["command"][3:]]
    return Job(
        folder,
        "unity-delta.json",
        {},
        environment={"UNITY_CATALOG_TOKEN": TOKEN},
        settings={**settings, "after_load": [{**action, "command": command}]},
    )


def make_local_unity_job(folder: Path, url: str) -> Job:
    """Return such a job that writes to a local folder, without Spark."""
    job = make_unity_job(folder, url, path=str(folder / "lake"), small_batches="delta-rs")
    job.replaced["spark.hadoop.fs.s3a.endpoint.region"] = None
    return job


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.peer
def test_documented_delta_tables_are_registered_in_unity_catalog(
    s3: S3Server, tmp_path: Path
) -> None:
    """The location and the credentials that the catalog serves lead to the rows."""
    with UnityCatalogServer() as server:
        job = make_unity_job(tmp_path, server.url, path="s3://lake/tables")
        job.own |= s3.spark
        reach = {"AWS_ENDPOINT_URL": s3.url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
        job.environment |= {**ACCESS, **reach}
        job.create_and_change()
        assert (
            "orders_1: Unity Catalog does not list the current columns; they differ in: name"
            in (job.log)
        )
        assert server.created == ["CATALOG.sales", "CATALOG.sales.orders_1"]
        registered = server.tables["CATALOG.sales.orders_1"]
        request = {"table_id": registered["table_id"], "operation": "READ"}
        _, vended = server.post("temporary-table-credentials", request)
    assert [column["type_text"] for column in registered["columns"]] == ["bigint"]
    assert registered["storage_location"] == "s3://lake/tables/Orders-1"
    options = {f"AWS_{k.upper()}": v for k, v in vended["aws_temp_credentials"].items()}
    table = DeltaTable(registered["storage_location"], storage_options={**reach, **options})
    rows = table.to_pyarrow_table(columns=["id", "name"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == CHANGED


READ_BY_DUCKDB: Final = """
import glob, importlib.util, json, sys
import duckdb

connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")  # it is written to standard output
for name in ("httpfs", "delta", "unity_catalog"):
    (folder,) = importlib.util.find_spec("duckdb_extension_" + name).submodule_search_locations
    (file,) = glob.glob(folder + "/extensions/*/*.duckdb_extension")
    connection.execute(f"LOAD '{file}'")
url, token = sys.argv[1:]
connection.execute(f"CREATE SECRET (TYPE unity_catalog, TOKEN '{token}', ENDPOINT '{url}')")
connection.execute("ATTACH 'CATALOG' AS unity (TYPE unity_catalog)")
connection.execute("SHOW ALL TABLES")  # loads the catalog, at times after it made the list
tables = [row[2] for row in connection.execute("SHOW ALL TABLES").fetchall()]
select = "SELECT * FROM unity.sales.{} ORDER BY ALL"
print(json.dumps({each: connection.execute(select.format(each)).fetchall() for each in tables}))
"""
"""Prints the rows of all tables of the catalog by table name, as JSON."""


def load_and_read_by_name(folder: Path, url: str) -> dict[str, list[list[Any]]]:
    """Load two tables twice, and return the rows that DuckDB finds in the catalog, by table."""
    python = peer_python("duckdb")
    if python is None:
        pytest.skip(missing_reason("duckdb"))
    people = {"type": "SCHEMA", "stream": "people", "schema": {"properties": NAME}}
    person = {"type": "RECORD", "stream": "people", "record": {"name": "Ada"}}
    job = make_local_unity_job(folder, url)
    for number in (1, 2):
        job.load(schema_message("id"), order(id=number), {**people, "key_properties": []}, person)
        assert ("registered with the location" in job.log) == (number == 1)
    process = subprocess.run(
        [python, "-c", READ_BY_DUCKDB, url, TOKEN], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    rows: dict[str, list[list[Any]]] = json.loads(process.stdout)
    return rows


REGISTERED: Final = {"orders_1": [[1], [2]], "people": [["Ada"], ["Ada"]]}


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.peer
def test_registered_delta_tables_are_read_by_name(tmp_path: Path) -> None:
    """DuckDB finds two tables in the catalog; a second load registers none twice."""
    with UnityCatalogServer() as server:
        assert load_and_read_by_name(tmp_path, server.url) == REGISTERED
    assert [name.rpartition(".")[2] for name in server.created] == ["sales", *REGISTERED]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.skipif(shutil.which("uc-server") is None, reason="uc-server is not installed")
def test_delta_tables_are_registered_in_an_independent_unity_catalog(tmp_path: Path) -> None:
    with unity_catalog(tmp_path) as url:
        assert load_and_read_by_name(tmp_path, url) == REGISTERED


@pytest.mark.thorough
def test_rejected_token_of_unity_catalog_keeps_the_load(tmp_path: Path) -> None:
    """SEC5: the error is one sentence without the token; the next load registers the table."""
    with UnityCatalogServer() as server:
        job = make_local_unity_job(tmp_path, server.url)
        job.environment["UNITY_CATALOG_TOKEN"] = "expired-token"
        report = job.load(schema_message("id"), order(id=1), state(1), code=1)
        assert (report["outcome"], report["states"], server.created) == ("complete", 1, [])
        rejected = f"Unity Catalog at {server.url} rejects the token in UNITY_CATALOG_TOKEN"
        assert report["after_load"][0]["error"].endswith(f"standard error ends: {rejected}")
        assert "expired-token" not in job.log + json.dumps(report)
        job.environment["UNITY_CATALOG_TOKEN"] = TOKEN
        job.load(schema_message("id"), order(id=2), state(2))
        assert "CATALOG.sales.orders_1" in server.created


def register(folder: Path, server: UnityCatalogServer, url: str = "") -> tuple[int, str]:
    """Run the program for the table `lake/Types` of a folder; return its exit code and output."""
    report = {"streams": {"Types": {"table": "Types", "place": str(folder / "lake" / "Types")}}}
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, url or server.url, "CATALOG", "sales"],
        input=json.dumps(report),
        env={**os.environ, "UNITY_CATALOG_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        check=False,
    )
    return process.returncode, process.stdout + process.stderr


def test_columns_of_every_type_fit_the_specification_of_unity_catalog(tmp_path: Path) -> None:
    """The server refuses a column that its specification does not describe."""
    point = pa.struct([("x", pa.float32()), ("on", pa.date32())])
    types = {
        "b": (pa.bool_(), "boolean", "BOOLEAN"),
        "i8": (pa.int8(), "tinyint", "BYTE"),
        "i16": (pa.int16(), "smallint", "SHORT"),
        "i32": (pa.int32(), "int", "INT"),
        "i64": (pa.int64(), "bigint", "LONG"),
        "f": (pa.float64(), "double", "DOUBLE"),
        "n": (pa.decimal128(20, 4), "decimal(20,4)", "DECIMAL"),
        "t": (pa.timestamp("us", "UTC"), "timestamp", "TIMESTAMP"),
        "ntz": (pa.timestamp("us"), "timestamp_ntz", "TIMESTAMP_NTZ"),
        "bytes": (pa.binary(), "binary", "BINARY"),
        "list": (pa.list_(point), "array<struct<x:float,on:date>>", "ARRAY"),
        "map": (pa.map_(pa.string(), pa.int64()), "map<string,bigint>", "MAP"),
    }
    schema = pa.schema([(name, kind) for name, (kind, _, _) in types.items()])
    write_deltalake(tmp_path / "lake" / "Types", schema.empty_table())
    with UnityCatalogServer() as server:
        assert register(tmp_path, server)[0] == 0
        columns = server.tables["CATALOG.sales.types"]["columns"]
    actual = {c["name"]: (c["type_text"], c["type_name"]) for c in columns}
    assert actual == {name: (text, kind) for name, (_, text, kind) in types.items()}
    assert [
        (c["name"], c["type_precision"], c["type_scale"]) for c in columns if "type_scale" in c
    ] == [("n", 20, 4)]
    assert [json.loads(c["type_json"])["name"] for c in columns] == [*types]


@pytest.mark.thorough
def test_faults_of_a_registration_in_unity_catalog_are_one_sentence(tmp_path: Path) -> None:
    """Another job may register the table at the same moment; another location is an error."""
    write_deltalake(tmp_path / "lake" / "Types", pa.table({"id": [1]}))
    location = (tmp_path / "lake" / "Types").as_uri()
    existing = {"table_id": "1", "columns": [{"name": "id", "type_name": "LONG"}]}
    with UnityCatalogServer() as server:
        server.in_between["CATALOG.sales.types"] = {**existing, "storage_location": location}
        assert register(tmp_path, server) == (0, "")
        assert server.created == ["CATALOG.sales"]
        server.tables["CATALOG.sales.types"]["storage_location"] = "s3://other/types"
        code, output = register(tmp_path, server)
        assert (code, output.count("\n")) == (1, 1)
        assert f"has the location s3://other/types in Unity Catalog, not {location}" in output
        without_catalog, closed = UnityCatalogServer("OTHER"), UnityCatalogServer()
        closed.server_close()
        with without_catalog:
            assert (
                "404 NOT_FOUND Catalog not found: CATALOG\n"
                in register(tmp_path, without_catalog)[1]
            )
        assert "could not be reached: ConnectionError\n" in register(tmp_path, closed)[1]
        (tmp_path / "lake/Types/_delta_log/00000000000000000000.json").write_text("{}garbage")
        code, output = register(tmp_path, server)
        assert (code, output.count("\n")) == (1, 1)
        assert f"The table in {tmp_path}/lake/Types cannot be read: " in output
