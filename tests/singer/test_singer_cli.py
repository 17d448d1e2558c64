"""The Singer command line in processes."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("singer_plugins.py")
VARIABLES = {
    **{k: v for k, v in os.environ.items() if not k.startswith(("TAP_X", "TARGET_X"))},
    "PYTHONPATH": str(ROOT),
    "COLUMNS": "200",
}
GOOD = {"api_key": "k"}


@pytest.fixture
def write(tmp_path):
    def _write(name: str, content) -> str:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return _write


@pytest.fixture
def run(tmp_path):
    """Run the tap or the target in an empty folder."""

    def _run(*args: str, code: int = 0, stdin: str = "", **variables: str):
        process = subprocess.run(
            [sys.executable, str(SCRIPT), *args],
            cwd=tmp_path,
            env={**VARIABLES, **variables},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert process.returncode == code, process.stderr
        return process

    return _run


def messages(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def types(text: str) -> list[str]:
    return [message["type"] for message in messages(text)]


def errors(text: str) -> list[str]:
    lines = [line.split(" | ") for line in text.splitlines()]
    return [parts[3] for parts in lines if len(parts) == 4 and parts[1].strip() == "ERROR"]


# Information about a plugin


@pytest.mark.parametrize(
    "plugin, summary, flags",
    [
        ("tap", "Read the source", "version about format config discover test catalog state help"),
        ("target", "Load Singer messages", "version about format config input help"),
    ],
)
def test_help_lists_every_option(run, plugin, summary, flags):
    process = run(plugin, "--help")
    assert summary in process.stdout
    for flag in flags.split():
        assert f"--{flag} " in process.stdout
    assert process.stderr == ""


def test_version_is_one_line(run):
    process = run("tap", "--version")
    assert process.stdout.startswith("tap-x v")
    assert ", tap-core v" in process.stdout
    assert process.stdout.count("\n") == 1


@pytest.mark.parametrize("flags", [["--format=json"], ["--format", "JSON"]])
def test_about_can_be_json(run, flags):
    about = json.loads(run("tap", "--config", "not-read.json", "--about", *flags).stdout)
    assert list(about) == [
        "name",
        "description",
        "version",
        "sdk_version",
        "supported_python_versions",
        "capabilities",
        "settings",
    ]
    assert about["name"] == "tap-x"
    assert {"catalog", "state", "discover", "about"} <= set(about["capabilities"])
    assert {"stream-maps", "schema-flattening", "batch"} <= set(about["capabilities"])
    assert about["settings"]["required"] == ["api_key"]


def test_about_is_text_by_default_and_can_be_markdown(run):
    assert run("target", "--about").stdout.startswith("Name: target-x\n")
    assert run("target", "--about", "--format", "markdown").stdout.startswith("# `target-x`\n")


@pytest.mark.parametrize(
    "args",
    [
        ["--bogus"],
        ["word"],
        ["--about", "--format", "pdf"],
        ["--config"],
        ["--test=some"],
    ],
)
def test_invalid_option_exits_with_code_2(run, args):
    process = run("tap", *args, code=2)
    assert "Error:" in process.stderr
    assert process.stdout == ""


@pytest.mark.parametrize(
    "plugin, option", [("tap", "--catalog"), ("tap", "--state"), ("target", "--input")]
)
def test_empty_path_is_an_error_that_names_the_option(run, plugin, option):
    """As in ``--state "$STATE"`` if the variable is not set."""
    process = run(plugin, option, "", code=2)
    assert f"Invalid value for '{option}': The path of the file is empty." in process.stderr


# Configuration


def test_all_config_errors_are_one_log_line_without_secrets(run, write):
    config = write("c.json", {"n": "many", "api_key": 12345, "fail_at": 1.5})
    process = run("tap", "--config", config, code=1)
    faults = [
        "api_key: the value (not shown) does not fit type 'string'",
        "fail_at: 1.5 is not of type 'integer'",
        "n: 'many' is not of type 'integer'",
    ]
    together = f"Config validation failed: {'; '.join(faults)}"
    assert errors(process.stderr) == [together]
    assert "12345" not in process.stderr
    assert "Traceback" not in process.stderr
    assert process.stdout == ""


def test_config_files_and_environment_are_merged(run, write, tmp_path):
    (tmp_path / ".env").write_text("TAP_X_API_KEY=from_dotenv\n")
    first, second = write("a.json", {"n": 1}), write("b.json", {"n": 2})
    process = run("tap", "--config", first, "--config", second, "--config=ENV")
    assert types(process.stdout).count("RECORD") == 2
    process = run("tap", "--config", first, "--config", "ENV", "--config", second, TAP_X_N="4")
    assert types(process.stdout).count("RECORD") == 4


def test_environment_is_used_only_with_config_env(run, write):
    process = run("tap", "--config", write("a.json", {}), code=1, TAP_X_API_KEY="k")
    assert errors(process.stderr) == ["Config validation failed: 'api_key' is a required property"]


def test_missing_or_invalid_config_file_is_an_error(run, write):
    process = run("tap", "--config", "nowhere.json", "--config", write("b.json", "{"), code=1)
    [line] = errors(process.stderr)
    first = "Configuration file 'nowhere.json' does not exist; Configuration file"
    assert line.startswith(f"Config validation failed: {first}")
    assert "is not JSON" in line


def test_error_of_a_run_without_settings_names_the_option(run):
    [line] = errors(run("tap", code=1).stderr)
    assert line == (
        "Config validation failed: 'api_key' is a required property."
        " No settings were passed: name their file with --config FILE."
    )


def test_error_about_settings_of_the_environment_names_the_prefix(run):
    [line] = errors(run("tap", "--config=ENV", code=1).stderr)
    assert line == (
        "Config validation failed: 'api_key' is a required property."
        " Names of variables begin with TAP_X_."
    )


# Discovery and tests


@pytest.mark.parametrize("config", [None, {"n": 1}])
def test_static_discovery_needs_no_valid_configuration(run, write, config):
    args = ["--config", write("c.json", config)] if config else []
    catalog = json.loads(run("tap", *args, "--discover").stdout)
    assert [stream["tap_stream_id"] for stream in catalog["streams"]] == ["numbers"]


def test_discovery_accepts_a_state(run, write):
    args = ["--config", write("c.json", GOOD), "--state", write("s.json", {"bookmarks": {}})]
    assert "numbers" in run("tap", *args, "--discover").stdout


def test_dynamic_discovery_requires_a_valid_configuration(run, write):
    process = run("dynamic", "--discover", "--config", write("c.json", {}), code=1)
    assert errors(process.stderr) == ["Config validation failed: 'api_key' is a required property"]
    assert process.stdout == ""
    assert "numbers" in run("dynamic", "--discover", "--config", write("c.json", GOOD)).stdout


@pytest.mark.parametrize("flags", [["--test"], ["--test=all"], ["--test", "all"]])
def test_test_option_emits_one_record_per_stream(run, write, flags):
    process = run("tap", *flags, "--config", write("c.json", GOOD))
    assert types(process.stdout).count("RECORD") == 1


@pytest.mark.parametrize("flags", [["--test=schema"], ["--test", "schema"]])
def test_test_schema_option_emits_no_record(run, write, flags):
    process = run("tap", "--config", write("c.json", GOOD), *flags)
    assert types(process.stdout) == ["SCHEMA"]


def test_test_option_accepts_a_catalog(run, write):
    catalog = json.loads(run("tap", "--discover").stdout)
    metadata = catalog["streams"][0]["metadata"]
    next(entry for entry in metadata if entry["breadcrumb"] == ["properties", "text"])["metadata"][
        "selected"
    ] = False
    args = ["--config", write("c.json", GOOD), "--catalog", write("k.json", catalog)]
    process = run("tap", *args, "--test")
    record = next(entry for entry in messages(process.stdout) if entry["type"] == "RECORD")
    assert record["record"] == {"id": 0}


# Sync


def test_sync_resumes_from_a_state_file_of_several_lines(run, write):
    config = write("c.json", {**GOOD, "n": 5})
    first = run("tap", "--config", config)
    states = [message["value"] for message in messages(first.stdout) if message["type"] == "STATE"]
    lines = "".join(f"{json.dumps(state)}\n" for state in states)
    resumed = run("tap", "--config", config, "--state", write("s.json", lines + '{"torn'))
    records = [
        message["record"]["id"]
        for message in messages(resumed.stdout)
        if message["type"] == "RECORD"
    ]
    assert records == [4]
    piped = run("tap", "--config", config, "--state", "-", stdin=lines)
    assert types(piped.stdout) == types(resumed.stdout)


def test_unusable_state_or_catalog_is_reported(run, write):
    config = write("c.json", GOOD)
    for flag, path, sentence in (
        ("--state", "nowhere.json", "State file 'nowhere.json' cannot be read"),
        ("--state", write("s.json", "no json"), "s.json"),
        ("--catalog", "nowhere.json", "Catalog file 'nowhere.json' cannot be read"),
        ("--catalog", write("k.json", '{"streams": 1}'), "has no list of 'streams'"),
        ("--catalog", write("l.json", "{"), "is not JSON"),
    ):
        process = run("tap", "--config", config, flag, path, code=1)
        assert sentence in errors(process.stderr)[0]
        assert "Traceback" not in process.stderr
        assert process.stdout == ""


def test_unknown_streams_and_properties_of_a_catalog_are_logged(run, write):
    catalog = json.loads(run("tap", "--discover").stdout)
    catalog["streams"][0]["schema"]["properties"]["new"] = {"type": "string"}
    catalog["streams"].append({**catalog["streams"][0], "tap_stream_id": "x", "stream": "x"})
    args = ["--config", write("c.json", GOOD), "--catalog", write("k.json", catalog)]
    process = run("tap", *args)
    assert "The catalog's stream 'numbers' has unknown properties: new" in process.stderr
    assert "The catalog has streams that this tap does not: x" in process.stderr
    assert types(process.stdout).count("RECORD") == 3


def test_catalog_entry_without_a_schema_is_an_error_with_the_stream(run, write):
    catalog = {"streams": [{"tap_stream_id": "numbers", "stream": "numbers"}]}
    args = ["--config", write("c.json", GOOD), "--catalog", write("k.json", catalog)]
    assert "stream 'numbers' in the catalog" in run("tap", *args, code=1).stderr


def test_records_before_an_error_of_the_tap_are_written(run, write):
    process = run("tap", "--config", write("c.json", {**GOOD, "fail_at": 2}), code=1)
    assert types(process.stdout).count("RECORD") == 2
    assert "ValueError: no number 2" in process.stderr
    assert "Traceback" in process.stderr
    assert "no number 2" in errors(process.stderr)


def test_python_warnings_go_to_the_log(run, write):
    process = run("tap", "--config", write("c.json", {**GOOD, "warn": True}))
    assert " | WARNING  | py.warnings " in process.stderr
    assert "an old way" in process.stderr


def test_closed_output_pipe_is_reported_without_a_traceback(write):
    config = write("c.json", {**GOOD, "n": 200_000})
    with subprocess.Popen(
        [sys.executable, str(SCRIPT), "tap", "--config", config],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=VARIABLES,
        text=True,
    ) as process:
        assert json.loads(process.stdout.readline())["type"] == "SCHEMA"
        process.stdout.close()
        stderr = process.stderr.read()
        assert process.wait(timeout=60) == 1
    assert "The output was closed by its reader." in stderr
    assert "Traceback" not in stderr
    assert "Exception ignored" not in stderr


def test_signal_ends_the_sync_with_a_state_and_exit_code_0(write):
    config = write("c.json", {**GOOD, "hang": True})
    with subprocess.Popen(
        [sys.executable, str(SCRIPT), "tap", "--config", config],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=VARIABLES,
    ) as process:
        assert select.select([process.stdout], [], [], 60)[0]
        while b'"id":2' not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGTERM)
        output = process.stdout.read().decode()
        assert process.wait(timeout=60) == 0
        process.stderr.read()
    assert types(output)[-1] == "STATE"


# Targets


def test_target_reads_standard_input_or_a_file(run, write):
    config = write("c.json", {"path": "there"})
    assert run("target", "--config", config, stdin="a\nb\n").stdout == "2 lines to there\n"
    path = write("in.jsonl", "a\nb\nc\n")
    assert run("target", "--config", config, "--input", path).stdout == "3 lines to there\n"


def test_exit_code_of_a_target_is_that_of_the_process(run, write):
    config = write("c.json", {"path": "there", "code": 3})
    assert run("target", "--config", config, code=3).stdout == "0 lines to there\n"


def test_target_reports_invalid_config_and_unreadable_input(run, write):
    process = run("target", "--config", write("c.json", {}), code=1)
    fault = "'path' is a required property"
    assert errors(process.stderr) == [f"Config validation failed: {fault}"]
    config = write("c.json", {"path": "there"})
    process = run("target", "--config", config, "--input", "nowhere", code=1)
    assert errors(process.stderr) == ["Input 'nowhere' cannot be read: No such file or directory"]


# Start-up


@pytest.mark.parametrize("flag", ["--help", "--version", "--about", "--discover"])
def test_startup_does_not_import_heavy_packages(run, flag):
    modules = set(run("tap", flag, LOADED="1").stderr.split())
    assert modules & {"tap_core.sync.engine", "tap_core.events"} == set()
    loaded = {name.split(".")[0] for name in modules}
    assert {"tap_core", "typer"} <= loaded
    heavy = {"jsonschema", "pydantic", "pendulum", "rich", "argparse", "dotenv", "requests"}
    heavy.add("pyspark")
    assert loaded & heavy == set()


def test_sync_with_a_simple_config_does_not_import_validators(run, write):
    process = run("tap", "--config", write("c.json", GOOD), LOADED="1")
    assert "RECORD" in process.stdout
    names = {name.split(".")[0] for name in process.stderr.split()}
    assert "tap_core" in names
    assert names & {"jsonschema", "pydantic", "rich", "argparse", "dotenv"} == set()
