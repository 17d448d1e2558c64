"""Sample taps as connectors, called by gRPC: an API, a database and files."""

from __future__ import annotations

import json
import sqlite3
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.enums import DataType
from tests.fivetran.calls import group_by_table, list_states, make_selection
from tests.fivetran.connecting import HERE, ROOT, Client, serving
from tests.postgres import Server
from tests.samples.running import service

PROGRAM = str(HERE / "sample_taps.py")


def described_columns(client: Client) -> dict[str, dict[str, tuple[str, bool]]]:
    """Return the columns of each table: their type, and whether they are keys."""
    answer = client.call("Schema")
    schemas = answer.with_schema.schemas or [answer.without_schema]
    return {
        table.name: {c.name: (DataType(c.type).name, c.primary_key) for c in table.columns}
        for schema in schemas
        for table in schema.tables
    }


def check_records(client: Client, responses: Any) -> None:
    """Check records against the schema: names, types and keys (rules 13 and 14)."""
    known = described_columns(client)
    for response in responses:
        assert len(response.records.records) <= 100
        for record in response.records.records:
            columns = known[record.table_name]
            assert record.data.keys() == columns.keys()
            for name, value in record.data.items():
                kind, is_key = columns[name]
                actual_kind = value.WhichOneof("inner")
                assert (
                    actual_kind == kind.lower().replace("boolean", "bool") or actual_kind == "null"
                )
                assert not (is_key and actual_kind == "null")


def test_api_tap_with_parallel_child_streams():
    """F12 to F16: the server of the API is sometimes busy."""
    with (
        service("tap_airlines", "--until", "2013-01-01T14:00:00Z") as address,
        serving("-m", "tap_airlines.tap", path={"PYTHONPATH": _samples("tap_airlines")}) as server,
    ):
        client = Client(server, api_url=address, token="t-1")
        responses = list(client.update())  # rule 18: before any Schema
        check_records(client, responses)
        sent = group_by_table(responses)
        flights = [tuple(row.values()) for _, row in sent["flights"]]
        assert len(flights) > 100
        resumed = group_by_table(client.update(list_states(responses)[-1]))
        assert len(resumed["airlines"]) == len(sent["airlines"])
        assert len(resumed["flights"]) < len(flights) / 2
        wrong = Client(server, api_url=address, token="t-0").call("Test", name="connection")
        assert "403" in wrong.failure or "401" in wrong.failure
        assert address not in wrong.failure
        log = "".join(server.lines)
        assert address not in log
        assert "/airlines" not in log


@pytest.mark.thorough
def test_api_tap_with_nested_values_and_large_numbers():
    with (
        service("tap_petstore") as address,
        serving("-m", "tap_petstore.tap", path={"PYTHONPATH": _samples("tap_petstore")}) as server,
    ):
        client = Client(server, api_url=address, api_key="special-key")
        responses = list(client.update())
        check_records(client, responses)
        pets = {row["id"]: row for _, row in group_by_table(responses)["pets"]}
        assert pets[9_007_199_254_740_993]["name"] == "Tiddles"
        assert json.loads(pets[1]["category"]) == {"id": 4, "name": "Dogs"}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            """
            CREATE TABLE sales (id INTEGER PRIMARY KEY, price NUMERIC, at TIMESTAMP, day DATE,
                                is_paid BOOLEAN, data BLOB, name VARCHAR(20),
                                changed_at TIMESTAMP NOT NULL);
            CREATE TABLE visits (place TEXT, seconds FLOAT);
            """
        )
        rows = [
            (n, 1.25 * n, "2024-01-02 03:04:05.678901", "2024-02-29", n % 2, b"\x00", "ü" * n)
            for n in range(150)
        ]
        changed = [f"2024-01-01 00:{n // 60:02}:{n % 60:02}.000000" for n in range(150)]
        connection.executemany(
            "INSERT INTO sales VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(*row, changed_at) for row, changed_at in zip(rows, changed, strict=True)],
        )
        connection.executemany("INSERT INTO visits VALUES (?, ?)", [("a", 0.5), ("a", 0.5)])
    connection.close()
    return path


def test_database_tap_with_schemas_and_a_table_without_keys(database):
    """F10, F13, F14, F16, F19: only selected tables and columns are sent."""
    with serving(PROGRAM, "sql") as server:
        client = Client(server, path=str(database))
        responses = list(client.update())
        check_records(client, responses)
        columns = described_columns(client)
        assert columns["sales"]["id"] == ("LONG", True)
        assert columns["sales"]["at"] == ("UTC_DATETIME", False)
        assert columns["sales"]["day"] == ("NAIVE_DATE", False)
        sent = group_by_table(responses)
        assert [row["id"] for _, row in sent["sales"]] == list(range(150))
        assert sent["sales"][1][1] == {
            "id": 1,
            "price": 1.25,
            "at": (_seconds("2024-01-02T03:04:05+00:00"), 678_901_000),
            "day": (_seconds("2024-02-29T00:00:00+00:00"), 0),
            "is_paid": True,
            "data": "00",
            "name": "ü",
            "changed_at": (_seconds("2024-01-01T00:00:01+00:00"), 0),
        }
        assert sent["visits"] == [("UPSERT", {"place": "a", "seconds": 0.5})] * 2
        assert {r.schema_name for response in responses for r in response.records.records} == {
            "main"
        }
        resumed = group_by_table(client.update(list_states(responses)[-1]))
        assert [row["id"] for _, row in resumed["sales"]] == [149]

        selection = make_selection({"sales": {"name": True, "changed_at": False}})
        schema = proto_messages.SchemaSelection(
            included=True, schema_name="main", tables=selection.without_schema.tables
        )
        with_schema = proto_messages.TablesWithSchema(schemas=[schema])
        responses = list(client.update(None, proto_messages.Selection(with_schema=with_schema)))
        assert group_by_table(responses).keys() == {"sales"}
        assert group_by_table(responses)["sales"][3] == ("UPSERT", {"id": 3, "name": "üüü"})
        assert list_states(responses)[-1]["bookmarks"]["main-sales"]["replication_key_value"]


def test_file_tap_sends_the_files_of_a_folder(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "people.csv").write_text("id,name\n1,Ada\n2,\n")
    with serving(PROGRAM, "files") as server:
        client = Client(server, path=str(folder), read_mode="one_stream_per_file")
        responses = list(client.update())
        check_records(client, responses)
        assert described_columns(client)["people"].keys() == {"id", "name"}
        assert [row["name"] for _, row in group_by_table(responses)["people"]] == ["Ada", ""]
        assert list_states(responses)[-1]["bookmarks"]["people"]["partitions"]
        assert str(folder) not in "".join(server.lines)


def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def _samples(sample: str) -> str:
    return f"{ROOT}:{ROOT / 'samples' / sample}"


def test_database_connections_are_closed_at_the_end_of_each_call(postgres: Server):
    """SQLAlchemy keeps idle connections open as long as their tap exists."""
    with (
        postgres.database() as database,
        serving("-m", "tap_postgres.tap", path={"PYTHONPATH": _samples("tap_postgres")}) as server,
    ):
        database.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
        client = Client(
            server,
            host=database.host,
            port=str(database.port),
            user=database.user,
            password=database.password,
            database=database.name,
        )
        assert client.call("Test", name="connection").success
        assert described_columns(client).keys() == {"a"}
        assert group_by_table(client.update())["a"]
        query = "SELECT datname FROM pg_stat_activity"
        deadline = time.monotonic() + 30
        while (database.name,) in postgres.maintenance.run(query):
            assert time.monotonic() < deadline
            time.sleep(0.1)
