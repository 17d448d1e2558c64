"""Command lines of all programs: help, suggestions, exit codes, completion, terminals."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.cli import main as tap_core
from tap_core.manifest.cli import main as tap_manifest
from tap_core.scaffold.auth import AUTHENTICATION
from tap_core.scaffold.pagination import PAGINATION
from tap_core.scaffold.project_options import KINDS
from target_spark.target import TargetSpark

ROOT = Path(__file__).parents[2]


class Numbers(Stream):
    name = "numbers"
    schema = th.PropertiesList(th.Property("id", th.IntegerType)).to_dict()

    def get_records(self, context):
        yield {"id": 1}


class TapX(Tap):
    """A small tap."""

    name = "tap-x"

    def discover_streams(self):
        return [Numbers(self)]


def get_exit_code(run: Callable[[list[str]], object], arguments: list[str]) -> object:
    """Return the exit code of a program, whether it returns the code or raises SystemExit."""
    try:
        return run(arguments)
    except SystemExit as end:
        return end.code


def tap_x(arguments: list[str]) -> object:
    return TapX.cli(arguments, prog_name="tap-x")


def target_spark(arguments: list[str]) -> object:
    return TargetSpark.cli(arguments, prog_name="target-spark")


PROGRAMS = {
    "tap-core": tap_core,
    "tap-manifest": tap_manifest,
    "tap-x": tap_x,
    "target-spark": target_spark,
}


@pytest.fixture(autouse=True)
def no_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAP_MANIFEST_FILE", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


def parse_commands(text: str) -> dict[str, str]:
    """Return the table of commands in a help text."""
    _, _, table = text.partition("Commands:\n")
    rows = re.findall(r"^  (\S+) +(.+)$", table.partition("\n\n")[0], re.MULTILINE)
    return dict(rows)


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_lists_each_command_on_one_whole_line(program, capsys) -> None:
    for flag in ("-h", "--help"):
        assert get_exit_code(PROGRAMS[program], [flag]) == 0
        commands = parse_commands(capsys.readouterr().out)
        assert commands
        for name, line in commands.items():
            assert line.endswith("."), name
            assert not line.endswith("..."), name


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_command_has_help_under_both_names(program, capsys) -> None:
    get_exit_code(PROGRAMS[program], ["-h"])
    texts = {}
    names = set(parse_commands(capsys.readouterr().out))
    for name in names - (
        {"spec", "check", "discover", "read", "test-stream"} if program == "tap-manifest" else set()
    ):
        for flag in ("-h", "--help"):
            assert get_exit_code(PROGRAMS[program], [name, flag]) == 0
            texts[flag] = capsys.readouterr().out
        assert texts["-h"] == texts["--help"]
        assert texts["-h"].startswith(f"Usage: {program} {name}")


@pytest.mark.parametrize("program", PROGRAMS)
def test_version_is_one_line(program, capsys) -> None:
    assert get_exit_code(PROGRAMS[program], ["--version"]) == 0
    assert re.fullmatch(rf"{program} v\S.*\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("program", "misspelt", "suggestion"),
    [
        ("tap-core", "nwe", "new"),
        ("tap-manifest", "lnit", "lint"),
        ("tap-x", "raed", "read"),
        ("target-spark", "docter", "doctor"),
    ],
)
def test_misspelt_command_is_a_usage_error_with_a_suggestion(
    program, misspelt, suggestion, capsys
) -> None:
    assert get_exit_code(PROGRAMS[program], [misspelt, "x"]) == 2
    captured = capsys.readouterr()
    assert f"Error: No such command '{misspelt}'. Did you mean '{suggestion}'?" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("path", ["./a.yaml", "/srv/a", "../a", "~a", "conf/a.yaml"])
def test_path_without_the_option_manifest_is_a_usage_error(path, capsys) -> None:
    assert get_exit_code(PROGRAMS["tap-manifest"], [path, "--discover"]) == 2
    captured = capsys.readouterr()
    assert (
        f"Error: No such command '{path}'. If it is the manifest, write --manifest {path}"
        in captured.err
    )
    assert captured.out == ""


@pytest.mark.parametrize(
    ("program", "arguments", "suggestion"),
    [
        ("tap-core", ["new", "tap-y", "--kidn", "rest"], "--kind"),
        ("tap-manifest", ["lint", "--manifset", "f"], "--manifest"),
        ("tap-x", ["--confg", "f"], "--config"),
        ("target-spark", ["doctor", "--jsno"], "--json"),
    ],
)
def test_misspelt_option_is_a_usage_error_with_a_suggestion(
    program, arguments, suggestion, capsys
) -> None:
    assert get_exit_code(PROGRAMS[program], arguments) == 2
    assert re.search(
        rf"No such option: --\w+ \(Possible options: .*{suggestion}", capsys.readouterr().err
    )


def test_option_before_a_command_is_refused(capsys) -> None:
    assert get_exit_code(target_spark, ["--config", "c.json", "doctor"]) == 2
    errors = capsys.readouterr().err
    assert "--config before 'doctor' has no effect" in errors
    assert "target-spark doctor [OPTIONS]" in errors


def test_manifest_is_required(capsys) -> None:
    assert get_exit_code(tap_manifest, ["--config", "c.json"]) == 2
    assert "Missing option '--manifest' (env var: 'TAP_MANIFEST_FILE')." in capsys.readouterr().err
    assert get_exit_code(tap_manifest, ["spec"]) == 2
    assert "'--manifest'" in capsys.readouterr().err


def test_misspelt_option_for_the_manifest_is_named(capsys) -> None:
    assert get_exit_code(tap_manifest, ["--manifst=m.yaml", "--config", "c.json"]) == 2
    message = "No such option: --manifst. Did you mean '--manifest'?"
    assert message in " ".join(capsys.readouterr().err.split())


def test_choice_of_an_engine_action_is_checked(capsys) -> None:
    assert get_exit_code(target_spark, ["engine", "strat"]) == 2
    assert "'strat' is not one of start, status, stop." in capsys.readouterr().err


def test_help_of_a_new_project_lists_every_choice(capsys) -> None:
    assert tap_core(["new", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for names in (AUTHENTICATION, PAGINATION):
        assert ", ".join(names) in text
    for kinds in KINDS.values():
        assert ", ".join([f"{kinds[0]} (default)", *kinds[1:]]) in text


# Real processes


def process(arguments: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("arguments", "line", "offered"),
    [
        (["-m", "tap_core"], "tap-core ne", ["new"]),
        (["-m", "target_spark"], "target-spark last-state --j", ["--job"]),
        (["-m", "target_spark"], "target-spark engine st", ["start", "status", "stop"]),
        (["-m", "tap_core.manifest.cli"], "tap-manifest --manifest f re", ["read"]),
    ],
)
def test_shell_completion_offers_commands_options_and_choices(arguments, line, offered) -> None:
    program, *typed = line.split()
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    variables = {variable: "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(typed))}
    completed = process(arguments, **variables)
    assert (completed.stdout.split(), completed.stderr) == (offered, "")


def test_completion_script_calls_the_program() -> None:
    completed = process(
        ["-m", "target_spark", "--show-completion", "bash"],
        _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1",
    )
    assert completed.returncode == 0, completed.stderr
    assert "_TARGET_SPARK_COMPLETE=complete_bash" in completed.stdout


def on_terminal(arguments: list[str]) -> str:
    """Return the text that a program writes to a terminal, without colors."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ):
        os.close(theirs)
        text = b""
        while True:
            try:
                block = os.read(ours, 65_536)
            except OSError:  # the program has ended
                break
            if not block:
                break
            text += block
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", text.decode())


def test_help_and_errors_are_drawn_on_a_terminal_and_plain_in_a_pipe() -> None:
    screen = on_terminal(["-m", "tap_core", "--help"])
    assert "╭─ Commands" in screen
    assert "fivetran-protos" in screen
    assert "╭─ Error" in on_terminal(["-m", "tap_core", "nwe"])
    piped = process(["-m", "tap_core", "--help"]).stdout
    assert "╭" not in piped
    assert "\x1b" not in piped
