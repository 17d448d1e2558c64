"""The Singer command line of a tap, target or mapper.

This is the only module that imports typer; plugin classes are passed in, never imported. Flags,
output and exit codes are those of singer_sdk: a known error (settings, credentials, an unavailable
source) is one line on standard error and exit code 1, any other exception its traceback and exit
code 1, an invalid flag exit code 2. The traceback of a known error is logged at DEBUG level. If the
reader of the output has closed the pipe, the exit code is 1. Logs go to standard error only.
``--discover``, ``--about`` and ``--version`` do only the work that they need.
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
from typing import Annotated, Any, BinaryIO, TypeAlias, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption
from typer.main import get_command

from tap_core.config.loading import ConfigInput
from tap_core.exceptions import (
    CatalogFileError,
    ConfigurationError,
    ConfigValidationError,
    StateFileError,
)
from tap_core.limits.memory import STATE_BYTES, InputTooLargeError, read_at_most
from tap_core.plugin_base import CliCommand, PluginBase
from tap_core.protocols.error_classification import is_known_error, summarize_error
from tap_core.protocols.singer.catalog_file import (
    find_unknown_streams,
    parse_catalog,
)
from tap_core.state.reader import read_state
from tap_core.sync.interfaces import SyncTap

__all__ = [
    "SingerCommand",
    "mapper_command",
    "tap_command",
    "target_command",
]


_Listener = TypeVar("_Listener", bound=PluginBase)
"""A target or mapper."""

_PluginClass: TypeAlias = type[SyncTap] | type[PluginBase]


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
    """Command whose options are all flags or plain strings, so that parsing needs no pydantic.

    typer would import pydantic to convert the values, which takes longer than a whole discovery.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options without type conversion. Help and completion are left to typer."""
        if ctx.resilient_parsing or "--help" in args:
            # the click that typer bundles cannot print options of the click package
            self.params = [param for param in self.params if _is_ours(param)]
            return super().parse_args(ctx, args)
        found, rest, _ = self.make_parser(ctx).parse_args(args=_normalize_test_option(args))
        if rest:
            ctx.fail(f"Got unexpected extra arguments ({' '.join(rest)})")
        for param in self.params:
            if not _is_ours(param):
                _call_option_callback(ctx, param, found)
            elif param.name is not None:
                ctx.params[param.name] = found.get(param.name, param.default)
        _check_choice(ctx, "about_format", "--format", _FORMATS)
        _check_choice(ctx, "test", "--test", _TRIALS)
        return []


def _is_ours(param: Any) -> bool:
    return isinstance(param, (TyperArgument, TyperOption))


def _call_option_callback(ctx: Any, param: Any, found: Mapping[str, Any]) -> None:
    """Call the callback of a click option that a plugin's developer has added to the command.

    The command's function has no parameter for such an option, so the value is not passed to it.
    """
    if param.name in found and param.callback is not None:
        param.callback(ctx, param, found[param.name])


def _normalize_test_option(args: Sequence[str]) -> list[str]:
    """Return the command-line arguments with the option ``--test`` in the form ``--test=VALUE``.

    ``--test VALUE`` becomes ``--test=VALUE``. ``--test`` without a value becomes ``--test=all``.
    """
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
    plugin: _PluginClass, description: str, callback: Callable[..., None], epilog: str = ""
) -> CliCommand:
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(plugin.name, cls=SingerCommand, help=description, epilog=epilog)(callback)
    command: CliCommand = get_command(app)
    return command


def _logger(plugin: _PluginClass) -> logging.Logger:
    return logging.getLogger(plugin.name)


# The commands


def tap_command(tap_class: type[SyncTap]) -> CliCommand:
    """Return the Singer command line of a tap. Call its ``main()`` to run it."""

    def invoke(
        *,
        version: _Version = False,
        about: _About = False,
        about_format: _Format = "text",
        config: _Config = [],  # noqa: B006  never modified
        discover: _Discover = False,
        test: _Test = "disabled",
        catalog: _Catalog = "",
        state: _State = "",
    ) -> None:
        with _logged_errors(_logger(tap_class), "source"):
            if version or about:
                _introduce(tap_class, version=version, about_format=about_format)
            elif discover:
                _discover(tap_class, config)
            elif test != "disabled":
                _try_out(tap_class, config, test, catalog)
            else:
                _sync(tap_class, config, catalog, state)

    return _command(tap_class, "Execute the Singer tap.", invoke)


def target_command(
    target_class: type[_Listener], listen: Callable[[_Listener, BinaryIO], int], epilog: str = ""
) -> CliCommand:
    """Return the Singer command line of a target. Call its ``main()`` to run it.

    Args:
        target_class: Class of the target.
        listen: Method of the target that processes an input and returns the exit code.
        epilog: Text at the end of the help text.
    """
    return _listening_command(target_class, listen, "Execute the Singer target.", epilog)


def mapper_command(
    mapper_class: type[_Listener], listen: Callable[[_Listener, BinaryIO], int]
) -> CliCommand:
    """Return the Singer command line of a mapper. Call its ``main()`` to run it.

    ``listen`` is the method of the mapper that processes an input and returns the exit code.
    """
    return _listening_command(mapper_class, listen, "Execute the Singer mapper.")


def _listening_command(
    plugin: type[_Listener],
    listen: Callable[[_Listener, BinaryIO], int],
    description: str,
    epilog: str = "",
) -> CliCommand:
    """Return the command line of a target or mapper, which reads messages from its input."""

    def invoke(
        *,
        version: _Version = False,
        about: _About = False,
        about_format: _Format = "text",
        config: _Config = [],  # noqa: B006  never modified
        file_input: _Input = "",
    ) -> None:
        with _logged_errors(_logger(plugin), "destination"):
            if version or about:
                _introduce(plugin, version=version, about_format=about_format)
            else:
                _listen(plugin, listen, config, file_input)

    return _command(plugin, description, invoke, epilog)


# Actions


def _introduce(plugin: _PluginClass, *, version: bool, about_format: str) -> None:
    if version:
        plugin.print_version()
    else:
        plugin.print_about(about_format)


def _discover(tap_class: type[SyncTap], config: Sequence[str]) -> None:
    given = ConfigInput.from_cli_args(*config)
    tap = tap_class(
        config=given.config,
        parse_env_config=given.parse_env,
        validate_config=tap_class.dynamic_catalog,
        setup_mapper=False,
    )
    tap.config_file = given.file
    tap.run_discovery()


def _try_out(tap_class: type[SyncTap], config: Sequence[str], test: str, catalog: str) -> None:
    given = ConfigInput.from_cli_args(*config)
    # singer_sdk passes no catalog here, but taps without discovery cannot be tested without one.
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


def _sync(tap_class: type[SyncTap], config: Sequence[str], catalog: str, state: str) -> None:
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


def _log_version(plugin: _PluginClass) -> None:
    """Log the versions of the plugin and the SDK, but only if DEBUG logging is enabled.

    Finding the versions would slow down the start.
    """
    logger = _logger(plugin)
    if logger.isEnabledFor(logging.DEBUG):
        plugin.print_version(print_fn=logger.debug)


def _listen(
    plugin: type[_Listener],
    listen: Callable[[_Listener, BinaryIO], int],
    config: Sequence[str],
    file_input: str,
) -> None:
    _log_version(plugin)
    given = ConfigInput.from_cli_args(*config)
    made = plugin(config=given.config, parse_env_config=given.parse_env, validate_config=True)
    made.config_args = given.args
    with _opened_input(file_input) as source:
        code = listen(made, source)
    if code:
        raise typer.Exit(code)


def _text(
    path: str, error: type[ConfigurationError] = CatalogFileError, what: str = "Catalog"
) -> bytes:
    """Return the content of a file. For the path ``-``, read standard input.

    Args:
        path: Path of the file.
        error: Class of the error to raise if the file cannot be read.
        what: Name of the file in the error message, such as "Catalog".
    """
    try:
        return read_at_most(sys.stdin.buffer if path == "-" else Path(path), STATE_BYTES)
    except InputTooLargeError as reason:
        raise error(f"{what} file '{path}' cannot be read: {reason}") from None
    except OSError as reason:
        raise error(f"{what} file '{path}' cannot be read: {reason.strerror}") from None


@contextlib.contextmanager
def _opened_input(path: str) -> Iterator[BinaryIO]:
    if not path or path == "-":
        yield sys.stdin.buffer
        return
    try:
        source = Path(path).open("rb")  # noqa: SIM115  closed below
    except OSError as reason:
        raise ConfigurationError(f"Input '{path}' cannot be read: {reason.strerror}") from None
    with source:
        yield source


# Error handling


@contextlib.contextmanager
def _logged_errors(logger: logging.Logger, system: str) -> Iterator[None]:
    """During the block, log Python warnings and errors instead of printing them.

    Errors of the configuration end the process with exit code 1. ``system`` is "source" or
    "destination", for messages.
    """
    logging.captureWarnings(capture=True)
    sys.excepthook = _excepthook(logger, system)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("once", category=DeprecationWarning)
            yield
            sys.stdout.flush()
    except ConfigValidationError as error:
        # One line, because Meltano shows only the last line of a failed test.
        faults = "; ".join(error.errors or [str(error)])
        _log_known_error(logger, f"Config validation failed: {faults}", error)
        raise typer.Exit(1) from None
    except ConfigurationError as error:
        _log_known_error(logger, str(error), error)
        raise typer.Exit(1) from None
    except BrokenPipeError:
        _discard_output()
        logger.error("The output was closed by its reader.")  # noqa: TRY400
        raise typer.Exit(1) from None
    finally:
        logging.captureWarnings(capture=False)


def _excepthook(
    logger: logging.Logger, system: str
) -> Callable[[type[BaseException], BaseException, TracebackType | None], None]:
    """Return a function for ``sys.excepthook`` that logs uncaught exceptions.

    A known error is logged as one sentence, any other one with its traceback. ``system`` is
    "source" or "destination".
    """

    def log(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        elif is_known_error(error):
            _log_known_error(logger, summarize_error(error, system=system), error)
        else:
            summary = error.args[0] if error.args else kind.__name__
            logger.error("%s", summary, exc_info=(kind, error, trace))

    return log


def _log_known_error(logger: logging.Logger, sentence: str, error: BaseException) -> None:
    """Log an error as one sentence, and its traceback at DEBUG level."""
    logger.error("%s", sentence)
    logger.debug("The traceback of this error:", exc_info=error)


def _discard_output() -> None:
    """Redirect standard output to the null device after its reader has closed it.

    Otherwise Python would raise an error at exit, when it flushes the output.
    """
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
