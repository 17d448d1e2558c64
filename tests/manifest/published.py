"""Published manifests of connectors, run on airbyte-cdk and tap_core against a simulated API.

The manifests are in a peer's environment; none of their text is in this project. Their hosts become
paths of a server on loopback, their pages become small. A manifest is run twice: the second run
starts with the states of the first one of the same side.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from tap_core.manifest.loader import read_manifest
from tap_core.manifest.spec import config_jsonschema
from tests.http.server import ReceivedRequest, Server, serving
from tests.manifest.airbyte_cdk_cases.cases import positions
from tests.manifest.any_api import START, AnyApi, format_datetime, iterate_nodes

__all__ = ["Run", "RunResult", "example_config", "run_airbyte_cdk", "run_tap_core"]

_TIME = re.compile(r"\d\d(:|%3A)?(\d\d)(:|%3A)?\d\d([.,]\d+)?")
_DAY = re.compile(
    r"(\d{4}-?\d\d-?\d\d(?:T|\+|%20| |%2B|%3A|:)?)(\d\d(:|%3A)?(\d\d)(?:(:|%3A)?\d\d(?:\.\d+)?)?)"
)
_EPOCH = re.compile(r"(?<![\d.])(1[789]\d{8})(\d{3})?(\.\d+)?(?!\d)")
_SIZE = re.compile(r"(\bpage_size: *[\"']?)[1-9]\d*(?=[\"']?\s*$)", re.MULTILINE)
_BUDGET = re.compile(r"\napi_budget:.*\n(?:[ #-].*\n|\n)*")  # affects only the speed
_BASE = re.compile(r"url_base: *[\"']?\{\{ *config(?:\[[\"'](\w+)|\.get\([\"'](\w+)|\.(\w+))")
_SETTING = re.compile(r"^\{\{ *config(?:\[[\"'](\w+)[\"']\]|\.get\([\"'](\w+)[^}]*|\.(\w+)) *\}\}$")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_VALUES = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
_DATES = (
    *("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%d-%m-%Y", "%d/%m/%Y %H:%M"),
    *("%Y-%m-%dT%H:%M:%S.000Z", "%Y-%m-%d %H:%M:%S", "%Y%m%d", "%s", "%Y%m%d%H", "%Y-%m"),
)
_TEXTS = (
    *("7", "true", "text/words", "sandbox_text", "https://text.example.com", "text.example.com"),
    *("1.5", "TEXT", "a@text.com", "text.freshdesk.com", "P1D", "0123456789abcdef01234567"),
    *("sk_live_abc", "01-2012", "en", "US", "20261120", "user", "2026", "text_1", "1,2"),
)
_NOW_MINUTES = 6


@dataclass
class RunResult:
    """The requests, records and states of one run, without the time of day."""

    code: int = 0
    requests: list[str] = field(default_factory=list)
    records: dict[str, list[Any]] = field(default_factory=dict)
    states: dict[str, dict[str, str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list, compare=False)
    stored: list[Any] = field(default_factory=list, compare=False)


@dataclass(frozen=True)
class Run:
    """The command of a side, and the function that executes it."""

    command: Sequence[str]
    carry_out: Callable[[Sequence[str], Path], tuple[str, str, int]]


def run_tap_core(manifest: Path) -> list[RunResult]:
    """Run a manifest twice with tap_core's Airbyte source and return the results."""
    command = [sys.executable, "-m", "tap_core.manifest.cli", "read", "--manifest"]
    return collect_results(manifest, Run(command, _execute))


def run_airbyte_cdk(manifest: Path, python: Path) -> list[RunResult]:
    """Run a manifest twice with airbyte-cdk and return the results."""
    command = [str(python.with_name("source-declarative-manifest")), "read", "--manifest-path"]
    return collect_results(manifest, Run(command, _execute))


def _execute(command: Sequence[str], folder: Path) -> tuple[str, str, int]:
    folders = [str(Path(__file__).parents[2]), str(folder)]
    result = subprocess.run(
        [*command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        env={
            "PYTHONPATH": os.pathsep.join(folders),
            "PATH": "",
            "AIRBYTE_ENABLE_UNSAFE_CODE": "true",
        },
    )
    return result.stdout, result.stderr, result.returncode


def collect_results(manifest: Path, run: Run, choice: int = 0, runs: int = 2) -> list[RunResult]:
    """Return the results of several runs, each from the states of the previous one."""
    with serving() as server, TemporaryDirectory() as name:
        folder = Path(name)
        path = _copy_manifest(manifest, folder, server.url)
        known = read_manifest(path)
        if "spec" not in known.raw:
            with path.open("a", encoding="utf-8") as file:
                file.write(_read_spec(path.parent))
            known = read_manifest(path)
        schemas = [_read_json(file) for file in sorted(path.parent.rglob("schemas/**/*.json"))]
        server.answers_by(AnyApi(known.tree, server.url, schemas).answer)
        config = example_config(config_jsonschema(known), choice=choice)
        for key in _BASE.findall(path.read_text(encoding="utf-8")):
            config["".join(key)] = f"{server.url}/base"
        _set_start_dates(config, iterate_nodes(known.tree), config_jsonschema(known)["properties"])
        catalog = {"streams": [_configured_stream(str(stream["name"])) for stream in known.streams]}
        files = {"config": config, "catalog": catalog}
        results: list[RunResult] = []
        for _ in range(runs):
            arguments = [*run.command, str(path)]
            for option, content in files.items():
                (file := folder / f"{option}.json").write_text(
                    json.dumps(content), encoding="utf-8"
                )
                arguments += [f"--{option}", str(file)]
            server.requests.clear()
            results.append(_collect_result(server, *run.carry_out(arguments, folder)))
            files["state"] = results[-1].stored
        return results


def _read_spec(package: Path) -> str:
    """Return the spec file of a manifest's folder as a ``spec`` section."""
    for file in package.glob("spec.*"):
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        document = document.get("connectionSpecification") or document["connection_specification"]
        return f"\nspec: {json.dumps({'type': 'Spec', 'connection_specification': document})}\n"
    return ""


def _set_start_dates(
    config: dict[str, Any], all_nodes: Iterable[Mapping[str, Any]], schemas: Mapping[str, Any]
) -> None:
    """Put the start dates of cursors into the config, in the formats of the manifest."""
    for node in all_nodes:
        start = node.get("start_datetime")
        start = start if isinstance(start, dict) else {"datetime": start}
        key = _SETTING.search(str(start.get("datetime")))
        form = start.get("datetime_format") or node.get("datetime_format")
        if key and isinstance(config.get(name := "".join(key.groups(""))), str):
            moment = str(format_datetime(START, str(form)) or config[name])
            if re.search(schemas[name].get("pattern") or "", moment):
                config[name] = moment


def _read_json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _copy_manifest(manifest: Path, folder: Path, url: str) -> Path:
    """Return a copy of the manifest and its package, with its hosts on the test's server."""
    package = folder / manifest.parent.name
    shutil.copytree(manifest.parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in [*package.rglob("*.py"), package / manifest.name]:
        text = file.read_text(encoding="utf-8").replace("https://", f"{url}/")
        text = _BUDGET.sub("\n", _SIZE.sub(r"\g<1>2", text))
        file.write_text(text, encoding="utf-8")
    return package / manifest.name


def example_config(schema: Mapping[str, Any], name: str = "", choice: int = 0) -> Any:
    """Return a config that fits a schema, with recent dates; ``choice`` selects a oneOf."""
    values = [schema[keyword] for keyword in ("const", "default") if keyword in schema]
    values += (schema.get("enum") or [])[:1]
    if values and values[0] is not None and not ("start" in name and _DATE.match(str(values[0]))):
        return values[0]
    properties = {
        key: example_config(property_schema, key, choice)
        for key, property_schema in (schema.get("properties") or {}).items()
    }
    if choices := schema.get("oneOf") or schema.get("anyOf"):
        variant = example_config(choices[min(choice, len(choices) - 1)], name, choice)
        return {**properties, **variant} if isinstance(variant, dict) else variant
    return properties if "properties" in schema else _example_value(schema, name)


def _example_value(schema: Mapping[str, Any], name: str) -> Any:
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "array":
        return [example_config(schema.get("items") or {})]
    is_date = "date" in name or "since" in name or schema.get("format") in {"date", "date-time"}
    if is_date and kind == "integer":
        return int(START.timestamp())
    if kind in _VALUES:
        return schema.get("minimum", _VALUES[kind])
    pattern = re.compile(schema.get("pattern") or "")
    dates = [START.strftime(text) for text in _DATES]
    if schema.get("format") == "date":
        dates.insert(0, dates[1])
    examples = [str(text) for text in schema.get("examples") or ()]
    candidates = [*(dates if is_date else ()), "text", *examples, *_TEXTS, *dates]
    return next((candidate for candidate in candidates if pattern.search(candidate)), "text")


def _configured_stream(name: str) -> dict[str, Any]:
    modes = ["full_refresh", "incremental"]
    declared = {"name": name, "json_schema": {}, "supported_sync_modes": modes}
    return {"stream": declared, "sync_mode": "incremental", "destination_sync_mode": "append"}


# Results


def _collect_result(server: Server, output: str, errors: str, code: int) -> RunResult:
    results = RunResult(code)
    stored: dict[str, Any] = {}
    for line in output.splitlines():
        message = json.loads(line) if line.startswith("{") else {"type": "LOG"}
        if message["type"] == "RECORD":
            records = results.records.setdefault(message["record"]["stream"], [])
            records.append(json.loads(_mask(json.dumps(message["record"]["data"]), server)))
        elif message["type"] == "STATE":
            stored[message["state"]["stream"]["stream_descriptor"]["name"]] = message["state"]
        elif message["type"] == "TRACE" and message["trace"]["type"] == "ERROR":
            results.errors.append(json.dumps(message["trace"]["error"]))
    results.errors += [errors] if code else []
    for records in results.records.values():
        records.sort(key=lambda record: json.dumps(record, sort_keys=True))
    results.stored = list(stored.values())
    for name, state in stored.items():
        slice_positions = positions(state["stream"].get("stream_state") or {})
        results.states[name] = {
            _mask(slice_name, server): _mask(position, server)
            for slice_name, position in slice_positions.items()
            if not _is_start(position)
        }
    results.states = {
        name: slice_positions for name, slice_positions in results.states.items() if slice_positions
    }
    results.requests = sorted(
        {_mask(_describe_request(request), server) for request in server.requests}
    )
    return results


def _is_start(position: str) -> bool:
    """Return whether a position is the start of the config or earlier, so without effect.

    airbyte-cdk stores the start of the config, tap_core stores nothing.
    """
    if re.match(r"\d{4}-\d\d-\d\d", position) and position[:10] < f"{START:%Y-%m-%d}":
        return True
    day = START.replace(hour=0, minute=0, second=0)
    moments = (f"{START:%Y%m%d%H%M}", f"{START.timestamp():.0f}", f"{day.timestamp():.0f}")
    digits = re.sub(r"\D", "", position)
    if digits == position and len(position) <= 10 and int(position) < START.timestamp():
        return True
    return digits.startswith(moments) or digits.rstrip("0") == f"{START:%Y%m%d}".rstrip("0")


_IGNORED_HEADERS = {
    "host",
    "user-agent",
    "accept-encoding",
    "connection",
    "content-length",
    "accept",
}


def _describe_request(request: ReceivedRequest) -> str:
    query = sorted((name, *values) for name, values in request.query.items())
    body = request.body.decode()
    with suppress(ValueError):
        body = json.dumps(json.loads(body), sort_keys=True)
    headers = {name.lower(): value for name, value in request.headers.items()}
    if headers.get("accept") in {"*/*", "application/json"}:
        headers.pop("accept")
    relevant = sorted(
        (name, value) for name, value in headers.items() if name not in _IGNORED_HEADERS
    )
    return f"{request.method} {request.path} {query} {relevant} {body}"


def _mask(text: str, server: Server) -> str:
    """Return a text with the server's port and the current time masked."""
    text = text.replace(server.url.removeprefix("http://"), "the.server")
    text = re.sub(r"[Ss]ignature=[0-9a-f]{64}", "<signature>", text)
    return _EPOCH.sub(_mask_epoch, _DAY.sub(_mask_clock, text))


def _is_now(minute: int) -> bool:
    now = dt.datetime.now(dt.timezone.utc).minute
    return (now - minute + _NOW_MINUTES) % 60 <= _NOW_MINUTES + 1


def _mask_clock(match: re.Match[str]) -> str:
    if not _is_now(int(match[4])):
        return match[0]
    return match[1] + re.sub(r"\d", "0", match[2])


def _mask_epoch(match: re.Match[str]) -> str:
    is_now = _is_now(int(match[1]) // 60 % 60)
    return re.sub(r"\d", "9", match[0]) if is_now else match[0]
