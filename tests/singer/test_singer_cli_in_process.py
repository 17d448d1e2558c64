"""The Singer command as an object: called in process by click runners, and extended by authors."""

from __future__ import annotations

import pytest
import typer.testing

from tap_core.tap_base import Tap
from tests.process_state import restore_process_state as restore_process_state
from tests.singer.singer_plugins import TapX


@pytest.fixture(autouse=True)
def run_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_invalid_config_returns_code_1_in_both_modes(capsys):
    with pytest.raises(SystemExit) as caught:
        TapX.cli(["--test"])
    assert caught.value.code == 1
    assert TapX.cli(["--test"], standalone_mode=False) == 1
    last = "Config validation failed: 'api_key' is a required property"
    assert capsys.readouterr().err.count(last) == 2


def test_command_object_prints_help_and_version_like_click(capsys):
    assert TapX.cli(["--help"], standalone_mode=False) == 0
    assert capsys.readouterr().out.startswith("Usage: ")
    assert TapX.cli.main(args=["--version"], prog_name="tap-x", standalone_mode=False) is None
    assert capsys.readouterr().out.startswith("tap-x v")
    with pytest.raises(SystemExit) as caught:
        TapX.cli.main(args=["--help"], prog_name="my-tap")
    assert caught.value.code == 0
    assert "Usage: my-tap [OPTIONS]" in capsys.readouterr().out


def test_error_of_the_tap_is_raised_to_the_caller(tmp_path):
    config = tmp_path / "c.json"
    config.write_text('{"api_key": "k", "fail_at": 0}')
    with pytest.raises(ValueError, match="no number 0"):
        TapX.cli(["--config", str(config)], standalone_mode=False)


def test_get_singer_command_can_be_extended(capsys):
    class Extended(Tap):
        name = "tap-extended"

        @classmethod
        def get_singer_command(cls):
            command = super().get_singer_command()
            command.help = "Something else."
            return command

    Extended.cli(["--help"], standalone_mode=False)
    assert "Something else." in capsys.readouterr().out
    assert Extended.cli.name == "tap-extended"
    assert [param.name for param in Extended.cli.params][:2] == ["version", "about"]


def test_typer_cli_runner_accepts_the_command(monkeypatch):
    monkeypatch.setattr(typer.testing, "_get_command", lambda app: app)
    result = typer.testing.CliRunner().invoke(TapX.cli, ["--discover"])
    assert result.exit_code == 0
    assert '"tap_stream_id": "numbers"' in result.stdout


def test_click_option_added_by_a_plugin_is_called(capsys):
    """target-snowflake adds such an option to its command."""
    calls = []

    class Foreign:
        name = "initialize"
        opts, secondary_opts = ("--initialize",), ()
        default = expose_value = False

        def callback(self, ctx, param, value):
            calls.append((param.name, value))

        def add_to_parser(self, parser, ctx):
            parser.add_option(
                obj=self, opts=["--initialize"], dest=self.name, action="store_const", const=True
            )

    def run(*args):
        command = TapX.get_singer_command()
        command.params.append(Foreign())
        with pytest.raises(SystemExit) as ended:
            command.main([*args], prog_name="tap-good")
        return ended.value.code

    assert run("--version") == 0
    assert calls == []
    assert run("--initialize", "--version") == 0
    assert calls == [("initialize", True)]
    assert run("--help") == 0
    assert "--discover" in capsys.readouterr().out
