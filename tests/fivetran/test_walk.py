"""The connector tester finds no broken rule in taps of the SDK."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fivetran_tester.connector import ConnectorTester
from fivetran_tester.findings import Findings
from fivetran_tester.server_pool import Servers
from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.protocols.fivetran.connector_service import make_connector_service
from tap_core.protocols.fivetran.grpc_server import Server
from tap_core.protocols.fivetran.listen_address import ListenAddress
from tap_core.protocols.fivetran.logging import ServerLog

MOMENT = {"type": ["string", "null"], "format": "date-time"}


class Kinds(Stream):
    """A full-table stream with a column of every type, and nulls."""

    name = "kinds"
    primary_keys = ("id",)
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 0, "maximum": 9},
            "truth": {"type": ["boolean", "null"]},
            "small": {"type": ["integer", "null"], "minimum": -99_999, "maximum": 99_999},
            "large": {"type": ["integer", "null"], "maximum": 2**70},
            "price": {"type": ["number", "null"], "multipleOf": 0.01},
            "ratio": {"type": ["number", "null"]},
            "day": {"type": ["string", "null"], "format": "date"},
            "at": MOMENT,
            "local": {**MOMENT, "airbyte_type": "timestamp_without_timezone"},
            "raw": {"type": ["string", "null"], "contentEncoding": "base64"},
            "page": {"type": ["string", "null"], "contentMediaType": "application/xml"},
            "about": {"type": ["object", "null"]},
            "odd": {},
        },
    }

    def get_records(self, context: Any) -> Iterator[dict[str, Any]]:
        yield {
            "id": 0,
            "truth": True,
            "small": -99_999,
            "large": 2**70,
            "price": "12.50",
            "ratio": 0.1,
            "day": "0001-01-01",
            "at": "1969-12-31T23:59:59.123456789+02:00",
            "local": "9999-12-31T23:59:59",
            "raw": "AAEC",
            "page": "<a/>",
            "about": {"b": [1, None]},
            "odd": "text",
        }
        yield {"id": 1}


class Events(Stream):
    """A stream without a key."""

    name = "events"
    schema = th.PropertiesList(
        th.Property("what", th.StringType), th.Property("times", th.IntegerType)
    ).to_dict()

    def get_records(self, context: Any) -> Iterator[dict[str, Any]]:
        yield from ({"what": f"event {n}", "times": n} for n in range(150))


class Customers(Stream):
    """A parent stream."""

    name = "customers"
    primary_keys = ("id",)
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True), th.Property("name", th.StringType)
    ).to_dict()

    def get_records(self, context: Any) -> Iterator[dict[str, Any]]:
        yield from ({"id": n, "name": f"customer {n}"} for n in range(3))

    def get_child_context(self, record: Any, context: Any) -> dict[str, Any]:
        return {"customer": record["id"]}


class Orders(Stream):
    """A child stream that grows, sorted; the fourth order of each customer is deleted."""

    name = "orders"
    parent_stream_type = Customers
    primary_keys = ("customer", "number")
    replication_key = "changed_at"
    is_sorted = True
    schema = {
        "type": "object",
        "properties": {
            "customer": {"type": "integer"},
            "number": {"type": "integer"},
            "changed_at": {"type": "string", "format": "date-time"},
            "_sdc_deleted_at": MOMENT,
        },
    }

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        start = self.get_starting_replication_key_value(context) or ""
        for number in range(120):
            changed = f"2024-05-01T08:{number // 60:02}:{number % 60:02}Z"
            if changed >= start:
                yield {
                    "number": number,
                    "changed_at": changed,
                    "_sdc_deleted_at": changed if number == 4 else None,
                }


class TapWhole(Tap):
    """A tap of all these streams."""

    name = "tap-whole"
    config_jsonschema = th.PropertiesList(
        th.Property("token", th.StringType, required=True, secret=True, description="A secret"),
        th.Property("schemas", th.BooleanType, description="Whether tables have a schema"),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        kinds = (Kinds, Events, Customers, Orders)
        if not self.config.get("schemas"):
            return [kind(self) for kind in kinds]
        classes = [type(kind.__name__, (kind,), {"namespace": "shop"}) for kind in kinds[:2]]
        return [kind(self) for kind in classes]


@contextmanager
def served(tap: type[Tap]) -> Iterator[str]:
    """Serve a tap in this process; yield its address."""
    journal = ServerLog("sdk_connector")
    with journal.attached():
        server = Server(make_connector_service(tap, journal), journal)
        port = server.start(ListenAddress(0, "127.0.0.1"))
        yield f"127.0.0.1:{port}"
        server.stop(1)


@pytest.mark.parametrize("schemas", [False, True])
def test_tap_breaks_no_rule(schemas: bool) -> None:
    """F6, F7, F10 to F19: all calls, with updates that are resumed, interrupted and filtered."""
    lines: list[str] = []
    findings = Findings()
    with served(TapWhole) as address:
        servers = Servers("SourceConnector", findings, address=address)
        settings = {"token": "t-4711-secret", "schemas": schemas}
        ConnectorTester(servers, settings, lines.append, resumes=9).run()
    assert list(findings.lines()) == []
    text = "\n".join(lines)
    assert "t-4711-secret" not in text
    before = "shop." if schemas else ""
    assert f"{before}kinds: 2 rows of 2 records" in text
    assert f"{before}events: 150 rows of 150 records" in text
    assert ("orders: 357 rows of 360 records" in text) is not schemas
