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
from tests.manifest.any_api import START, AnyApi, nodes, written

__all__ = ["Run", "RunResult", "example", "run_airbyte_cdk", "run_tap_core"]

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
_PLAIN = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
_DATES = (
    *("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%d-%m-%Y", "%d/%m/%Y %H:%M"),
    *("%Y-%m-%dT%H:%M:%S.000Z", "%Y-%m-%d %H:%M:%S", "%Y%m%d", "%s", "%Y%m%d%H", "%Y-%m"),
)
_WORDS = (
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
    places = [str(Path(__file__).parents[2]), str(folder)]
    ran = subprocess.run(
        [*command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        env={
            "PYTHONPATH": os.pathsep.join(places),
            "PATH": "",
            "AIRBYTE_ENABLE_UNSAFE_CODE": "true",
        },
    )
    return ran.stdout, ran.stderr, ran.returncode


def collect_results(manifest: Path, run: Run, choice: int = 0, runs: int = 2) -> list[RunResult]:
    """Return the results of several runs, each from the states of the previous one."""
    with serving() as server, TemporaryDirectory() as name:
        folder = Path(name)
        path = _copied(manifest, folder, server.url)
        known = read_manifest(path)
        if "spec" not in known.raw:
            with path.open("a", encoding="utf-8") as file:
                file.write(_read_spec(path.parent))
            known = read_manifest(path)
        schemas = [_read(one) for one in sorted(path.parent.rglob("schemas/**/*.json"))]
        server.answers_by(AnyApi(known.tree, server.url, schemas).answer)
        config = example(config_jsonschema(known), choice=choice)
        for key in _BASE.findall(path.read_text(encoding="utf-8")):
            config["".join(key)] = f"{server.url}/base"
        _begin(config, nodes(known.tree), config_jsonschema(known)["properties"])
        catalog = {"streams": [_configured(str(one["name"])) for one in known.streams]}
        files = {"config": config, "catalog": catalog}
        results: list[RunResult] = []
        for _ in range(runs):
            arguments = [*run.command, str(path)]
            for word, content in files.items():
                (file := folder / f"{word}.json").write_text(json.dumps(content), encoding="utf-8")
                arguments += [f"--{word}", str(file)]
            server.asked.clear()
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


def _begin(
    config: dict[str, Any], found: Iterable[Mapping[str, Any]], schemas: Mapping[str, Any]
) -> None:
    """Put the start dates of cursors into the config, in the formats of the manifest."""
    for node in found:
        start = node.get("start_datetime")
        start = start if isinstance(start, dict) else {"datetime": start}
        key = _SETTING.search(str(start.get("datetime")))
        form = start.get("datetime_format") or node.get("datetime_format")
        if key and isinstance(config.get(name := "".join(key.groups(""))), str):
            moment = str(written(START, str(form)) or config[name])
            if re.search(schemas[name].get("pattern") or "", moment):
                config[name] = moment


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _copied(manifest: Path, folder: Path, url: str) -> Path:
    """Return a copy of the manifest and its package, with its hosts on the test's server."""
    package = folder / manifest.parent.name
    shutil.copytree(manifest.parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in [*package.rglob("*.py"), package / manifest.name]:
        text = file.read_text(encoding="utf-8").replace("https://", f"{url}/")
        text = _BUDGET.sub("\n", _SIZE.sub(r"\g<1>2", text))
        file.write_text(text, encoding="utf-8")
    return package / manifest.name


def example(schema: Mapping[str, Any], name: str = "", choice: int = 0) -> Any:
    """Return a config that fits a schema, with recent dates; ``choice`` selects a oneOf."""
    values = [schema[word] for word in ("const", "default") if word in schema]
    values += (schema.get("enum") or [])[:1]
    if values and values[0] is not None and not ("start" in name and _DATE.match(str(values[0]))):
        return values[0]
    found = {
        key: example(one, key, choice) for key, one in (schema.get("properties") or {}).items()
    }
    if choices := schema.get("oneOf") or schema.get("anyOf"):
        chosen = example(choices[min(choice, len(choices) - 1)], name, choice)
        return {**found, **chosen} if isinstance(chosen, dict) else chosen
    return found if "properties" in schema else _plain(schema, name)


def _plain(schema: Mapping[str, Any], name: str) -> Any:
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "array":
        return [example(schema.get("items") or {})]
    is_date = "date" in name or "since" in name or schema.get("format") in {"date", "date-time"}
    if is_date and kind == "integer":
        return int(START.timestamp())
    if kind in _PLAIN:
        return schema.get("minimum", _PLAIN[kind])
    pattern = re.compile(schema.get("pattern") or "")
    dates = [START.strftime(one) for one in _DATES]
    if schema.get("format") == "date":
        dates.insert(0, dates[1])
    examples = [str(one) for one in schema.get("examples") or ()]
    words = [*(dates if is_date else ()), "text", *examples, *_WORDS, *dates]
    return next((word for word in words if pattern.search(word)), "text")


def _configured(name: str) -> dict[str, Any]:
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
            found = results.records.setdefault(message["record"]["stream"], [])
            found.append(json.loads(_masked(json.dumps(message["record"]["data"]), server)))
        elif message["type"] == "STATE":
            stored[message["state"]["stream"]["stream_descriptor"]["name"]] = message["state"]
        elif message["type"] == "TRACE" and message["trace"]["type"] == "ERROR":
            results.errors.append(json.dumps(message["trace"]["error"]))
    results.errors += [errors] if code else []
    for found in results.records.values():
        found.sort(key=lambda one: json.dumps(one, sort_keys=True))
    results.stored = list(stored.values())
    for name, state in stored.items():
        stands = positions(state["stream"].get("stream_state") or {})
        results.states[name] = {
            _masked(one, server): _masked(at, server)
            for one, at in stands.items()
            if not _is_start(at)
        }
    results.states = {name: stands for name, stands in results.states.items() if stands}
    results.requests = sorted({_masked(_shown(one), server) for one in server.asked})
    return results


def _is_start(at: str) -> bool:
    """Return whether a position is the start of the config or earlier, so without effect.

    airbyte-cdk stores the start of the config, tap_core stores nothing.
    """
    if re.match(r"\d{4}-\d\d-\d\d", at) and at[:10] < f"{START:%Y-%m-%d}":
        return True
    day = START.replace(hour=0, minute=0, second=0)
    moments = (f"{START:%Y%m%d%H%M}", f"{START.timestamp():.0f}", f"{day.timestamp():.0f}")
    digits = re.sub(r"\D", "", at)
    if digits == at and len(at) <= 10 and int(at) < START.timestamp():
        return True
    return digits.startswith(moments) or digits.rstrip("0") == f"{START:%Y%m%d}".rstrip("0")


_OWN = {"host", "user-agent", "accept-encoding", "connection", "content-length", "accept"}


def _shown(asked: ReceivedRequest) -> str:
    query = sorted((name, *values) for name, values in asked.query.items())
    body = asked.body.decode()
    with suppress(ValueError):
        body = json.dumps(json.loads(body), sort_keys=True)
    headers = {name.lower(): value for name, value in asked.headers.items()}
    if headers.get("accept") in {"*/*", "application/json"}:
        headers.pop("accept")
    kept = sorted((name, value) for name, value in headers.items() if name not in _OWN)
    return f"{asked.method} {asked.path} {query} {kept} {body}"


def _masked(text: str, server: Server) -> str:
    """Return a text with the server's port and the current time masked."""
    text = text.replace(server.url.removeprefix("http://"), "the.server")
    text = re.sub(r"[Ss]ignature=[0-9a-f]{64}", "<signature>", text)
    return _EPOCH.sub(_epoch, _DAY.sub(_clock, text))


def _is_now(minute: int) -> bool:
    now = dt.datetime.now(dt.timezone.utc).minute
    return (now - minute + _NOW_MINUTES) % 60 <= _NOW_MINUTES + 1


def _clock(found: re.Match[str]) -> str:
    if not _is_now(int(found[4])):
        return found[0]
    return found[1] + re.sub(r"\d", "0", found[2])


def _epoch(found: re.Match[str]) -> str:
    is_now = _is_now(int(found[1]) // 60 % 60)
    return re.sub(r"\d", "9", found[0]) if is_now else found[0]
