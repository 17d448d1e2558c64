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
SYNC_TIME = "2024-01-08T18:52:07.754685370Z"
SECRET = "s3cr3t-of-the-storage"


@pytest.fixture(
    params=["delta", pytest.param("iceberg", marks=pytest.mark.thorough)], scope="module"
)
def table_format(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def server(table_format: str, tmp_path_factory) -> Iterator[Destination]:
    home = tmp_path_factory.mktemp("destination")
    path = home / "tables"
    spark = json.dumps(
        {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.sql.files.maxRecordsPerFile": 1_000_000}
    )
    destination = Destination(home, {"path": str(path), "format": table_format, "spark": spark})
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


def read_rows(spark: SparkSession, server: Destination, schema: str, name: str) -> list[tuple]:
    """Return the rows of a table, without the time of the sync."""
    options = LoadOptions(str(server.home / "tables"), format=server.configuration["format"])
    frame = get_writer(options.format).rows(spark, options.table(StreamId(name, schema)))
    return sorted(tuple(row) for row in frame.drop("_fivetran_synced").collect())


def make_order(number: int, name=NULL, amount=NULL, deleted="false") -> tuple:
    return (str(number), name, amount, SYNC_TIME, deleted)


def test_configuration_form_and_capabilities_start_no_java(table_format, tmp_path) -> None:
    destination = Destination(tmp_path, {"path": str(tmp_path), "format": table_format})
    form = destination.call_plain("ConfigurationForm")
    assert [field.name for field in form.fields][:2] == ["path", "format"]
    formats = form.fields[1].descriptive_dropdown_fields.descriptive_dropdown_field
    format_options = [(option.label, option.value) for option in formats]
    assert format_options == [("Delta Lake", "delta"), ("Iceberg", "iceberg")]
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
    request_table = table(
        "variables",
        column("id", DataType.LONG, key=True),
        column("c ${env:PATH}", DataType.STRING),
    )
    server.create("${env:HOME}", request_table)
    changed = table(
        "variables", *request_table.columns, column("d ${system:user.name}", DataType.STRING)
    )
    assert server.call("AlterTable", schema_name="${env:HOME}", table=changed).success
    assert server.describe("${env:HOME}", "variables").table == changed


def test_sql_cannot_call_java_methods(spark) -> None:
    """A caller's table can contain SQL in its constraints and defaults."""
    guarded = SharedSpark()._disable_reflection(spark.newSession())
    for name in ("reflect", "java_method", "try_reflect"):
        expression = f"{name}('java.lang.String', 'valueOf', 'MARKED')"
        assert spark.sql(f"select {expression} as value").first().value == "MARKED"
        with pytest.raises(Exception, match="may not call Java"):
            guarded.sql(f"select {expression}").collect()


def test_complete_sync_of_a_table_succeeds(server, spark) -> None:
    for name in ("settings", "storage"):
        assert server.call("Test", name=name).success
    assert "settings, storage" in server.call("Test", name="nothing").failure
    assert server.describe("shop", "orders").not_found
    server.create("shop", ORDERS)
    assert "exists already" in server.task("CreateTable", schema_name="shop", table=ORDERS)
    assert server.describe("shop", "orders").table == ORDERS

    first_files = server.files(
        COLUMNS,
        [make_order(1, "one", "1.10"), make_order(2, "two", "2.20")],
        [make_order(3, 'a "third"\nwith lines', "3.30"), make_order(4, "")],
    )
    server.write("shop", ORDERS, replace=first_files)
    server.write("shop", ORDERS, replace=first_files)  # the answer was lost
    assert [row[:2] for row in read_rows(spark, server, "shop", "orders")] == [
        (1, "one"),
        (2, "two"),
        (3, 'a "third"\nwith lines'),
        (4, ""),
    ]

    server.write(
        "shop",
        ORDERS,
        replace=server.files(
            COLUMNS, [make_order(5, "five", "5.50"), make_order(1, "uno", "1.00")]
        ),
        update=server.files(
            list(reversed(COLUMNS)),
            [
                ("true", SYNC_TIME, UNMODIFIED, UNMODIFIED, "2"),
                (UNMODIFIED, SYNC_TIME, NULL, UNMODIFIED, "3"),
                (UNMODIFIED, SYNC_TIME, UNMODIFIED, "nobody", "99"),
            ],
        ),
        delete=server.files(COLUMNS, [make_order(4, deleted=NULL), make_order(98, deleted=NULL)]),
    )
    stored_rows = [
        (*row[:2], row[2] and str(row[2]), row[3])
        for row in read_rows(spark, server, "shop", "orders")
    ]
    assert stored_rows == [
        (1, "uno", "1.00", False),
        (2, "two", "2.20", True),
        (3, 'a "third"\nwith lines', None, False),
        (5, "five", "5.50", False),
    ]

    changed = table("orders", *ORDERS.columns, column("note", DataType.JSON))
    assert server.call("AlterTable", schema_name="shop", table=changed).success
    assert server.describe("shop", "orders").table == changed
    truncate_request = {
        "schema_name": "shop",
        "table_name": "orders",
        "synced_column": "_fivetran_synced",
    }
    assert server.call(
        "Truncate", **truncate_request, utc_delete_before={"seconds": 4_000_000_000}
    ).success
    assert read_rows(spark, server, "shop", "orders") == []
    missing_table = {**truncate_request, "table_name": "none", "schema_name": "nowhere"}
    assert server.call("Truncate", **missing_table, utc_delete_before={"seconds": 1}).success
    assert server.call("WriteBatch", **server.batch("shop", changed)).success


def test_content_of_an_invalid_file_is_neither_stored_nor_shown(server, spark) -> None:
    """F3, F42: the table, the log and the task contain nothing of the file."""
    request_table = table("faulty", *ORDERS.columns)
    server.create("shop", request_table)
    server.write(
        "shop", request_table, replace=server.files(COLUMNS, [make_order(1, "stays", "1.00")])
    )
    valid_files = server.files(COLUMNS, [make_order(2, "new", "2.00")])
    files_with_invalid_cell = server.files(
        COLUMNS, [make_order(3, "MARKED-row-of-a-customer", "MARKED-cell")]
    )
    assert "amount" in server.task(
        "WriteBatch",
        **server.batch("shop", request_table, replace=valid_files | files_with_invalid_cell),
    )
    files_with_wrong_key = dict.fromkeys(
        server.files(COLUMNS, [make_order(4, "four", "4.00")]), b"MARKED-key" + b"0" * 22
    )
    assert server.task(
        "WriteBatch",
        **server.batch("shop", request_table, replace=valid_files, delete=files_with_wrong_key),
    )
    missing_file = {str(server.home / "gone.csv"): b"0" * 32}
    assert "gone.csv" in server.task(
        "WriteBatch", **server.batch("shop", request_table, update=missing_file | valid_files)
    )
    (path, key) = next(iter(server.files(COLUMNS, [make_order(5)] * 1000).items()))
    Path(path).write_bytes(Path(path).read_bytes()[:-32])
    assert server.task(
        "WriteBatch", **server.batch("shop", request_table, replace=valid_files | {path: key})
    )
    assert [row[:2] for row in read_rows(spark, server, "shop", "faulty")] == [(1, "stays")]
    assert "MARKED" not in "".join(server.log_lines) + server.error_output
    assert server.call("Migrate", details={"schema": "shop", "table": "faulty"}).unsupported


@pytest.mark.thorough
def test_concurrent_calls_succeed(server, spark) -> None:
    """Tables of one new schema are created concurrently, and three calls write one table."""
    tables = [table(f"side_{n}", *ORDERS.columns) for n in range(4)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda argument: server.create("beside", argument), tables))
        file_sets = [
            server.files(
                COLUMNS, [make_order(n, f"of {part}") for n in range(part * 50, part * 50 + 100)]
            )
            for part in range(3)
        ]
        list(
            pool.map(
                lambda argument: server.write("beside", tables[0], replace=argument), file_sets
            )
        )
    stored = read_rows(spark, server, "beside", "side_0")
    assert [row[0] for row in stored] == list(range(200))


@pytest.mark.thorough
def test_decrypted_rows_are_never_on_disk(server) -> None:
    """F41: neither in temporary folders nor in Spark's shuffle and spill files."""
    request_table = table("hidden", *ORDERS.columns)
    server.create("shop", request_table)
    mark = "MARK-of-a-row-that-nobody-may-find"
    orders = [make_order(n, f"{mark} {n}", "1.00") for n in range(30_000)]
    leaks: list[Path] = []
    bytes_read = [0]
    finished = threading.Event()

    def search_files() -> None:
        while not finished.is_set():
            for path in (server.home / "tmp").rglob("*"):
                try:
                    content = path.read_bytes() if path.is_file() else b""
                except OSError:  # it is gone already
                    continue
                bytes_read[0] += len(content)
                if mark.encode() in content:
                    leaks.append(path)

    watcher = threading.Thread(target=search_files)
    watcher.start()
    try:
        server.write("shop", request_table, replace=server.files(COLUMNS, orders[:15_000]))
        server.write(
            "shop", request_table, replace=server.files(COLUMNS, orders[:10_000], orders[10_000:])
        )
    finally:
        finished.set()
        watcher.join()
    assert not leaks
    assert bytes_read[0] > 100_000  # Spark has written shuffle files


@pytest.mark.thorough
def test_killed_server_leaves_the_table_unchanged_or_complete(server, spark) -> None:
    """F43: repeating the call completes the table."""
    request_table = table("killed", *ORDERS.columns)
    server.create("shop", request_table)
    server.write(
        "shop",
        request_table,
        replace=server.files(COLUMNS, [make_order(n, "old") for n in range(1000)]),
    )
    for seconds in (0.2, 1, 2, 3, 5):
        name = f"new after {seconds}"
        batch = server.batch(
            "shop",
            request_table,
            replace=server.files(COLUMNS, [make_order(n, name) for n in range(500, 40_000)]),
            delete=server.files(COLUMNS, [make_order(n) for n in range(100)]),
        )
        before = read_rows(spark, server, "shop", "killed")
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(server.call, "WriteBatch", **batch)
            time.sleep(seconds)
            os.killpg(server.process.pid, signal.SIGKILL)
            future.exception()
        server.restart()
        assert server.describe("shop", "killed").table == request_table
        after = read_rows(spark, server, "shop", "killed")
        assert after == before or {row[1] for row in after if row[0] >= 500} == {name}
        assert server.call("WriteBatch", **batch).success
        stored = read_rows(spark, server, "shop", "killed")
        assert [row[0] for row in stored] == list(range(100, 40_000))
        assert {row[1] for row in stored[400:]} == {name}


def find_jvm(parent_pid: int) -> int:
    """Return the process id of the JVM that a process started."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            columns = stat.read_text().rpartition(")")[2].split()
            name = (stat.parent / "comm").read_text().strip()
        except OSError:  # it has ended meanwhile
            continue
        if name == "java" and int(columns[1]) == parent_pid:
            return int(stat.parent.name)
    raise AssertionError("there is no JVM")


@pytest.mark.thorough
def test_spark_is_restarted_if_it_died_or_settings_changed(server, spark) -> None:
    """The call in progress fails; the server continues, and the next call gets a new Spark."""
    request_table = table("died", *ORDERS.columns)
    server.create("shop", request_table)
    batch = server.batch(
        "shop",
        request_table,
        replace=server.files(COLUMNS, [make_order(n, "new") for n in range(60_000)]),
    )
    first_jvm = find_jvm(server.process.pid)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(server.call, "WriteBatch", **batch)
        time.sleep(0.3)
        os.kill(first_jvm, signal.SIGKILL)
        error_message = future.result().task.message
    assert "Spark" in error_message
    assert server.call("WriteBatch", **batch).success
    assert len(read_rows(spark, server, "shop", "died")) == 60_000
    second_jvm = find_jvm(server.process.pid)
    assert second_jvm != first_jvm
    server.configuration["spark"] = json.dumps({"spark.sql.shuffle.partitions": 3})
    assert server.describe("shop", "died").table == request_table
    assert find_jvm(server.process.pid) not in {first_jvm, second_jvm}
