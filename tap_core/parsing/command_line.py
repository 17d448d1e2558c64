"""Base classes of the command-line programs: typer with common help, errors and exit codes.

A command is a function with a docstring and typed parameters, registered with ``@app.command()`` of
a `typer.Typer`. It returns its exit code: 0 or None for success, 1 for a failure, or ``-n`` to end
the process by signal ``n``. An invalid command line has exit code 2. To start fast, a program
builds its commands only when one is called or listed, and imports rich only to print on a terminal.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TextIO, TypeAlias, cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command, get_command_from_info

from tap_core.exceptions import ConfigurationError
from tap_core.io.standard_streams import (
    open_closed_streams,
    report_output_errors,
    write_every_character,
)
from tap_core.limits.memory import STATE_BYTES, InputTooLargeError, read_at_most
from tap_core.redaction import redact_line, write_to_stderr

__all__ = [
    "Command",
    "Program",
    "VersionOption",
    "choose_from",
    "make_program",
    "parse_limit",
    "read_input_file",
    "reject_empty",
    "report_error",
    "run_program",
]

if TYPE_CHECKING:
    from typer.models import CommandInfo

    _Base = TyperCommand  # for the type checker: the mixin is used with two classes of typer
else:
    _Base = object


def _print_version(context: typer.Context, *, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    from importlib import metadata

    try:
        version = metadata.version("tap-core-sdk")
    except metadata.PackageNotFoundError:
        version = "[could not be detected]"
    typer.echo(f"{context.info_name} v{version}")
    raise typer.Exit


VersionOption: TypeAlias = Annotated[
    bool,
    typer.Option("--version", help="Show the version.", is_eager=True, callback=_print_version),
]
"""Command-line option ``--version``, which prints the version of the SDK."""

_TEXT_TYPES: Final = (str, bool, list[str])

_STYLES: Final = {
    "RICH_HELP": "Try [bold]'{command_path} {help_option}'[/] for help.",
    "STYLE_COMMANDS_TABLE_FIRST_COLUMN": "bold",
    "STYLE_NEGATIVE_OPTION": "bold",
    "STYLE_NEGATIVE_SWITCH": "bold",
    "STYLE_OPTION": "bold",
    "STYLE_OPTION_ENVVAR": "dim",
    "STYLE_REQUIRED_LONG": "red",
    "STYLE_SWITCH": "bold",
    "STYLE_TYPES": "",
    "STYLE_USAGE": "bold",
}
"""Values for `typer.rich_utils`, whose default colors are unreadable on white or on black."""


class _Conventions(_Base):
    """Mixin for commands and programs, with common exit codes, argument parsing and help."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command and end the process with its exit code.

        With ``standalone_mode=False`` return the exit code instead, and raise typer's errors.
        """
        is_own_process = _is_own_process(args)
        if is_own_process and standalone_mode:
            _prepare_process()
        elif not is_own_process and prog_name is None:
            prog_name = self.name  # called by a program with another name
        self.rich_markup_mode = _choose_markup_mode(sys.stderr)
        try:
            with report_output_errors() if standalone_mode else nullcontext():
                return super().main(
                    args, prog_name, complete_var, standalone_mode, windows_expand_args, **extra
                )
        except SystemExit as ended:
            if isinstance(ended.code, int) and ended.code < 0:
                _exit_by_signal(-ended.code)
            if ended.code is not None and not isinstance(ended.code, int):
                write_to_stderr(f"{ended.code}\n")  # Python would write it with its secrets
                raise SystemExit(1) from None
            raise

    def invoke(self, ctx: Any) -> Any:
        """Call the command's function and return its exit code.

        Raises:
            typer.Exit: The exit code is neither 0 nor None.
        """
        with _readable_errors(self):
            code = super().invoke(ctx)
        if code:
            raise typer.Exit(code)
        return code

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, without pydantic for parameters that are text or flags.

        typer would import pydantic to convert the values, which takes longer than the discovery of
        a small tap.
        """
        param: Any
        for param in self.get_params(ctx):
            is_ours = isinstance(param, (TyperArgument, TyperOption))
            if is_ours and param.type_descriptor.annotation in _TEXT_TYPES:
                param.get_runtime_param = _TextConversion
        with _readable_errors(self):
            return super().parse_args(ctx, args)

    def get_help_option_names(self, ctx: Any) -> list[str]:
        """Return the names of the help option in their order of declaration: ``--help``, ``-h``."""
        names = super().get_help_option_names(ctx)
        return sorted(names, key=ctx.help_option_names.index)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text: with colors and boxes (rich) to a terminal, else as plain text."""
        self.rich_markup_mode = _choose_markup_mode(sys.stdout)
        if self.rich_markup_mode is not None:
            _set_readable_styles()
        super().format_help(ctx, formatter)


def _is_own_process(args: Sequence[str] | None) -> bool:
    """Return True if the arguments are those of this process; False if other code passes them."""
    return args is None or [*args] == sys.argv[1:]


def _prepare_process() -> None:
    """Prepare the process of a program: its standard streams, and its garbage collection."""
    gc.freeze()  # the collections skip the imported objects from now on
    open_closed_streams()
    write_every_character()


class Command(_Conventions, TyperCommand):
    """Command of a program, whose usage line names each positional argument."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002  typer passes it
        """Return the parts of the usage line after the command's name, such as ``[OPTIONS]``."""
        params: list[Any] = self.params
        arguments = [param for param in params if isinstance(param, TyperArgument)]
        pieces = ["[OPTIONS]"] if len(arguments) < len(params) or not params else []
        return pieces + [param.metavar or param.name.upper() for param in arguments]


class Program(_Conventions, TyperGroup):
    """Program with commands. Its own options are valid only if no command is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the called command: its name, its object and its arguments.

        An option of the program before the command is a usage error, because it would have no
        effect.
        """
        name, command, rest = super().resolve_command(ctx, args)
        given_options = [param.opts[0] for param in self.params if _is_given(ctx, param)]
        if given_options and not ctx.resilient_parsing:
            ctx.fail(
                f"{', '.join(given_options)} before '{name}' has no effect. Pass the options of"
                f" '{name}' after it: {ctx.command_path} {name} [OPTIONS]"
            )
        return name, command, rest


def _is_given(context: Any, param: Any) -> bool:
    """Return True if an option or argument is on the command line."""
    return getattr(context.get_parameter_source(param.name), "name", "") == "COMMANDLINE"


class _TextConversion:
    """Conversion of text, lists of text and flags, in place of typer's conversion with pydantic."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ARG002  typer passes it
        """Return a parameter's value unchanged, or ``()`` for a repeatable one without a value."""
        is_repeatable = param.multiple or param.nargs == -1
        return () if value is None and is_repeatable else value


class _CommandTable(Mapping[str, TyperCommand]):
    """Mapping from command name to command, which imports and builds the commands on access."""

    def __init__(self, load: Callable[[], typer.Typer]) -> None:
        self._load = load

    @cached_property
    def _infos(self) -> dict[str, CommandInfo]:
        return {_get_command_name(info): info for info in self._load().registered_commands}

    def __getitem__(self, name: str) -> TyperCommand:
        info = self._infos[name]
        if info.cls is None or not issubclass(info.cls, Command):
            info.cls = Command
        command: Any = get_command_from_info(
            info, pretty_exceptions_short=False, rich_markup_mode=None
        )
        return cast("TyperCommand", command)

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)


def _get_command_name(info: CommandInfo) -> str:
    function = info.callback.__name__ if info.callback else ""
    return info.name or function.lower().replace("_", "-")


def _choose_markup_mode(stream: TextIO | None) -> Any:
    """Return typer's ``rich_markup_mode`` for an output stream: "rich" for a terminal, or None."""
    if stream is None or stream.closed:
        return None
    return "rich" if stream.isatty() else None


@contextmanager
def _readable_errors(command: _Conventions) -> Iterator[None]:
    """Set readable colors for a usage error that the ``with`` block raises."""
    try:
        yield
    except typer.TyperException:
        if command.rich_markup_mode is not None:
            _set_readable_styles()
        raise


def _set_readable_styles() -> None:
    """Make typer use only styles that are readable on a dark and on a light background."""
    from typer import rich_utils

    for name, value in _STYLES.items():
        setattr(rich_utils, name, value)


def choose_from(*choices: str) -> dict[str, Any]:
    """Return keyword arguments of `typer.Option` that restrict a text option to ``choices``.

    ``choices`` are lower case; the user may write any case. typer's own choices need pydantic,
    which is slow to import. The result is also valid for `typer.Argument`.
    """

    def choose(value: str | None) -> str | None:
        if value is None:
            return None
        choice = value.lower()
        if choice not in choices:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(choices)}.")
        return choice

    return {"callback": choose, "autocompletion": lambda: list(choices)}


def reject_empty(context: typer.Context, param: typer.CallbackParam, value: str) -> str:
    """Return the file path that an option has as its value; a ``callback`` of `typer.Option`.

    Raises:
        BadParameter: The option has an empty value, as from a shell variable that is not set.
    """
    if not value and _is_given(context, param):
        raise typer.BadParameter("The path of the file is empty.")
    return value


def parse_limit(context: typer.Context, text: str) -> int:
    """Parse the value of the option ``--limit``, an integer of at least 1.

    The option is declared as text, because typer needs pydantic for integers.

    Raises:
        BadParameter: The text is not an integer of at least 1.
    """
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"--limit {text!r} is not a number of at least 1.", context)
    return int(text)


def read_input_file(
    path: str, error: type[ConfigurationError], label: str, *, reads_stdin: bool = False
) -> bytes:
    """Return the content of a catalog or state file that an option names.

    Args:
        path: Path of the file.
        error: Class of the error to raise if the file cannot be read or is too large.
        label: Kind of the file for the error message, such as "Catalog".
        reads_stdin: True if the path ``-`` is standard input.
    """
    try:
        source = sys.stdin.buffer if reads_stdin and path == "-" else Path(path)
        return read_at_most(source, STATE_BYTES)
    except InputTooLargeError as reason:
        raise error(f"{label} file '{path}' cannot be read: {reason}") from None
    except OSError as reason:
        raise error(f"{label} file '{path}' cannot be read: {reason.strerror}") from None


def report_error(message: str) -> int:
    """Write an error message to standard error, with secrets redacted; return the exit code 1."""
    write_to_stderr(f"{redact_line(message)}\n")
    return 1


def make_program(
    name: str,
    callback: Callable[..., Any],
    commands: Callable[[], typer.Typer] | None = None,
    *,
    description: str,
    epilog: str = "",
    cls: type[Program] = Program,
    context: Any = None,
    needs_command: bool = False,
) -> Program:
    """Return a program with options (``callback``) and commands, built with typer.

    Args:
        name: Name of the program.
        callback: Function whose parameters are the program's options. It is called before each
            command, and also if no command is called; then ``context.invoked_subcommand`` is None.
        commands: Function that imports and returns the commands; None for a program without
            commands. It is called only if a command is called or listed.
        description: Text at the beginning of the help.
        epilog: Text at the end of the help.
        cls: Class of the program.
        context: Value that all commands get as ``obj`` of their `typer.Context`.
        needs_command: True to print the help if the program is called without arguments.
    """
    metavar = "COMMAND [ARGS]..." if needs_command else "[COMMAND [ARGS]...]"
    app = typer.Typer(
        name=name,
        cls=cls,
        help=description,
        epilog=epilog,
        invoke_without_command=not needs_command,
        no_args_is_help=needs_command,
        subcommand_metavar=metavar if commands else "",
        context_settings={
            "help_option_names": ["--help", "-h"],
            "obj": context,
        },
        rich_markup_mode=None,
    )
    app.callback()(callback)
    program: Any = get_command(app)
    program.commands = _CommandTable(commands) if commands else {}
    return cast("Program", program)


def run_program(program: Program, args: Sequence[str] | None) -> int:
    """Run a program and return its exit code.

    Args:
        program: The program.
        args: The command-line arguments; None for ``sys.argv[1:]``.

    Raises:
        SystemExit: The called command, for example a plugin, calls `sys.exit`; or the standard
            output cannot be written.
    """
    if not _is_own_process(args):
        return _run_program(program, args)
    _prepare_process()
    with report_output_errors():
        return _run_program(program, args)


def _run_program(program: Program, args: Sequence[str] | None) -> int:
    try:
        code = program.main(args, prog_name=program.name, standalone_mode=False)
    except typer.TyperException as error:
        usage_error: Any = error
        if program.rich_markup_mode is None:
            usage_error.show()
        else:
            from typer.rich_utils import rich_format_error

            rich_format_error(usage_error)
        return int(usage_error.exit_code)
    return code if isinstance(code, int) else 0


def _exit_by_signal(number: int) -> NoReturn:
    """End this process with a signal, so that its parent sees the signal and not an exit code."""
    write_to_stderr("")  # flushes it, which a signal would not
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    raise SystemExit(1)  # if the signal is delivered late
