"""A REST tap sends the same requests, records and last state on tap_core and on singer_sdk."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tap_core.streams.graphql import GraphQLStream
from tap_core.streams.rest import RESTStream, _HTTPStream
from tests.http.server import ReceivedRequest, Reply, serving
from tests.peers import missing_reason, peer_python
from tests.sync.syncing import parse_messages, select_messages

PEER = peer_python("singer_sdk")
ROOT = Path(__file__).resolve().parents[2]
TAP = Path(__file__).with_name("peer_tap.py")
SDKS = ("tap_core", "singer_sdk")
STATE = {
    "bookmarks": {
        "events": {"replication_key": "id", "replication_key_value": 2},
        "issues": {
            "partitions": [
                {
                    "context": {"project_id": 1, "slug": "p/1"},
                    "replication_key": "updated_at",
                    "replication_key_value": "2024-01-01T00:00:00+00:00",
                }
            ]
        },
    }
}

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]


def respond(request: ReceivedRequest) -> Reply:
    """Return the reply of the API to a request."""
    name = request.path.strip("/").split("/")[-1]
    return REPLY_FUNCTIONS.get(name, other_streams)(request)


def projects(request: ReceivedRequest) -> Reply:
    if "token" in request.query:
        return Reply(b'{"data": [{"id": 3, "name": null, "cost": 0.10}], "meta": {}}')
    return Reply(
        '{"data": [{"id": 1, "name": "é", "cost": 12345678901234567890.5},'
        ' {"id": 2, "name": "b", "cost": 1}], "meta": {"next": "n/2"}}'
    )


def issues(request: ReceivedRequest) -> Reply:
    number = int(request.query["page"][0])
    rows = [
        {"id": 10 * number + n, "updated_at": f"2024-01-0{4 - n}T0{number}:00:00Z", "state": n}
        for n in range(2)
    ]
    return Reply({"data": [] if "p%2F3" in request.path else rows, "meta": {"more": number < 3}})


def search(request: ReceivedRequest) -> Reply:
    offset = json.loads(request.body)["offset"]
    return Reply([{"id": offset + n} for n in range(2 if offset < 4 else 1)])


def form(request: ReceivedRequest) -> Reply:
    offset = 0 if b"offset=0" in request.body else 2
    return Reply([{"id": offset + n} for n in range(2 - offset)])


def search_or_form(request: ReceivedRequest) -> Reply:
    return search(request) if request.body.startswith(b"{") else form(request)


def events(request: ReceivedRequest) -> Reply:
    if "cursor" in request.query:
        return Reply(b'{"data": [{"id": 5, "big": 123456789012345678901234567890}]}')
    if len(request.query) == 1:
        return Reply("", 500)
    return Reply({"data": [{"id": 3}, {"id": 4}]}, headers={"X-Next-Page": "c 2"})


def other_streams(request: ReceivedRequest) -> Reply:
    return Reply({"data": [{"id": len(request.path)}], "meta": {"next": ""}})


def legacy(request: ReceivedRequest) -> Reply:
    return Reply({"data": [{"id": 1}], "meta": {"next": None if "token" in request.query else 7}})


def graphql(request: ReceivedRequest) -> Reply:
    return Reply({"data": {"cities": [{"id": 1, "rate": 0.5}, {"id": 2, "rate": None}]}})


REPLY_FUNCTIONS = {
    "projects": projects,
    "issues": issues,
    "search": search_or_form,
    "events": events,
    "legacy": legacy,
    "graphql": graphql,
}


class SdkRun:
    """The requests that one SDK sent and the messages that it wrote."""

    def __init__(self, requests: list[ReceivedRequest], output: bytes) -> None:
        self.requests = requests
        self.messages = parse_messages(output)


@pytest.fixture(scope="module")
def sdk_runs(tmp_path_factory) -> dict[str, SdkRun]:
    folder = tmp_path_factory.mktemp("runs")
    with serving() as server:
        server.answers_by(respond)
        files = {
            "config": {"url": server.url, "org": "a/b", "token": "t0k", "start_date": "2023-05-06"},
            "state": STATE,
        }
        for name, document in files.items():
            (folder / f"{name}.json").write_text(json.dumps(document))
        return {sdk: run(sdk, folder, server) for sdk in SDKS}


def run(sdk: str, folder: Path, server: Any) -> SdkRun:
    del server.requests[:]
    tap = folder / f"{sdk}_tap.py"
    tap.write_text(TAP.read_text().replace("tap_core", sdk))
    interpreter, path = sys.executable, f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    if sdk != "tap_core":
        interpreter, path = str(PEER), ""
    process = subprocess.run(
        [interpreter, "-W", "ignore", tap.name, "--config", "config.json", "--state", "state.json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr.decode()
    return SdkRun(list(server.requests), process.stdout)


def test_requests_and_their_order_equal_those_of_singer_sdk(sdk_runs):
    def get_comparable(request: ReceivedRequest) -> tuple[Any, ...]:
        headers = {name: value for name, value in request.headers.items() if name != "User-Agent"}
        return request.method, request.path, request.query, headers, request.body

    ours, theirs = ([get_comparable(request) for request in sdk_runs[sdk].requests] for sdk in SDKS)
    assert ours == theirs
    assert len(ours) > 20


def test_records_and_their_order_equal_those_of_singer_sdk(sdk_runs):
    def group_records(side: SdkRun) -> dict[str, list[Any]]:
        grouped: dict[str, list[Any]] = {}
        for message in select_messages(side.messages, "RECORD"):
            grouped.setdefault(message["stream"], []).append(message["record"])
        return grouped

    ours, theirs = (group_records(sdk_runs[sdk]) for sdk in SDKS)
    assert ours == theirs
    assert len(ours) == 8
    assert ours["projects"][0]["cost"] == Decimal("12345678901234567890.5")
    assert ours["events"][-1]["big"] == 123456789012345678901234567890


def test_last_state_equals_that_of_singer_sdk(sdk_runs):
    ours, theirs = (select_messages(sdk_runs[sdk].messages, "STATE")[-1]["value"] for sdk in SDKS)
    assert ours == theirs


# Names

_SIGNATURES = """
import inspect, json, sys
from singer_sdk.streams.graphql import GraphQLStream
from singer_sdk.streams.rest import RESTStream, _HTTPStream
signatures = {}
for kind in (_HTTPStream, RESTStream, GraphQLStream):
    members = {}
    for name, member in vars(kind).items():
        member = getattr(member, "__func__", member)
        if not name.startswith("__") or name == "__init__":
            is_function = inspect.isfunction(member)
            members[name] = list(inspect.signature(member).parameters) if is_function else None
    signatures[kind.__name__] = members
print(json.dumps(signatures))
"""


def test_http_classes_have_all_members_of_singer_sdk():
    process = subprocess.run([str(PEER), "-c", _SIGNATURES], capture_output=True, check=True)
    peer_signatures = json.loads(process.stdout)
    differences = []
    for kind in (_HTTPStream, RESTStream, GraphQLStream):
        for name, parameters in peer_signatures[kind.__name__].items():
            if name not in dir(kind):
                differences.append(f"{kind.__name__}.{name} is missing")
            elif parameters is not None:
                member = inspect.getattr_static(kind, name)
                member = getattr(member, "__func__", member)
                if list(inspect.signature(member).parameters) != parameters:
                    differences.append(f"{kind.__name__}.{name}: {inspect.signature(member)}")
    assert differences == []
