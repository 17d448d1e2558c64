"""A destination without Spark that keeps no rows and can break rules.

Tables are as the calls describe them; batch files are opened and not loaded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.enums import Compression, DataType, TextField

PASSWORD = "pass-pass-pass"


class FaultyDestination:
    """The handlers of the calls; ``faults`` are the words that the code below checks."""

    def __init__(self, *faults: str) -> None:
        self.faults = set(faults)
        self.tables: dict[tuple[str, str], Any] = {}
        self.calls: dict[str, Callable[[Any, Any], Any]] = {
            "ConfigurationForm": self.form,
            "Capabilities": self.capabilities,
            "Test": self.test,
            "DescribeTable": self.describe,
            "CreateTable": self.create,
            "AlterTable": self.alter,
            "Truncate": self.truncate,
            "WriteBatch": self.write,
            "WriteHistoryBatch": self.write,
            "Migrate": self.migrate,
        }

    def form(self, _request: Any, _context: Any) -> Any:
        return proto_messages.ConfigurationFormResponse(
            fields=[
                proto_messages.FormField(
                    name="password",
                    label="Password",
                    description="Of the lake",
                    text_field=int(TextField.Password),
                ),
                proto_messages.FormField(
                    name="way",
                    label="Way",
                    description="In",
                    default_value="front",
                    dropdown_field=proto_messages.DropdownField(dropdown_field=["front", "back"]),
                ),
            ],
            tests=[proto_messages.ConfigurationTest(name="reach")],
        )

    def capabilities(self, _request: Any, _context: Any) -> Any:
        return proto_messages.CapabilitiesResponse(batch_file_format=int("parquet" in self.faults))

    def test(self, request: Any, _context: Any) -> Any:
        fine = request.name == "reach" and request.configuration.get("password") == PASSWORD
        fine = fine and request.configuration.get("way") == "front"
        return (
            proto_messages.TestResponse(success=True)
            if fine
            else proto_messages.TestResponse(failure="no")
        )

    def describe(self, request: Any, context: Any) -> Any:
        table = self.tables.get((request.schema_name, request.table_name))
        if table is None and "describe raises" in self.faults:
            task = {"message": "There is no such table.", "alert_type": "TASK"}
            context.abort(grpc.StatusCode.INTERNAL, json.dumps(task))
        if table is None:
            return proto_messages.DescribeTableResponse(not_found=True)
        result = proto_messages.Table()
        result.CopyFrom(table)
        for column in result.columns:
            if "wide types" in self.faults and column.type == DataType.SHORT:
                column.type = int(DataType.INT)
        return proto_messages.DescribeTableResponse(table=result)

    def create(self, request: Any, _context: Any) -> Any:
        name = (request.schema_name, request.table.name)
        if name in self.tables and "exists is fine" not in self.faults:
            return _task(
                proto_messages.CreateTableResponse, "x" * 9000 if "long" in self.faults else "no"
            )
        self.tables[name] = request.table
        return proto_messages.CreateTableResponse(success=True)

    def alter(self, request: Any, _context: Any) -> Any:
        name = (request.schema_name, request.table.name)
        if "drops" in self.faults:
            self.tables[name] = request.table
            return proto_messages.AlterTableResponse(success=True)
        requested = {column.name: column for column in request.table.columns}
        columns = [requested.pop(column.name, column) for column in self.tables[name].columns]
        self.tables[name] = proto_messages.Table(
            name=name[1], columns=[*columns, *requested.values()]
        )
        return proto_messages.AlterTableResponse(success=True)

    def truncate(self, request: Any, _context: Any) -> Any:
        if (
            "missing" in self.faults
            and (request.schema_name, request.table_name) not in self.tables
        ):
            return _task(proto_messages.TruncateResponse, "There is no such table.")
        return proto_messages.TruncateResponse(success=True)

    def write(self, request: Any, _context: Any) -> Any:
        paths = [*request.replace_files, *request.update_files, *request.delete_files]
        for path in paths:
            try:
                content = _read_file(path, request)
            except Exception as error:
                if "anything is fine" in self.faults:
                    continue
                if "crash" in self.faults:
                    raise
                return _task(proto_messages.WriteBatchResponse, f"{Path(path).name}: {type(error)}")
            if "shows rows" in self.faults and b"seen-by-nobody" in content:
                return _task(proto_messages.WriteBatchResponse, content.decode())
        if "says nothing" in self.faults:
            return proto_messages.WriteBatchResponse()
        return proto_messages.WriteBatchResponse(success=True)

    def migrate(self, _request: Any, _context: Any) -> Any:
        if "migrate" in self.faults:
            return _task(proto_messages.MigrateResponse, "What is that?")
        return proto_messages.MigrateResponse(unsupported=True)


def _task(kind: Any, text: str) -> Any:
    return kind(task=proto_messages.Task(message=text))


def _read_file(path: str, request: Any) -> bytes:
    data = Path(path).read_bytes()
    if key := request.keys.get(path):
        decryptor = Cipher(algorithms.AES(key), modes.CBC(data[:16])).decryptor()
        padded = decryptor.update(data[16:]) + decryptor.finalize()
        unpadder = PKCS7(128).unpadder()
        data = unpadder.update(padded) + unpadder.finalize()
    compression = Compression(request.file_params.compression)
    if compression == Compression.OFF:
        return data
    with pa.CompressedInputStream(pa.BufferReader(data), compression.name.lower()) as stream:
        content: bytes = stream.read()
        return content


@contextmanager
def serving(faulty: FaultyDestination) -> Iterator[int]:
    """Serve the destination in this process; yield its port."""
    methods = {}
    for name, rpc in proto_messages.get_rpcs("DestinationConnector").items():
        request = getattr(proto_messages, rpc.request)
        methods[name] = grpc.unary_unary_rpc_method_handler(
            faulty.calls[name], request.FromString, lambda answer: answer.SerializeToString()
        )
    with ThreadPoolExecutor(4) as threads:
        server: Any = grpc.server(threads)
        service = "fivetran_sdk.v2.DestinationConnector"
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
        bound = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield bound
        server.stop(None).wait()
