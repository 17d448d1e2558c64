"""Subcommands of `target-spark`, declared with typer.

The docstring of a function is the help text of its command. ``context.obj`` is the target class. A
command imports its modules when it runs, so that `--help` is fast. Results are printed to standard
output, and messages to standard error. Exit codes: 0 success, 1 failure, 2 wrong arguments.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

import typer

from tap_core.config.loading import NO_SETTINGS, ConfigInput
from tap_core.config.similar_names import list_names
from tap_core.exceptions import ConfigurationError
from tap_core.io.stdin import open_binary
from tap_core.io.termination_handlers import handle_termination
from tap_core.limits.memory import DOCUMENT_BYTES, InputTooLargeError, read_at_most
from tap_core.parsing.command_line import choose_from, parse_limit, reject_empty
from tap_core.protocols.airbyte.cli_args import AirbyteCommand, CatalogPath, ConfigPath, Debug
from tap_core.protocols.singer.cli import FromOption, ToOption, parse_range_options
from tap_core.redaction import make_redactor, redact, redact_line, write_to_stderr
from tap_core.redaction.log_records import format_error
from target_spark.config import settings
from target_spark.errors import TargetSparkError
from target_spark.spark.session import find_missing_package

if TYPE_CHECKING:
    from target_spark.cli.last_state import RecoveredTable
    from target_spark.loader.load_session import CommandTarget
    from target_spark.tables.commit_metadata import CommitMetadata

__all__ = [
    "Config",
    "check",
    "commands",
    "doctor",
    "engine",
    "last_state",
    "replay",
    "report",
    "run",
    "runs",
    "show",
    "spec",
    "write",
]

commands = typer.Typer()
"""The typer application with all subcommands."""

Config: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--config",
        metavar="FILE",
        help="The configuration file of the run, or ENV for variables; several may be given.",
        show_default=False,
    ),
]

_TapClass: TypeAlias = Annotated[
    str, typer.Option("--tap", metavar="CLASS", help="The tap's class, as in tap_x.tap:TapX.")
]
_RunConfig: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings, or ENV for environment variables; repeatable. Without --tap-config, those"
        " that the tap declares are the tap's, the others target-spark's.",
        show_default=False,
    ),
]
_TapConfig: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--tap-config",
        metavar="FILE",
        help="The tap's settings, or ENV; --config then has only target-spark's settings.",
        show_default=False,
    ),
]
_Catalog: TypeAlias = Annotated[
    str,
    typer.Option(
        "--catalog",
        metavar="FILE",
        help="Selected streams and properties.",
        callback=reject_empty,
    ),
]
_State: TypeAlias = Annotated[
    str,
    typer.Option(
        "--state",
        metavar="FILE",
        help="State to continue from; default: the last state in the tables.",
        callback=reject_empty,
    ),
]
_Here: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--here",
        metavar="STREAM",
        help="A stream that this process reads itself instead of Spark's workers; * for all.",
        show_default=False,
    ),
]
_Format: TypeAlias = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="text|json",
        help="Format of the result.",
        **choose_from("text", "json"),
    ),
]

_Limit: TypeAlias = Annotated[
    str, typer.Option("--limit", metavar="N", help="Show at most N runs.")
]


@commands.command()
def run(
    context: typer.Context,
    tap: _TapClass,
    config: _RunConfig = [],  # noqa: B006  never modified
    tap_config: _TapConfig = [],  # noqa: B006  never modified
    catalog: _Catalog = "",
    state: _State = "",
    here: _Here = [],  # noqa: B006  never modified
    start: FromOption = "",
    end: ToOption = "",
) -> int:
    """Read a tap and load its records, in one Spark application."""
    from target_spark.extract.cli import RunArguments, run_tap

    read_range = parse_range_options(context, start, end)
    if read_range is not None and state:
        raise typer.BadParameter(
            "--from cannot be combined with --state: a backfill keeps the state in the tables.",
            context,
        )
    arguments = RunArguments(tap, config, tap_config, catalog, state, here, read_range)
    return run_tap(context.obj, arguments)


@commands.command()
def doctor(
    context: typer.Context,
    config: Config = [],  # noqa: B006  never modified
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Check that a run with these settings would work.

    Each failed check is printed with a remedy.
    """
    from target_spark.cli.doctor import run_checks

    return run_checks(
        lambda config_input: _create_target(context.obj, config_input).config,
        config,
        as_json=as_json,
    )


@commands.command()
def engine(
    context: typer.Context,
    action: Annotated[
        str,
        typer.Argument(
            metavar="start|status|stop",
            help="What to do.",
            **choose_from("start", "status", "stop"),
        ),
    ],
    config: Config = [],  # noqa: B006  never modified
) -> int:
    """Start, show or stop a shared Spark process.

    An engine is a Spark process that keeps running in the background for later runs. Exit code 1:
    no engine is running (status), or runs use it (stop).
    """
    from target_spark.cli.engine import show_engines, start, stop

    actions = {"start": start, "status": show_engines, "stop": stop}

    def act(target: CommandTarget) -> int:
        code, lines = actions[action](settings.spark_settings(target.config))
        for line in lines:
            print(redact_line(line))  # noqa: T201  (the result)
        return code

    return _run_with_target(context, config, act)


@commands.command()
def last_state(
    context: typer.Context,
    config: Config = [],  # noqa: B006  never modified
    job: Annotated[
        str, typer.Option("--job", help="The job, if it is not that of the settings.")
    ] = "",
) -> int:
    """Print the last state committed in a job's tables.

    Exit code 1: no table contains a state of the job.
    """
    return _run_with_target(context, config, lambda target: _print_last_state(target, job))


@commands.command()
def replay(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream of the quarantine.")],
    schema: Annotated[
        str,
        typer.Option(
            "--schema",
            metavar="FILE",
            help="The schema of the records: a catalog (tap --discover), or Singer messages with a"
            " SCHEMA of the stream; - is standard input.",
        ),
    ],
    config: Config = [],  # noqa: B006  never modified
    *,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Let records replace rows with the same key; without it they stay in the"
            " quarantine, because those rows may be newer.",
        ),
    ] = False,
) -> int:
    """Load the quarantined records of a stream again."""
    return _run_with_target(
        context, config, lambda target: _replay(target, stream, schema, overwrite=overwrite)
    )


@commands.command()
def report(
    context: typer.Context,
    html: Annotated[str, typer.Option("--html", metavar="FILE", help="The file to write.")],
    config: Config = [],  # noqa: B006  never modified
    limit: _Limit = "20",
) -> int:
    """Write an HTML report of the runs and tables.

    The file also shows quarantined records and states, and needs no network.
    """
    from target_spark.cli.html_report import write_html_report
    from target_spark.cli.table_overview import open_reader

    count = parse_limit(context, limit)

    def act(target: CommandTarget) -> int:
        options = settings.load_options(target.config)
        with open_reader(target.config, options) as reader:
            write_html_report(target.config, options, reader, html, count)
        print(redact_line(html))  # noqa: T201  (the result)
        return 0

    return _run_with_target(context, config, act)


@commands.command()
def runs(
    context: typer.Context,
    config: Config = [],  # noqa: B006  never modified
    limit: _Limit = "20",
    stream: Annotated[str, typer.Option("--stream", help="Show only the runs of a stream.")] = "",
    output: _Format = "text",
) -> int:
    """List the runs that loaded the tables, newest first."""
    from target_spark.cli.table_overview import describe_runs, list_runs, to_json

    count = parse_limit(context, limit)
    return _print_overview(
        context,
        config,
        lambda complete: list_runs(complete, limit=count, stream=stream or None),
        to_json if output == "json" else describe_runs,
    )


@commands.command()
def show(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream of the table.")],
    config: Config = [],  # noqa: B006  never modified
    output: _Format = "text",
) -> int:
    """Show the table of a stream.

    The output shows the table's columns, row count, freshness, quarantined rows and last runs.
    """
    from target_spark.cli.table_overview import describe_table, show_table, to_json

    return _print_overview(
        context,
        config,
        lambda complete: show_table(complete, stream),
        to_json if output == "json" else describe_table,
    )


@commands.command(cls=AirbyteCommand)
def spec(context: typer.Context, *, debug: Debug = False) -> int:  # noqa: ARG001
    """Print the JSON Schema of the settings for Airbyte."""
    return _run_airbyte(context)


@commands.command(cls=AirbyteCommand)
def check(context: typer.Context, config: ConfigPath, *, debug: Debug = False) -> int:  # noqa: ARG001
    """Check the settings and the storage for Airbyte."""
    return _run_airbyte(context)


@commands.command(cls=AirbyteCommand)
def write(
    context: typer.Context,
    config: ConfigPath,  # noqa: ARG001
    catalog: CatalogPath,  # noqa: ARG001
    *,
    debug: Debug = False,  # noqa: ARG001
) -> int:
    """Load the messages of an Airbyte source."""
    return _run_airbyte(context)


def _print_overview(
    context: typer.Context,
    config: Sequence[str],
    find: Callable[[Mapping[str, Any]], Any],
    describe: Callable[[Mapping[str, Any], Any], str],
) -> int:
    """Run a command that reads tables and prints text, such as `runs`; return its exit code.

    The function ``find`` reads the tables. ``describe`` gets the settings and the result of
    ``find``, and returns the text to print.
    """

    def act(target: CommandTarget) -> int:
        print(describe(target.config, find(target.config)))  # noqa: T201  (the result)
        return 0

    return _run_with_target(context, config, act)


def _run_airbyte(context: typer.Context) -> int:
    from target_spark.airbyte.cli import run_destination_command

    return run_destination_command(context)


def _run_with_target(
    context: typer.Context, config: Sequence[str], act: Callable[[CommandTarget], int]
) -> int:
    """Create the target, call ``act`` with it, and return the exit code that ``act`` returns.

    ``config`` has the values of the option ``--config``. If an exception is raised, print its text
    to standard error, with secrets redacted, and return 1.
    """
    hide: Callable[[str], str] = str
    try:
        target = _create_target(context.obj, ConfigInput.from_cli_args(*config))
        hide = make_redactor(target.config)
        return act(target)
    except (ConfigurationError, TargetSparkError) as error:
        for sentence in getattr(error, "errors", None) or [str(error)]:
            _print_line(redact_line(hide(sentence)))
        if not config:
            _print_line(NO_SETTINGS)
    except PermissionError as error:
        _print_line(
            redact_line(hide(f"{error.filename} cannot be opened: {error.strerror}."))
            + " Run the command as a user with access to the tables."
        )
    except BrokenPipeError:
        raise
    except OSError as error:
        from target_spark.storage.commit_retry import first_error_line

        _print_line(
            redact_line(hide(f"A file cannot be read or written: {first_error_line(error)}"))
        )
    except Exception as error:  # noqa: BLE001  so that no message can contain a secret
        missing = find_missing_package() if isinstance(error, ImportError) else ""
        _print_line(missing or hide(format_error(error, redact)))
    return 1


def _create_target(plugin: type[CommandTarget], config_input: ConfigInput) -> CommandTarget:
    """Create the target for a command that loads no data, such as `last-state`.

    The setting ``report`` is removed. Otherwise, the target would overwrite the report file of the
    last load. Signal handlers of the target are replaced, so that the signals end the command.
    """
    config = {**config_input.config, "report": None}
    target = plugin(config=config, parse_env_config=config_input.parse_env)
    if threading.current_thread() is threading.main_thread():
        handle_termination(_end_by_signal)  # in place of that of a load, which exits with 0
    return target


def _end_by_signal(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001  Python passes it
    raise SystemExit(-number)  # the program closes Spark and ends by this signal


def _print_line(text: str) -> None:
    write_to_stderr(f"{text}\n")


# last-state


def _print_last_state(target: CommandTarget, job: str) -> int:
    from target_spark.cli.last_state import (
        UNCOVERED_ROWS,
        find_recoverable_tables,
        get_job_metadata,
    )
    from target_spark.spark.spark_provider import start_spark_on_demand

    config = target.config
    jobs = (job,) if job else (settings.get_job_name(config), *settings.former_jobs(config))
    with start_spark_on_demand(settings.spark_settings(config)) as get_spark:
        tables = find_recoverable_tables(settings.load_options(config), get_spark)
    _print_unknown_tables([each.table.name for each in tables if each.unknown])
    last = get_job_metadata(jobs, tables)
    if last is None:
        _print_line(_describe_missing_state(jobs, tables))
        return 1
    _print_line(_describe_origin(jobs, last, tables))
    if last.uncovered_since is not None:
        _print_line(UNCOVERED_ROWS)
    print(last.state)  # noqa: T201  (the result)
    return 0


def _print_unknown_tables(tables: Sequence[str]) -> None:
    if tables:
        _print_line(
            f"Unknown: {list_names(tables)} have rows but no commit metadata of target-spark."
            " No state covers them."
        )


def _describe_origin(
    jobs: Sequence[str], last: CommitMetadata, tables: Sequence[RecoveredTable]
) -> str:
    of_job = [each.table.name for each in tables if each.marker and each.marker.job in jobs]
    return (
        f"Job {jobs[0]}: the last committed state, of run {last.run}, from the tables"
        f" {list_names(of_job)}."
    )


def _describe_missing_state(jobs: Sequence[str], tables: Sequence[RecoveredTable]) -> str:
    other_jobs = sorted({each.marker.job for each in tables if each.marker is not None} - {*jobs})
    looked_at = (
        f"tables {list_names([each.table.name for each in tables])}"
        if tables
        else "there are no tables"
    )
    hint = (
        f" They belong to the jobs {list_names(other_jobs)}: name one with --job."
        if other_jobs
        else ""
    )
    return f"No table holds a state of job {jobs[0]} ({looked_at}).{hint}"


# replay


def _replay(target: CommandTarget, stream: str, schema: str, *, overwrite: bool) -> int:
    from target_spark.cli.replay import replay
    from target_spark.cli.schema_input import parse_schemas, select_one

    try:
        source = open_binary(sys.stdin) if schema == "-" else Path(schema)
        text = read_at_most(source, DOCUMENT_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        _print_line(f"The file of --schema is not UTF-8 text: {schema}")
        return 1
    except (OSError, InputTooLargeError) as error:
        reason = getattr(error, "strerror", None) or error
        _print_line(f"The file of --schema cannot be read: {schema}: {reason}")
        return 1
    schema_event = select_one(target.make_event_mapper()(parse_schemas(text)), stream)
    outcome = replay(target.config, schema_event, overwrite=overwrite)
    print(redact_line(outcome.describe()))  # noqa: T201  (the result)
    return 1 if outcome.found and outcome.unfit == outcome.found else 0
