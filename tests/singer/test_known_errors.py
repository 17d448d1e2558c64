"""Known errors as a user sees them: one sentence, with the traceback at DEBUG level only."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.airbyte.running import airbyte, configured
from tests.http.server import Reply, serving
from tests.singer.test_singer_cli import VARIABLES, errors

TAP = Path(__file__).with_name("erring_tap.py")
TOKEN = "hunter2-hunter2"
RETURNED_NONE = (
    "Stream 'rows': get_records returned None: yield one dict for each record, or return an"
    " iterable of dicts."
)


@pytest.fixture
def run(tmp_path):
    """Run the tap with an error and settings; return what it wrote."""

    def _run(kind, *arguments, level="INFO", code=1, **settings):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(settings))
        process = subprocess.run(
            [sys.executable, str(TAP), kind, *arguments, "--config", str(path)],
            cwd=tmp_path,
            env={**VARIABLES, "LOGLEVEL": level},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert process.returncode == code, process.stderr
        assert TOKEN not in process.stderr + process.stdout
        return process

    return _run


@pytest.mark.parametrize(
    "kind, settings, sentence",
    [
        (
            "list",
            {},
            (
                "Stream 'rows': a record must be a dict, but the stream returned a value of type"
                " 'list': yield one dict for each record from get_records, parse_response or"
                " post_process."
            ),
        ),
        ("none", {}, RETURNED_NONE),
        (
            "bare",
            {},
            (
                "Tap 'tap-err' has no streams: the class Bare must define the method"
                " discover_streams, which returns them."
            ),
        ),
        (
            "no streams",
            {},
            (
                "discover_streams() returned None. Return a list of streams, as in"
                " return [Users(self), Orders(self)]."
            ),
        ),
        (
            "class",
            {},
            ("discover_streams() returned the class Rows in place of a stream. Return Rows(self)."),
        ),
        (
            "schema",
            {},
            (
                "The schema of stream 'rows' is a PropertiesList, and not a dict: append .to_dict()"
                " to it."
            ),
        ),
        (
            "config schema",
            {},
            (
                "TapErr.config_jsonschema is a PropertiesList, and not a dict: append .to_dict()"
                " to it."
            ),
        ),
        (
            "incomplete",
            {},
            "The class Incomplete lacks url_base, which its base class requires: define it there.",
        ),
        (
            "rows",
            {"format": "detla"},
            (
                "Config validation failed: format: 'detla' is not one of ['delta', 'iceberg']."
                " Did you mean 'delta'?"
            ),
        ),
    ],
    ids=[
        *("record", "none", "discover_streams", "no streams", "class", "schema", "config schema"),
        *("abstract", "setting"),
    ],
)
def test_known_error_is_one_sentence(run, kind, settings, sentence):
    process = run(kind, **settings)
    assert errors(process.stderr) == [sentence]
    assert "Traceback" not in process.stderr


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_refused_credentials_are_one_sentence_with_a_traceback_only_at_debug_level(run, level):
    with serving() as server:
        server.answers(Reply({"error": "bad token"}, 401))
        process = run("pages", level=level, api_url=server.url, token=TOKEN)
    [sentence] = errors(process.stderr)
    assert sentence.startswith("The source refuses the credentials: check those in the config")
    assert "[stream 'pages', GET " in sentence
    assert ("Traceback" in process.stderr) == (level == "DEBUG")


def test_unreachable_api_is_one_line_per_retry_and_one_sentence(run):
    with socket.socket() as bound:  # it does not listen, and no other process gets its port
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        process = run("pages", api_url=f"http://127.0.0.1:{port}", token=TOKEN)
    expected = f"127.0.0.1:{port} cannot be reached: Connection refused"
    [sentence] = errors(process.stderr)
    assert sentence.startswith(
        "The source is temporarily unavailable: try again later. " + expected
    )
    [retry] = [line for line in process.stderr.splitlines() if "Backing off" in line]
    assert " | INFO " in retry
    assert retry.endswith(
        "Stream 'pages': Backing off 0.00 seconds after try 1 for URL /pages, failing with"
        f" ConnectionError: {expected}"
    )
    assert "Traceback" not in process.stderr


def test_pagination_loop_is_one_sentence_with_stream_and_request(run):
    with serving() as server:
        server.answers(Reply({"next": "b"}), Reply({"next": "b"}))
        process = run("loop", api_url=server.url, token=TOKEN)
    [sentence] = errors(process.stderr)
    assert sentence.startswith("Loop detected in pagination. Page 2 asks for itself")
    assert "[stream 'pages', GET " in sentence
    assert "Traceback" not in process.stderr


def test_records_are_closed_before_the_error_is_reported(run):
    """Python would otherwise close them at its exit, when logging raises an ignored error."""
    process = run("unsorted")
    assert "Traceback" not in process.stderr
    closed = process.stderr.index("The source was closed")
    assert closed < process.stderr.index("| ERROR    | tap-err ")


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("empty", "The tap has no stream, so no record is read: its discovery returned none."),
        ("key", "Stream 'rows': its schema does not declare the primary key 'row_id'"),
        (
            "deselected",
            "No stream is selected, so no record is read. Select streams in the catalog",
        ),
    ],
)
def test_likely_mistake_is_one_warning(run, kind, expected):
    process = run(kind, code=0)
    [warning] = [line for line in process.stderr.splitlines() if "| WARNING " in line]
    assert expected in warning


def test_airbyte_check_and_singer_sync_show_the_same_sentence(run):
    with serving() as server:
        server.answers(Reply({}, 401), Reply({}, 401))
        singer = run("pages", api_url=server.url, token=TOKEN)
        airbyte = run("pages", "check", code=0, api_url=server.url, token=TOKEN)
    status = json.loads(airbyte.stdout.splitlines()[-1])["connectionStatus"]
    assert errors(singer.stderr) == [status["message"]]


def test_get_records_that_returns_none_is_the_same_sentence_under_airbyte(tmp_path):
    program = [sys.executable, str(TAP), "none"]
    [discovered] = airbyte(program, "discover", tmp_path, config={}).of_type("CATALOG")
    catalog = configured(discovered)
    result = airbyte(program, "read", tmp_path, config={}, catalog=catalog)
    assert result.code == 1
    assert RETURNED_NONE in [error["message"] for error in result.traces("ERROR")]


def test_message_of_an_error_with_several_arguments_is_complete(run):
    process = run("not text")
    assert errors(process.stderr)[-1].startswith(
        "'utf-8' codec can't decode byte 0xff in position 0"
    )


def test_stream_map_of_an_unknown_stream_is_a_warning(run):
    """A map that masks values would otherwise have no effect, and nobody would notice."""
    process = run("rows", code=0, stream_maps={"row": {"id": "md5(id)"}, "ro*": {}})
    [warning] = [line for line in process.stderr.splitlines() if "| WARNING " in line]
    assert warning.endswith(
        "The setting stream_maps has a map of 'row', but there is no such stream. Did you mean"
        " 'rows'?"
    )


def test_unknown_error_names_its_stream_and_keeps_its_traceback(run):
    process = run("bug")
    assert errors(process.stderr) == [
        "An unhandled error occurred while syncing 'rows'",
        "no such key",
    ]
    assert process.stderr.count("Traceback") == 1
    assert process.stderr.rstrip().endswith("KeyError: 'no such key'")


def read_record_count(log):
    [metric] = [line for line in log.splitlines() if '"metric":"record_count"' in line]
    return json.loads(metric.partition("METRIC: ")[2])["value"]


def test_record_count_of_a_failed_run_is_exact(run):
    process = run("late")
    assert process.stdout.count('"RECORD"') == read_record_count(process.stderr) == 57


def test_record_count_of_an_interrupted_run_is_exact(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with subprocess.Popen(
        [sys.executable, str(TAP), "sleeping", "--config", "config.json"],
        cwd=tmp_path,
        env=VARIABLES,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as tap:
        line = ""
        while '"id":0}' not in line:  # the rest is written when the tap ends, at the latest
            line = tap.stdout.readline()
            assert line, tap.stderr.read()
        tap.send_signal(signal.SIGINT)
        output, log = tap.communicate(timeout=120)
    assert 1 + output.count('"RECORD"') == read_record_count(log)


def test_successful_connection_test_logs_no_error(run):
    process = run("rows", "--test", code=0)
    assert errors(process.stderr) == []
