"""Benchmarks of Fivetran's interface.

A connector is compared with Fivetran's library, and the destination with hand-written programs for
Spark. The servers are separate processes that are called by gRPC; the cost of a call is the CPU
time of the server's process tree during the call. The records and rows are compared, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from fivetran_tester.client import Client
from fivetran_tester.findings import Findings
from fivetran_tester.known_tables import KnownColumn, to_message
from fivetran_tester.server_pool import Servers
from tap_core.protocols.fivetran import proto_messages
from tests.bench import checks
from tests.bench.batch_files import (
    COLUMNS,
    COMPRESSIBLE_COLUMNS,
    DDL,
    compressible_rows,
    csv_rows,
    write_encrypted,
    write_plain,
)
from tests.bench.measure import Program
from tests.bench.process_tree import PeakMemory, tree_cpu_seconds
from tests.bench.programs import generator
from tests.bench.programs_under_test import our_program, peer_program
from tests.bench.table import Row

__all__ = ["memory", "merge", "update", "write"]

SDK, CSV, MERGE = "fivetran-connector-sdk", "Spark reads plain CSV", "a hand-written MERGE"
MEBIBYTE, MICRO = 1 << 20, 1e6
_FILES = 4


def update(_folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A connector's Update of small records, compared with the server of Fivetran's library."""
    programs = {
        "ours": our_program("tap.py", environment={"BENCH_SDK": "tap_core"}),
        SDK: peer_program(
            "fivetran_sdk", "fivetran_connector.py", environment={"BENCH_RECORDS": str(records)}
        ),
    }
    settings = {"case": "narrow", "records": str(records)}
    costs: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(rounds + 1):
        for name, program in programs.items():
            with _serve(program) as server:  # a new one, because theirs serves only one Update
                server.client.call("Schema", proto_messages.SchemaRequest(configuration=settings))
                if turn:
                    read_all = partial(_discard_records, server.client, settings)
                    costs[name].append(_measure_call(server, read_all))
                else:
                    rows = _read_records(server.client, settings)
                    checks.compare_rows(name, rows, generator.narrow(records))
    cpu = {name: median(seconds) / records * MICRO for name, seconds in costs.items()}
    title = f"connector, Update of {records:,} records of 8 columns"
    yield Row(title, SDK, cpu["ours"], cpu[SDK], "times less", 2, "CPU µs per record")


def write(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A batch of 20 columns into an empty Delta table, compared with Spark reading plain CSV."""
    file_rows = -(-records // _FILES)
    files, paths = write_encrypted(
        folder, "encrypted", COLUMNS, csv_rows(range(records)), file_rows
    )
    plain = write_plain(folder, "plain", COLUMNS, csv_rows(range(records)), file_rows)
    ours, theirs = [], []
    with _start_destination(folder) as destination, _start_csv_load() as csv_load:
        for turn in range(rounds + 1):
            destination.create_table(f"table_{turn}", COLUMNS)
            ours.append(destination.write(f"table_{turn}", COLUMNS, files, replace=paths))
            table = str(folder / f"csv_{turn}")
            theirs.append(csv_load.load(table, plain))
        csv_load.compare(destination.find_table("table_0"), str(folder / "csv_0"), records)
    title = f"destination, {records:,} rows of 20 columns into an empty table"
    yield Row(f"{title}, first call", CSV, ours[0], theirs[0], "of theirs")
    yield Row(title, CSV, median(ours[1:]), median(theirs[1:]), "of theirs", 1.5)


def merge(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """An update of a tenth of the rows, compared with a MERGE of the same rows in plain CSV."""
    file_rows = -(-records // _FILES)
    files, paths = write_encrypted(
        folder, "encrypted", COLUMNS, csv_rows(range(records)), file_rows
    )
    plain = write_plain(folder, "plain", COLUMNS, csv_rows(range(records)), file_rows)
    table = str(folder / "csv")
    ours, theirs = [], []
    with _start_destination(folder) as destination, _start_csv_load() as csv_load:
        destination.create_table("rows", COLUMNS)
        destination.write("rows", COLUMNS, files, replace=paths)
        csv_load.load(table, plain)
        for turn in range(1, rounds + 2):
            lines = partial(csv_rows, range(turn % 10, records, 10), turn)
            name = f"update-{turn}"
            files, paths = write_encrypted(folder, name, COLUMNS, lines(), file_rows)
            plain = write_plain(folder, f"{name}-plain", COLUMNS, lines(), file_rows)
            ours.append(destination.write("rows", COLUMNS, files, update=paths))
            theirs.append(csv_load.load(table, plain, merge=True))
            csv_load.compare(destination.find_table("rows"), table, records)
    title = f"destination, update of {records // 10:,} rows of {records:,}"
    yield Row(f"{title}, first call", MERGE, ours[0], theirs[0], "of theirs")
    yield Row(title, MERGE, median(ours[1:]), median(theirs[1:]), "of theirs", 1.3)


def memory(folder: Path, records: int, _rounds: int) -> Iterator[Row]:
    """The memory for a file of 100 MB that expands to ten times that, with a heap of 1,500 MB."""
    files, [path] = write_encrypted(
        folder, "large", COMPRESSIBLE_COLUMNS, compressible_rows(records), records
    )
    size = Path(path).stat().st_size / MEBIBYTE
    with _start_destination(folder, {"spark.driver.memory": "1500m"}) as destination:
        destination.create_table("large", COMPRESSIBLE_COLUMNS)
        with PeakMemory(destination.server.pid) as peak:
            destination.write("large", COMPRESSIBLE_COLUMNS, files, replace=[path])
    title = f"destination, a file of {size:.0f} MiB, {records:,} rows"
    python, jvm = peak.python / MEBIBYTE, peak.jvm / MEBIBYTE
    yield Row(f"{title}, all Python processes", "", python, None, "value", 500, "MiB")
    yield Row(f"{title}, Java with a heap of 1,500 MB", "", jvm, None, "value", None, "MiB")


# Connectors


def _discard_records(client: Client, settings: Mapping[str, str]) -> None:
    for _ in _call_update(client, settings):
        pass


def _call_update(client: Client, settings: Mapping[str, str]) -> Any:
    request = proto_messages.UpdateRequest(configuration=settings, state_json="{}")
    return client.stream("Update", request)


def _read_records(client: Client, settings: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for response in _call_update(client, settings):
        is_single = response.HasField("record")
        for record in [response.record] if is_single else response.records.records:
            yield {name: _to_json_value(value) for name, value in record.data.items()}


def _to_json_value(value: Any) -> Any:
    inner = getattr(value, value.WhichOneof("inner"))
    return inner.ToDatetime().isoformat() + "+00:00" if hasattr(inner, "ToDatetime") else inner


# Destinations


@dataclass
class _Destination:
    """A running destination of this project.

    Attributes:
        server: The server process.
        folder: The folder of its tables.
        configuration: The settings of each call.
    """

    server: Any
    folder: Path
    configuration: Mapping[str, str]

    def create_table(self, name: str, columns: Sequence[KnownColumn]) -> None:
        """Create a table."""
        request = proto_messages.CreateTableRequest(
            configuration=self.configuration, schema_name="bench", table=to_message(name, columns)
        )
        self._call_rpc("CreateTable", request)

    def write(
        self, name: str, columns: Sequence[KnownColumn], files: Any, **paths: Sequence[str]
    ) -> float:
        """Write a batch and return the CPU seconds of the call."""
        request = proto_messages.WriteBatchRequest(
            configuration=self.configuration,
            schema_name="bench",
            table=to_message(name, columns),
            keys=files.keys,
            file_params=files.params(),
            **{f"{operation}_files": names for operation, names in paths.items()},
        )
        return _measure_call(self.server, partial(self._call_rpc, "WriteBatch", request))

    def find_table(self, name: str) -> str:
        """Return the folder of a table."""
        [log] = (
            path for path in self.folder.rglob("_delta_log") if path.parent.name.endswith(name)
        )
        return str(log.parent)

    def _call_rpc(self, rpc: str, request: Any) -> None:
        response = self.server.client.call(rpc, request)
        if not response.success:
            message = f"{rpc}: {response}"
            raise checks.WrongRowsError(message)


@dataclass
class _CsvLoad:
    """The running script that loads CSV files with Spark."""

    process: subprocess.Popen[str]

    def load(self, table: str, paths: Sequence[str], *, merge: bool = False) -> float:
        """Load plain files and return the CPU seconds of the load."""
        cpu: float = self._request({"table": table, "paths": paths, "merge": merge})["cpu"]
        return cpu

    def compare(self, our_table: str, their_table: str, records: int) -> None:
        """Compare the rows of two tables.

        Raises:
            WrongRowsError: The tables differ, or do not have this number of rows.
        """
        ours, theirs = self._request({"hash": our_table}), self._request({"hash": their_table})
        if ours != theirs or ours["rows"] != records:
            message = f"ours: {ours}, theirs: {theirs}"
            raise checks.WrongRowsError(message)

    def _request(self, request: Mapping[str, Any]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or "null")


@contextmanager
def _start_csv_load() -> Iterator[_CsvLoad]:
    program = our_program("csv_load.py", DDL)
    with subprocess.Popen(
        program.command,
        env=_environment(program),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield _CsvLoad(process)
        assert process.stdin is not None
        process.stdin.close()


@contextmanager
def _start_destination(
    folder: Path, spark: Mapping[str, str] | None = None
) -> Iterator[_Destination]:
    settings = {"path": str(folder / "lake"), "format": "delta"}
    if spark:
        settings["spark"] = json.dumps(spark)
    with _serve(our_program("target.py"), "DestinationConnector") as server:
        yield _Destination(server, folder / "lake", settings)


# Servers


@contextmanager
def _serve(program: Program, service: str = "SourceConnector") -> Iterator[Any]:
    """Run a server during the block."""
    variables = [f"{name}={value}" for name, value in program.environment.items()]
    command = ["/usr/bin/env", *variables, *program.command]
    with Servers(service, Findings(), command).open() as server:
        yield server


def _environment(program: Program) -> dict[str, str]:
    return {**os.environ, **program.environment}


def _measure_call(server: Any, call: Callable[[], Any]) -> float:
    """Return the CPU seconds of a server during a call."""
    before = tree_cpu_seconds(server.pid)
    call()
    print(".", end="", flush=True, file=sys.stderr)
    return tree_cpu_seconds(server.pid) - before
