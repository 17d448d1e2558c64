"""The Singer command line of a tap, target or mapper.

Options, output and exit codes are those of singer_sdk. An invalid option ends with exit code 2, and
any error with exit code 1. A known error (settings, credentials, an unavailable source) is shown as
one line, and its traceback is logged at DEBUG level. Any other exception is shown with its
traceback. If the reader of the output has closed the pipe, the exit code is 1. Logs go to standard
error only.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, TypeAlias, TypeVar

import typer
from typer.core import TyperArgument, TyperOption

from tap_core.config.loading import ENV, NO_SETTINGS, ConfigInput, env_var_name
from tap_core.exceptions import (
    CatalogFileError,
    ConfigurationError,
    ConfigValidationError,
    StateFileError,
)
from tap_core.io.standard_streams import discard_output
from tap_core.parsing.command_line import (
    Program,
    choose_from,
    make_program,
    read_input_file,
    reject_empty,
)
from tap_core.plugin_base import CliCommand, PluginBase
from tap_core.protocols.error_classification import is_known_error, summarize_error
from tap_core.protocols.singer.catalog_file import find_unknown_streams, parse_catalog
from tap_core.state.reader import read_state
from tap_core.sync.interfaces import SyncTap

if TYPE_CHECKING:
    from tap_core.state.backfill_range import ReadRange

__all__ = [
    "ConfigOption",
    "FromOption",
    "ToOption",
    "create_tap",
    "get_logger",
    "logged_errors",
    "mapper_command",
    "parse_range_options",
    "read_catalog",
    "read_saved_state",
    "tap_command",
    "target_command",
]


_Listener = TypeVar("_Listener", bound=PluginBase)
"""Type variable for the class of a target or mapper."""

_PluginClass: TypeAlias = type[SyncTap] | type[PluginBase]


# Flags

_TEST_MODES: Final = ("all", "schema", "disabled")

_Version = Annotated[bool, typer.Option("--version", help="Display the package version.")]
_About = Annotated[bool, typer.Option("--about", help="Display package metadata and settings.")]
_Format = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="[text|json|markdown|meltano|airbyte]",
        help="Specify output style for --about.",
        show_default=False,
        **choose_from("text", "json", "markdown", "meltano", "airbyte"),
    ),
]
ConfigOption: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration file, or 'ENV' for environment variables; several may be given.",
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
        **choose_from(*_TEST_MODES),
    ),
]
_Catalog = Annotated[
    str,
    typer.Option(
        "--catalog",
        metavar="FILE",
        help="Use a Singer catalog file with the tap.",
        callback=reject_empty,
    ),
]
_State = Annotated[
    str,
    typer.Option(
        "--state",
        metavar="FILE",
        help="Use a bookmarks file for incremental replication; of several lines the last counts.",
        callback=reject_empty,
    ),
]
FromOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="VALUE",
        help="Backfill: read from this date-time or number on, and leave the state as it is.",
    ),
]
ToOption: TypeAlias = Annotated[
    str,
    typer.Option("--to", metavar="VALUE", help="End of a backfill, exclusive; needs --from."),
]
_Input = Annotated[
    str,
    typer.Option(
        "--input",
        metavar="FILE",
        help="A path to read messages from instead of from standard in.",
        callback=reject_empty,
    ),
]


class _SingerProgram(Program):
    """Typer command of a plugin, with the Singer options and the commands of other protocols."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command-line arguments.

        ``--test`` may have no value, as in singer_sdk. Options of the click package that a plugin's
        author has added are parsed too.
        """
        params: list[Any] = [
            param if isinstance(param, (TyperArgument, TyperOption)) else _ClickOption(param)
            for param in self.params
        ]
        self.params = params
        return super().parse_args(ctx, _normalize_test_option(args))


class _ClickOption:
    """Wrapper of an option of the click package that a plugin's author has added to the command.

    The callback of the option is called if the option is used. Its value is not passed to the
    command's function. The option is hidden, because typer's own copy of click cannot print it.
    """

    hidden = True
    is_eager = True

    def __init__(self, option: Any) -> None:
        self._option = option

    def __getattr__(self, name: str) -> Any:
        return getattr(self._option, name)

    def handle_parse_result(
        self, ctx: Any, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Call the option's callback with its value if the option is on the command line.

        Return None as the value of the option, and ``args`` unchanged. typer calls this method.
        """
        if self.name in opts and self.callback is not None:
            self.callback(ctx, self._option, opts[self.name])
        return None, args

    def get_help_record(self, ctx: Any) -> None:
        """Return None, which hides the option in the help text."""

    def get_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002  typer passes it
        """Return an empty list, which leaves the option out of the usage line."""
        return []


def _normalize_test_option(args: Sequence[str]) -> list[str]:
    """Return command-line arguments in which the option ``--test`` always has a value.

    ``--test VALUE`` becomes ``--test=VALUE``. ``--test`` without a value becomes ``--test=all``.
    """
    normalized: list[str] = []
    for arg in args:
        if normalized and normalized[-1] == "--test" and arg in _TEST_MODES:
            normalized[-1] = f"--test={arg}"
        else:
            normalized.append(arg)
    return ["--test=all" if arg == "--test" else arg for arg in normalized]


def get_logger(plugin: _PluginClass) -> logging.Logger:
    """Return the logger of a plugin, which has the plugin's name."""
    return logging.getLogger(plugin.name)


# The commands


def tap_command(
    tap_class: type[SyncTap], commands: Callable[[], typer.Typer] | None = None, epilog: str = ""
) -> CliCommand:
    """Return the command-line program of a tap. Call its ``main()`` to run it.

    Args:
        tap_class: Class of the tap, which the commands get as ``obj`` of their context.
        commands: Imports and returns the commands of other protocols, such as ``read``.
        epilog: Text at the end of the help text.
    """

    def invoke(
        context: typer.Context,
        *,
        version: _Version = False,
        about: _About = False,
        about_format: _Format = "text",
        config: ConfigOption = [],  # noqa: B006  never modified
        discover: _Discover = False,
        test: _Test = "disabled",
        catalog: _Catalog = "",
        state: _State = "",
        start: FromOption = "",
        end: ToOption = "",
    ) -> None:
        if context.invoked_subcommand is not None:
            return
        read_range = parse_range_options(context, start, end)
        with logged_errors(get_logger(tap_class), "source", config):
            if version or about:
                _print_information(tap_class, version=version, about_format=about_format)
            elif discover:
                _discover(tap_class, config)
            elif test != "disabled":
                _run_test(tap_class, config, test, catalog)
            else:
                _sync(tap_class, config, catalog, state, read_range)

    return _make_plugin_program(
        tap_class,
        invoke,
        "Read the source, and write its records as Singer messages.",
        commands,
        epilog,
    )


def target_command(
    target_class: type[_Listener],
    listen: Callable[[_Listener, BinaryIO], int],
    commands: Callable[[], typer.Typer] | None = None,
    epilog: str = "",
) -> CliCommand:
    """Return the command-line program of a target. Call its ``main()`` to run it.

    Args:
        target_class: Class of the target, which the commands get as ``obj`` of their context.
        listen: Runs a target on a file of messages, and returns the exit code.
        commands: Imports and returns the commands of other protocols, such as ``write``.
        epilog: Text at the end of the help text.
    """
    invoke = _make_listening_callback(target_class, listen)
    return _make_plugin_program(
        target_class, invoke, "Load Singer messages from standard input.", commands, epilog
    )


def mapper_command(
    mapper_class: type[_Listener], listen: Callable[[_Listener, BinaryIO], int]
) -> CliCommand:
    """Return the command-line program of a mapper. Call its ``main()`` to run it.

    ``listen`` runs a mapper on a file of messages, and returns the exit code.
    """
    invoke = _make_listening_callback(mapper_class, listen)
    return _make_plugin_program(
        mapper_class, invoke, "Change the Singer messages between a tap and a target."
    )


def _make_listening_callback(
    plugin: type[_Listener], listen: Callable[[_Listener, BinaryIO], int]
) -> Callable[..., None]:
    """Return the function that typer calls to run a target or mapper from the command line.

    Its parameters are the command-line options.

    Args:
        plugin: Class of the target or mapper.
        listen: Runs a target or mapper on a file of messages, and returns the exit code.
    """

    def invoke(
        context: typer.Context,
        *,
        version: _Version = False,
        about: _About = False,
        about_format: _Format = "text",
        config: ConfigOption = [],  # noqa: B006  never modified
        file_input: _Input = "",
    ) -> None:
        if context.invoked_subcommand is not None:
            return
        with logged_errors(get_logger(plugin), "destination", config):
            if version or about:
                _print_information(plugin, version=version, about_format=about_format)
            else:
                _process_input(plugin, listen, config, file_input)

    return invoke


def _make_plugin_program(
    plugin: _PluginClass,
    invoke: Callable[..., None],
    description: str,
    commands: Callable[[], typer.Typer] | None = None,
    epilog: str = "",
) -> CliCommand:
    return make_program(
        plugin.name,
        invoke,
        commands,
        description=description,
        epilog=epilog,
        cls=_SingerProgram,
        context=plugin,
    )


# Actions


def _print_information(plugin: _PluginClass, *, version: bool, about_format: str) -> None:
    if version:
        plugin.print_version()
    else:
        plugin.print_about(about_format)


def create_tap(
    tap_class: type[SyncTap],
    config_input: ConfigInput,
    *,
    validate_config: bool = True,
    **arguments: Any,
) -> SyncTap:
    """Create a tap with the settings of the option ``--config``.

    Args:
        tap_class: Class of the tap.
        config_input: Parsed values of the option.
        validate_config: True to raise an error for invalid settings.
        arguments: Further arguments of the class, such as ``catalog`` and ``state``.
    """
    tap = tap_class(
        config=config_input.config,
        parse_env_config=config_input.parse_env,
        validate_config=validate_config,
        **arguments,
    )
    tap.config_file = config_input.file
    return tap


def _discover(tap_class: type[SyncTap], config: Sequence[str]) -> None:
    config_input = ConfigInput.from_cli_args(*config)
    validates = tap_class.dynamic_catalog
    tap = create_tap(tap_class, config_input, validate_config=validates, setup_mapper=False)
    tap.run_discovery()


def _run_test(tap_class: type[SyncTap], config: Sequence[str], test: str, catalog: str) -> None:
    config_input = ConfigInput.from_cli_args(*config)
    # singer_sdk passes no catalog here, but taps without discovery cannot be tested without one.
    tap = create_tap(tap_class, config_input, catalog=read_catalog(catalog))
    if test == "schema":
        tap.write_schemas()
    else:
        tap.run_connection_test()


def parse_range_options(context: typer.Context, start: str, end: str) -> ReadRange | None:
    """Return the range of replication key values that a backfill reads, or None for a normal sync.

    Args:
        context: Context of the typer command, for error messages.
        start: Value of the option ``--from``; empty if it was not used.
        end: Value of the option ``--to``; empty if it was not used.

    Raises:
        typer.BadParameter: A value is invalid.
    """
    if not (start or end):
        return None
    from tap_core.state.backfill_range import parse_range

    try:
        return parse_range(start, end)
    except ValueError as error:
        raise typer.BadParameter(str(error), context) from None


def _sync(
    tap_class: type[SyncTap],
    config: Sequence[str],
    catalog: str,
    state: str,
    read_range: ReadRange | None,
) -> None:
    _log_version(tap_class)
    config_input = ConfigInput.from_cli_args(*config)
    catalog_dict = read_catalog(catalog)
    saved = read_saved_state(state)
    tap = create_tap(
        tap_class, config_input, catalog=catalog_dict, state=saved if read_range is None else None
    )
    for sentence in find_unknown_streams(catalog_dict, tap.streams) if catalog_dict else ():
        get_logger(tap_class).warning(sentence)
    if read_range is not None:
        from tap_core.sync.backfill import begin_backfill

        begin_backfill(tap, read_range, saved)
    tap.sync_all()


def _log_version(plugin: _PluginClass) -> None:
    """Log the versions of the plugin and the SDK if DEBUG logging is enabled.

    Otherwise the versions are not looked up, because this would slow down the start.
    """
    logger = get_logger(plugin)
    if logger.isEnabledFor(logging.DEBUG):
        plugin.print_version(print_fn=logger.debug)


def _process_input(
    plugin: type[_Listener],
    listen: Callable[[_Listener, BinaryIO], int],
    config: Sequence[str],
    file_input: str,
) -> None:
    _log_version(plugin)
    config_input = ConfigInput.from_cli_args(*config)
    listener = plugin(
        config=config_input.config, parse_env_config=config_input.parse_env, validate_config=True
    )
    listener.config_args = config_input.args
    with _open_input(file_input) as source:
        code = listen(listener, source)
    if code:
        raise typer.Exit(code)


def read_catalog(path: str) -> dict[str, Any] | None:
    """Return the catalog in a file; ``-`` is standard input. Return None for an empty path."""
    if not path:
        return None
    return parse_catalog(read_input_file(path, CatalogFileError, "Catalog", reads_stdin=True), path)


def read_saved_state(path: str) -> dict[str, Any] | None:
    """Return the state in a file; ``-`` is standard input. Return None for an empty path."""
    if not path:
        return None
    return read_state(read_input_file(path, StateFileError, "State", reads_stdin=True), path)


@contextlib.contextmanager
def _open_input(path: str) -> Iterator[BinaryIO]:
    if not path or path == "-":
        yield sys.stdin.buffer
        return
    try:
        source = Path(path).open("rb")  # noqa: SIM115  closed below
    except OSError as error:
        raise ConfigurationError(f"Input '{path}' cannot be read: {error.strerror}") from None
    with source:
        yield source


# Error handling


def _get_config_hint(plugin_name: str, config: Sequence[str]) -> str:
    """Return advice on how to pass settings, for the end of an error message.

    Return "" if all values of ``--config`` are files. ``config`` has these values.
    """
    if not config:
        return f". {NO_SETTINGS}"
    if ENV in config:
        return f". Names of variables begin with {env_var_name('', plugin_name)}_."
    return ""


@contextlib.contextmanager
def logged_errors(logger: logging.Logger, system: str, config: Sequence[str]) -> Iterator[None]:
    """Log Python warnings and the errors of a command during the ``with`` block.

    A configuration error, or output closed by its reader, is logged as one line and raises
    ``typer.Exit(1)``. Other errors are logged when the process ends.

    Args:
        logger: Logger of the plugin.
        system: "source" or "destination", for error messages.
        config: Values of the option ``--config``.
    """
    logging.captureWarnings(capture=True)
    sys.excepthook = _make_excepthook(logger, system)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("once", category=DeprecationWarning)
            yield
            sys.stdout.flush()
    except ConfigValidationError as error:
        # One line, because Meltano shows only the last line of a failed test.
        faults = "; ".join(error.errors or [str(error)])
        hint = _get_config_hint(logger.name, config)
        _log_known_error(logger, f"Config validation failed: {faults}{hint}", error)
        raise typer.Exit(1) from None
    except ConfigurationError as error:
        _log_known_error(logger, str(error), error)
        raise typer.Exit(1) from None
    except BrokenPipeError:
        discard_output()
        logger.error("The output was closed by its reader.")  # noqa: TRY400
        raise typer.Exit(1) from None
    finally:
        logging.captureWarnings(capture=False)


def _make_excepthook(
    logger: logging.Logger, system: str
) -> Callable[[type[BaseException], BaseException, TracebackType | None], None]:
    """Return a function for ``sys.excepthook`` that logs uncaught exceptions.

    An error that needs no traceback, such as rejected credentials, is logged as one sentence, any
    other exception with its traceback. ``system`` is "source" or "destination", for the sentence.
    """

    def log(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        elif is_known_error(error):
            _log_known_error(logger, summarize_error(error, system=system), error)
        else:
            is_text = len(error.args) == 1 and isinstance(error.args[0], str)
            summary = error.args[0] if is_text else str(error) or kind.__name__
            logger.error("%s", summary, exc_info=(kind, error, trace))

    return log


def _log_known_error(logger: logging.Logger, sentence: str, error: BaseException) -> None:
    """Log ``sentence`` as the message about an error, and the traceback only at DEBUG level."""
    logger.error("%s", sentence)
    logger.debug("The traceback of this error:", exc_info=error)
