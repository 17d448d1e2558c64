"""Fivetran's interface: our connector beside Fivetran's own library, our destination beside Spark.

Servers are processes of their own, called by gRPC from here; what a call costs
is the CPU of the server's processes between its begin and its end. What was sent or written is
compared, too.
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
from tests.bench.batches import COLUMNS, DDL, EXPANDING, expanding, packed, plain, rows
from tests.bench.measure import Program
from tests.bench.places import ours, peer
from tests.bench.programs import made
from tests.bench.table import Row
from tests.bench.trees import Memory, cpu_of

__all__ = ["memory", "merge", "update", "write"]

SDK, BY_HAND = "fivetran-connector-sdk", "Spark reads plain CSV"
MEBIBYTE, MICRO = 1 << 20, 1e6
_FILES = 4


def update(_folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """Update of small records, CPU of the server per record."""
    programs = {
        "ours": ours("tap.py", environment={"BENCH_SDK": "tap_core"}),
        SDK: peer("fivetran_sdk", "fivetran_peer.py", environment={"BENCH_RECORDS": str(records)}),
    }
    settings = {"case": "narrow", "records": str(records)}
    costs: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(rounds + 1):
        for name, program in programs.items():
            with _served(program) as server:  # a fresh one, since theirs serves one Update
                server.client.call("Schema", proto_messages.SchemaRequest(configuration=settings))
                if turn:
                    costs[name].append(_cost(server, partial(_drain, server.client, settings)))
                else:
                    found = _records(server.client, settings)
                    checks.same_rows(name, found, made.narrow(records))
    each = {name: median(found) / records * MICRO for name, found in costs.items()}
    what = f"connector, Update of {records:,} records of 8 columns"
    yield Row(what, SDK, each["ours"], each[SDK], "times less", 2, "CPU us a record")


def write(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """A batch of rows of 20 columns into an empty Delta table, beside Spark and plain CSV."""
    each = -(-records // _FILES)
    files, paths = packed(folder, "packed", COLUMNS, rows(range(records)), each)
    bare = plain(folder, "plain", COLUMNS, rows(range(records)), each)
    mine, theirs = [], []
    with _destination(folder) as destination, _by_hand() as hand:
        for turn in range(rounds + 1):
            destination.create(f"table_{turn}", COLUMNS)
            mine.append(destination.wrote(f"table_{turn}", COLUMNS, files, replace=paths))
            table = str(folder / f"by_hand_{turn}")
            theirs.append(hand.loaded(table, bare))
        hand.same(destination.path("table_0"), str(folder / "by_hand_0"), records)
    what = f"destination, {records:,} rows of 20 columns into an empty table"
    yield Row(f"{what}, the first", BY_HAND, mine[0], theirs[0], "of theirs")
    yield Row(what, BY_HAND, median(mine[1:]), median(theirs[1:]), "of theirs", 1.5)


def merge(folder: Path, records: int, rounds: int) -> Iterator[Row]:
    """An update of a tenth of the rows, beside a MERGE by hand of the same rows in plain CSV."""
    each = -(-records // _FILES)
    files, paths = packed(folder, "packed", COLUMNS, rows(range(records)), each)
    bare = plain(folder, "plain", COLUMNS, rows(range(records)), each)
    table = str(folder / "by_hand")
    mine, theirs = [], []
    with _destination(folder) as destination, _by_hand() as hand:
        destination.create("rows", COLUMNS)
        destination.wrote("rows", COLUMNS, files, replace=paths)
        hand.loaded(table, bare)
        for turn in range(1, rounds + 2):
            numbers = range(turn % 10, records, 10)
            files, paths = packed(folder, f"few-{turn}", COLUMNS, rows(numbers, turn), each)
            bare = plain(folder, f"few-plain-{turn}", COLUMNS, rows(numbers, turn), each)
            mine.append(destination.wrote("rows", COLUMNS, files, update=paths))
            theirs.append(hand.loaded(table, bare, merge=True))
            hand.same(destination.path("rows"), table, records)
    what = f"destination, update of {records // 10:,} rows of {records:,}"
    yield Row(f"{what}, the first", "a MERGE by hand", mine[0], theirs[0], "of theirs")
    cost = median(mine[1:]), median(theirs[1:])
    yield Row(what, "a MERGE by hand", *cost, "of theirs", 1.3)


def memory(folder: Path, records: int, _rounds: int) -> Iterator[Row]:
    """A file of 100 MB that expands ten times, with 1.5 GB for Java's heap."""
    files, [path] = packed(folder, "large", EXPANDING, expanding(records), records)
    size = Path(path).stat().st_size / MEBIBYTE
    with _destination(folder, {"spark.driver.memory": "1500m"}) as destination:
        destination.create("large", EXPANDING)
        with Memory(destination.server.pid) as held:
            destination.wrote("large", EXPANDING, files, replace=[path])
    what = f"destination, a file of {size:.0f} MiB, {records:,} rows"
    yield Row(f"{what}, all of Python", "", held.python / MEBIBYTE, None, "below", 500, "MiB")
    yield Row(f"{what}, Java, a heap of 1,500", "", held.jvm / MEBIBYTE, None, "below", None, "MiB")


# Connectors


def _drain(client: Client, settings: Mapping[str, str]) -> None:
    for _ in _answers(client, settings):
        pass


def _answers(client: Client, settings: Mapping[str, str]) -> Any:
    request = proto_messages.UpdateRequest(configuration=settings, state_json="{}")
    return client.stream("Update", request)


def _records(client: Client, settings: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for answer in _answers(client, settings):
        found = [answer.record] if answer.HasField("record") else answer.records.records
        for record in found:
            yield {name: _plain(value) for name, value in record.data.items()}


def _plain(value: Any) -> Any:
    found = getattr(value, value.WhichOneof("inner"))
    return found.ToDatetime().isoformat() + "+00:00" if hasattr(found, "ToDatetime") else found


# Destinations


@dataclass
class _LoadedDestination:
    """Our destination, running, and where its tables are."""

    server: Any
    folder: Path
    configuration: Mapping[str, str]

    def create(self, name: str, columns: Sequence[KnownColumn]) -> None:
        """Make a table."""
        request = proto_messages.CreateTableRequest(
            configuration=self.configuration, schema_name="bench", table=to_message(name, columns)
        )
        self._call_rpc("CreateTable", request)

    def wrote(
        self, name: str, columns: Sequence[KnownColumn], files: Any, **paths: Sequence[str]
    ) -> float:
        """Write a batch; return the CPU seconds that it took."""
        request = proto_messages.WriteBatchRequest(
            configuration=self.configuration,
            schema_name="bench",
            table=to_message(name, columns),
            keys=files.keys,
            file_params=files.params(),
            **{f"{kind}_files": found for kind, found in paths.items()},
        )
        return _cost(self.server, partial(self._call_rpc, "WriteBatch", request))

    def path(self, name: str) -> str:
        """Return the folder of a table."""
        [log] = (
            path for path in self.folder.rglob("_delta_log") if path.parent.name.endswith(name)
        )
        return str(log.parent)

    def _call_rpc(self, rpc: str, request: Any) -> None:
        answer = self.server.client.call(rpc, request)
        if not answer.success:
            message = f"{rpc}: {answer}"
            raise checks.WrongRowsError(message)


@dataclass
class _Hand:
    """The script that loads with Spark, running."""

    process: subprocess.Popen[str]

    def loaded(self, table: str, paths: Sequence[str], *, merge: bool = False) -> float:
        """Load plain files; return the CPU seconds that it took."""
        cpu: float = self._asked({"table": table, "paths": paths, "merge": merge})["cpu"]
        return cpu

    def same(self, ours_: str, theirs: str, records: int) -> None:
        """Compare two tables."""
        one, other = self._asked({"hash": ours_}), self._asked({"hash": theirs})
        if one != other or one["rows"] != records:
            message = f"ours: {one}, theirs: {other}"
            raise checks.WrongRowsError(message)

    def _asked(self, question: Mapping[str, Any]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or "null")


@contextmanager
def _by_hand() -> Iterator[_Hand]:
    program = ours("plain_load.py", DDL)
    with subprocess.Popen(
        program.command,
        env=_environment(program),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield _Hand(process)
        assert process.stdin is not None
        process.stdin.close()


@contextmanager
def _destination(
    folder: Path, spark: Mapping[str, str] | None = None
) -> Iterator[_LoadedDestination]:
    settings = {"path": str(folder / "lake"), "format": "delta"}
    if spark:
        settings["spark"] = json.dumps(spark)
    with _served(ours("target.py"), "DestinationConnector") as server:
        yield _LoadedDestination(server, folder / "lake", settings)


# Servers


@contextmanager
def _served(program: Program, service: str = "SourceConnector") -> Iterator[Any]:
    """Start a server; it ends with the context."""
    variables = [f"{name}={value}" for name, value in program.environment.items()]
    command = ["/usr/bin/env", *variables, *program.command]
    with Servers(service, Findings(), command).open() as server:
        yield server


def _environment(program: Program) -> dict[str, str]:
    return {**os.environ, **program.environment}


def _cost(server: Any, do: Callable[[], Any]) -> float:
    before = cpu_of(server.pid)
    do()
    print(".", end="", flush=True, file=sys.stderr)
    return cpu_of(server.pid) - before
