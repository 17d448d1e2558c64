"""`PluginBase`: settings, metadata, entry point and signals."""

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

from tap_core.exceptions import (
    ConfigFileError,
    ConfigValidationError,
    SingerSDKDeprecationWarning,
)
from tap_core.plugin_base import PluginBase

ROOT = Path(__file__).parents[2]


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


def test_config_is_read_only_and_has_defaults():
    plugin = Plugin(config={"api_key": "k"})
    assert dict(plugin.config) == {"api_key": "k", "page_size": 100, "tags": []}
    with pytest.raises(TypeError):
        plugin.config["page_size"] = 1


def test_given_config_and_schema_are_not_changed():
    schema = Plugin.config_jsonschema
    before = repr(schema)
    config = {"api_key": "k", "deep": {"a": [1]}}
    plugin = Plugin(config=config)
    plugin.config["tags"].append("mine")
    plugin.config["deep"]["a"].append(2)
    assert config == {"api_key": "k", "deep": {"a": [1]}}
    assert repr(schema) == before
    assert Plugin(config=config).config["tags"] == []


def test_config_must_be_a_mapping():
    assert Plugin(config=MappingProxyType({"api_key": "k"})).config["api_key"] == "k"
    with pytest.raises(TypeError, match="not 'int'"):
        Plugin(config=3)


def test_config_file_paths_work_and_are_deprecated(tmp_path):
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    first.write_text('{"api_key": "k", "page_size": 1}')
    second.write_text('{"page_size": 2}')
    with pytest.warns(SingerSDKDeprecationWarning, match="dictionary"):
        assert Plugin(config=first).config["page_size"] == 1
    with pytest.warns(SingerSDKDeprecationWarning, match="list"):
        assert Plugin(config=[str(first), second]).config["page_size"] == 2
    with pytest.warns(SingerSDKDeprecationWarning), pytest.raises(ConfigFileError):
        Plugin(config="nowhere.json")


def test_environment_overrides_config_if_enabled(monkeypatch):
    monkeypatch.setenv("TAP_X_PAGE_SIZE", "7")
    config = {"api_key": "k", "page_size": 1}
    assert Plugin(config=config, parse_env_config=True).config["page_size"] == 7
    assert Plugin(config=config).config["page_size"] == 1


def test_configuration_faults_of_every_kind_are_reported_together(monkeypatch):
    monkeypatch.setenv("TAP_X_PAGE_SIZE", "many")
    config = {"tags": ["a", 1, "b\0c"]}
    with pytest.raises(ConfigValidationError) as caught:
        Plugin(config=config, parse_env_config=True)
    assert caught.value.errors == [
        "page_size: variable TAP_X_PAGE_SIZE must be an integer (it is 'many')",
        "'api_key' is a required property",
        "tags[1]: 1 is not of type 'string'",
        "tags[2]: the text contains a null byte (U+0000): remove it",
    ]
    assert caught.value.errors[1] in str(caught.value)
    assert caught.value.schema["required"] == ["api_key"]


def test_setting_with_an_invalid_variable_is_not_also_reported_missing(monkeypatch):
    class Needy(Plugin):
        config_jsonschema = {
            "properties": {"size": {"type": "integer"}},
            "required": ["size"],
        }

    monkeypatch.setenv("TAP_X_SIZE", "many")
    with pytest.raises(ConfigValidationError) as caught:
        Needy(parse_env_config=True)
    assert len(caught.value.errors) == 1


def test_invalid_variable_causes_a_warning_if_validation_is_off(monkeypatch, caplog):
    monkeypatch.setenv("TAP_X_PAGE_SIZE", "many")
    plugin = Plugin(parse_env_config=True, validate_config=False)
    assert plugin.config["page_size"] == 100
    assert "TAP_X_PAGE_SIZE must be an integer" in caplog.text


def test_overridden_config_check_is_called_if_validation_is_off():
    class Own(Plugin):
        checks: list = []

        def _validate_config(self, *, raise_errors=True):
            self.checks.append(raise_errors)
            return super()._validate_config(raise_errors=raise_errors)

    plugin = Own(validate_config=False)
    assert Own.checks == [False]
    assert plugin._validate_config(raise_errors=False) == ["'api_key' is a required property"]


def test_misspelled_setting_causes_a_warning(caplog):
    Plugin(config={"api_key": "k", "pagesize": 3, "stranger": 1})
    assert "Setting 'pagesize' is not known. Did you mean 'page_size'?" in caplog.text
    assert "stranger" not in caplog.text


def test_settings_added_by_a_base_class_apply_only_to_its_subclasses():
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


def test_class_reads_its_settings_from_the_environment(monkeypatch):
    monkeypatch.setenv("TAP_X_API_KEY", "k")
    assert Plugin._env_var_config == {"api_key": "k"}
    assert Plugin._env_var_prefix == "TAP_X_"


# Metadata


def test_logger_has_the_plugins_name():
    assert Plugin.logger is logging.getLogger("tap-x")
    assert Plugin(config={"api_key": "k"}).logger is Plugin.logger


def test_metrics_logger_has_the_plugins_level(monkeypatch):
    monkeypatch.setenv("TAP_X_LOGLEVEL", "error")
    metrics = Plugin(config={"api_key": "k"}).metrics_logger
    assert metrics.name == "tap_core.metrics"
    assert metrics.level == logging.ERROR


def test_versions_come_from_the_installed_distributions(capsys):
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


def test_initialized_at_is_in_milliseconds():
    first = Plugin(config={"api_key": "k"}).initialized_at
    assert isinstance(first, int)
    assert Plugin(config={"api_key": "k"}).initialized_at >= first > 1_700_000_000_000


def test_plugin_base_without_a_protocol_raises_not_implemented():
    plugin = Plugin(config={"api_key": "k"})
    assert plugin.setup_mapper() is None
    with pytest.raises(NotImplementedError):
        plugin.state  # noqa: B018
    with pytest.raises(NotImplementedError):
        Plugin.get_singer_command()


# Entry point


class Recorder:
    """A command that records its calls."""

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
    for handler in [
        handler_of_root
        for handler_of_root in root.handlers
        if type(handler_of_root).__name__ == "_ConsoleHandler"
    ]:
        root.removeHandler(handler)
    root.setLevel(logging.WARNING)


def test_cli_without_arguments_reads_sys_argv(calls, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tap-x", "--discover"])
    assert Runnable.cli() == "done"
    assert calls == [(["--discover"], None, {})]


def test_cli_has_the_interface_of_a_click_command(calls):
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


def test_first_argument_can_select_another_protocol(calls):
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


@pytest.fixture
def hangup_by_default():
    """The default effect of SIGHUP, also if the tests run by ``nohup``."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


class Counting(Plugin):
    """Records the signals that request termination."""

    def _handle_termination(self, signum, frame):
        self.ends = [*getattr(self, "ends", []), signum]


@pytest.mark.parametrize(
    ("sent", "heeded"),
    [
        ([signal.SIGTERM], [signal.SIGTERM]),
        ([signal.SIGINT], [signal.SIGINT]),
        # Ctrl-C at an orchestrator arrives twice: from the terminal, and forwarded.
        ([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]),
        ([signal.SIGINT, signal.SIGTERM, signal.SIGINT], [signal.SIGINT, signal.SIGINT]),
        ([signal.SIGINT, signal.SIGTERM, signal.SIGTERM], [signal.SIGINT, signal.SIGTERM]),
        ([signal.SIGTERM, signal.SIGINT], [signal.SIGTERM, signal.SIGINT]),
        ([signal.SIGTERM, signal.SIGTERM], [signal.SIGTERM, signal.SIGTERM]),
        ([signal.SIGINT, signal.SIGINT], [signal.SIGINT, signal.SIGINT]),
        # A closed terminal: the kernel and the shell send one each.
        ([signal.SIGHUP, signal.SIGHUP], [signal.SIGHUP]),
        ([signal.SIGTERM, signal.SIGHUP], [signal.SIGTERM]),
        ([signal.SIGHUP, signal.SIGTERM], [signal.SIGHUP, signal.SIGTERM]),
    ],
)
@pytest.mark.usefixtures("hangup_by_default")
def test_repeated_signal_from_an_orchestrator_counts_once(sent, heeded):
    plugin = Counting(config={"api_key": "k"})
    for number in sent:
        signal.raise_signal(number)
    assert plugin.ends == heeded


@pytest.mark.usefixtures("hangup_by_default")
def test_hangup_stays_ignored_if_it_is():
    """As by ``nohup``: the plugin continues when its terminal is closed."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    Plugin(config={"api_key": "k"})
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_signal_handlers_are_set_only_in_the_main_thread():
    plugin = Plugin(config={"api_key": "k"})
    assert signal.getsignal(signal.SIGTERM).args == (plugin._handle_signal,)
    assert signal.getsignal(signal.SIGINT).args == (plugin._handle_signal,)
    plugins = []
    thread = threading.Thread(target=lambda: plugins.append(Plugin(config={"api_key": "k"})))
    thread.start()
    thread.join()
    assert len(plugins) == 1
    assert signal.getsignal(signal.SIGTERM).args == (plugin._handle_signal,)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_the_process_gracefully(number):
    program = """
        import logging, signal, sys
        from tap_core.plugin_base import PluginBase

        signal.signal(signal.SIGHUP, signal.SIG_DFL)

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
