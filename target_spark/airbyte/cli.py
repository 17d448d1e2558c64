"""The Airbyte commands of the destination: spec, check and write.

Only protocol messages are written to standard output, including log messages. An error is written
as an ERROR trace message, and the exit code is 1. A failed check is a result, so its exit code is
0.

Source: the Airbyte protocol, sections "Common Interface" and "Destination".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import Any, Final

import typer

from tap_core.config.loading import ConfigInput, coerce_text
from tap_core.exceptions import CatalogFileError, ConfigurationError
from tap_core.io.stdin import open_binary
from tap_core.io.stdout import StdoutWriter
from tap_core.parsing.command_line import read_input_file
from tap_core.protocols.airbyte.cli_args import get_files
from tap_core.protocols.airbyte.logging import MessageHandler, redirect_logging
from tap_core.protocols.airbyte.messages import line, trace_line
from tap_core.protocols.fivetran.allowed_names import AllowedNames
from tap_core.redaction import make_redactor, redact_line, write_to_stderr
from target_spark.airbyte.error_trace import error_body
from target_spark.config.settings import REQUIREMENTS, SCHEMA, with_defaults
from target_spark.loader.interfaces import ProtocolBinding
from target_spark.loader.load_session import CommandTarget
from target_spark.loader.state_output import StateMessageWriter

__all__ = ["run_destination_command"]

_SPARK: Final = "spark"
_SPARK_AS_TEXT: Final = {
    "type": ["string", "null"],
    "description": f"{SCHEMA['properties'][_SPARK]['description']} They are a JSON object.",
    "airbyte_secret": True,
}
"""Schema of the setting ``spark`` in the output of `spec`: a text with JSON, not an object.

Airbyte can hide only text fields (``airbyte_secret``), and has no form for an object with
undeclared properties.
"""


def run_destination_command(context: typer.Context) -> int:
    """Run one of Airbyte's commands: spec, check or write.

    Args:
        context: Context of the typer command. ``context.info_name`` is the name of the command, and
            ``context.obj`` the target class.

    Returns:
        The exit code: 0 on success, 1 after errors, which are written as trace messages.
    """
    with StdoutWriter.open() as wire:
        state = _CommandState(context.obj, wire)
        with redirect_logging(MessageHandler(wire.write, state.hide)):
            try:
                faults = _COMMANDS[str(context.info_name)](state, get_files(context))
            except Exception as error:  # noqa: BLE001  reported as an ERROR trace
                faults = [error]
            for fault in faults:
                state.write_error(fault)
    return 1 if faults else 0


class _CommandState:
    """State of a running Airbyte command: target class, output, and secrets to redact."""

    def __init__(self, plugin: type[CommandTarget], wire: StdoutWriter) -> None:
        self.plugin = plugin
        self._wire = wire
        self.states = StateMessageWriter(wire)
        self._hide: Callable[[str], str] = str

    def hide(self, text: str) -> str:
        """Return ``text`` with each secret of the settings replaced by a placeholder."""
        return self._hide(text)

    def read_settings(self, path: str) -> ConfigInput:
        """Read the settings file at ``path``, and redact its secrets in all further output.

        Raises:
            ConfigFileError: The file cannot be read.
        """
        config_input = ConfigInput.from_cli_args(path)
        self._hide = make_redactor(config_input.config)
        return config_input

    def create_target(self, config_input: ConfigInput) -> CommandTarget:
        """Create the target with the settings in ``config_input``; redact their secrets in output.

        Raises:
            ConfigurationError: ``after_load`` is set, but this machine's operator has not allowed
                this setting with an environment variable.
            ConfigValidationError: Settings are invalid; the message lists all errors.
        """
        config = _parse_spark_settings(config_input.config)
        _check_after_load_allowed(self.plugin.name, config)
        target = self.plugin(config=config, parse_env_config=config_input.parse_env)
        target.config_args = config_input.args
        self._hide = make_redactor(target.config)
        return target

    def write_message(self, kind: str, field: str, body: Mapping[str, Any]) -> None:
        """Write an Airbyte message of the type ``kind``, with ``body`` under the key ``field``."""
        self._wire.write(line(kind, field, body))

    def write_error(self, fault: BaseException) -> None:
        """Write an error as an Airbyte ERROR trace message.

        If standard output is closed, write the text of the error to standard error instead.
        """
        try:
            self._wire.write(trace_line("ERROR", error_body(fault, self.hide)))
        except OSError:
            write_to_stderr(f"{redact_line(self.hide(str(fault)))}\n")


def _parse_spark_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with the JSON text of the setting ``spark`` parsed to an object.

    Airbyte's form can only enter text. Text that is not a JSON object is kept, and is rejected when
    the settings are validated.
    """
    text = config.get(_SPARK)
    if isinstance(text, str):
        with suppress(ValueError):
            return {**config, _SPARK: coerce_text(text, SCHEMA["properties"][_SPARK])}
    return {**config}


def _check_after_load_allowed(plugin: str, config: Mapping[str, Any]) -> None:
    """Raise an error if ``after_load`` is set, but the machine's operator does not allow it.

    The setting starts programs on this machine, which not every user of Airbyte's web interface may
    do. The operator allows it with an environment variable, named after the plugin.

    Raises:
        ConfigurationError: The setting is not allowed.
    """
    allowance = AllowedNames.of(plugin, os.environ)
    if config.get("after_load") and not allowance.allows("after_load"):
        raise ConfigurationError(
            "after_load: a configuration of Airbyte may not set this, because it starts programs."
            " Remove it, or have the operator of this machine allow it with the environment"
            f" variable {allowance.variable}=after_load."
        )


# The commands


def _spec(state: _CommandState, _: Mapping[str, str]) -> list[BaseException]:
    from tap_core.protocols.airbyte.spec import specification
    from target_spark.airbyte.configured_catalog import MODES

    schema = state.plugin._full_schema() | REQUIREMENTS  # noqa: SLF001  a class method of every plugin
    schema["properties"] = {**schema["properties"], _SPARK: _SPARK_AS_TEXT}
    body = specification(
        schema,
        documentation=state.plugin.get_documentation_url(),
        changelog=state.plugin.get_changelog_url(),
        destination_sync_modes=list(MODES),
    )
    state.write_message("SPEC", "spec", body)
    return []


def _check(state: _CommandState, files: Mapping[str, str]) -> list[BaseException]:
    from target_spark.cli.doctor import checks

    def get_settings(config_input: ConfigInput) -> Mapping[str, Any]:
        without_report = {**config_input.config, "report": None}  # that of the last run is kept
        return state.create_target(ConfigInput(without_report, config_input.parse_env)).config

    failed = [
        f"{check.name}: {check.text}"
        for check in checks(get_settings, [files["config"]])
        if check.verdict == "failed"
    ]
    status = (
        {"status": "FAILED", "message": ". ".join(failed)} if failed else {"status": "SUCCEEDED"}
    )
    state.write_message("CONNECTION_STATUS", "connectionStatus", status)
    return []


def _write(state: _CommandState, files: Mapping[str, str]) -> list[BaseException]:
    from tap_core.protocols.airbyte.catalog import parse_configured_catalog
    from tap_core.protocols.airbyte.reader import AirbyteReader
    from target_spark.airbyte.configured_catalog import build_options, parse_catalog
    from target_spark.airbyte.state_format import PerStreamStateFormat
    from target_spark.loader.strict_validation import StrictCheck

    target = state.create_target(state.read_settings(files["config"]))
    path = files["catalog"]
    catalog = parse_configured_catalog(read_input_file(path, CatalogFileError, "Catalog"), path)
    config = with_defaults(target.config)
    catalog_request = parse_catalog(catalog, config["format"])
    options = build_options(config, catalog_request)
    binding = ProtocolBinding(
        AirbyteReader(
            catalog_request.expected,
            fails_on_undeclared=config.get("outside_catalog") == "fail" and not options.strict,
            check=StrictCheck(options) if options.strict else None,
        ),
        options,
        open_state_writer=lambda: nullcontext(state.states),
        state_format=PerStreamStateFormat(),
        renamed=catalog_request.copy_options,
    )
    return target.load(open_binary(None), binding)


_COMMANDS: Final[
    Mapping[str, Callable[[_CommandState, Mapping[str, str]], list[BaseException]]]
] = {
    "spec": _spec,
    "check": _check,
    "write": _write,
}
