"""Calls of a tap's connector without a server: responses are messages in this process.

The tap, its service and its encoded bytes are real; only gRPC is left out.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tap_core import Tap
from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.connector_service import make_connector_service
from tap_core.protocols.fivetran.enums import RecordType
from tap_core.protocols.fivetran.logging import ServerLog

__all__ = ["Caller", "Connector", "decode_value", "group_by_table", "list_states", "make_selection"]


class Caller:
    """A caller that records notes and may disconnect."""

    def __init__(self, request_limit: int = 128 << 20) -> None:
        self.last_note, self.request_limit = "", request_limit
        self._callbacks: list[Callable[[], None]] = []

    def on_end(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def note(self, text: str) -> None:
        self.last_note = text

    def disconnect(self) -> None:
        for callback in self._callbacks:
            callback()

    def wait_for_thread(self, thread: threading.Thread) -> None:
        thread.join(60)


class Connector:
    """A tap as a connector, called in this process."""

    def __init__(self, tap_class: type[Tap], **settings: Any) -> None:
        self.service = make_connector_service(tap_class, ServerLog("sdk_connector"))
        self.configuration = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in settings.items()
        }

    def call(self, rpc: str, caller: Caller | None = None, **fields: Any) -> Any:
        request = getattr(proto_messages, f"{rpc}Request")
        with_settings = "configuration" in request.DESCRIPTOR.fields_by_name
        settings = {"configuration": self.configuration} if with_settings else {}
        answer = self.service.handlers[rpc].answer
        return answer(request(**settings, **fields), caller or Caller())

    def update(
        self, state: Any = None, selection: Any = None, caller: Caller | None = None
    ) -> Iterator[Any]:
        fields: dict[str, Any] = {} if state is None else {"state_json": state}
        if selection is not None:
            fields["selection"] = selection
        for piece in self.call("Update", caller, **fields):
            response = proto_messages.UpdateResponse.FromString(piece)
            assert response.SerializeToString(deterministic=True), "not empty"
            yield response


def decode_value(value: Any) -> Any:
    """Return the value of a ValueType, a timestamp as its seconds and nanoseconds."""
    kind = value.WhichOneof("inner")
    inner = getattr(value, kind)
    if kind == "null":
        return None
    return (inner.seconds, inner.nanos) if hasattr(inner, "seconds") else inner


def list_records(responses: Any) -> Iterator[Any]:
    for response in responses:
        yield from response.records.records


def group_by_table(responses: Any) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return per table the type and the data of each record."""
    rows: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for record in list_records(responses):
        data = {name: decode_value(value) for name, value in record.data.items()}
        rows.setdefault(record.table_name, []).append((RecordType(record.type).name, data))
    return rows


def list_states(responses: Any) -> list[dict[str, Any]]:
    checkpoints = [
        response for response in responses if response.WhichOneof("operation") == "checkpoint"
    ]
    return [json.loads(response.checkpoint.state_json) for response in checkpoints]


def make_selection(tables: Mapping[str, Any], *, new_tables: bool = False) -> Any:
    """Return a selection without schemas: per table True, False, or columns by name."""
    table_selections = []
    for name, selected in tables.items():
        columns = selected if isinstance(selected, dict) else {}
        table = proto_messages.TableSelection(
            included=selected is not False,
            table_name=name,
            columns=columns,
            include_new_columns=not isinstance(selected, dict) or selected.get("*", False),
        )
        table_selections.append(table)
    without_schema = proto_messages.TablesWithNoSchema(
        tables=table_selections, include_new_tables=new_tables
    )
    return proto_messages.Selection(without_schema=without_schema)
