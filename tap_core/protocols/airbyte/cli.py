"""Execution of a tap's Airbyte commands: ``spec``, ``check``, ``discover`` and ``read``.

Standard output carries only Airbyte messages. Any failure is reported as an ERROR trace and a
nonzero exit code. A failed connection check is a regular result with exit code 0. After a signal,
pending output is written in order and the process ends by the same signal. Each command imports its
modules when it runs, for a fast start.
Source: the Airbyte protocol, sections "Common Interface" and "Source".
"""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from tap_core.config.loading import read_config_files
from tap_core.events import StreamId
from tap_core.exceptions import CatalogFileError, StateFileError
from tap_core.io.stdout import StdoutWriter
from tap_core.parsing.command_line import read_input_file
from tap_core.protocols.airbyte.cli_args import get_files
from tap_core.protocols.airbyte.error_trace import error_body
from tap_core.protocols.airbyte.logging import MessageHandler, redirect_logging
from tap_core.protocols.airbyte.messages import control_line, line, trace_line
from tap_core.protocols.error_classification import summarize_error
from tap_core.redaction import make_redactor, redact_line, write_to_stderr
from tap_core.sync.interfaces import SyncTap

__all__ = ["run_source_command"]


def run_source_command(context: typer.Context) -> int:
    """Run the Airbyte command that the user called, and return its exit code.

    ``context`` is the command's typer context, and its ``obj`` is the tap class. After a signal,
    the exit code is the negative signal number.
    """
    with StdoutWriter.open() as wire:
        job = _CommandRun(context.obj, context, wire)
        with redirect_logging(MessageHandler(wire.write_or_queue, job.hide)):
            return job.run()


class _CommandRun:
    """One run of an Airbyte command such as ``read``, with its input files, settings and tap."""

    def __init__(
        self, tap_class: type[SyncTap], context: typer.Context, wire: StdoutWriter
    ) -> None:
        self.tap_class = tap_class
        self.wire = wire
        self.files: Mapping[str, str] = {}
        self.settings: dict[str, Any] | None = None
        """The settings with the newest tokens; None until the file has been read."""
        self._context = context
        self._tap: SyncTap | None = None
        self._redactors: list[Callable[[str], str]] = []
        self._reported: list[Exception] = []

    def run(self) -> int:
        """Run the Airbyte command; return the exit code or, after a signal, its negative number."""
        try:
            self.files = get_files(self._context)
            _COMMANDS[str(self._context.info_name)](self)
        except (SystemExit, KeyboardInterrupt) as leave:
            return self._report_exit(leave)
        except Exception as error:  # noqa: BLE001  every failure is reported as a trace
            return self._report_failure(error)
        return 0

    def hide(self, text: str) -> str:
        """Return ``text`` with the secret values of the tap's settings redacted."""
        for redact in self._redactors:
            text = redact(text)
        return text

    def say(self, kind: str, field: str, body: Mapping[str, Any]) -> None:
        """Write the Airbyte message ``{"type": kind, field: body}`` to standard output."""
        self.wire.write(line(kind, field, body))

    def tap(self) -> SyncTap:
        """Create the tap with the settings of the ``--config`` file, without catalog and state.

        Raises:
            ConfigFileError: The file cannot be read.
            ConfigValidationError: The settings are invalid.
        """
        path = self.files["config"]
        self._store_settings(read_config_files([path]))
        tap = self._tap = self.tap_class(config=self.settings or {}, setup_mapper=False)
        tap.config_file = Path(path).absolute()
        tap.config_listener = self._change_settings
        return tap

    def _store_settings(self, settings: dict[str, Any]) -> None:
        """Store the settings, and redact their secrets in all later log and error messages."""
        self.settings = settings
        schema = self.tap_class._full_schema()  # noqa: SLF001  the SDK's own method
        self._redactors.append(make_redactor(settings, schema))

    def _change_settings(self, renew: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        """Change the tap's settings by ``renew``, for example to store a new refresh token.

        ``renew`` takes the current settings and returns the new ones. If they differ, write them as
        a CONTROL message, so that the platform stores them.
        """
        settings = renew(self.settings or {})
        if settings != self.settings:
            self._store_settings(settings)
            self.wire.write(control_line(settings))

    def report_error(self, error: Exception, stream: StreamId | None = None) -> None:
        """Write an ERROR trace, unless this error was reported before or the output is broken.

        ``stream`` is the stream that failed; None if the error concerns the whole command.
        """
        if not self.wire.is_broken and not any(error is reported for reported in self._reported):
            self._reported.append(error)
            with contextlib.suppress(OSError):
                self.wire.write(trace_line("ERROR", error_body(error, self.hide, stream)))

    def _report_failure(self, error: Exception) -> int:
        self.report_error(error)
        if self.wire.is_broken:
            is_of_output = error is self.wire.failure or isinstance(error, BrokenPipeError)
            cause = "" if is_of_output else f"{self.hide(str(error)).rstrip('.')}. "
            write_to_stderr(f"{cause}{self.wire.describe_failure()}\n")
        return 1

    def _report_exit(self, leave: BaseException) -> int:
        """Report the exception ``leave``, which ends the process, and return the exit code.

        After a signal, log a warning and return the negative signal number. If the tap's code has
        ended the process, write an ERROR trace.
        """
        number = self._tap.stopped_by if self._tap is not None else None
        if isinstance(leave, KeyboardInterrupt):
            number = signal.SIGINT
        if number is not None:
            if self._tap is None or not self._tap.run.is_hurried:  # else it must end at once
                self.tap_logger.warning("Stopped by %s.", signal.Signals(number).name)
            return -number
        message = f"The tap's code ended the process with {leave!r}."
        return self._report_failure(RuntimeError(message))

    @property
    def tap_logger(self) -> logging.Logger:
        """Logger with the name of the tap, such as ``tap-petstore``."""
        return logging.getLogger(self.tap_class.name)


# The commands


def _spec(job: _CommandRun) -> None:
    from tap_core.protocols.airbyte.spec import specification

    tap_class = job.tap_class
    body = specification(
        tap_class._full_schema(),  # noqa: SLF001  the SDK's own method
        documentation=tap_class.get_documentation_url(),
        changelog=tap_class.get_changelog_url(),
        consent=getattr(tap_class, "consent", None),
    )
    job.say("SPEC", "spec", body)


def _check(job: _CommandRun) -> None:
    from tap_core.http.fail_fast import fail_fast

    try:
        with fail_fast():
            job.tap().check_connection()
    except Exception as error:
        if job.wire.is_broken or job.settings is None:  # the settings could not be read
            raise
        job.tap_logger.debug("The check failed.", exc_info=True)
        answer = {"status": "FAILED", "message": redact_line(job.hide(summarize_error(error)))}
    else:
        answer = {"status": "SUCCEEDED"}
    job.say("CONNECTION_STATUS", "connectionStatus", answer)


def _discover(job: _CommandRun) -> None:
    from tap_core.protocols.airbyte.catalog import build_catalog

    tap = job.tap()
    tap.check_streams()
    job.say("CATALOG", "catalog", build_catalog(tap.streams))


def _run_read(job: _CommandRun) -> None:
    from tap_core.protocols.airbyte.catalog import parse_configured_catalog
    from tap_core.protocols.airbyte.read_command import read
    from tap_core.protocols.airbyte.state import InputState, parse_states

    catalog, state = job.files["catalog"], job.files.get("state")
    configured = parse_configured_catalog(
        read_input_file(catalog, CatalogFileError, "Catalog"), catalog
    )
    input_state = InputState()
    if state:
        input_state = parse_states(read_input_file(state, StateFileError, "State"), state)
    read(job.tap(), configured, input_state, job.wire.write, job.report_error)


_COMMANDS: Final[Mapping[str, Callable[[_CommandRun], None]]] = {
    "spec": _spec,
    "check": _check,
    "discover": _discover,
    "read": _run_read,
}
