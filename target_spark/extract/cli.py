"""The command `target-spark run`, which runs a tap and loads its records in one Spark application.

The tap is synced in this process, and Spark workers read the partitions of its streams if possible.
The records are loaded in the same way as the messages of a pipe. A run continues from the last
state stored in the tables, so the same command can be repeated after any failure.
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tap_core.config.loading import ConfigInput
from tap_core.config.similar_names import suggest
from tap_core.events import Checkpoint, SchemaEvent, StreamId
from tap_core.exceptions import ConfigurationError, ConfigValidationError
from tap_core.http.rate_limit import use_shared_counters
from tap_core.protocols.error_classification import is_known_error
from tap_core.protocols.resume import split_bookmarks
from tap_core.protocols.singer.cli import read_catalog, read_saved_state
from tap_core.protocols.singer.reader import SingerReader
from tap_core.protocols.singer.writer import encode_body
from tap_core.redaction import make_redactor, redact, redact_line, write_to_stderr
from tap_core.redaction.log_records import format_error
from tap_core.sync.backfill import KeptStateWriter, apply_range
from tap_core.sync.plan import get_schemas
from target_spark.config import settings
from target_spark.config.options import WriteMode
from target_spark.errors import ReadingError, TargetSparkError, UnsupportedError
from target_spark.extract.rate_limit_server import RateLimitServer
from target_spark.extract.tap_factory import TapSpec, import_tap_class
from target_spark.loader.interfaces import ProtocolBinding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tap_core.events import Event
    from tap_core.state.backfill_range import ReadRange
    from tap_core.sync.interfaces import SyncStream
    from tap_core.tap_base import Tap
    from target_spark.config.options import LoadOptions
    from target_spark.extract.spark_distributor import SparkDistributor
    from target_spark.loader.load_session import CommandTarget, LoadSession
    from target_spark.loader.loader import Loader

__all__ = ["RunArguments", "run_tap"]

_POLL_SECONDS: Final = 0.5
"""Seconds between two calls of `Loader.poll` while the tap sends no events."""


@dataclass(frozen=True, slots=True)
class RunArguments:
    """Command line arguments of `target-spark run`. Arguments that were not passed are empty.

    Attributes:
        tap: The tap's class, such as ``tap_x.tap:TapX``.
        config: Paths of files with the target's settings, or ``ENV`` for environment variables.
        tap_config: Paths of files with the tap's settings, or ``ENV``. If empty, ``config`` also
            contains the tap's settings.
        catalog: The path of the catalog file.
        state: The path of the state file.
        here: The streams that this process reads instead of Spark workers; ``*`` for all.
        read_range: The range of a backfill; None to continue from the state.
    """

    tap: str
    config: Sequence[str]
    tap_config: Sequence[str]
    catalog: str
    state: str
    here: Sequence[str]
    read_range: ReadRange | None = None


def run_tap(plugin: type[CommandTarget], arguments: RunArguments) -> int:
    """Run a tap in this process, and load its records into tables.

    Args:
        plugin: The target class that loads the records.
        arguments: The command line arguments of `target-spark run`.

    Returns:
        The exit code: 0 on success, 1 after an error, which is printed to standard error.
    """
    redactors: list[Callable[[str], str]] = []
    try:
        return _load_tap(plugin, arguments, redactors)
    except (ConfigurationError, TargetSparkError) as error:
        sentences = getattr(error, "errors", None) or [str(error)]
        return _print_errors(map(redact_line, sentences), redactors)
    except Exception as error:  # noqa: BLE001  an unredacted text could hold a secret
        return _print_errors([format_error(error, redact)], redactors)


def _load_tap(
    plugin: type[CommandTarget],
    arguments: RunArguments,
    redactors: list[Callable[[str], str]],
) -> int:
    """Run the tap and load its records into tables. Return the exit code: 0, or 1 after an error.

    Functions that redact secrets in a text are added to ``redactors`` as soon as the settings are
    known, so that the caller can redact an error of any later step.
    """
    tap_class = import_tap_class(arguments.tap)
    config_input = ConfigInput.from_cli_args(*arguments.config)
    tap_input = ConfigInput.from_cli_args(*arguments.tap_config) if arguments.tap_config else None
    redactors += [
        make_redactor(config_input.config),
        make_redactor(tap_input.config if tap_input else {}),
    ]
    target_config, tap_config = (
        (config_input.config, tap_input.config)
        if tap_input
        else _split_settings(config_input.config, tap_class, plugin)
    )
    catalog, state = read_catalog(arguments.catalog), read_saved_state(arguments.state)
    with _naming_tap_settings("--tap-config" if tap_input else "--config"):
        tap = tap_class(
            config=tap_config,
            catalog=catalog,
            parse_env_config=(tap_input or config_input).parse_env,
        )
    redactors.append(make_redactor(tap.config, tap_class._full_schema()))  # noqa: SLF001
    _check_stream_names(tap, arguments.here)
    tap.config_file = tap_input.file if tap_input else None
    target = plugin(config=target_config, parse_env_config=config_input.parse_env)
    target.config_args = config_input.args
    source = TapSpec(
        uuid.uuid4().hex, arguments.tap, dict(tap.config), catalog, read_range=arguments.read_range
    )
    options = settings.load_options(target.config)
    if options.strict:
        raise UnsupportedError(
            "strict checks the messages of standard input, and `run` reads no standard input:"
            " set strict to false, or pipe the tap into target-spark."
        )
    if arguments.read_range is not None:
        apply_range(tap, arguments.read_range)
        _refuse_overwrites(tap, target, options)
    tap_sync = _TapSync(target, tap, source, options, arguments.here, state)
    faults = target.run_load(ProtocolBinding(SingerReader(), options), tap_sync, retries_tasks=True)
    return 1 if faults else 0


@contextmanager
def _naming_tap_settings(option: str) -> Iterator[None]:
    """Context manager that names ``option``, which passes the tap's settings, in errors about them.

    Raises:
        ConfigurationError: The block raised a `ConfigValidationError`.
    """
    try:
        yield
    except ConfigValidationError as error:
        raise ConfigurationError(
            f"The settings of the tap, which {option} passes, are not valid:"
            f" {'; '.join(error.errors or [str(error)])}."
        ) from error


class _TapSync:
    """Callable that syncs a tap in this process and passes its records to the loader.

    `target-spark run` passes it to the target, which calls it once to produce the load's input.
    """

    def __init__(
        self,
        target: CommandTarget,
        tap: Tap,
        source: TapSpec,
        options: LoadOptions,
        here: Sequence[str],
        state: Mapping[str, Any] | None,
    ) -> None:
        self._target = target
        self._tap = tap
        self._source = source
        self._options = options
        self._here = here
        self._state = state

    def __call__(self, session: LoadSession) -> None:
        """Sync all selected streams of the tap, and pass their records to the loader.

        The sync starts from the state that the user passed, or else from the last state that is
        stored in the target's tables.

        Raises:
            ReadingError: The tap failed.
            TargetSparkError: The loader failed.
        """
        session.engine.begin()
        tap, target = self._tap, self._target
        self._start_rate_limit_server(session)
        if self._source.read_range is None:
            self._restore_state(session)
        output = _LoaderOutput(
            session.loader, target.make_event_mapper(), self._make_distributor(session)
        )
        tap.set_protocol_writer(output)
        if self._source.read_range is not None:
            tap.protocol_writer = KeptStateWriter(output, self._find_last_state(session))
        try:
            target.call_on_interrupt(lambda: tap.run.stop(_end_sync))
            with output.polling():
                tap.sync_all()
        except SystemExit as error:
            if error.code not in {None, 0}:  # `_end_sync` ends the sync with 0 after a signal
                reason = RuntimeError(f"it called sys.exit({error.code!r})")
                raise self._log_and_redact(reason) from error
        except TargetSparkError:
            raise
        except Exception as error:
            if error in session.loader.failures:  # not of the tap
                raise
            raise self._log_and_redact(error) from error
        finally:
            target.call_on_interrupt(None)

    def _start_rate_limit_server(self, session: LoadSession) -> None:
        """Start the server that applies the tap's rate limits to the driver and all Spark workers.

        With Spark Connect it is not started, because the workers cannot reach this process.
        """
        server = RateLimitServer.of(session.engine.spark())
        if server is not None:
            server.open()
            session.at_end(server.close)
            self._source = replace(self._source, permits=server.address)
            use_shared_counters(self._tap, server.address.counters())

    def _log_and_redact(self, error: Exception) -> ReadingError:
        """Log an error of the tap. Return a `ReadingError` with its text, with secrets redacted."""
        hide = make_redactor(self._tap.config, self._tap._full_schema())  # noqa: SLF001
        level = logging.DEBUG if is_known_error(error) else logging.ERROR
        self._tap.logger.log(level, "The tap failed.", exc_info=error)
        return ReadingError(hide(f"The tap failed: {type(error).__name__}: {error}"))

    def _restore_state(self, session: LoadSession) -> None:
        """Load into the tap the state that the user passed, or else the last state in the tables.

        A state that is stored in one table has the bookmarks of all streams. The bookmark of a
        stream whose own table does not exist is ignored, because the table was removed or renamed,
        and its older rows are missing.
        """
        overwrites = _make_overwrite_check(self._target, self._options)
        if self._state is not None:
            _load_state(self._tap, dict(self._state), overwrites)
            return
        last_state = self._find_last_state(session)
        if last_state is None:
            self._tap.logger.info(
                "The tables have no state of %s: everything is read.", session.run.job
            )
            self._tap.load_state({})
            return
        state: dict[str, Any] = json.loads(last_state)
        self._tap.logger.info("The run continues from the last state in the tables.")
        names = (state.get("bookmarks") or {}).keys()
        missing = self._find_missing_tables(session.engine.spark(), names)
        for name, table in missing.items():
            self._tap.logger.warning(
                "Stream '%s': its table %s does not exist, so all its records are read.",
                name,
                table,
            )
        _load_state(self._tap, state, overwrites, missing)

    def _find_missing_tables(
        self, spark: SparkSession, bookmarks: Collection[str]
    ) -> dict[str, str]:
        """Return the names of the tables that do not exist, by stream name.

        Only selected streams with a bookmark and selected child streams are checked. A child stream
        needs no bookmark: its parent's bookmark makes it skip the children of older parent records.
        """
        from target_spark.writers import get_writer

        writer = get_writer(self._options.format)
        missing: dict[str, str] = {}
        streams = self._tap.streams.values()
        children = {child.name for stream in streams for child in stream.child_streams}
        for stream in streams:
            if stream.selected and (stream.name in bookmarks or stream.name in children):
                for table in map(self._options.table, _get_outputs(stream, self._target)):
                    if writer.get_column_types(spark, table) is None:
                        missing[stream.name] = table.name
        return missing

    def _find_last_state(self, session: LoadSession) -> bytes | None:
        """Return the last state of this job in the target's tables, as JSON; None if there is none.

        Log a warning if an interrupted run has committed rows after the state.
        """
        from target_spark.cli.last_state import (
            UNCOVERED_ROWS,
            find_recoverable_tables,
            get_expected_metadata,
            get_job_metadata,
        )

        tables = find_recoverable_tables(self._options, session.engine.spark)
        # The first commit to a table fails if it is restored, removed or loaded meanwhile.
        session.loader.expect_metadata(get_expected_metadata(tables))
        marker = get_job_metadata(session.run.jobs, tables)
        if marker is None or marker.state is None:
            return None
        if marker.uncovered_since is not None:
            self._tap.logger.warning(UNCOVERED_ROWS)
        return marker.state.encode()

    def _make_distributor(self, session: LoadSession) -> SparkDistributor | None:
        """Return the object that distributes the reading of the tap's streams to Spark workers.

        Return None, and log the reason, if this process must read all partitions.
        """
        from target_spark.extract.spark_distributor import SparkDistributor
        from target_spark.storage.staging_area import StagingArea

        if self._target.has_stream_maps:
            reason = "the target applies stream_maps and flattening in this process"
        elif self._target.config.get("remote"):
            reason = "the workers of a Spark Connect server cannot run this application's code"
        else:
            reason = None
        if reason is not None:
            self._tap.logger.info("The tap is read by this process: %s.", reason)
            return None
        width = self._tap.config.get("max_parallel_partitions")
        distributor = SparkDistributor(
            self._source,
            self._tap.streams,
            session.engine,
            StagingArea(session.folder, self._options.staging, session.run),
            session.loader.reserve,
            here=self._here,
            width=width if isinstance(width, int) and width > 0 else None,
        )
        session.at_end(distributor.close)
        return distributor


class _LoaderOutput:
    """Output of the tap, which passes the tap's schemas, records and states to the loader.

    After each event, and twice a second while the tap sends none, `Loader.poll` is called. It emits
    states that are due, and commits batches that have reached their maximum age.
    """

    def __init__(
        self,
        loader: Loader,
        map_events: Callable[[Iterable[Event]], Iterator[Event]],
        distributor: SparkDistributor | None,
    ) -> None:
        self.encode: Callable[[Any], bytes] = encode_body
        self.distributor = distributor
        self._loader = loader
        self._map_events = map_events
        self._lock = threading.RLock()

    def emit(self, event: Event) -> None:
        """Apply the target's stream maps to an event, and pass the results to the loader.

        An event is, for example, a schema, a chunk of records or a state.
        """
        with self._lock:
            for mapped in self._map_events([_drop_namespace(event)]):
                self._loader.process_event(mapped)
            self._loader.poll()

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Context manager that calls `Loader.poll` twice a second in a thread during the block.

        So batches that reach their maximum age are committed even while the tap sends no records.
        """
        ended = threading.Event()
        thread = threading.Thread(
            target=self._poll_until, args=(ended,), name="poll-loader", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _poll_until(self, ended: threading.Event) -> None:
        while not ended.wait(_POLL_SECONDS):
            with suppress(Exception), self._lock:  # the next event raises the error again
                self._loader.poll()


def _make_overwrite_check(
    target: CommandTarget, options: LoadOptions
) -> Callable[[SyncStream, Any], bool]:
    """Return a function that returns True for a tap's stream whose table this run overwrites.

    The function has two arguments: the stream, and the stream's state, which it ignores.
    """

    def overwrites(stream: SyncStream, _state: Any) -> bool:
        names = _get_outputs(stream, target)
        return any(options.mode(name, keyed=True) is WriteMode.OVERWRITE for name in names)

    return overwrites


def _get_outputs(stream: SyncStream, target: CommandTarget) -> set[StreamId]:
    """Return the streams that the target's stream maps create from a stream of the tap."""
    events = target.make_event_mapper()(map(_drop_namespace, get_schemas(stream)))
    return {event.stream for event in events if isinstance(event, SchemaEvent)}


def _drop_namespace(event: Event) -> Event:
    """Return an event without the namespace of its stream, as in Singer's messages.

    So `target-spark run` loads a stream into the same table as a pipe from the tap to the target.
    """
    if isinstance(event, Checkpoint) or event.stream.namespace is None:
        return event
    return replace(event, stream=StreamId(event.stream.name))


def _load_state(
    tap: Tap,
    state: dict[str, Any],
    overwrites: Callable[[SyncStream, Any], bool],
    missing: Collection[str] = (),
) -> None:
    """Load a state into the tap, without bookmarks of streams that must be read from the start.

    These are the streams whose tables are overwritten or do not exist. With a bookmark, the tap
    would send only new rows, and the tables would lack all older rows.

    ``overwrites`` is a function that returns True for a stream whose table is overwritten, and
    ``missing`` has the names of the streams whose tables do not exist.
    """
    bookmarks, streams = state.get("bookmarks"), tap.streams
    if isinstance(bookmarks, dict):
        kept, previous = split_bookmarks(bookmarks, streams, overwrites, missing)
        for name, sent in previous.items():
            streams[name].previously_sent_state = sent
        tap.load_state({**state, "bookmarks": kept})
    else:
        tap.load_state(state)
    tap.document.input_state = state


def _refuse_overwrites(tap: Tap, target: CommandTarget, options: LoadOptions) -> None:
    """Raise `UnsupportedError` if a selected stream of a backfill has the write mode overwrite.

    A backfill reads only a range of the stream, so it must not replace the whole table.
    """
    overwrites = _make_overwrite_check(target, options)
    for stream in tap.streams.values():
        if stream.selected and overwrites(stream, None):
            raise UnsupportedError(
                f"Stream {stream.name} is written by overwrite, and a backfill would replace its"
                " table by the rows of the range: deselect the stream, or set its write_mode to"
                " append or upsert."
            )


def _end_sync() -> None:
    """Raise SystemExit to end the sync of the tap after a signal, as if it had succeeded."""
    raise SystemExit(0)


def _check_stream_names(tap: Tap, here: Sequence[str]) -> None:
    """Check that the option ``--here`` names only streams of the tap, or ``*`` for all streams.

    The option lists the streams that this process reads instead of Spark's workers.

    Raises:
        UnsupportedError: The tap has no stream of this name.
    """
    for name in here:
        if name != "*" and name not in tap.streams:
            raise UnsupportedError(
                f"--here names {name!r}, which is no stream of the tap."
                f"{suggest(name, tap.streams)} Its streams: {', '.join(tap.streams)}."
            )


def _split_settings(
    config: Mapping[str, Any], tap_class: type[Tap], plugin: type[CommandTarget]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the settings in one file into the target's settings and the tap's settings.

    Return a tuple of two dictionaries. Settings that the tap does not declare belong to the target.

    Raises:
        ConfigurationError: The target and the tap both declare a setting in the file.
    """
    tap_names = frozenset(tap_class._full_schema()["properties"])  # noqa: SLF001
    target_names = frozenset(plugin._full_schema()["properties"])  # noqa: SLF001
    shared = sorted(tap_names & target_names & config.keys())
    if shared:
        raise ConfigurationError(
            f"{', '.join(shared)} in --config is a setting of both the target and the tap: pass"
            " the tap's settings in a separate file with --tap-config."
        )
    tap_settings = {name: value for name, value in config.items() if name in tap_names}
    return {name: value for name, value in config.items() if name not in tap_names}, tap_settings


def _print_errors(sentences: Iterable[str], redactors: Sequence[Callable[[str], str]]) -> int:
    """Write sentences to standard error, redacted by all ``redactors``; return the exit code 1."""
    for sentence in sentences:
        text = sentence
        for hide in redactors:
            text = hide(text)
        write_to_stderr(f"{text}\n")
    return 1
