"""The common base of taps and targets."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import MappingProxyType

import pytest

from tap_core.capabilities import PluginCapabilities, UnsupportedCapability
from tap_core.exceptions import (
    ConfigFileError,
    ConfigValidationError,
    SingerSDKDeprecationWarning,
)
from tap_core.plugin_base import PluginBase

ROOT = Path(__file__).parents[2]
NO_FLATTENING = "flattening is not supported yet; remove the setting or set it to false"


class Plugin(PluginBase):
    """A plugin of the tests."""

    name = "tap-x"
    config_jsonschema = {
        "type": "object",
        "properties": {
            "api_key": {"type": "string", "secret": True},
            "page_size": {"type": "integer", "default": 100},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
        },
        "required": ["api_key"],
    }


# Settings


def test_settings_are_read_only_and_have_their_defaults():
    plugin = Plugin(config={"api_key": "k"})
    assert dict(plugin.config) == {"api_key": "k", "page_size": 100, "tags": []}
    with pytest.raises(TypeError):
        plugin.config["page_size"] = 1


def test_nothing_that_was_given_is_changed():
    schema = Plugin.config_jsonschema
    before = repr(schema)
    given = {"api_key": "k", "deep": {"a": [1]}}
    plugin = Plugin(config=given)
    plugin.config["tags"].append("mine")
    plugin.config["deep"]["a"].append(2)
    assert given == {"api_key": "k", "deep": {"a": [1]}}
    assert repr(schema) == before
    assert Plugin(config=given).config["tags"] == []


def test_any_mapping_is_a_configuration_and_nothing_else():
    assert Plugin(config=MappingProxyType({"api_key": "k"})).config["api_key"] == "k"
    with pytest.raises(TypeError, match="not 'int'"):
        Plugin(config=3)


def test_paths_still_work_and_are_deprecated(tmp_path):
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    first.write_text('{"api_key": "k", "page_size": 1}')
    second.write_text('{"page_size": 2}')
    with pytest.warns(SingerSDKDeprecationWarning, match="dictionary"):
        assert Plugin(config=first).config["page_size"] == 1
    with pytest.warns(SingerSDKDeprecationWarning, match="list"):
        assert Plugin(config=[str(first), second]).config["page_size"] == 2
    with pytest.warns(SingerSDKDeprecationWarning), pytest.raises(ConfigFileError):
        Plugin(config="nowhere.json")


def test_the_environment_overrides_files_when_asked_for(monkeypatch):
    monkeypatch.setenv("TAP_X_PAGE_SIZE", "7")
    given = {"api_key": "k", "page_size": 1}
    assert Plugin(config=given, parse_env_config=True).config["page_size"] == 7
    assert Plugin(config=given).config["page_size"] == 1


def test_faults_of_every_kind_are_reported_at_once(monkeypatch):
    monkeypatch.setenv("TAP_X_PAGE_SIZE", "many")
    config = {"tags": ["a", 1], "stream_maps": {"s": None}, "flattening_enabled": True}
    with pytest.raises(ConfigValidationError) as caught:
        Plugin(config=config, parse_env_config=True)
    assert caught.value.errors == [
        "page_size: variable TAP_X_PAGE_SIZE must be an integer (it is 'many')",
        "'api_key' is a required property",
        "1 is not of type 'string' in config['tags'][1]",
        "stream_maps: stream maps are not supported yet; remove the setting",
        f"flattening_enabled: {NO_FLATTENING}",
    ]
    assert caught.value.errors[1] in str(caught.value)
    assert caught.value.schema["required"] == ["api_key"]


def test_a_setting_given_wrongly_by_variable_is_not_missed_as_well(monkeypatch):
    class Needy(Plugin):
        config_jsonschema = {
            "properties": {"size": {"type": "integer"}},
            "required": ["size"],
        }

    monkeypatch.setenv("TAP_X_SIZE", "many")
    with pytest.raises(ConfigValidationError) as caught:
        Needy(parse_env_config=True)
    assert len(caught.value.errors) == 1


def test_without_validation_a_wrong_variable_is_left_out_and_warned_of(monkeypatch, caplog):
    monkeypatch.setenv("TAP_X_PAGE_SIZE", "many")
    plugin = Plugin(parse_env_config=True, validate_config=False)
    assert plugin.config["page_size"] == 100
    assert "TAP_X_PAGE_SIZE must be an integer" in caplog.text


def test_without_validation_a_check_of_the_plugin_is_still_called():
    class Own(Plugin):
        asked: list = []

        def _validate_config(self, *, raise_errors=True):
            self.asked.append(raise_errors)
            return super()._validate_config(raise_errors=raise_errors)

    plugin = Own(validate_config=False)
    assert Own.asked == [False]
    assert plugin._validate_config(raise_errors=False) == ["'api_key' is a required property"]


def test_what_is_harmless_though_unsupported_is_warned_of(caplog, monkeypatch):
    unbuilt = UnsupportedCapability(
        PluginCapabilities.BATCH, "batch_config", fatal=False, sentence="not yet"
    )
    monkeypatch.setattr(Plugin, "_not_built", classmethod(lambda _cls: [unbuilt]))
    Plugin(config={"api_key": "k", "batch_config": {"encoding": {}}, "flattening_enabled": False})
    assert "batch_config: not yet" in caplog.text
    assert "flattening" not in caplog.text


def test_a_slip_of_the_pen_is_warned_of(caplog):
    Plugin(config={"api_key": "k", "pagesize": 3, "stranger": 1})
    assert "Setting 'pagesize' is not known. Did you mean 'page_size'?" in caplog.text
    assert "stranger" not in caplog.text


def test_settings_that_a_family_of_plugins_adds_stay_with_it():
    class Family(Plugin):
        @classmethod
        def append_builtin_config(cls, config_jsonschema):
            super().append_builtin_config(config_jsonschema)
            config_jsonschema["properties"]["extra"] = {"type": "integer", "default": 1}

    class Member(Family):
        pass

    assert Member(config={"api_key": "k"}).config["extra"] == 1
    assert "extra" in Member._get_about_info().settings["properties"]
    assert "extra" not in Plugin(config={"api_key": "k"}).config
    assert "extra" not in Plugin.config_jsonschema["properties"]


def test_the_environment_is_read_by_the_class(monkeypatch):
    monkeypatch.setenv("TAP_X_API_KEY", "k")
    assert Plugin._env_var_config == {"api_key": "k"}
    assert Plugin._env_var_prefix == "TAP_X_"


# What it is


def test_the_logger_is_named_after_the_plugin():
    assert Plugin.logger is logging.getLogger("tap-x")
    assert Plugin(config={"api_key": "k"}).logger is Plugin.logger


def test_the_level_of_the_metrics_is_the_plugins(monkeypatch):
    monkeypatch.setenv("TAP_X_LOGLEVEL", "error")
    metrics = Plugin(config={"api_key": "k"}).metrics_logger
    assert metrics.name == "tap_core.metrics"
    assert metrics.level == logging.ERROR


def test_versions_are_those_of_the_distributions(capsys):
    class Installed(Plugin):
        package_name = "pytest"

    assert Installed.plugin_version == pytest.__version__
    assert Installed(config={"api_key": "k"}).plugin_version == pytest.__version__
    assert Plugin.plugin_version == "[could not be detected]"
    assert Plugin.get_supported_python_versions() is None
    assert "3.11" in Installed.get_supported_python_versions()
    Installed.print_version()
    assert capsys.readouterr().out == (
        f"tap-x v{pytest.__version__}, tap-core v{Installed.sdk_version}\n"
    )


def test_the_moment_of_making_is_kept_in_milliseconds():
    first = Plugin(config={"api_key": "k"}).initialized_at
    assert isinstance(first, int)
    assert Plugin(config={"api_key": "k"}).initialized_at >= first > 1_700_000_000_000


def test_only_what_exists_is_advertised():
    class Boastful(Plugin):
        capabilities = [
            PluginCapabilities.ABOUT,
            PluginCapabilities.STREAM_MAPS,
            PluginCapabilities.FLATTENING,
        ]

    info = Boastful._get_about_info()
    assert info.capabilities == [PluginCapabilities.ABOUT]
    assert set(info.settings["properties"]) == set(Plugin.config_jsonschema["properties"])
    assert info.description == Boastful.__doc__


def test_what_a_plugin_without_protocol_lacks_is_said():
    plugin = Plugin(config={"api_key": "k"})
    assert plugin.setup_mapper() is None
    with pytest.raises(NotImplementedError):
        plugin.state  # noqa: B018
    with pytest.raises(NotImplementedError):
        Plugin.get_singer_command()


# Its entry point


class Recorder:
    """A command that says how it was called."""

    def __init__(self) -> None:
        self.calls: list = []
        self.help = "the help"

    def main(self, args=None, prog_name=None, **extra):
        self.calls.append((list(args), prog_name, extra))
        return "done"


class Runnable(Plugin):
    recorder = Recorder()

    @classmethod
    def get_singer_command(cls):
        return cls.recorder


@pytest.fixture
def calls(monkeypatch):
    monkeypatch.setattr(Runnable, "recorder", Recorder())
    yield Runnable.recorder.calls
    root = logging.getLogger()
    for handler in [each for each in root.handlers if type(each).__name__ == "_ConsoleHandler"]:
        root.removeHandler(handler)
    root.setLevel(logging.WARNING)


def test_a_console_script_calls_it_without_arguments(calls, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tap-x", "--discover"])
    assert Runnable.cli() == "done"
    assert calls == [(["--discover"], None, {})]


def test_runners_call_it_as_a_command_of_click(calls):
    entry = Runnable.cli
    assert entry.name == "tap-x"
    assert entry.help == "the help"
    assert entry(["--help"], standalone_mode=False) == "done"
    assert entry.main(args=("--x",), prog_name="p", color=True) == "done"
    assert calls == [
        (["--help"], None, {"standalone_mode": False}),
        (["--x"], "p", {"color": True}),
    ]
    assert not hasattr(entry, "nothing_of_the_kind")


def test_the_first_argument_may_choose_another_protocol(calls):
    other = Recorder()

    class Speaking(Runnable):
        @classmethod
        def get_command(cls, args):
            return other if args[:1] == ["spec"] else super().get_command(args)

    Speaking.cli(["spec"])
    Speaking.cli(["--about"])
    assert [args for args, _, _ in other.calls] == [["spec"]]
    assert [args for args, _, _ in calls] == [["--about"]]


# Signals


class Counting(Plugin):
    """Keeps the signals that it is asked to end by."""

    def _handle_termination(self, signum, frame):
        self.ends = [*getattr(self, "ends", []), signum]


@pytest.mark.parametrize(
    ("sent", "heeded"),
    [
        ([signal.SIGTERM], [signal.SIGTERM]),
        ([signal.SIGINT], [signal.SIGINT]),
        # Ctrl-C at an orchestrator comes twice: from the terminal, and handed on.
        ([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]),
        ([signal.SIGINT, signal.SIGTERM, signal.SIGINT], [signal.SIGINT, signal.SIGINT]),
        ([signal.SIGINT, signal.SIGTERM, signal.SIGTERM], [signal.SIGINT, signal.SIGTERM]),
        ([signal.SIGTERM, signal.SIGINT], [signal.SIGTERM, signal.SIGINT]),
        ([signal.SIGTERM, signal.SIGTERM], [signal.SIGTERM, signal.SIGTERM]),
        ([signal.SIGINT, signal.SIGINT], [signal.SIGINT, signal.SIGINT]),
    ],
)
def test_a_signal_is_heeded_once_for_each_wish(sent, heeded):
    plugin = Counting(config={"api_key": "k"})
    for number in sent:
        signal.raise_signal(number)
    assert plugin.ends == heeded


def test_handlers_are_set_in_the_main_thread_only():
    plugin = Plugin(config={"api_key": "k"})
    assert signal.getsignal(signal.SIGTERM) == plugin._handle_signal
    assert signal.getsignal(signal.SIGINT) == plugin._handle_signal
    made = []
    thread = threading.Thread(target=lambda: made.append(Plugin(config={"api_key": "k"})))
    thread.start()
    thread.join()
    assert len(made) == 1
    assert signal.getsignal(signal.SIGTERM) == plugin._handle_signal


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_in_an_orderly_way(number):
    program = """
        import logging, sys
        from tap_core.plugin_base import PluginBase

        class Plugin(PluginBase):
            name = "tap-x"

            def _handle_termination(self, signum, frame):
                print("saved", signum, flush=True)
                super()._handle_termination(signum, frame)

        logging.basicConfig(level="INFO")
        Plugin()
        print("ready", flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == f"saved {number:d}\n"
        assert process.wait() == 0
        assert "Gracefully shutting down" in process.stderr.read()
