"""The commands of a source: arguments, imports, connection checks, and calls in one process.

The tests run processes and a server on loopback. The rules for every source are in
test_source_rules.py.
"""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tap_core import Stream, Tap
from tests.airbyte.rules import single_faults
from tests.airbyte.running import TAP_SHOP, TOKEN, Run, airbyte, configured, environment
from tests.http.server import ReceivedRequest, Reply, page, serving

API = """
from tap_core import RESTStream, Tap
from tap_core.authenticators import BearerTokenAuthenticator, OAuthAuthenticator


class Login(OAuthAuthenticator):
    def __init__(self, config):
        super().__init__(auth_endpoint=config["url"] + "/token")
        self._token = config["refresh_token"]

    @property
    def oauth_request_body(self):
        return {"grant_type": "refresh_token", "refresh_token": self._token}


class Users(RESTStream):
    name = "users"
    path = "/users"
    records_jsonpath = "$.data[*]"
    schema = {"properties": {"id": {"type": "integer"}}}

    @property
    def url_base(self):
        return self.config["url"]

    @property
    def authenticator(self):
        if "refresh_token" in self.config:
            return Login(self.config)
        return BearerTokenAuthenticator(token=self.config["api_key"])


class TapApi(Tap):
    name = "tap-api"
    documentation_url = "https://example.com/tap-api"
    changelog_url = "https://example.com/changes"
    config_jsonschema = {
        "properties": {
            "url": {"type": "string"},
            "api_key": {"type": "string"},
            "own": {"type": "string", "secret": True},
            "refresh_token": {"type": "string"},
            "checks": {"type": "string"},
        },
        "required": ["url"],
    }

    def discover_streams(self):
        return [Users(self)]

    def check_connection(self):
        if "checks" in self.config:
            raise ValueError(self.config["checks"] + " " + self.config["own"])
        super().check_connection()


TapApi.cli()
"""


@pytest.fixture
def api(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "tap.py").write_text(API)
    return (sys.executable, str(tmp_path / "tap.py"))


def run_command(*arguments: str, cwd: Path) -> Run:
    result = subprocess.run(
        [*TAP_SHOP, *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        check=False,
        timeout=300,
    )
    return Run(result.returncode, result.stdout, result.stderr.decode())


# Arguments


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["check"], "'check' needs --config. Usage"),
        (["read", "--config", "c.json"], "'read' needs --catalog. Usage"),
        (["spec", "--config", "c.json"], "'spec' does not know '--config'"),
        (["discover", "--config", "c.json", "--state", "s"], "'discover' does not know '--state'"),
        (["check", "--config"], "--config needs the path of a file"),
        (["check", "c.json"], "'check' does not know 'c.json'"),
        (["check", "--config", "none.json"], "'none.json' does not exist"),
        (["discover", "--config", "broken.json"], "'broken.json' is not JSON"),
        (["read", "--config", "c.json", "--catalog", "none.json"], "Catalog file 'none.json'"),
        (
            ["read", "--config", "c.json", "--catalog", "broken.json"],
            "Catalog 'broken.json': this is not JSON",
        ),
    ],
)
def test_invalid_arguments_are_reported(tmp_path: Path, arguments: list[str], message: str) -> None:
    """E10: an ERROR trace names the fault, and the exit code is not 0."""
    (tmp_path / "c.json").write_text(json.dumps({"token": TOKEN}))
    (tmp_path / "broken.json").write_text('{"token": ')
    run = run_command(*arguments, cwd=tmp_path)
    assert run.code == 1
    [trace] = run.traces("ERROR")
    assert trace["failure_type"] == "config_error"
    assert message in trace["message"]
    assert [message["type"] for message in run.messages] == ["TRACE"]


def test_options_may_have_an_equals_sign_and_debug_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"token": TOKEN}))
    run = run_command("check", "--debug", "--config=c.json", cwd=tmp_path)
    assert single_faults(run.output, "CONNECTION_STATUS") == []
    assert run.of_type("CONNECTION_STATUS") == [{"status": "SUCCEEDED"}]


def test_help_prints_the_usage(tmp_path: Path) -> None:
    run = run_command("read", "--help", cwd=tmp_path)
    assert run.code == 0
    usage = run.output.decode().splitlines()[0]
    assert usage.endswith("read --config FILE --catalog FILE [--state FILE]")


@pytest.mark.parametrize("command", ["spec", "discover"])
def test_spec_and_discover_do_not_import_heavy_packages(tmp_path: Path, command: str) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"token": TOKEN}))
    files = [] if command == "spec" else ["--config", "c.json"]
    code = (
        f"import runpy, sys; sys.argv = ['tap', {command!r}, *{files!r}]\n"
        f"try: runpy.run_path({TAP_SHOP[-1]!r}, run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=True,
        text=True,
    )
    loaded = set(result.stderr.split())
    heavy = {"requests", "pendulum", "fsspec", "sqlalchemy", "backoff", "jsonschema"}
    heavy |= {"rich", "argparse", "pydantic"}
    assert heavy & loaded == set()


def test_specification_has_documentation_and_changelog_urls(api: Any, tmp_path: Path) -> None:
    """SP5: as the tap defines them."""
    [spec] = airbyte(api, "spec", tmp_path).of_type("SPEC")
    assert spec["documentationUrl"] == "https://example.com/tap-api"
    assert spec["changelogUrl"] == "https://example.com/changes"


# Connection checks


def reply_if_authorized(request: ReceivedRequest) -> Reply:
    if request.headers.get("Authorization") == "Bearer right":
        return page({"id": 1})
    return Reply({"error": "who is 'wrong-key'?"}, status=401)


def test_check_sends_the_credentials_to_the_source(api: Any, tmp_path: Path) -> None:
    """CK4, CK5, TR2: a read with refused credentials fails like the check."""
    with serving() as server:
        server.answers_by(reply_if_authorized)
        right = airbyte(api, "check", tmp_path, config={"url": server.url, "api_key": "right"})
        request_count = len(server.requests)
        config = {"url": server.url, "api_key": "wrong-key"}
        wrong = airbyte(api, "check", tmp_path, config=config)
        [catalog] = airbyte(api, "discover", tmp_path, config=config).of_type("CATALOG")
        read = airbyte(api, "read", tmp_path, config=config, catalog=configured(catalog))
    assert (right.code, right.of_type("CONNECTION_STATUS")) == (0, [{"status": "SUCCEEDED"}])
    assert request_count == 1  # one page of one stream
    [status] = wrong.of_type("CONNECTION_STATUS")
    assert (wrong.code, status["status"]) == (0, "FAILED")
    assert "refuses the credentials" in status["message"]
    assert "401" in status["message"]
    [trace] = read.traces("ERROR")
    assert (read.code, trace["failure_type"]) == (1, "config_error")
    assert b"wrong-key" not in wrong.output + read.output


def test_check_does_not_wait_for_an_unavailable_source(api: Any, tmp_path: Path) -> None:
    """`check` does not wait for a closed port or for Retry-After; a read would wait for minutes."""
    answers = {"/token": Reply("busy", 503, {"Retry-After": "600"})}
    with serving() as server:
        server.answers_by(lambda request: answers.get(request.path, Reply("later", 429)))
        begin = time.monotonic()
        for credentials in ({"api_key": "right"}, {"refresh_token": "t-1"}):
            run = airbyte(api, "check", tmp_path, config={"url": server.url, **credentials})
            [status] = run.of_type("CONNECTION_STATUS")
            assert (run.code, status["status"]) == (0, "FAILED")
            assert "try again later" in status["message"]
        assert time.monotonic() - begin < 300  # Retry-After would be ten minutes
        assert len(server.requests) == 4
    away = airbyte(api, "check", tmp_path, config={"url": server.url, "api_key": "right"})
    [status] = away.of_type("CONNECTION_STATUS")
    assert "temporarily unavailable" in status["message"]


def test_tap_may_override_the_connection_check(api: Any, tmp_path: Path) -> None:
    """CK5: the message is that of the exception, with secret settings masked."""
    config = {"url": "http://127.0.0.1:1", "checks": "no such account", "own": "hush-hush"}
    run = airbyte(api, "check", tmp_path, config=config)
    [status] = run.of_type("CONNECTION_STATUS")
    assert status["message"].endswith("ValueError: no such account ***")
    assert b"hush-hush" not in run.output


@pytest.mark.parametrize("mode", [0o444, 0o644])
def test_new_refresh_token_is_sent_to_the_client_and_saved_if_writable(
    api: Any, tmp_path: Path, mode: int
) -> None:
    """CT1: a read-only configuration file is not an error."""
    with serving() as server:
        answer = {"access_token": "right", "expires_in": 3600, "refresh_token": "t-2"}
        server.answers_by(
            lambda request: (
                Reply(answer) if request.path == "/token" else reply_if_authorized(request)
            )
        )
        config = {"url": server.url, "refresh_token": "t-1"}
        [catalog] = airbyte(api, "discover", tmp_path, config=config).of_type("CATALOG")
        (tmp_path / "config.json").chmod(mode)
        (tmp_path / "catalog.json").write_text(json.dumps(configured(catalog)))
        result = subprocess.run(
            [*api, "read", "--config", "config.json", "--catalog", "catalog.json"],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            check=False,
            timeout=300,
        )
    run = Run(result.returncode, result.stdout, result.stderr.decode())
    assert (run.code, run.records("users")) == (0, [{"id": 1}])
    [control] = run.of_type("CONTROL")
    assert control["connectorConfig"]["config"] == {**config, "refresh_token": "t-2"}
    saved = json.loads((tmp_path / "config.json").read_text())["refresh_token"]
    assert saved == ("t-1" if mode == 0o444 else "t-2")
    assert [log for log in run.of_type("LOG") if log["level"] in {"WARN", "ERROR"}] == []


# Calls in one process


class Users(Stream):
    name = "users"
    schema = {"properties": {"id": {"type": "integer"}}}

    def get_records(self, context):
        print("not a message")
        yield {"id": 1}
        if self.config.get("interrupted"):
            raise KeyboardInterrupt


class TapHere(Tap):
    name = "tap-here"
    config_jsonschema = {"properties": {}}

    def discover_streams(self):
        return [Users(self)]


def run_in_process(*arguments: str) -> tuple[int, Run]:
    output = io.StringIO()
    with redirect_stdout(output):
        code = TapHere.cli(list(arguments), standalone_mode=False)
    return code, Run(code, output.getvalue().encode(), "")


def test_cli_in_one_process_returns_output_and_exit_code(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "config.json").write_text("{}")
    config = ["--config", str(tmp_path / "config.json")]
    code, discover = run_in_process("discover", *config)
    assert code == 0
    [catalog] = discover.of_type("CATALOG")
    (tmp_path / "catalog.json").write_text(json.dumps(configured(catalog)))
    code, run = run_in_process("read", *config, "--catalog", str(tmp_path / "catalog.json"))
    assert (code, run.records("users")) == (0, [{"id": 1}])
    assert "not a message" in capsys.readouterr().err
    (tmp_path / "config.json").write_text('{"interrupted": true}')
    code, run = run_in_process("read", *config, "--catalog", str(tmp_path / "catalog.json"))
    assert code == -signal.SIGINT
    assert [trace["status"] for trace in run.traces("STREAM_STATUS")][-1] == "INCOMPLETE"
    assert run_in_process("check")[0] == 1
    assert run_in_process("read", "--help")[1].output.startswith(b"Usage: tap-here read")
    with pytest.raises(SystemExit) as ended, redirect_stdout(io.StringIO()):
        TapHere.cli(["check", *config])
    assert ended.value.code == 0
