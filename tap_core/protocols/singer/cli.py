"""The Singer command line of a tap, target or mapper: arguments in, an exit code out.

Rules of the room: the only one that knows typer; plugins are handed in and never
imported. Flags, outputs and exit codes are singer_sdk's: a fault of the configuration
is one line on standard error and exit code 1, any other exception its traceback and 1,
a wrong flag 2. A reader that has gone away is no fault of ours: exit code 1 without a
traceback. Only standard error carries logs; ``--discover``, ``--about`` and
``--version`` do no more than they need.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, BinaryIO, Final, Protocol

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption
from typer.main import get_command

from tap_core.config.loading import ConfigInput
from tap_core.exceptions import (
    BatchFileError,
    CatalogFileError,
    ConfigurationError,
    ConfigValidationError,
    InvalidRecord,
    SingerReadError,
    StateFileError,
)
from tap_core.limits.memory import STATE_BYTES, InputTooLargeError, read_at_most
from tap_core.plugin_base import CliCommand
from tap_core.protocols.singer.catalog_file import (
    CatalogStream,
    find_unknown_streams,
    parse_catalog,
)
from tap_core.state.reader import read_state

__all__ = [
    "Plugin",
    "SingerCommand",
    "TapPlugin",
    "TargetPlugin",
    "mapper_command",
    "tap_command",
    "target_command",
]


# What is handed in


class Plugin(Protocol):
    """A tap or target, as far as both commands use it."""

    name: str

    @classmethod
    def print_version(cls, print_fn: Callable[[Any], None] = ...) -> None:
        """Say the versions."""

    @classmethod
    def print_about(cls, output_format: str | None = None) -> None:
        """Say what it is."""


class TapPlugin(Plugin, Protocol):
    """A tap; its class is called with these keywords."""

    dynamic_catalog: bool
    config_file: Path | None

    def __init__(
        self,
        *,
        config: dict[str, Any],
        catalog: dict[str, Any] | None = None,
        state: dict[str, Any] | None = None,
        parse_env_config: bool = False,
        validate_config: bool = True,
        setup_mapper: bool = True,
    ) -> None: ...

    @property
    def streams(self) -> Mapping[str, CatalogStream]:
        """Its streams by name."""

    def sync_all(self) -> None:
        """Sync what is selected."""

    def run_discovery(self) -> str:
        """Print the catalog."""

    def run_connection_test(self) -> bool:
        """Sync a record of each stream."""

    def write_schemas(self) -> None:
        """Write the schema of each stream."""


class TargetPlugin(Plugin, Protocol):
    """A target, or a mapper; its class is called with these keywords."""

    config_args: tuple[str, ...]

    def __init__(
        self,
        *,
        config: dict[str, Any],
        parse_env_config: bool = False,
        validate_config: bool = True,
    ) -> None: ...

    def listen(self, source: BinaryIO) -> int:
        """Fold the messages of the input; return the exit code."""


# Flags

_FORMATS = ("text", "json", "markdown")
_TRIALS = ("all", "schema", "disabled")

_Version = Annotated[bool, typer.Option("--version", help="Display the package version.")]
_About = Annotated[bool, typer.Option("--about", help="Display package metadata and settings.")]
_Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="[text|json|markdown]",
        help="Specify output style for --about.",
        show_default=False,
    ),
]
_Config = Annotated[
    list[str],
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration file location or 'ENV' to use environment variables.",
        show_default=False,
    ),
]
_Discover = Annotated[bool, typer.Option("--discover", help="Run the tap in discovery mode.")]
_Test = Annotated[
    str,
    typer.Option(
        "--test",
        metavar="[=all|schema]",
        help="Sync a single record for each stream; with =schema only write the schemas.",
        show_default=False,
    ),
]
_Catalog = Annotated[
    str,
    typer.Option("--catalog", metavar="FILE", help="Use a Singer catalog file with the tap."),
]
_State = Annotated[
    str,
    typer.Option(
        "--state",
        metavar="FILE",
        help="Use a bookmarks file for incremental replication; of several lines the last counts.",
    ),
]
_Input = Annotated[
    str,
    typer.Option(
        "--input",
        metavar="FILE",
        help="A path to read messages from instead of from standard in.",
    ),
]


class SingerCommand(TyperCommand):
    """A command whose flags are all switches or plain texts.

    typer turns the text of every flag into its type by way of pydantic, whose import
    takes longer than a whole discovery; for these flags there is nothing to turn.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the flags as they are; help and completion stay typer's."""
        if ctx.resilient_parsing or "--help" in args:
            # click's own options cannot be shown by the click that typer carries
            self.params = [param for param in self.params if _is_ours(param)]
            return super().parse_args(ctx, args)
        found, rest, _ = self.make_parser(ctx).parse_args(args=_spelled_out(args))
        if rest:
            ctx.fail(f"Got unexpected extra arguments ({' '.join(rest)})")
        for param in self.params:
            if not _is_ours(param):
                _take_foreign(ctx, param, found)
            elif param.name is not None:
                ctx.params[param.name] = found.get(param.name, param.default)
        _check_choice(ctx, "about_format", "--format", _FORMATS)
        _check_choice(ctx, "test", "--test", _TRIALS)
        return []


def _is_ours(param: Any) -> bool:
    return isinstance(param, (TyperArgument, TyperOption))


def _take_foreign(ctx: Any, param: Any, found: Mapping[str, Any]) -> None:
    """Give an option of click that a plugin added to its command's own callback.

    Its value goes no further: the command takes no arguments that it does not know.
    """
    if param.name in found and param.callback is not None:
        param.callback(ctx, param, found[param.name])


def _spelled_out(args: Sequence[str]) -> list[str]:
    """Give ``--test`` its value: it may stand alone, or before a word that is one."""
    spelled: list[str] = []
    for arg in args:
        if spelled and spelled[-1] == "--test" and arg in _TRIALS:
            spelled[-1] = f"--test={arg}"
        else:
            spelled.append(arg)
    return ["--test=all" if arg == "--test" else arg for arg in spelled]


def _check_choice(ctx: Any, name: str, flag: str, choices: Sequence[str]) -> None:
    given = ctx.params.get(name)
    if given is None:
        return
    ctx.params[name] = str(given).lower()
    if ctx.params[name] not in choices:
        ctx.fail(f"Invalid value for '{flag}': {given!r} is not one of {', '.join(choices)}.")


def _command(
    plugin: type[Plugin], description: str, callback: Callable[..., None], epilog: str = ""
) -> CliCommand:
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(plugin.name, cls=SingerCommand, help=description, epilog=epilog)(callback)
    command: CliCommand = get_command(app)
    return command


def _logger(plugin: type[Plugin]) -> logging.Logger:
    return logging.getLogger(plugin.name)


# The commands


def tap_command(tap_class: type[TapPlugin]) -> CliCommand:
    """Make the Singer command of a tap; it is run by ``main(args=…, prog_name=…)``."""

    def invoke(
        *,
        version: _Version = False,
        about: _About = False,
        about_format: _Format = "text",
        config: _Config = [],  # noqa: B006  typer reads it, nobody changes it
        discover: _Discover = False,
        test: _Test = "disabled",
        catalog: _Catalog = "",
        state: _State = "",
    ) -> None:
        with _guarded(tap_class):
            if version or about:
                _introduce(tap_class, version=version, about_format=about_format)
            elif discover:
                _discover(tap_class, config)
            elif test != "disabled":
                _try_out(tap_class, config, test, catalog)
            else:
                _sync(tap_class, config, catalog, state)

    return _command(tap_class, "Execute the Singer tap.", invoke)


def target_command(target_class: type[TargetPlugin], epilog: str = "") -> CliCommand:
    """Make the Singer command of a target; it is run by ``main(args=…, prog_name=…)``.

    ``epilog`` stands at the end of its help.
    """
    return _listening_command(target_class, "Execute the Singer target.", epilog)


def mapper_command(mapper_class: type[TargetPlugin]) -> CliCommand:
    """Make the Singer command of a mapper; it is run by ``main(args=…, prog_name=…)``."""
    return _listening_command(mapper_class, "Execute the Singer mapper.")


def _listening_command(
    plugin: type[TargetPlugin], description: str, epilog: str = ""
) -> CliCommand:
    """Make the command of a plugin that reads messages."""

    def invoke(
        *,
        version: _Version = False,
        about: _About = False,
        about_format: _Format = "text",
        config: _Config = [],  # noqa: B006  typer reads it, nobody changes it
        file_input: _Input = "",
    ) -> None:
        with _guarded(plugin):
            if version or about:
                _introduce(plugin, version=version, about_format=about_format)
            else:
                _listen(plugin, config, file_input)

    return _command(plugin, description, invoke, epilog)


# What they do


def _introduce(plugin: type[Plugin], *, version: bool, about_format: str) -> None:
    if version:
        plugin.print_version()
    else:
        plugin.print_about(about_format)


def _discover(tap_class: type[TapPlugin], config: Sequence[str]) -> None:
    given = ConfigInput.from_cli_args(*config)
    tap = tap_class(
        config=given.config,
        parse_env_config=given.parse_env,
        validate_config=tap_class.dynamic_catalog,
        setup_mapper=False,
    )
    tap.config_file = given.file
    tap.run_discovery()


def _try_out(tap_class: type[TapPlugin], config: Sequence[str], test: str, catalog: str) -> None:
    given = ConfigInput.from_cli_args(*config)
    # singer_sdk passes no catalog here; taps without discovery cannot be tried without.
    tap = tap_class(
        config=given.config,
        catalog=parse_catalog(_text(catalog), catalog) if catalog else None,
        parse_env_config=given.parse_env,
        validate_config=True,
    )
    tap.config_file = given.file
    if test == "schema":
        tap.write_schemas()
    else:
        tap.run_connection_test()


def _sync(tap_class: type[TapPlugin], config: Sequence[str], catalog: str, state: str) -> None:
    _log_version(tap_class)
    given = ConfigInput.from_cli_args(*config)
    described = parse_catalog(_text(catalog), catalog) if catalog else None
    tap = tap_class(
        config=given.config,
        catalog=described,
        state=read_state(_text(state, StateFileError, "State"), state) if state else None,
        parse_env_config=given.parse_env,
        validate_config=True,
    )
    tap.config_file = given.file
    for sentence in find_unknown_streams(described, tap.streams) if described else ():
        _logger(tap_class).warning(sentence)
    tap.sync_all()


def _log_version(plugin: type[Plugin]) -> None:
    """Log the versions where somebody wants every detail: to look them up costs start-up time."""
    logger = _logger(plugin)
    if logger.isEnabledFor(logging.DEBUG):
        plugin.print_version(print_fn=logger.debug)


def _listen(target_class: type[TargetPlugin], config: Sequence[str], file_input: str) -> None:
    _log_version(target_class)
    given = ConfigInput.from_cli_args(*config)
    target = target_class(
        config=given.config, parse_env_config=given.parse_env, validate_config=True
    )
    target.config_args = given.args
    with _opened(file_input) as source:
        code = target.listen(source)
    if code:
        raise typer.Exit(code)


def _text(
    path: str, error: type[ConfigurationError] = CatalogFileError, what: str = "Catalog"
) -> bytes:
    """Read a file, or standard input for ``-``."""
    try:
        return read_at_most(sys.stdin.buffer if path == "-" else Path(path), STATE_BYTES)
    except InputTooLargeError as reason:
        raise error(f"{what} file '{path}' cannot be read: {reason}") from None
    except OSError as reason:
        raise error(f"{what} file '{path}' cannot be read: {reason.strerror}") from None


@contextlib.contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if not path or path == "-":
        yield sys.stdin.buffer
        return
    try:
        source = Path(path).open("rb")  # noqa: SIM115  closed below
    except OSError as reason:
        raise ConfigurationError(f"Input '{path}' cannot be read: {reason.strerror}") from None
    with source:
        yield source


# What may go wrong


@contextlib.contextmanager
def _guarded(plugin: type[Plugin]) -> Iterator[None]:
    """Turn what goes wrong into lines of the log and an exit code."""
    logging.captureWarnings(capture=True)
    sys.excepthook = _excepthook(_logger(plugin))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("once", category=DeprecationWarning)
            yield
            sys.stdout.flush()
    except ConfigValidationError as error:  # a user's fault has no traceback
        faults = error.errors or [str(error)]
        for sentence in faults:
            _logger(plugin).error(sentence)
        # All of them again: of a failed test, Meltano shows the last line alone.
        _logger(plugin).error("Config validation failed: %s", "; ".join(faults))
        raise typer.Exit(1) from None
    except ConfigurationError as error:
        _logger(plugin).error(str(error))
        raise typer.Exit(1) from None
    except BrokenPipeError:
        _forget_output()
        _logger(plugin).error("Nobody reads the output any more.")
        raise typer.Exit(1) from None
    finally:
        logging.captureWarnings(capture=False)


_FAULTS_OF_THE_INPUT: Final = (BatchFileError, InvalidRecord, SingerReadError)
"""What is wrong with the input is said in a sentence; where our code noticed it helps nobody."""


def _excepthook(
    logger: logging.Logger,
) -> Callable[[type[BaseException], BaseException, TracebackType | None], None]:
    """Make the last resort: the message and the traceback in the log's own form."""

    def log(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        else:
            summary = error.args[0] if error.args else kind.__name__
            is_input = issubclass(kind, _FAULTS_OF_THE_INPUT)
            logger.error("%s", summary, exc_info=None if is_input else (kind, error, trace))

    return log


def _forget_output() -> None:
    """Let what is still buffered for a reader that is gone go nowhere, without a word."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
