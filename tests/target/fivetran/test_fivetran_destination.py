"""A Fivetran destination as a whole: a process, a gRPC client, real tables."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tap_core.events import StreamId
from tap_core.protocols.fivetran.enums import DataType
from target_spark.config.options import LoadOptions
from target_spark.fivetran.shared_spark import SharedSpark
from target_spark.writers import get_writer
from tests.fivetran.batch_files import NULL, UNMODIFIED
from tests.target.fivetran.fivetran_server import Destination, column, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDERS = table(
    "orders",
    column("id", DataType.LONG, key=True),
    column("name", DataType.STRING),
    column("amount", DataType.DECIMAL, digits=(12, 2)),
    column("_fivetran_synced", DataType.UTC_DATETIME),
    column("_fivetran_deleted", DataType.BOOLEAN),
)
COLUMNS = [column_.name for column_ in ORDERS.columns]
NOW = "2024-01-08T18:52:07.754685370Z"
SECRET = "s3cr3t-of-the-storage"


@pytest.fixture(
    params=["delta", pytest.param("iceberg", marks=pytest.mark.thorough)], scope="module"
)
def format_(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def server(format_: str, tmp_path_factory) -> Iterator[Destination]:
    home = tmp_path_factory.mktemp("destination")
    path = home / "tables"
    spark = json.dumps(
        {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.sql.files.maxRecordsPerFile": 1_000_000}
    )
    destination = Destination(home, {"path": str(path), "format": format_, "spark": spark})
    try:
        yield destination
    finally:
        if destination.process.poll() is None:
            assert destination.end() == 0
    for line in destination.log_lines:
        document = json.loads(line)
        assert set(document) == {"level", "message", "message-origin"}
        assert document["message-origin"] == "sdk_destination"
    assert SECRET not in "".join(destination.log_lines) + destination.error_output


def rows(spark: SparkSession, server: Destination, schema: str, name: str) -> list[tuple]:
    """Return the rows of a table, without the time of the sync."""
    options = LoadOptions(str(server.home / "tables"), format=server.configuration["format"])
    frame = get_writer(options.format).rows(spark, options.table(StreamId(name, schema)))
    return sorted(tuple(row) for row in frame.drop("_fivetran_synced").collect())


def order(number: int, name=NULL, amount=NULL, deleted="false") -> tuple:
    return (str(number), name, amount, NOW, deleted)


def test_configuration_form_and_capabilities_start_no_java(format_, tmp_path) -> None:
    destination = Destination(tmp_path, {"path": str(tmp_path), "format": format_})
    form = destination.call_plain("ConfigurationForm")
    assert [field.name for field in form.fields][:2] == ["path", "format"]
    formats = form.fields[1].descriptive_dropdown_fields.descriptive_dropdown_field
    offered = [(option.label, option.value) for option in formats]
    assert offered == [("Delta Lake", "delta"), ("Iceberg", "iceberg")]
    assert [test.name for test in form.tests] == ["settings", "storage"]
    assert destination.call_plain("Capabilities").batch_file_format == 0
    children = Path(
        f"/proc/{destination.process.pid}/task/{destination.process.pid}/children"
    ).read_text()
    assert not children.split()
    assert destination.end() == 0


@pytest.mark.thorough
def test_variables_in_names_are_not_substituted(server) -> None:
    """Spark SQL substitutes variables of the environment unless that is disabled."""
    description = table(
        "variables",
        column("id", DataType.LONG, key=True),
        column("c ${env:PATH}", DataType.STRING),
    )
    server.create("${env:HOME}", description)
    changed = table(
        "variables", *description.columns, column("d ${system:user.name}", DataType.STRING)
    )
    assert server.call("AlterTable", schema_name="${env:HOME}", table=changed).success
    assert server.describe("${env:HOME}", "variables").table == changed


def test_sql_cannot_call_java_methods(spark) -> None:
    """A caller's table can contain SQL in its constraints and defaults."""
    guarded = SharedSpark()._disable_reflection(spark.newSession())
    for name in ("reflect", "java_method", "try_reflect"):
        call = f"{name}('java.lang.String', 'valueOf', 'MARKED')"
        assert spark.sql(f"select {call} as it").first().it == "MARKED"
        with pytest.raises(Exception, match="may not call Java"):
            guarded.sql(f"select {call}").collect()


def test_complete_sync_of_a_table_succeeds(server, spark) -> None:
    for name in ("settings", "storage"):
        assert server.call("Test", name=name).success
    assert "settings, storage" in server.call("Test", name="nothing").failure
    assert server.describe("shop", "orders").not_found
    server.create("shop", ORDERS)
    assert "exists already" in server.task("CreateTable", schema_name="shop", table=ORDERS)
    assert server.describe("shop", "orders").table == ORDERS

    first = server.files(
        COLUMNS,
        [order(1, "one", "1.10"), order(2, "two", "2.20")],
        [order(3, 'a "third"\nwith lines', "3.30"), order(4, "")],
    )
    server.write("shop", ORDERS, replace=first)
    server.write("shop", ORDERS, replace=first)  # the answer was lost
    assert [row[:2] for row in rows(spark, server, "shop", "orders")] == [
        (1, "one"),
        (2, "two"),
        (3, 'a "third"\nwith lines'),
        (4, ""),
    ]

    server.write(
        "shop",
        ORDERS,
        replace=server.files(COLUMNS, [order(5, "five", "5.50"), order(1, "uno", "1.00")]),
        update=server.files(
            list(reversed(COLUMNS)),
            [
                ("true", NOW, UNMODIFIED, UNMODIFIED, "2"),
                (UNMODIFIED, NOW, NULL, UNMODIFIED, "3"),
                (UNMODIFIED, NOW, UNMODIFIED, "nobody", "99"),
            ],
        ),
        delete=server.files(COLUMNS, [order(4, deleted=NULL), order(98, deleted=NULL)]),
    )
    messages = [
        (*row[:2], row[2] and str(row[2]), row[3]) for row in rows(spark, server, "shop", "orders")
    ]
    assert messages == [
        (1, "uno", "1.00", False),
        (2, "two", "2.20", True),
        (3, 'a "third"\nwith lines', None, False),
        (5, "five", "5.50", False),
    ]

    changed = table("orders", *ORDERS.columns, column("note", DataType.JSON))
    assert server.call("AlterTable", schema_name="shop", table=changed).success
    assert server.describe("shop", "orders").table == changed
    truncated = {"schema_name": "shop", "table_name": "orders", "synced_column": "_fivetran_synced"}
    assert server.call(
        "Truncate", **truncated, utc_delete_before={"seconds": 4_000_000_000}
    ).success
    assert rows(spark, server, "shop", "orders") == []
    missing = {**truncated, "table_name": "none", "schema_name": "nowhere"}
    assert server.call("Truncate", **missing, utc_delete_before={"seconds": 1}).success
    assert server.call("WriteBatch", **server.batch("shop", changed)).success


def test_content_of_an_invalid_file_is_neither_stored_nor_shown(server, spark) -> None:
    """F3, F42: the table, the log and the task contain nothing of the file."""
    description = table("faulty", *ORDERS.columns)
    server.create("shop", description)
    server.write("shop", description, replace=server.files(COLUMNS, [order(1, "stays", "1.00")]))
    good = server.files(COLUMNS, [order(2, "comes", "2.00")])
    marked = server.files(COLUMNS, [order(3, "MARKED-row-of-a-customer", "MARKED-cell")])
    assert "amount" in server.task(
        "WriteBatch", **server.batch("shop", description, replace=good | marked)
    )
    wrong = dict.fromkeys(
        server.files(COLUMNS, [order(4, "four", "4.00")]), b"MARKED-key" + b"0" * 22
    )
    assert server.task(
        "WriteBatch", **server.batch("shop", description, replace=good, delete=wrong)
    )
    missing = {str(server.home / "gone.csv"): b"0" * 32}
    assert "gone.csv" in server.task(
        "WriteBatch", **server.batch("shop", description, update=missing | good)
    )
    (path, key) = next(iter(server.files(COLUMNS, [order(5)] * 1000).items()))
    Path(path).write_bytes(Path(path).read_bytes()[:-32])
    assert server.task(
        "WriteBatch", **server.batch("shop", description, replace=good | {path: key})
    )
    assert [row[:2] for row in rows(spark, server, "shop", "faulty")] == [(1, "stays")]
    assert "MARKED" not in "".join(server.log_lines) + server.error_output
    assert server.call("Migrate", details={"schema": "shop", "table": "faulty"}).unsupported


@pytest.mark.thorough
def test_concurrent_calls_succeed(server, spark) -> None:
    """Tables of one new schema are created concurrently, and three calls write one table."""
    tables = [table(f"side_{n}", *ORDERS.columns) for n in range(4)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda item: server.create("beside", item), tables))
        sets = [
            server.files(
                COLUMNS, [order(n, f"of {part}") for n in range(part * 50, part * 50 + 100)]
            )
            for part in range(3)
        ]
        list(pool.map(lambda item: server.write("beside", tables[0], replace=item), sets))
    stored = rows(spark, server, "beside", "side_0")
    assert [row[0] for row in stored] == list(range(200))


@pytest.mark.thorough
def test_decrypted_rows_are_never_on_disk(server) -> None:
    """F41: neither in temporary folders nor in Spark's shuffle and spill files."""
    description = table("hidden", *ORDERS.columns)
    server.create("shop", description)
    mark = "MARK-of-a-row-that-nobody-may-find"
    orders = [order(n, f"{mark} {n}", "1.00") for n in range(30_000)]
    leaks: list[Path] = []
    bytes_read = [0]
    finished = threading.Event()

    def look() -> None:
        while not finished.is_set():
            for path in (server.home / "tmp").rglob("*"):
                try:
                    content = path.read_bytes() if path.is_file() else b""
                except OSError:  # it is gone already
                    continue
                bytes_read[0] += len(content)
                if mark.encode() in content:
                    leaks.append(path)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        server.write("shop", description, replace=server.files(COLUMNS, orders[:15_000]))
        server.write(
            "shop", description, replace=server.files(COLUMNS, orders[:10_000], orders[10_000:])
        )
    finally:
        finished.set()
        watcher.join()
    assert not leaks
    assert bytes_read[0] > 100_000  # Spark has written shuffle files


@pytest.mark.thorough
def test_killed_server_leaves_the_table_unchanged_or_complete(server, spark) -> None:
    """F43: repeating the call completes the table."""
    description = table("killed", *ORDERS.columns)
    server.create("shop", description)
    server.write(
        "shop", description, replace=server.files(COLUMNS, [order(n, "old") for n in range(1000)])
    )
    for seconds in (0.2, 1, 2, 3, 5):
        name = f"new after {seconds}"
        batch = server.batch(
            "shop",
            description,
            replace=server.files(COLUMNS, [order(n, name) for n in range(500, 40_000)]),
            delete=server.files(COLUMNS, [order(n) for n in range(100)]),
        )
        before = rows(spark, server, "shop", "killed")
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(server.call, "WriteBatch", **batch)
            time.sleep(seconds)
            os.killpg(server.process.pid, signal.SIGKILL)
            answer.exception()
        server.restart()
        assert server.describe("shop", "killed").table == description
        after = rows(spark, server, "shop", "killed")
        assert after == before or {row[1] for row in after if row[0] >= 500} == {name}
        assert server.call("WriteBatch", **batch).success
        stored = rows(spark, server, "shop", "killed")
        assert [row[0] for row in stored] == list(range(100, 40_000))
        assert {row[1] for row in stored[400:]} == {name}


def find_jvm(process: int) -> int:
    """Return the process id of the JVM that a process started."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            columns = stat.read_text().rpartition(")")[2].split()
            name = (stat.parent / "comm").read_text().strip()
        except OSError:  # it has ended meanwhile
            continue
        if name == "java" and int(columns[1]) == process:
            return int(stat.parent.name)
    raise AssertionError("there is no JVM")


@pytest.mark.thorough
def test_spark_is_restarted_if_it_died_or_settings_changed(server, spark) -> None:
    """The call in progress fails; the server continues, and the next call gets a new Spark."""
    description = table("died", *ORDERS.columns)
    server.create("shop", description)
    batch = server.batch(
        "shop", description, replace=server.files(COLUMNS, [order(n, "new") for n in range(60_000)])
    )
    first = find_jvm(server.process.pid)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.call, "WriteBatch", **batch)
        time.sleep(0.3)
        os.kill(first, signal.SIGKILL)
        failed = answer.result().task.message
    assert "Spark" in failed
    assert server.call("WriteBatch", **batch).success
    assert len(rows(spark, server, "shop", "died")) == 60_000
    second = find_jvm(server.process.pid)
    assert second != first
    server.configuration["spark"] = json.dumps({"spark.sql.shuffle.partitions": 3})
    assert server.describe("shop", "died").table == description
    assert find_jvm(server.process.pid) not in {first, second}
