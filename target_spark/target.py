"""The class of `target-spark`: settings, signal handling, and the load of standard input.

A run has one of three outcomes:

- complete: exit code 0;
- stopped by a signal: exit code 0. Commits in progress finish, and their states are emitted. After
  SIGINT the rows received so far are committed too. A second signal ends the process at once;
- failed: exit code 1. After an error in the input, the rows before the error are committed. After
  any other failure, no further commit is made.
"""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, TypeAlias, cast

from tap_core.about import AboutInfo
from tap_core.capabilities import CapabilitiesEnum, PluginCapabilities
from tap_core.events import Event, StreamId
from tap_core.exceptions import ConfigValidationError, InvalidInputLine, SingerSDKError
from tap_core.io.stdin import WakeupPipe, read_blocks
from tap_core.plugin_base import CliCommand, PluginBase
from tap_core.protocols.fivetran.port_option import PORT_HINT, has_port_option
from tap_core.protocols.singer.reader import SingerReader
from tap_core.redaction import make_redactor, redact_line, write_to_stderr
from tap_core.telemetry import trace_run
from tap_core.types import JsonSchema
from target_spark.config import settings
from target_spark.config.options import LoadOptions, RunInfo
from target_spark.errors import (
    AfterLoadError,
    FilesError,
    ReadingError,
    SchemaChangeError,
    StorageError,
    TargetSparkError,
    UnsupportedError,
)
from target_spark.loader.interfaces import ProtocolBinding
from target_spark.loader.lineage import LineageRun, begin_lineage
from target_spark.loader.load_session import LoadSession
from target_spark.loader.loader import Loader
from target_spark.loader.metrics import job_timer
from target_spark.loader.progress import is_terminal, show_progress
from target_spark.loader.report import COMPLETE, STOPPED, Report
from target_spark.loader.signal_handling import LoadSignals
from target_spark.loader.state_output import StateMessageWriter
from target_spark.loader.terminal_summary import suggest_faster_start, summarize_tables
from target_spark.spark.session import load_libraries
from target_spark.spark.spark_provider import SparkProvider
from target_spark.storage.commit_retry import first_error_line
from target_spark.storage.job_lock import monotonic_run_start
from target_spark.storage.spool import SpoolFolder, open_spool_folder
from target_spark.tables.runs_table import build_rows
from target_spark.tables.table import RUNS

if TYPE_CHECKING:
    from target_spark.loader.after_load import Action
    from target_spark.loader.batch_commit import BatchWriter

    _Opened: TypeAlias = tuple[Loader, SparkProvider, LoadOptions]

__all__ = ["TargetSpark"]

_BEAT_SECONDS: Final = 0.5
"""Seconds without input after which the loader still does its periodic work."""

_FAULTS_OF_THE_INPUT: Final = (
    InvalidInputLine,
    SingerSDKError,
    UnsupportedError,
    SchemaChangeError,
    FilesError,
    ReadingError,
)
"""Errors caused by the input: the rows before the error are valid and committed."""

_SELF_EXPLANATORY: Final = (*_FAULTS_OF_THE_INPUT, TargetSparkError, OSError)
"""Errors whose message is sufficient; all others are logged with their traceback."""

_MOST_ERRORS: Final = 10
"""Maximum number of errors in the outcome of a run. Each row of the table of runs repeats the
outcome."""
_COMMITTING: Final = (
    "Interrupted: the rows received so far are committed. A second signal ends the run at once."
)
_EMPTY: Final = "The input was empty. If a tap was to write it, the tap has failed: see its output."
_TYPED: Final = (
    "Singer messages are read from the terminal. To load the messages of a tap, use a pipe:"
    " tap-NAME --config tap.json | target-spark --config target.json. Ctrl-D ends the input."
)


class TargetSpark(PluginBase):
    """Target that loads Singer streams into Delta Lake, Iceberg or Parquet tables through Spark."""

    name = "target-spark"
    package_name = "tap-core-sdk"
    config_jsonschema: ClassVar[JsonSchema] = settings.SCHEMA
    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        PluginCapabilities.ABOUT,
        PluginCapabilities.STREAM_MAPS,
        PluginCapabilities.FLATTENING,
        PluginCapabilities.STRUCTURED_LOGGING,
    ]

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | None = None,
        parse_env_config: bool = False,
        validate_config: bool = True,
    ) -> None:
        """Read and validate the settings.

        Args:
            config: The settings.
            parse_env_config: True to read settings from environment variables too.
            validate_config: True to raise an error if settings are invalid; False to accept them.

        Raises:
            ConfigValidationError: Settings are invalid; the message lists all errors.
        """
        self._signals = LoadSignals()
        self._is_interrupted = False
        self._actions: tuple[Action, ...] = ()
        self._lineage: LineageRun | None = None
        try:
            super().__init__(
                config=dict(config or {}),
                parse_env_config=parse_env_config,
                validate_config=validate_config,
            )
            self.setup_mapper()
            for name, instead in settings.RENAMED_SETTINGS.items():
                if self.config.get(name) is not None:
                    self.logger.warning("Setting '%s' is not supported: %s.", name, instead)
        except ConfigValidationError as error:  # also written as a report
            report = Report()
            report.record_outcome(make_redactor(self._config)(str(error)))
            self._save_report(report)
            raise

    @classmethod
    def _get_about_info(cls) -> AboutInfo:
        return replace(
            super()._get_about_info(),
            requirement=f"{cls.package_name}[spark]",
            combinations=settings.REQUIREMENTS,
        )

    @classmethod
    def get_singer_command(cls) -> CliCommand:
        """Return the click command that loads Singer messages, with subcommands like `doctor`."""
        from tap_core.protocols.singer.cli import target_command

        hint = PORT_HINT.format(name=cls.name, role="destination")
        return target_command(cls, cls.listen, _import_commands, hint)

    @classmethod
    def get_command(cls, args: Sequence[str]) -> CliCommand:
        """Return the click command for the command line arguments ``args``.

        With the option ``--port`` it is the Fivetran gRPC server, else the Singer command line.
        """
        if has_port_option(args):
            from target_spark.fivetran.cli import destination_command

            return destination_command(cls.name, cls)
        return cls.get_singer_command()

    def setup_mapper(self) -> None:
        """Create the stream mapper if the settings contain stream maps or enable flattening."""
        if self.config.get("stream_maps") or self.config.get("flattening_enabled"):
            super().setup_mapper()

    def _faults_beyond_schema(self) -> list[str]:
        return [*super()._faults_beyond_schema(), *settings.find_faults(self.config)]

    def listen(self, source: BinaryIO) -> int:
        """Load the Singer messages in ``source``, such as standard input, until its end.

        Return the exit code: 0 on success or after a signal, 1 after an error.
        """
        if source.isatty():
            self.logger.info("%s", _TYPED)
        options = settings.load_options(self.config)
        check = None
        if options.strict:
            from target_spark.loader.strict_validation import StrictCheck

            check = StrictCheck(options)
        binding = ProtocolBinding(SingerReader(check, options.batch_limits), options)
        return 1 if self.load(source, binding) else 0

    def load(self, source: BinaryIO, binding: ProtocolBinding) -> list[BaseException]:
        """Read messages of an input protocol, such as Singer or Airbyte, and load their records.

        Args:
            source: The binary input, which is read until its end.
            binding: The reader, state format and options for the input protocol.

        Returns:
            The errors that occurred; empty on success.
        """
        self._signals.commits_on_interrupt = self.config.get("on_interrupt") != "stop"
        return self.run_load(binding, partial(self._process_events, source, binding))

    def run_load(
        self,
        binding: ProtocolBinding,
        feed: Callable[[LoadSession], None],
        *,
        retries_tasks: bool = False,
    ) -> list[BaseException]:
        """Run a load whose records, schemas and states come from the function ``feed``.

        Args:
            binding: The reader, state format and options for the input protocol, such as Singer.
            feed: A function that is called with the run's objects, such as the loader and Spark. It
                passes each record batch, schema and state to the loader as an event.
            retries_tasks: True to let a local Spark retry failed tasks. This is useful if the tasks
                read an API, which may fail temporarily.

        Returns:
            The errors that occurred, which the report of the run also contains; empty on success.
        """
        with trace_run(self.name, self.get_plugin_version) as trace:
            errors = self._run_load(binding, feed, retries_tasks=retries_tasks)
            if errors:
                trace.fail(errors[0])
        return errors

    def _run_load(
        self,
        binding: ProtocolBinding,
        feed: Callable[[LoadSession], None],
        *,
        retries_tasks: bool,
    ) -> list[BaseException]:
        report = Report(self.config_args)
        errors: list[BaseException] = []
        action_errors: list[AfterLoadError] = []
        self._actions = _parse_actions(self.config)
        with self._signals.deferred(), job_timer(errors):
            try:
                with (
                    show_progress(report, self.logger) as self._signals.clear_progress,
                    binding.open_state_writer() as state_writer,
                    self._open_run(
                        binding,
                        state_writer,
                        report,
                        errors,
                        partial(self._run_actions, report, errors, action_errors),
                        retries_tasks=retries_tasks,
                    ) as session,
                ):
                    self._load(session, feed, report, errors)
            except Exception as error:  # noqa: BLE001  every failure ends in the report
                if error not in errors:
                    errors.append(error)
            self._run_actions(report, errors, action_errors)  # if the run could not begin
        for remark in binding.decoder.iterate_warnings():
            self.logger.warning("%s", remark)
            report.add_remark(remark)
        self._report_outcome(report, errors, action_errors)
        return [*errors, *action_errors]

    # The run

    @contextlib.contextmanager
    def _open_run(
        self,
        binding: ProtocolBinding,
        state_writer: StateMessageWriter,
        report: Report,
        errors: list[BaseException],
        run_actions: Callable[[_Opened], None],
        *,
        retries_tasks: bool,
    ) -> Iterator[LoadSession]:
        """Context manager: create, yield and close the objects of a load, such as the loader.

        After the last commit and before Spark ends, the run is appended to the table of runs, and
        ``run_actions`` is called, which runs the actions of the setting ``after_load``.

        An error that the block raises is appended to ``errors``. If ``retries_tasks`` is True, a
        local Spark retries failed tasks.
        """
        job, location = settings.get_job_name(self.config), settings.get_location(self.config)
        former = settings.former_jobs(self.config)
        started = monotonic_run_start(location, (job, *former), self.initialized_at)
        run = RunInfo(job, uuid.uuid4().hex, started, former=former)
        options = binding.options
        self._record_start(report, run, options)
        with contextlib.ExitStack() as stack:
            spool = open_spool_folder(self.config.get("staging"), "uncommitted rows")
            folder = stack.enter_context(contextlib.closing(spool))
            spark_settings = settings.spark_settings(self.config, str(folder.path.absolute()))
            engine = SparkProvider(
                spark_settings.with_task_retries() if retries_tasks else spark_settings,
                None if options.dry_run else location,
                run,
                starts_on_demand=options.small_batches_without_spark,
                phases=report.phases,
            )
            self._signals.engine = stack.enter_context(contextlib.closing(engine))
            stack.callback(_record_spark, engine, report)
            new_writer = partial(_new_writer, engine, options, run, folder, self._signals.stopping)
            loader = Loader(
                options,
                engine,
                folder,
                new_writer,
                report,
                state_writer.emit,
                self._signals.stopping,
                binding.state_format,
            )
            stack.callback(lambda: run_actions((loader, engine, options)))
            if self._lineage is not None:
                stack.callback(self._lineage.record_tables, loader)
            stack.enter_context(_collecting(errors))
            stack.callback(self._record_run, loader, engine, options, run, report, errors)
            stack.callback(_add_failures, loader, errors)
            stack.enter_context(contextlib.closing(loader))
            with _collecting(errors):
                yield LoadSession(loader, engine, folder, run, stack.callback)
        self._signals.engine = None

    def _load(
        self,
        session: LoadSession,
        feed: Callable[[LoadSession], None],
        report: Report,
        errors: list[BaseException],
    ) -> None:
        """Call ``feed``, which passes the input's events to the loader, and commit the last rows.

        Errors of the input and of commits are appended to the empty list ``errors``.
        """
        loader = session.loader
        try:
            with report.phases.run("reading"):
                feed(session)
        except _FAULTS_OF_THE_INPUT as error:
            errors.append(error)
        if self._signals.stopping.is_set():
            self.logger.info("Stopping: commits in progress finish, no new commit is started.")
            loader.stop()
            return
        self._is_interrupted = self._signals.input_ended.is_set()
        try:
            if self._is_interrupted:
                self.logger.info("%s", _COMMITTING)
                loader.commit_received()
            else:
                loader.finish(whole=not errors)
        except TargetSparkError as error:
            if error not in errors:
                errors.append(error)

    def _process_events(
        self, source: BinaryIO, binding: ProtocolBinding, session: LoadSession
    ) -> None:
        decoder = binding.decoder
        map_events = self.make_event_mapper(binding.renamed)
        loader = session.loader
        wake_up = cast(WakeupPipe, self._signals.wake_up)
        is_empty = True
        for block in read_blocks(source, wake_up, _BEAT_SECONDS):
            is_empty = is_empty and (block is None or block.isspace())
            for event in map_events(decoder.feed(block) if block else ()):
                loader.process_event(event)
                del event  # frees its rows while waiting for the next block
            loader.poll()
            if self._signals.stopping.is_set() or self._signals.input_ended.is_set():
                return
        if is_empty:
            self.logger.warning("%s", _EMPTY)
        for event in map_events(decoder.close()):
            loader.process_event(event)

    def make_event_mapper(
        self, renamed: Callable[[StreamId, StreamId], None] = lambda _old, _new: None
    ) -> Callable[[Iterable[Event]], Iterator[Event]]:
        """Return a function that applies the configured stream maps and flattening to events.

        Without stream maps and flattening, the function yields the events unchanged.

        Args:
            renamed: A function that is called with the old and the new name of each stream that a
                stream map renames.
        """
        if self._mapper is None:
            return iter
        from target_spark.loader.stream_maps import StreamMapper

        return StreamMapper(self.mapper, renamed).map_events

    @property
    def has_stream_maps(self) -> bool:
        """True if the settings contain stream maps or enable flattening."""
        return self._mapper is not None

    # Signals

    def call_on_interrupt(self, leave: Callable[[], None] | None) -> None:
        """Set a function to call at the first signal to end, such as SIGINT; None removes it.

        If a signal has already arrived, the function is called at once.
        """
        self._signals.call_on_interrupt(leave)

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:
        """End the load after SIGINT, SIGTERM or SIGHUP, once the commits in progress have finished.

        A second signal ends the process at once. If there is no load, the signal has the same
        effect as in other plugins.
        """
        if not self._signals.handle(signum):
            super()._handle_termination(signum, frame)

    # The report

    def _record_start(self, report: Report, run: RunInfo, options: LoadOptions) -> None:
        """Add the job, id and start of the run to its report.

        If OpenLineage is configured and this is no dry run, also send an event for the start.
        """
        report.add_facts(job=run.job, run=run.id, started=run.started, format=options.format)
        if options.dry_run:
            report.add_facts(dry_run=True)
        else:
            self._lineage = begin_lineage(run, options.format, self.config.get("spark") or {})

    def _record_run(
        self,
        loader: Loader,
        engine: SparkProvider,
        options: LoadOptions,
        run: RunInfo,
        report: Report,
        errors: Sequence[BaseException],
    ) -> None:
        """Append the run to the table of runs, and write the HTML report if configured.

        Nothing is written if Spark was not started. A failure is logged as a warning.
        """
        if options.dry_run or not options.run_history or not engine.started:
            return
        report.record_outcome(self._describe_outcome(errors, make_redactor(self.config)))
        stopping = threading.Event()
        if any(isinstance(error, StorageError) for error in errors):
            stopping.set()  # its retries have just failed
        try:
            load_libraries()
            from target_spark.loader.runs_table_writer import append_run, find_versions

            versions = find_versions(options.format)
            rows = build_rows(report.as_dict(), loader.get_states(), versions)
            append_run(engine, options, run, rows, stopping)
        except Exception as error:  # noqa: BLE001  the run itself is not affected
            failure = f"This run is not in the table {RUNS} (setting run_history)"
            if first_error_line(error) in map(first_error_line, errors):
                error = TargetSparkError("the error that ended the run prevents this, too")
            self._warn(report, failure, error)
        if self.config.get("report_html") and not self._signals.stopping.is_set():
            self._write_page(engine, options, report)

    def _write_page(self, engine: SparkProvider, options: LoadOptions, report: Report) -> None:
        """Write the HTML report of the last runs to the path in the setting ``report_html``.

        A failure is logged as a warning.
        """
        try:
            load_libraries()
            from target_spark.cli.html_report import write_html_report
            from target_spark.cli.table_reader import TableReader

            reader = TableReader(options.format, engine.spark)
            with report.phases.run("writing the HTML report"):
                write_html_report(self.config, options, reader, self.config["report_html"])
        except Exception as error:  # noqa: BLE001  the run itself is not affected
            failure = "The HTML report (setting report_html) could not be written"
            self._warn(report, failure, error)

    def _warn(self, report: Report, failure: str, error: Exception) -> None:
        """Log a warning about a failure that does not affect the load, and add it to the report.

        The warning consists of the phrase ``failure`` and the message of ``error``.
        """
        reason = make_redactor(self.config)(first_error_line(error)).rstrip(".")
        text = f"{failure}: {reason}."
        self.logger.warning("%s", text)
        report.add_remark(text)

    def _run_actions(
        self,
        report: Report,
        errors: Sequence[BaseException],
        action_errors: list[AfterLoadError],
        opened: _Opened | None = None,
    ) -> None:
        """Run the actions of the setting ``after_load``; append their errors to ``action_errors``.

        ``errors`` are those of the load. ``opened`` has the objects of the load, such as the
        loader; None if they could not be created. A second call does nothing.
        """
        actions, self._actions = self._actions, ()
        if not actions:
            return
        from target_spark.loader.after_load import LoadedTables, run_actions

        loaded = None
        if opened is not None:
            loader, engine, options = opened
            loaded = LoadedTables(engine, options.format, loader.get_tables())
        hide = make_redactor(self.config)
        report.record_outcome(self._describe_outcome(errors, hide))
        with (
            report.phases.run("actions after the load"),
            self._signals.only_end_actions() as interrupted,
        ):
            action_errors += run_actions(actions, report, loaded, hide, interrupted)

    def _describe_outcome(self, errors: Sequence[BaseException], hide: Callable[[str], str]) -> str:
        if not errors:
            is_stopped = self._signals.stopping.is_set() or self._is_interrupted
            return STOPPED if is_stopped else COMPLETE
        sentences = list(map(str, errors[:_MOST_ERRORS]))
        unnamed = len(errors) - _MOST_ERRORS
        if unnamed > 0:
            sentences.append(f"There are {unnamed} more errors.")
        return hide(" ".join(sentences))

    def _report_outcome(
        self,
        report: Report,
        errors: Sequence[BaseException],
        action_errors: Sequence[AfterLoadError],
    ) -> None:
        """Log the errors of a run, print its summary, save its report, and call the webhook.

        ``errors`` are those of the load, ``action_errors`` those of the actions after it.
        """
        hide = make_redactor(self.config)
        for error in (*errors, *action_errors):
            self._log_error(error, hide)
        report.record_outcome(self._describe_outcome(errors, hide))
        for text in report.describe_quarantines():
            self.logger.warning("%s", hide(text))
        self._save_report(report)
        lines = report.lines()
        if is_terminal():
            further = (
                *summarize_tables(report, self.config),
                *suggest_faster_start(report, self.config),
            )
            lines += [hide(redact_line(line)) for line in further]
        if not is_terminal() or self.config.get("print_report"):
            lines.append(f"REPORT: {json.dumps(report.as_dict(), separators=(',', ':'))}")
        write_to_stderr("\n".join([*lines, ""]))
        if self._lineage is not None:
            self._lineage.end(report.as_dict())
        if self.config.get("webhook") and not self.config.get("dry_run"):
            from target_spark.loader.webhook import send_outcome

            send_outcome(self.config["webhook"], report.as_dict())

    def _log_error(self, error: BaseException, hide: Callable[[str], str]) -> None:
        """Log an error of the load, after removing secrets with the function ``hide``.

        A traceback is added only for unexpected errors, whose message alone is not sufficient.
        """
        message = hide(str(error)) or type(error).__name__
        traceback = None if isinstance(error, _SELF_EXPLANATORY) else error
        self.logger.error("%s", message, exc_info=traceback)

    def _save_report(self, report: Report) -> None:
        path = self._config.get("report")
        if path and isinstance(path, str):
            try:
                report.save(path)
            except OSError as error:
                self.logger.warning("Report '%s' cannot be written: %s", path, error.strerror)


def _import_commands() -> Any:
    """Import and return the subcommands of target-spark, such as `doctor`."""
    from target_spark.cli.commands import commands

    return commands


@contextlib.contextmanager
def _collecting(errors: list[BaseException]) -> Iterator[None]:
    """Context manager: append an exception of the block to ``errors``, and raise it again."""
    try:
        yield
    except Exception as error:
        if error not in errors:
            errors.append(error)
        raise


def _add_failures(loader: Loader, errors: list[BaseException]) -> None:
    """Append the errors of failed commits to ``errors``, unless it has an error of the same text.

    If Spark ends, the commits of several threads fail with errors of the same text.
    """
    for failure in loader.failures:
        if str(failure) not in map(str, errors):
            errors.append(failure)


def _parse_actions(config: Mapping[str, Any]) -> tuple[Action, ...]:
    if not config.get("after_load"):
        return ()
    from target_spark.loader.after_load import parse_actions

    return parse_actions(config)


def _record_spark(engine: SparkProvider, report: Report) -> None:
    if engine.application is not None:
        report.add_facts(application=engine.application, spark=engine.version)


def _new_writer(
    engine: SparkProvider,
    options: LoadOptions,
    run: RunInfo,
    folder: SpoolFolder,
    stopping: threading.Event,
) -> BatchWriter:
    """Import PySpark, and return the writer that commits batches of rows with Spark."""
    load_libraries()
    from target_spark.loader.batch_commit import BatchWriter

    return BatchWriter(engine, options, run, folder, stopping)
