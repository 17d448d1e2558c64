"""No command writes a secret of its settings at log level DEBUG.

Commands are processes, servers are real. The search covers standard output and error, states,
reports, tables, temporary files, and the command lines of all processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fivetran.connecting import Client, serving
from tests.redaction.canaries import (
    CANARIES,
    command_lines,
    leaks,
    leaks_in_folder,
    spark_settings,
    tap_settings,
)
from tests.redaction.hostile_server import MODES, get_url, hostile_server

ROOT = Path(__file__).parents[2]
TAP = str(Path(__file__).with_name("canary_tap.py"))
MANIFEST = str(Path(__file__).with_name("canary_manifest.yaml"))
TARGET = "from target_spark.target import TargetSpark; TargetSpark.cli()"
STREAMS = ("in_query", "in_body", "by_token")
CATALOG = {
    "streams": [
        {
            "stream": {"name": name, "json_schema": {}, "supported_sync_modes": ["full_refresh"]},
            "sync_mode": "full_refresh",
            "destination_sync_mode": "append",
        }
        for name in STREAMS
    ]
}
MESSAGES = b"".join(
    json.dumps(message).encode() + b"\n"
    for message in (
        {
            "type": "SCHEMA",
            "stream": "a",
            "schema": {"properties": {"id": {"type": "integer"}}},
            "key_properties": ["id"],
        },
        {"type": "RECORD", "stream": "a", "record": {"id": 1}},
        {"type": "RECORD", "stream": "a", "record": {"id": "does not fit"}},
        {"type": "STATE", "value": {"seen": 1}},
    )
)

RECORD_OF_AIRBYTE = json.dumps(
    {"type": "RECORD", "record": {"stream": "in_query", "data": {"id": 1}, "emitted_at": 1}}
).encode()

TAP_COMMANDS: dict[str, list[str]] = {
    "discover": ["--config", "config.json", "--discover"],
    "test": ["--config", "config.json", "--test"],
    "about": ["--config", "config.json", "--about", "--format", "json"],
    "airbyte-spec": ["spec"],
    "airbyte-check": ["check", "--config", "config.json"],
    "airbyte-discover": ["discover", "--config", "config.json"],
    "airbyte-read": ["read", "--config", "config.json", "--catalog", "catalog.json"],
}
_NEW_SETTINGS = b'{"type":"CONTROL"'
"""Start of Airbyte's CONTROL message, which must contain the new settings."""
_SLOW = pytest.mark.thorough


def _cases() -> Iterator[Any]:
    """Yield each command with each server mode; the cases with the most output always run."""
    always = {("airbyte-read", mode) for mode in MODES[:2]}
    always |= {(word, "refuses") for word in ("discover", "test", "about", "airbyte-check")}
    for command in TAP_COMMANDS:
        for mode in MODES:
            marks = () if (command, mode) in always else (_SLOW,)
            yield pytest.param(command, mode, marks=marks, id=f"{command}-{mode}")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with hostile_server() as port:
        yield port


class Folder:
    """The working directory of one run, with its input files and its output."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.given: list[Path] = []
        (path / "tmp").mkdir()

    def give(self, name: str, content: Any) -> None:
        self.given.append(self.path / name)
        self.given[-1].write_text(content if isinstance(content, str) else json.dumps(content))

    @property
    def variables(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("TAP_", "TARGET_"))}
        return {
            **inherited,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.path / "tmp"),
            "LOGLEVEL": "DEBUG",
        }

    def run(
        self, *arguments: str, stdin: bytes = b"", **kwargs: str
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.path,
            env={**self.variables, **kwargs},
            input=stdin,
            capture_output=True,
            check=False,
            timeout=100,
        )

    def assert_clean(self, process: subprocess.CompletedProcess[bytes], lines: list[bytes]) -> None:
        """Assert that output, command lines and files of a run contain no secret."""
        texts = [line for line in process.stdout.splitlines() if not line.startswith(_NEW_SETTINGS)]
        for text in (b"\n".join(texts), process.stderr):
            assert leaks(text) == [], text.decode(errors="replace")
            assert b"\x1b" not in text
        assert lines == []
        assert leaks_in_folder(self.path, *self.given) == {}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_leak_search_finds_secrets_in_files_and_command_lines(folder: Folder):
    folder.give("given", CANARIES["s3"])
    (folder.path / "tmp" / "left").write_text(f"x{CANARIES['azure']}")
    assert leaks_in_folder(folder.path, *folder.given) == {"tmp/left": ["azure"]}
    assert leaks("Basic c29tZW9uZTp6cVVzZXJJbmZvS240cnkrLzclMDA9") == ["user_info"]
    waits = [sys.executable, "-c", "input()", CANARIES["google"]]
    with command_lines(0.01) as lines, subprocess.Popen(waits, stdin=subprocess.PIPE) as process:
        end = time.monotonic() + 60
        while not lines and time.monotonic() < end:
            time.sleep(0.01)
        process.communicate(b"\n")
    assert len(lines) == 1


def _syncs() -> Iterator[Any]:
    """Yield each stream with each server mode; one stream per kind of response always runs."""
    always = {(name, "refuses") for name in STREAMS} | {("in_body", "breaks")}
    always |= {("in_query", mode) for mode in MODES[3:]} | {("by_token", "redirects")}
    for name in STREAMS:
        for mode in MODES:
            marks = () if (name, mode) in always else (_SLOW,)
            yield pytest.param(name, mode, marks=marks, id=f"{name}-{mode}")


@pytest.mark.parametrize("name, mode", [pytest.param(None, "ok", id="all"), *_syncs()])
def test_no_sync_writes_a_secret(folder: Folder, port: int, name: str | None, mode: str):
    """SEC5: no sync writes a secret."""
    folder.give("config.json", {**tap_settings(get_url(port, mode)), "only": name})
    with command_lines() as lines:
        process = folder.run(TAP, "--config", "config.json")
    folder.assert_clean(process, lines)
    assert (process.returncode == 0) is (mode == "ok")
    if name != "by_token":
        assert b"Sending http" in process.stderr
        assert b"the settings are" in process.stderr


@pytest.mark.parametrize("command, mode", list(_cases()))
def test_no_command_of_a_tap_writes_a_secret(folder: Folder, port: int, command: str, mode: str):
    """SEC5: no command of a tap writes a secret."""
    folder.give("config.json", tap_settings(get_url(port, mode)))
    folder.give("state.json", {"bookmarks": {}})
    folder.give("catalog.json", CATALOG)
    with command_lines() as lines:
        process = folder.run(TAP, *TAP_COMMANDS[command])
    folder.assert_clean(process, lines)
    if command == "airbyte-read":
        assert (process.returncode == 0) is (mode == "ok")
        assert b'"TRACE"' in process.stdout


@pytest.mark.parametrize("mode", ["ok", "refuses"])  # other modes are retried for minutes
def test_no_manifest_writes_a_secret(folder: Folder, port: int, mode: str):
    """SEC5: no manifest writes a secret."""
    pytest.importorskip("jinja2", reason="manifests are an extra")
    folder.give("config.json", tap_settings(get_url(port, mode)))
    with command_lines() as lines:
        process = folder.run(
            *("-m", "tap_core.manifest.cli", "--manifest", MANIFEST),
            *("--config", "config.json"),
        )
    folder.assert_clean(process, lines)
    assert (process.returncode == 0) is (mode == "ok"), process.stderr.decode()


@pytest.mark.parametrize("mode", ["refuses", pytest.param("ok", marks=_SLOW)])
def test_no_fivetran_call_writes_a_secret(folder: Folder, port: int, mode: str):
    """SEC5: no call of fivetran writes a secret."""
    grpc = pytest.importorskip("grpc", reason="gRPC is an extra")
    settings = tap_settings(get_url(port, mode))
    texts: list[str] = []
    with (
        command_lines() as lines,
        (folder.path / "stderr").open("wb") as stderr,
        serving(TAP, path={**folder.variables}, stderr=stderr) as server,
    ):
        client = Client(server, **settings)
        for rpc, fields in (("Test", {"name": "connect"}), ("Schema", {})):
            texts.append(
                _call_text(grpc, lambda rpc=rpc, fields=fields: client.call(rpc, **fields))
            )
        texts.append(_call_text(grpc, lambda: list(client.update())))
    assert leaks("".join([*texts, *server.lines])) == []
    assert lines == []
    assert leaks_in_folder(folder.path) == {}


def _call_text(grpc: Any, call: Any) -> str:
    try:
        return str(call())
    except grpc.RpcError as error:
        return f"{error.code()} {error.details()}"


@pytest.mark.every_nth_case(5)
@pytest.mark.parametrize(
    "change",
    [
        {"k": 5},
        {"url": ["http://u:zqUserInfoKn4ry@h"]},
        {"credentials": f"postgres://u:{CANARIES['nested']}@h/db"},
        {"database": {"dsn": CANARIES["jdbc"]}},
        {"conn": [CANARIES["connection"] * 9]},
        {"conn": {"spark.hadoop.fs.s3a.secret.key": CANARIES["s3"]}},
    ],
)
@pytest.mark.parametrize(
    "arguments", [["--config", "config.json"], ["check", "--config", "config.json"]]
)
def test_no_configuration_error_shows_a_secret(folder: Folder, change: Any, arguments: list[str]):
    folder.give("config.json", {**tap_settings("http://127.0.0.1:9"), **change})
    with command_lines() as lines:
        process = folder.run(TAP, *arguments, "--config", "config.json")
    folder.assert_clean(process, lines)
    assert f"{next(iter(change))}: ".encode() in process.stderr + process.stdout


TARGET_COMMANDS = {
    "load": ["--config", "config.json"],
    "doctor": ["doctor", "--config", "config.json"],
    "last-state": ["last-state", "--config", "config.json"],
    "write": ["write", "--config", "config.json", "--catalog", "catalog.json"],
}


def _target_settings(**kwargs: Any) -> dict[str, Any]:
    defaults = {"path": "tables", "format": "delta", "report": "report.json", "small_runs": True}
    return {**defaults, **kwargs}


@pytest.mark.every_nth_case(3)
@pytest.mark.parametrize("command", TARGET_COMMANDS)
@pytest.mark.parametrize("kind", ["object", "text"])
def test_no_command_of_the_target_without_java_writes_a_secret(
    folder: Folder, command: str, kind: str
):
    """The Spark settings are an object, or a text, which is a configuration error."""
    spark: Any = spark_settings()
    spark = spark if kind == "object" else json.dumps(spark)
    folder.give("config.json", _target_settings(spark=spark))
    folder.give("catalog.json", CATALOG)
    with command_lines() as lines:
        messages = RECORD_OF_AIRBYTE if command == "write" else MESSAGES
        process = folder.run(
            "-c", TARGET, *TARGET_COMMANDS[command], stdin=messages, PATH="/nowhere"
        )
    folder.assert_clean(process, lines)
    assert process.returncode != 0


@pytest.mark.spark
def test_no_load_with_spark_writes_a_secret(folder: Folder):
    """SEC5: no log, state, table or file of a load contains a secret."""
    folder.give("config.json", _target_settings(spark=spark_settings(), job="canary"))
    with command_lines() as lines:
        process = folder.run("-c", TARGET, *TARGET_COMMANDS["load"], stdin=MESSAGES)
    assert b'"seen":1' in process.stdout.replace(b" ", b""), process.stderr.decode()
    assert (folder.path / "report.json").exists()
    folder.assert_clean(process, lines)


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize("command", ["doctor", "last-state", "write"])
def test_no_other_command_with_spark_writes_a_secret(folder: Folder, command: str):
    folder.give("config.json", _target_settings(spark=spark_settings(), job="canary"))
    folder.give("catalog.json", CATALOG)
    with command_lines() as lines:
        process = folder.run("-c", TARGET, *TARGET_COMMANDS[command])
    folder.assert_clean(process, lines)
