"""A connector without the SDK that can break rules, for the tests of the tester.

`python faulty.py --port N [FAULT ...]` runs it as a program. Two tables: ``orders``, which resumes
from its state, and ``kinds``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.enums import DataType, TextField

ORDERS, STEP = 100, 20
SECRET = "hush-hush-hush"


class Faulty:
    """The handlers of the calls; ``faults`` are the arguments that the code below checks."""

    def __init__(self, *faults: str) -> None:
        self.faults = set(faults)
        self.schemas = 0

    # Form, test, schema

    def form(self, _request: Any, _context: Any) -> Any:
        kind = TextField.PlainText if "open secret" in self.faults else TextField.Password
        return proto_messages.ConfigurationFormResponse(
            schema_selection_supported=True,
            table_selection_supported=True,
            fields=[
                proto_messages.FormField(
                    name="token", label="Token", description="Of the shop", text_field=int(kind)
                ),
            ],
            tests=[proto_messages.ConfigurationTest(name="connection", label="Reaching the shop")],
        )

    def test(self, request: Any, context: Any) -> Any:
        if "crash" in self.faults:
            raise RuntimeError("uncaught error")
        if "failing test" in self.faults:
            return proto_messages.TestResponse(
                failure="x" * 9000 if "long" in self.faults else "closed"
            )
        if "no answer" in self.faults:
            return proto_messages.TestResponse()
        if request.name != "connection" and "any test" not in self.faults:
            return proto_messages.TestResponse(failure="there is no such test")
        return proto_messages.TestResponse(success=True)

    def schema(self, request: Any, context: Any) -> Any:
        if request.configuration.get("token") != SECRET:
            task = {"message": "The token is missing.", "alert_type": "TASK"}
            context.abort(grpc.StatusCode.UNAVAILABLE, json.dumps(task))
        self.schemas += 1
        orders = [
            ("id", DataType.LONG, True),
            ("amount", DataType.DECIMAL, False),
            ("at", DataType.UTC_DATETIME, False),
            ("about", DataType.JSON, False),
        ]
        if "unstable" in self.faults and self.schemas % 2:
            orders.append(("more", DataType.STRING, False))
        if "system column" in self.faults:
            orders.append(("_fivetran_synced", DataType.UTC_DATETIME, False))
        tables = [
            _table("orders", orders),
            _table("kinds", [("name", DataType.STRING, True), ("rank", DataType.SHORT, False)]),
        ]
        if "two of a name" in self.faults:
            tables.append(tables[0])
        return proto_messages.SchemaResponse(without_schema=proto_messages.TableList(tables=tables))

    # Update

    def update(self, request: Any, _context: Any) -> Iterator[Any]:
        state = json.loads(request.state_json or "{}")
        state = state if isinstance(state, dict) else {}
        selections = {table.table_name: table for table in request.selection.without_schema.tables}
        if self.is_on(selections, "kinds"):
            yield self.send_records(self.kinds(selections.get("kinds")))
            yield self.checkpoint(state)
        if self.is_on(selections, "orders"):
            yield from self.orders(selections.get("orders"), state)
        elif "state of others" in self.faults:
            yield self.checkpoint({**state, "orders": ORDERS})

    def is_on(self, selections: dict[str, Any], name: str) -> bool:
        return "all tables" in self.faults or (name in selections and selections[name].included)

    def kinds(self, selection: Any) -> list[Any]:
        columns = selection.columns if selection is not None else {}
        takes_new = (
            selection is None or selection.include_new_columns or "all columns" in self.faults
        )
        records = []
        for rank, name in enumerate(("small", "large")):
            data = {"name": proto_messages.ValueType(string=name)}
            if "all columns" in self.faults or columns.get("rank", takes_new):
                data["rank"] = proto_messages.ValueType(
                    short=1 << 20 if "short" in self.faults else rank
                )
            records.append(proto_messages.Record(table_name="kinds", data=data))
        return records

    def orders(self, selection: Any, state: dict[str, Any]) -> Iterator[Any]:
        position = state.get("orders", 0) + (
            5 if "gap" in self.faults and state.get("orders") else 0
        )
        for start in range(position, ORDERS, STEP):
            numbers = range(start, min(start + STEP, ORDERS))
            if "early" in self.faults:
                yield self.checkpoint({**state, "orders": numbers.stop})
            for part in [numbers] if "many" in self.faults else _halves(numbers):
                records = [self.order(number, selection) for number in part]
                yield self.send_records(records * 6 if "many" in self.faults else records)
            if "no checkpoint" not in self.faults:
                yield self.checkpoint({**state, "orders": numbers.stop})
        if "dies" in self.faults:
            os._exit(4)
        if "task" in self.faults:
            yield proto_messages.UpdateResponse(
                task=proto_messages.Task(message="The shop is closed.")
            )
        if "after the task" in self.faults:
            yield self.checkpoint(state)

    def order(self, number: int, selection: Any) -> Any:
        data = {
            "id": proto_messages.ValueType(long=number),
            "amount": proto_messages.ValueType(
                decimal="1e3" if "decimal" in self.faults else "12.50"
            ),
            "at": proto_messages.ValueType(utc_datetime={"seconds": number}),
            "about": proto_messages.ValueType(json="{" if "json" in self.faults else "{}"),
        }
        if "kind" in self.faults:
            data["at"] = proto_messages.ValueType(string="2024-01-01")
        if "null key" in self.faults:
            data["id"] = proto_messages.ValueType(null=True)
        if "unknown column" in self.faults:
            data["unknown"] = proto_messages.ValueType(bool=True)
        listed = dict(selection.columns) if selection is not None else {}
        takes_new = (
            "all columns" in self.faults or selection is None or selection.include_new_columns
        )
        data = {
            name: value
            for name, value in data.items()
            if name == "id" or "all columns" in self.faults or listed.get(name, takes_new)
        }
        name = "others" if "unknown table" in self.faults else "orders"
        return proto_messages.Record(table_name=name, data=data)

    def send_records(self, records: list[Any]) -> Any:
        return proto_messages.UpdateResponse(records=proto_messages.Records(records=records))

    def checkpoint(self, state: dict[str, Any]) -> Any:
        text = "[1]" if "list as state" in self.faults else json.dumps(state)
        return proto_messages.UpdateResponse(checkpoint=proto_messages.Checkpoint(state_json=text))


def _halves(numbers: range) -> tuple[range, range]:
    middle = len(numbers) // 2
    return numbers[:middle], numbers[middle:]


def _table(name: str, columns: list[tuple[str, DataType, bool]]) -> Any:
    results = [
        proto_messages.Column(name=column, type=int(kind), primary_key=is_key)
        for column, kind, is_key in columns
    ]
    for column in results:
        if column.type == DataType.DECIMAL:
            column.params.decimal.precision, column.params.decimal.scale = 10, 2
    return proto_messages.Table(name=name, columns=results)


@contextmanager
def serving(faulty: Faulty, port: int = 0) -> Iterator[int]:
    """Serve the connector in this process; yield its port."""
    calls = {"ConfigurationForm": faulty.form, "Test": faulty.test, "Schema": faulty.schema}
    methods: dict[str, Any] = {
        name: grpc.unary_unary_rpc_method_handler(call, *_wire(name))
        for name, call in calls.items()
    }
    methods["Update"] = grpc.unary_stream_rpc_method_handler(faulty.update, *_wire("Update"))
    with ThreadPoolExecutor(4) as threads:
        server: Any = grpc.server(threads)
        service = "fivetran_sdk.v2.SourceConnector"
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        yield bound
        server.stop(None).wait()


def _wire(name: str) -> tuple[Any, Any]:
    request = getattr(proto_messages, f"{name}Request")
    return request.FromString, lambda answer: answer.SerializeToString()


def main(port: int, faults: list[str]) -> None:
    """Serve as a program until a signal arrives."""
    line = {"level": "INFO", "message": f"Listening on port {port}"}
    with serving(Faulty(*faults), port):
        print(json.dumps({**line, "message-origin": "sdk_connector"}), flush=True)
        if "plain line" in faults:
            print("Hello", flush=True)
        if "told secret" in faults:
            fields = {**line, "message": f"token {SECRET}", "message-origin": "sdk_connector"}
            print(json.dumps(fields), flush=True)
        if "underscore" in faults:
            print(json.dumps({**line, "message_origin": "sdk_connector"}), flush=True)
        signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    [*arguments, port] = sys.argv[1:]
    main(int(port), [argument for argument in arguments if argument != "--port"])
