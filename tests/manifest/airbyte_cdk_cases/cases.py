"""The manifests of this folder, run by tap_core or airbyte-cdk against their APIs.

``python -m tests.manifest.airbyte_cdk_cases.cases`` runs airbyte-cdk again and writes
its results as the expected ones.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.http.server import ReceivedRequest, Reply, Server, serving
from tests.manifest.airbyte_cdk_cases import apis, clinic_api, gallery_api, reports_api
from tests.peers import peer_python

__all__ = [
    "CASES",
    "CDK",
    "CDK_6",
    "FOLDER",
    "Case",
    "load_expected",
    "positions",
    "run_airbyte_cdk",
    "run_tap_core",
]

FOLDER = Path(__file__).parent
CDK = peer_python("airbyte_cdk") or peer_python("pyairbyte")  # which has it, too
CDK_6 = peer_python("airbyte_cdk_6")


class Case:
    """A manifest, its API, its config and its initial state."""

    def __init__(
        self,
        manifest: str,
        api: Callable[[str], Callable[[ReceivedRequest], Reply]],
        config: Mapping[str, Any],
        state: Mapping[str, Mapping[str, Any]] | None = None,
        components: str | None = None,
        streams: Mapping[str, bool] | None = None,
        selected_properties: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.manifest = FOLDER / manifest
        self.api = api
        self.config = config
        self.state = state or {}
        self.components = components and FOLDER / components
        self.streams = streams
        """The names of dynamic streams, with True for those with a cursor."""
        self.selected_properties = selected_properties or {}
        """The selected properties per stream, for streams whose catalog entry has properties."""

    @property
    def peer(self) -> Path | None:
        """The interpreter of airbyte-cdk: version 6 for custom cursors, which later ones lack."""
        return CDK_6 if self.components else CDK


_START = "1704067200"
"""The position that airbyte-cdk stores for a slice without records; tap_core stores none."""

_NOT_POSITIONS = frozenset(
    {
        *("starting_replication_value", "replication_key_signpost", "replication_key"),
        "progress_markers",
        *("use_global_cursor", "lookback_window", "parent_state", "__ab_no_cursor_state_message"),
    }
)
"""Keys of a state that are not positions of a cursor."""

_SHOP = {"token": "t", "shop": "Corner", "start": "2024-01-01", "places": ["here", "there"]}
_REPORTS = {"token": "t", "start": "2024-01-16"}
_AT = {"user": "someone", "word": "open-sesame", "kind": "login"}
_CURSORS = "clinic.py.txt"
_ASKED = [{"name": "loans", "columns": ["a", "b"], "cursor": "at"}, {"name": "fees", "columns": []}]
_LIBRARY = {"branches": ["main", "harbour"], "asked": {"reports": _ASKED}}
_MADE = {
    **dict.fromkeys(["north/a", "north/b", "south/c", "loans", "loans_harbour"], True),
    **dict.fromkeys(["rooms", "fees", "fees_harbour", "usual", "usual_harbour"], False),
    **dict.fromkeys(["books", "maps", "old books"], False),
}

CASES = {
    "shop": Case("shop.yaml", apis.shop, _SHOP),
    "shop-resumed": Case(
        "shop.yaml",
        apis.shop,
        {**_SHOP, "lookback": 2},
        {
            "orders": {"changed": "2024-01-25T06:00:00Z"},
            "visits": {
                "use_global_cursor": False,
                "states": [
                    {
                        "partition": {"customer": 3, "parent_slice": {}},
                        "cursor": {"changed": "2024-01-12T00:00:00Z"},
                    }
                ],
            },
        },
    ),
    "station": Case("station.yaml", apis.station, _AT),
    "station-resumed": Case(
        "station.yaml",
        apis.station,
        {**_AT, "kind": "key"},
        {"news": {"day": "2024-01-20"}, "alarms": {"day": "2024-02-01"}},
    ),
    "clinic": Case("clinic.yaml", clinic_api.clinic, {"start": "2024-01-01"}, components=_CURSORS),
    "clinic-resumed": Case(
        "clinic.yaml",
        clinic_api.clinic,
        {"start": "2024-01-01"},
        {
            "sorted": {"at": "2024-01-20"},
            "nested": {"at": "2024-01-05"},
            "lengths": {"states": [{"partition": {"kind": "eye"}, "cursor": {"at": "2024-02-01"}}]},
            "whole": {"at": "1704400000"},
            "numbered": {"id": 6},
            "grouped": {"id": 20, "closed": [1, 2]},
        },
        components=_CURSORS,
    ),
    "reports": Case("reports.yaml", reports_api.reports, _REPORTS),
    "reports-resumed": Case(
        "reports.yaml",
        reports_api.reports,
        _REPORTS,
        {
            "sales": {
                "use_global_cursor": False,
                "states": [
                    {
                        "partition": {"region": "south"},
                        "cursor": {"day": "2024-01-25"},
                    }
                ],
            }
        },
    ),
    "library": Case("library.yaml", apis.library, _LIBRARY, streams=_MADE),
    "library-resumed": Case(
        "library.yaml",
        apis.library,
        _LIBRARY,
        {
            "north/b": {"at": "2024-01-20"},
            "loans_harbour": {"at": "2024-01-12"},
        },
        streams=_MADE,
    ),
    "gallery": Case(
        "gallery.yaml",
        gallery_api.gallery,
        {"tokens": "one, two,three"},
        selected_properties={"pieces": ["id", "Title", "Year", "Size", "Place"]},
    ),
    "counter": Case("counter.yaml", clinic_api.counter, {"first": 5}),
    "counter-resumed": Case(
        "counter.yaml",
        clinic_api.counter,
        {"first": 5},
        {"events": {"id": 11}, "changes": {"number": 8}},
    ),
}


def run_tap_core(case: Case) -> dict[str, Any]:
    """Run a case with tap_core's Airbyte source and return its result."""
    return _run(case, [sys.executable, "-m", "tap_core.manifest.cli", "read", "--manifest"])


def run_airbyte_cdk(case: Case) -> dict[str, Any]:
    """Run a case with airbyte-cdk and return its result.

    airbyte-cdk reads streams at the same time and caches the responses of parent streams. If the
    child stream asks first, it caches the reply "busy" of `apis.station` and reads it again in all
    attempts. Such a run fails and is repeated.
    """
    assert case.peer is not None
    program = case.peer.with_name("source-declarative-manifest")
    flag = "--components-path" if case.components else ""
    for _ in range(9):
        with suppress(AssertionError):
            return _run(case, [str(program), "read", "--manifest-path"], flag)
    return _run(case, [str(program), "read", "--manifest-path"], flag)


def load_expected(name: str) -> dict[str, Any]:
    """Return the recorded result of airbyte-cdk for a case."""
    result: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return result


def _run(case: Case, command: list[str], components_flag: str = "") -> dict[str, Any]:
    with serving() as server, TemporaryDirectory() as folder:
        server.answers_by(case.api(server.url))
        files = {
            "config": {**case.config, "url": server.url},
            "catalog": {"streams": [_configured_stream(case, stream) for stream in _streams(case)]},
            "state": [_state_message(name, state) for name, state in case.state.items()],
        }
        arguments = [*command, str(_copy_manifest(case, Path(folder)))]
        if components_flag:
            arguments += [components_flag, str(Path(folder, "components.py"))]
        for name, content in files.items():
            if content:
                path = Path(folder, f"{name}.json")
                path.write_text(json.dumps(content), encoding="utf-8")
                arguments += [f"--{name}", str(path)]
        result = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "PYTHONPATH": str(FOLDER.parents[2])},
        )
        if result.returncode:
            raise AssertionError(result.stdout[-3000:] + result.stderr[-3000:])
        return _collect_result(server, result.stdout)


def _copy_manifest(case: Case, folder: Path) -> Path:
    """Return the manifest, copied next to its components if it has any."""
    if case.components is None:
        return case.manifest
    for name, file in (("manifest.yaml", case.manifest), ("components.py", case.components)):
        (folder / name).write_bytes(file.read_bytes())
    return folder / "manifest.yaml"


def _streams(case: Case) -> list[tuple[str, bool]]:
    """Return the names of the streams, with True for those with a cursor."""
    if case.streams is not None:
        return list(case.streams.items())
    text = case.manifest.read_text(encoding="utf-8").partition("\nstreams:")[2]
    streams = re.split(r"\n  - ", text.partition("\nspec:")[0])[1:]
    matches = [re.search(r"\n?    name: (\w+)|customers", stream) for stream in streams]
    return [
        (match[1] or "customers", "incremental_sync" in declaration)
        for match, declaration in zip(matches, streams, strict=True)
        if match
    ]


def _configured_stream(case: Case, stream: tuple[str, bool]) -> dict[str, Any]:
    name, has_cursor = stream
    mode = "incremental" if has_cursor else "full_refresh"
    properties = {property_name: {} for property_name in case.selected_properties.get(name, ())}
    schema = {"type": "object", "properties": properties} if properties else {}
    declared = {"name": name, "json_schema": schema, "supported_sync_modes": [mode]}
    return {"stream": declared, "sync_mode": mode, "destination_sync_mode": "append"}


def _state_message(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "STREAM",
        "stream": {"stream_descriptor": {"name": name}, "stream_state": state},
    }


# Results


def _collect_result(server: Server, output: str) -> dict[str, Any]:
    """Return the distinct requests, and the records and positions of each stream."""
    requests = sorted(
        {json.dumps(_describe_request(request), sort_keys=True) for request in server.requests}
    )
    records: dict[str, list[Any]] = {}
    states: dict[str, Any] = {}
    for line in output.splitlines():
        message = json.loads(line)
        if message["type"] == "RECORD":
            record = message["record"]
            records.setdefault(record["stream"], []).append(record["data"])
        elif message["type"] == "STATE":
            state = message["state"]["stream"]
            state_positions = positions(state.get("stream_state") or {})
            states[state["stream_descriptor"]["name"]] = state_positions
    for state_positions in records.values():
        state_positions.sort(key=lambda record: json.dumps(record, sort_keys=True))
    collected = {"requests": [json.loads(request) for request in requests], "records": records}
    collected["states"] = {
        name: state_positions for name, state_positions in states.items() if state_positions
    }
    text: str = json.dumps(collected, sort_keys=True).replace(server.url, "http://the.api")
    result: dict[str, Any] = json.loads(text)
    return result


def _describe_request(request: ReceivedRequest) -> dict[str, Any]:
    own_headers = {"authorization", "content-type"}
    headers = {name.lower(): value for name, value in request.headers.items()}
    return {
        "asked": f"{request.method} {request.path}",
        "query": request.query,
        "headers": {
            name: value
            for name, value in headers.items()
            if name in own_headers or name[:2] == "x-"
        },
        "body": json.loads(request.body) if request.body else None,
    }


def positions(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the position of each slice in a state of either side."""
    if state.get("use_global_cursor") and "state" in state:
        state = state["state"]
    if "states" in state:
        cursors = {
            _slice(entry["partition"]): _single_value(entry["cursor"]) for entry in state["states"]
        }
        return {name: value for name, value in cursors.items() if value != _START}
    if "partitions" in state:
        return {
            _slice(entry["context"]): str(entry["replication_key_value"])
            for entry in state["partitions"]
            if "replication_key_value" in entry
        }
    if "cursor_state" in state:
        return {name: str(value) for name, value in state["cursor_state"].items()}
    if "replication_key_value" in state:
        return {"": str(state["replication_key_value"])}
    known = {name: entry_value for name, entry_value in state.items() if name not in _NOT_POSITIONS}
    if len(known) > 1:
        return {name: str(value) for name, value in known.items()}
    return {"": _single_value(known)} if known else {}


def _slice(context: Mapping[str, Any]) -> str:
    known = {name: value for name, value in context.items() if name != "parent_slice"}
    return json.dumps(known, sort_keys=True)


def _single_value(cursor: Mapping[str, Any]) -> str:
    (value,) = cursor.values()
    return str(value)


if __name__ == "__main__":
    for case_name, each in CASES.items():
        document = json.dumps(run_airbyte_cdk(each), indent=1, sort_keys=True)
        (FOLDER / f"{case_name}.json").write_text(document + "\n", encoding="utf-8")
