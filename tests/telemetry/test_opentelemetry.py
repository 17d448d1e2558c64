"""Traces and metrics of taps and of target-spark, as a collector receives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.http.server import Reply, Server, page, serving
from tests.target.cli.test_target_cli import environment, record, run, schema, state
from tests.telemetry.collector import Collector, collecting, read

ROOT = Path(__file__).parents[2]
TOKEN = "T0K3N4567890"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FAILED = 2
"""`STATUS_CODE_ERROR` of OTLP."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
def api() -> Iterator[Server]:
    with serving() as server:
        server.answers(page({"id": 1}, {"id": 2}))
        yield server


def run_tap(
    tmp_path: Path, api: Server, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"url": api.url, "token": TOKEN}))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "tests.telemetry.api_tap", "--config", str(config)],
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": paths, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def load(tmp_path: Path, data: bytes, variables: dict[str, str], **config: Any) -> Any:
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = environment(**variables, PYTHONPATH=paths, JAVA_HOME=str(tmp_path / "no-java"))
    return run(tmp_path, data, env=env, format="delta", small_batches="delta-rs", **config)


def get_requests(collector: Collector) -> list[Any]:
    return [span for span in collector.spans if span.name == "GET"]


def test_run_stream_and_request_of_a_tap_are_spans_of_the_callers_trace(
    tmp_path: Path, api: Server, collector: Collector
) -> None:
    process = run_tap(tmp_path, api, collector.variables(TRACEPARENT=PARENT))
    assert process.returncode == 0, process.stderr
    run_span, stream = collector.find("tap-api run"), collector.find("tap stream")
    (request,) = get_requests(collector)
    assert {span.trace_id.hex() for span in (run_span, stream, request)} == {PARENT.split("-")[1]}
    assert run_span.parent_span_id.hex() == PARENT.split("-")[2]
    assert (stream.parent_span_id, request.parent_span_id) == (run_span.span_id, stream.span_id)
    assert read(stream.attributes) == {"tap_core.stream.name": "items"}
    attributes = read(request.attributes)
    assert attributes["http.request.method"] == "GET"
    assert attributes["http.response.status_code"] == 200
    assert attributes["server.address"] == "127.0.0.1"
    assert attributes["server.port"] == int(api.url.rpartition(":")[2])
    assert attributes["url.full"].startswith(f"{api.url}/items?")
    assert collector.resources[0]["service.name"] == "tap-api"


def test_metrics_of_a_tap_count_records_and_retries(
    tmp_path: Path, api: Server, collector: Collector
) -> None:
    api.answers(Reply(status=503), page({"id": 1}, {"id": 2}))
    process = run_tap(tmp_path, api, collector.variables(OTEL_SERVICE_NAME="orders"))
    assert process.returncode == 0, process.stderr
    metrics = collector.metrics
    (records,), (retries,) = metrics["tap_core.records"], metrics["tap_core.retries"]
    assert (records.as_int, read(records.attributes)) == (2, {"tap_core.stream.name": "items"})
    assert (retries.as_int, read(retries.attributes)) == (1, {"tap_core.retry.kind": "http"})
    (duration,) = metrics["tap_core.stream.duration"]
    assert duration.count == 1
    requests = {
        read(point.attributes)["http.response.status_code"]: point.count
        for point in metrics["http.client.request.duration"]
    }
    assert requests == {200: 1, 503: 1}
    failed, good = get_requests(collector)
    assert (failed.status.code, good.status.code) == (FAILED, 0)
    assert read(failed.attributes)["error.type"] == "503"
    assert collector.resources[0]["service.name"] == "orders"


def test_no_secret_is_sent(tmp_path: Path, api: Server, collector: Collector) -> None:
    """SEC5: neither URLs nor errors that are sent contain secrets."""
    api.answers(Reply(f"The key {TOKEN} is not valid.", status=401))
    process = run_tap(tmp_path, api, collector.variables())
    assert process.returncode == 1
    contents = collector.find("tap-api run")
    assert contents.status.code == FAILED
    assert "401" in contents.status.message
    assert read(contents.attributes)["error.type"].endswith("FatalAPIError")
    assert len(api.requests) == 1
    assert TOKEN in str(api.requests[0].query)
    assert TOKEN.encode() not in collector.everything


def test_headers_of_the_exporter_reach_the_collector_and_no_log(
    tmp_path: Path, api: Server, collector: Collector
) -> None:
    """SEC5: the headers are credentials."""
    collector.server.answers(Reply(f"unknown key {TOKEN}X", status=401))
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{TOKEN}X"}
    process = run_tap(tmp_path, api, collector.variables(**headers))
    assert process.returncode == 0, process.stderr
    assert collector.server.requests[0].headers["authorization"] == f"Bearer {TOKEN}X"
    assert f"{TOKEN}X" not in process.stderr


@pytest.mark.thorough
def test_dead_collector_changes_neither_exit_code_nor_output(tmp_path: Path, api: Server) -> None:
    dead = run_tap(tmp_path, api, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    assert dead.returncode == 0, dead.stderr
    messages = [json.loads(line) for line in dead.stdout.splitlines()]
    assert [message["type"] for message in messages] == ["SCHEMA", "RECORD", "RECORD", "STATE"]


@pytest.mark.thorough
def test_silent_collector_delays_the_end_of_a_run_by_a_few_seconds_only(
    tmp_path: Path, api: Server, collector: Collector
) -> None:
    collector.server.answers(Reply(silent=True))
    process = run_tap(tmp_path, api, collector.variables(OTEL_EXPORTER_OTLP_TIMEOUT="600"))
    assert process.returncode == 0, process.stderr
    assert "did not take all traces and metrics of this run within 5 seconds" in process.stderr


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is 'zipkin'; set it to otlp"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "PROTOCOL is 'grpc'; set it to http/protobuf"),
    ],
)
def test_variable_that_cannot_be_followed_is_a_warning(
    tmp_path: Path, api: Server, collector: Collector, variables: dict[str, str], message: str
) -> None:
    process = run_tap(tmp_path, api, collector.variables(**variables))
    assert process.returncode == 0, process.stderr
    assert message in process.stderr
    assert not collector.server.requests


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("variables", "paths"),
    [
        ({"OTEL_SDK_DISABLED": "true"}, set()),
        ({"OTEL_TRACES_EXPORTER": "none"}, {"/v1/metrics"}),
        ({"OTEL_METRICS_EXPORTER": "none"}, {"/v1/traces"}),
    ],
)
def test_variables_switch_traces_and_metrics_off(
    tmp_path: Path, api: Server, collector: Collector, variables: dict[str, str], paths: set[str]
) -> None:
    process = run_tap(tmp_path, api, collector.variables(**variables))
    assert process.returncode == 0, process.stderr
    assert {request.path for request in collector.server.requests} == paths


def test_nothing_is_imported_while_telemetry_is_off() -> None:
    code = (
        "import sys\n"
        "from tests.telemetry.api_tap import TapApi\n"
        "from tap_core.telemetry import count_retry, trace_run, trace_stream\n"
        "with trace_run('a', '1'), trace_stream('b'):\n    count_retry('http')\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    env = {"PATH": "", "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"


def test_commits_of_a_load_are_spans_of_their_streams(tmp_path: Path, collector: Collector) -> None:
    data = b"".join([schema("a", "id"), record(1), record(2), state(1)])
    process = load(tmp_path, data, collector.variables(TRACEPARENT=PARENT))
    assert process.returncode == 0, process.stderr
    run_span, stream = collector.find("target-spark run"), collector.find("target stream")
    batch = collector.find("commit batch")
    assert {span.trace_id.hex() for span in (run_span, stream, batch)} == {PARENT.split("-")[1]}
    assert (stream.parent_span_id, batch.parent_span_id) == (run_span.span_id, stream.span_id)
    attributes = read(batch.attributes)
    assert attributes["db.collection.name"] == "a"
    assert (attributes["tap_core.records"], attributes["tap_core.quarantined"]) == (2, 0)
    commits = {name: points[0] for name, points in collector.metrics.items()}
    assert commits["tap_core.records"].as_int == 2
    assert commits["tap_core.bytes"].as_int == attributes["tap_core.bytes"] > 0
    assert commits["tap_core.batch.duration"].count == 1
    assert "tap_core.quarantined" not in commits


def test_failed_load_is_a_failed_run(tmp_path: Path, collector: Collector) -> None:
    process = load(tmp_path, schema("a", "id") + b"no message\n", collector.variables())
    assert process.returncode == 1
    run_span = collector.find("target-spark run")
    assert run_span.status.code == FAILED
    assert run_span.status.message.startswith("Line 2")
