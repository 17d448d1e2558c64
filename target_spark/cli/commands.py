"""Subcommands of the program `target-spark`, selected by the first argument.

Without a subcommand, Singer messages are loaded. A subcommand's modules are imported when it runs,
so that the help is fast. Standard output carries only the result, in one piece; everything else
goes to standard error. Exit codes: 0 success, 1 failure with a reason, 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tap_core.config.loading import ConfigInput
from tap_core.exceptions import ConfigurationError
from tap_core.io.stdin import open_binary
from tap_core.limits.memory import DOCUMENT_BYTES, InputTooLargeError, read_at_most
from tap_core.redaction import make_redactor, redact, redact_line, write_to_stderr
from tap_core.redaction.log_records import format_error
from target_spark.config import settings
from target_spark.errors import TargetSparkError

if TYPE_CHECKING:
    from target_spark.cli.last_state import RecoveredTable
    from target_spark.loader.load_session import CommandTarget
    from target_spark.tables.commit_metadata import CommitMetadata

__all__ = ["AIRBYTE_COMMANDS", "COMMANDS", "HELP", "RUN_COMMAND", "ProgramCommand", "subcommand"]

COMMANDS: Final = {
    "doctor": "Check that a run with these settings would work, and print remedies if not.",
    "engine": "Start, show or stop the engine, a Spark of this machine that stays between runs.",
    "last-state": "Print the last state that is committed in the tables of a job.",
    "replay": "Load the records of a stream's quarantine again.",
    "runs": "List the runs that loaded the tables, newest first.",
    "show": "Show the table of a stream: columns, rows, freshness, quarantine and last runs.",
}
"""The subcommands and their descriptions."""

AIRBYTE_COMMANDS: Final = {
    "spec": "Print the settings, in the Airbyte protocol.",
    "check": "Check the settings, in the Airbyte protocol.",
    "write": "Load the messages of an Airbyte source.",
}
"""The subcommands of the Airbyte protocol."""

RUN_COMMAND: Final = {"run": "Read a tap and load its records, in one Spark application."}
"""The subcommand that runs a tap in the same process."""

_SERVES: Final = "Run as a Fivetran destination server."

HELP: Final = "Commands: " + " ".join(
    f"'target-spark {word}': {does[0].lower()}{does[1:]}"
    for word, does in {**RUN_COMMAND, **COMMANDS, **AIRBYTE_COMMANDS, "--port N": _SERVES}.items()
)
"""The summary of all subcommands in the help of target-spark."""

_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class ProgramCommand:
    """A command of the program, which can be used in place of a click command.

    Attributes:
        name: The name of the program.
        run: A function that runs the command. It gets the arguments and the program's name, and
            returns the exit code.
    """

    name: str
    run: Callable[[list[str], str], int]

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        **extra: Any,
    ) -> int:
        """Run the command and return its exit code.

        In click's standalone mode (the default) the process exits with this code instead.

        Args:
            args: The arguments, beginning with the name of the command; None for the arguments of
                this process.
            prog_name: The program's name in messages; None for ``name``.
            **extra: Only ``standalone_mode`` has an effect: False to return the exit code, True to
                exit.
        """
        arguments = list(sys.argv[1:] if args is None else args)[1:]
        code = self.run(arguments, prog_name or self.name)
        if extra.get("standalone_mode", True):
            sys.exit(code)
        return code


def subcommand(plugin: type[CommandTarget], word: str) -> ProgramCommand:
    """Return the command that runs a subcommand, such as ``doctor`` or ``last-state``."""
    return ProgramCommand(plugin.name, partial(_run, plugin, word))


def _run(plugin: type[CommandTarget], word: str, arguments: list[str], program: str) -> int:
    parsed = _parser(word, program).parse_args(arguments)
    if word == "doctor":
        from target_spark.cli.doctor import run_checks

        return run_checks(
            lambda config_input: _create_target(plugin, config_input).config,
            parsed.config,
            as_json=parsed.json,
        )
    hide: Callable[[str], str] = str
    try:
        target = _create_target(plugin, ConfigInput.from_cli_args(*parsed.config))
        hide = make_redactor(target.config)
        runs = {
            "engine": _engine,
            "last-state": _last_state,
            "replay": _replay,
            "runs": _runs,
            "show": _show,
        }
        return runs[word](target, parsed)
    except (ConfigurationError, TargetSparkError) as error:
        for sentence in getattr(error, "errors", None) or [str(error)]:
            _print_line(redact_line(hide(sentence)))
    except Exception as error:  # noqa: BLE001  so that no message can contain a secret
        _print_line(hide(format_error(error, redact)))
    return 1


def _create_target(plugin: type[CommandTarget], config_input: ConfigInput) -> CommandTarget:
    """Create the target without its setting ``report``.

    So the report file of the last run is not overwritten.
    """
    config = {**config_input.config, "report": None}
    return plugin(config=config, parse_env_config=config_input.parse_env)


def _parser(word: str, program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{program} {word}", description=COMMANDS[word])
    parser.add_argument(
        "--config",
        metavar="FILE",
        action="append",
        default=[],
        help="the configuration file of the run, or ENV for variables; several may be given",
    )
    if word == "doctor":
        parser.add_argument("--json", action="store_true", help="print the result as JSON")
    elif word == "engine":
        parser.add_argument("action", choices=["start", "status", "stop"], help="what to do")
        parser.epilog = "Exit code 1: no engine is running (status), or runs use it (stop)."
    elif word == "last-state":
        parser.add_argument("--job", help="the job, if it is not that of the settings")
        parser.epilog = "Exit code 1: no table holds a state of the job."
    elif word in {"runs", "show"}:
        _add_overview_arguments(parser, word)
    else:
        parser.add_argument("stream", help="the stream of the quarantine")
        parser.add_argument(
            "--schema",
            metavar="FILE",
            required=True,
            help="the schema of the records: a catalog (tap --discover), or Singer"
            " messages with a SCHEMA of the stream; - is standard input",
        )
        parser.add_argument(
            "--overwrite",
            action="store_true",
            help="let records replace rows with the same key; without it they stay in the"
            " quarantine, because those rows may be newer",
        )
    return parser


def _add_overview_arguments(parser: argparse.ArgumentParser, word: str) -> None:
    if word == "show":
        parser.add_argument("stream", help="the stream of the table")
    else:
        parser.add_argument("--limit", metavar="N", type=int, default=20, help="show N runs (20)")
        parser.add_argument("--stream", help="show only this stream")
    parser.add_argument("--format", choices=["json", "text"], default="text", help="of the result")


def _print_line(text: str) -> None:
    write_to_stderr(f"{text}\n")


# engine


def _engine(plugin: CommandTarget, arguments: argparse.Namespace) -> int:
    from target_spark.cli.engine import show_engines, start, stop

    actions = {"start": start, "status": show_engines, "stop": stop}
    code, lines = actions[arguments.action](settings.spark_settings(plugin.config))
    for line in lines:
        print(redact_line(line))  # noqa: T201  (the result)
    return code


# last-state


def _last_state(plugin: CommandTarget, arguments: argparse.Namespace) -> int:
    from target_spark.cli.last_state import (
        UNCOVERED_ROWS,
        find_recoverable_tables,
        get_job_metadata,
    )
    from target_spark.spark.engine import start_spark

    config = plugin.config
    jobs = (
        (arguments.job,)
        if arguments.job
        else (settings.get_job_name(config), *settings.former_jobs(config))
    )
    sessions: list[Any] = []

    def spark() -> Any:
        if not sessions:
            sessions.append(start_spark(settings.spark_settings(config)))
        return sessions[0].spark()

    try:
        tables = find_recoverable_tables(settings.load_options(config), spark)
    finally:
        for session in sessions:
            session.stop()
    _print_unknown([each.table for each in tables if each.unknown])
    last = get_job_metadata(jobs, tables)
    if last is None or last.state is None:
        _print_line(_nothing_found(jobs, tables))
        return 1
    _print_line(_origin(jobs, last, tables))
    if last.uncovered_since is not None:
        _print_line(UNCOVERED_ROWS)
    print(last.state)  # noqa: T201  (the result)
    return 0


def _print_unknown(tables: Sequence[str]) -> None:
    if tables:
        _print_line(
            f"Unknown: {_some(tables)} have rows but no commit metadata of target-spark."
            " No state covers them."
        )


def _origin(jobs: Sequence[str], last: CommitMetadata, tables: Sequence[RecoveredTable]) -> str:
    of_job = [each.table for each in tables if each.marker and each.marker.job in jobs]
    return (
        f"Job {jobs[0]}: the last committed state, of run {last.run}, from {len(of_job)} tables"
        f" ({_some(of_job)})."
    )


def _nothing_found(jobs: Sequence[str], tables: Sequence[RecoveredTable]) -> str:
    others = sorted({each.marker.job for each in tables if each.marker is not None} - {*jobs})
    looked_at = (
        f"tables {_some([each.table for each in tables])}" if tables else "there are no tables"
    )
    hint = f" They belong to the jobs {_some(others)}: name one with --job." if others else ""
    return f"No table holds a state of job {jobs[0]} ({looked_at}).{hint}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


# runs, show


def _runs(plugin: CommandTarget, arguments: argparse.Namespace) -> int:
    from target_spark.cli.table_overview import describe_runs, list_runs, to_json

    config = plugin.config
    found = list_runs(config, limit=max(1, arguments.limit), stream=arguments.stream)
    lines = [to_json(config, found)] if arguments.format == "json" else describe_runs(config, found)
    print("\n".join(lines))  # noqa: T201  (the result)
    return 0


def _show(plugin: CommandTarget, arguments: argparse.Namespace) -> int:
    from target_spark.cli.table_overview import describe_table, show_table, to_json

    config = plugin.config
    found = show_table(config, arguments.stream)
    is_json = arguments.format == "json"
    lines = [to_json(config, found)] if is_json else describe_table(config, found)
    print("\n".join(lines))  # noqa: T201  (the result)
    return 0


# replay


def _replay(plugin: CommandTarget, arguments: argparse.Namespace) -> int:
    from target_spark.cli.replay import replay
    from target_spark.cli.schema_input import parse_schemas, select_one

    try:
        source = open_binary(sys.stdin) if arguments.schema == "-" else Path(arguments.schema)
        text = read_at_most(source, DOCUMENT_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError, InputTooLargeError) as error:
        _print_line(f"The schema cannot be read: {error}")
        return 1
    described = select_one(plugin.make_event_mapper()(parse_schemas(text)), arguments.stream)
    outcome = replay(plugin.config, described, overwrite=arguments.overwrite)
    print(redact_line(outcome.describe()))  # noqa: T201  (the result)
    return 1 if outcome.found and outcome.unfit == outcome.found else 0
