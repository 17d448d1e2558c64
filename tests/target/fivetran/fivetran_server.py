"""A Fivetran destination in its own process, and the gRPC calls of a client to it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fivetran_tester.client import Client
from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.enums import Compression, DataType, Encryption
from tests.fivetran import batch_files
from tests.fivetran.batch_files import Cell

__all__ = ["Destination", "column", "table"]

_HOST = ("--host", "127.0.0.1")


def column(name: str, kind: DataType, *, key: bool = False, digits: Any = None) -> Any:
    """Return a column for a request."""
    result = proto_messages.Column(name=name, type=int(kind), primary_key=key)
    if digits:
        result.params.decimal.precision, result.params.decimal.scale = digits
    return result


def table(name: str, *columns: Any) -> Any:
    """Return a table for a request."""
    return proto_messages.Table(name=name, columns=columns)


class Destination:
    """A running `target-spark --port`, with its log lines and its standard error."""

    def __init__(
        self,
        home: Path,
        configuration: Mapping[str, str],
        operator: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        """Start the program; ``operator`` has environment variables, ``arguments`` is appended."""
        self.home = home
        ours = {"TARGET_SPARK_MASTER": "local[2]", "TARGET_SPARK_SMALL_RUNS": "true"}
        self.operator = {**ours, **(operator or {})}
        self.arguments = arguments
        self.configuration = dict(configuration)
        self.log_lines: list[str] = []
        self._files = 0
        home.mkdir(parents=True, exist_ok=True)
        (home / "tmp").mkdir(exist_ok=True)
        self.errors = home / "stderr.txt"
        self._start()

    def _start(self) -> None:
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "target_spark", "--port", "0", *_HOST, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **self.operator, "TMPDIR": str(self.home / "tmp")},
                start_new_session=True,
                text=True,
            )
        first = self.process.stdout.readline()
        self.log_lines.append(first)
        self.port = int(first.split(" port ")[1].split()[0].strip('",.'))
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        self.client = Client(f"127.0.0.1:{self.port}", "DestinationConnector")

    def _listen(self) -> None:
        self.log_lines.extend(self.process.stdout)

    def restart(self) -> None:
        """Start the program again, after the process ended for any reason."""
        self.process.wait()
        self._closed()
        self._start()

    def end(self) -> int:
        """Terminate the process with SIGTERM; return its exit code."""
        self.process.terminate()
        code = self.process.wait(90)
        self._closed()
        return code

    def _closed(self) -> None:
        self.client.close()
        self._reader.join(30)
        self.process.stdout.close()

    @property
    def error_output(self) -> str:
        return self.errors.read_text(errors="replace")

    def call(self, rpc: str, **fields: Any) -> Any:
        """Make a call with the settings; return the response."""
        kind = getattr(proto_messages, f"{rpc}Request")
        return self.client.call(rpc, kind(configuration=self.configuration, **fields))

    def call_plain(self, rpc: str) -> Any:
        """Make a call that takes no settings; return the response."""
        return self.client.call(rpc, getattr(proto_messages, f"{rpc}Request")())

    def task(self, rpc: str, **fields: Any) -> str:
        """Make a call that fails; return the text of its task."""
        answer = self.call(rpc, **fields)
        assert answer.WhichOneof("response") == "task", answer
        text: str = answer.task.message
        assert 0 < len(text.encode()) < 8192
        return text

    def create(self, schema: str, table: Any) -> None:
        assert self.call("CreateTable", schema_name=schema, table=table).success

    def describe(self, schema: str, name: str) -> Any:
        return self.call("DescribeTable", schema_name=schema, table_name=name)

    def files(
        self,
        columns: Sequence[str],
        *rows: Iterable[Sequence[Cell]],
        compression: Compression = Compression.ZSTD,
    ) -> dict[str, bytes]:
        """Write a batch file for each set of rows; return the paths with their keys."""
        keys = {}
        folder = Path(tempfile.mkdtemp(dir=self.home))
        for file_rows in rows:
            self._files += 1
            path, key = folder / f"{self._files}.csv.zst.aes", batch_files.new_key()
            batch_files.write_batch_file(path, columns, file_rows, key=key, compression=compression)
            keys[str(path)] = key
        return keys

    def batch(
        self,
        schema: str,
        table: Any,
        *,
        replace: Mapping[str, bytes] | None = None,
        update: Mapping[str, bytes] | None = None,
        delete: Mapping[str, bytes] | None = None,
    ) -> dict[str, Any]:
        """Return the fields of a WriteBatch request."""
        kinds = [replace or {}, update or {}, delete or {}]
        return {
            "schema_name": schema,
            "table": table,
            "keys": {path: key for kind in kinds for path, key in kind.items()},
            "replace_files": kinds[0],
            "update_files": kinds[1],
            "delete_files": kinds[2],
            "file_params": proto_messages.FileParams(
                compression=int(Compression.ZSTD),
                encryption=int(Encryption.AES),
                null_string=batch_files.NULL_TEXT,
                unmodified_string=batch_files.UNMODIFIED_TEXT,
            ),
        }

    def write(self, schema: str, table: Any, **kinds: Any) -> None:
        answer = self.call("WriteBatch", **self.batch(schema, table, **kinds))
        assert answer.success, answer
