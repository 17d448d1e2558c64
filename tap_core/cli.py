"""Command-line program `tap-core`: create a plugin's project, run a plugin, test for Fivetran.

Each command imports the modules that only it needs, so that the program starts fast.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from tap_core.compat import import_alias
from tap_core.parsing.command_line import (
    VersionOption,
    make_program,
    reject_empty,
    report_error,
    run_program,
)

__all__ = ["commands", "fivetran_protos", "fivetran_test", "main", "new", "run"]

_EPILOG: Final = "To run a tap of singer_sdk on this SDK: tap-core run PLUGIN --config config.json"

_Command: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar="[-- COMMAND [ARGUMENT ...]]",
        help="Program to start with --port and a free port.",
    ),
]
_Config: TypeAlias = Annotated[
    str,
    typer.Option(
        "--config", metavar="FILE", help="The settings, a JSON file.", callback=reject_empty
    ),
]
_State: TypeAlias = Annotated[
    str,
    typer.Option(
        "--state",
        metavar="FILE",
        help="The state of the first sync, a JSON file.",
        callback=reject_empty,
    ),
]
_Destination: TypeAlias = Annotated[bool, typer.Option("--destination", help="Test a destination.")]
_Address: TypeAlias = Annotated[
    str, typer.Option("--address", metavar="HOST:PORT", help="A running server.")
]
_Seconds: TypeAlias = Annotated[float, typer.Option("--seconds", help="Time limit of one call.")]
_Resumes: TypeAlias = Annotated[
    int,
    typer.Option(
        "--resumes",
        metavar="N",
        help="Number of earlier checkpoints to resume from in a fresh process.",
    ),
]

commands = typer.Typer()
"""Commands of the program `tap-core`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program `tap-core` with ``argv`` (or ``sys.argv[1:]``); return the exit code."""
    program = make_program(
        "tap-core",
        _accept_options,
        lambda: commands,
        description="Create, run and test taps and targets.",
        epilog=_EPILOG,
        needs_command=True,
    )
    return run_program(program, argv)


def _accept_options(*, version: VersionOption = False) -> None:
    """Declare the option ``--version``; its callback prints the version and exits."""


@commands.command()
def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the command: tap-… or target-….")
    ],
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            help="Kind of a tap: rest (default), graphql, sql, other;"
            " of a target: batch (default), record, sql.",
        ),
    ] = "",
    auth: Annotated[
        str,
        typer.Option(
            "--auth",
            help="Authentication of HTTP taps: none, api-key, bearer, basic, oauth.",
        ),
    ] = "",
    pagination: Annotated[
        str,
        typer.Option(
            "--pagination", help="Pagination of REST taps: none, page, offset, link, cursor."
        ),
    ] = "",
    folder: Annotated[
        str, typer.Option("--folder", help="Folder of the project; default: ./NAME.")
    ] = "",
) -> int:
    """Create the project of a tap or target, with tests."""
    from tap_core.scaffold.project_options import Project, ProjectError
    from tap_core.scaffold.render import write

    try:
        project = Project.from_options(name, kind or None, auth or None, pagination or None)
    except ProjectError as error:
        raise typer.BadParameter(str(error)) from None
    path = Path(folder or name)
    try:
        write(project, path)
    except ProjectError as error:
        return report_error(str(error))
    except OSError as error:
        return report_error(
            f"The folder {path} cannot be written: {error.strerror}. Name another one with"
            " --folder, or run the command in a folder that this user may write."
        )
    steps = f"cd {shlex.quote(str(path))}\n  pip install -e '.[dev]'\n  pytest"
    print(f"{project.name} is in {path}. Next:\n  {steps}")  # noqa: T201  (the command's output)
    return 0


@commands.command(
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
)
def run(
    plugin: Annotated[
        str,
        typer.Argument(
            metavar="PLUGIN",
            help="A class, such as tap_x.tap:TapX, or the name of a console script, such as tap-x.",
        ),
    ],
    options: Annotated[
        list[str],
        typer.Argument(metavar="[OPTION ...]", help="Arguments of the plugin, passed unchanged."),
    ] = [],  # noqa: B006  never modified
) -> int:
    """Run an installed plugin of singer_sdk on tap_core.

    The plugin, a tap, target or mapper that imports singer_sdk, needs no changes.
    """
    import_alias.install_import_alias()
    if ":" in plugin:
        import_alias.search_working_directory()
    try:
        entry_point = _find_entry_point(plugin)
    except _NoPluginError as error:
        return report_error(str(error))
    except ImportError as error:
        return report_error(_describe_import_error(plugin, error))
    sys.argv = [plugin.partition(":")[0], *options]
    code = entry_point()
    return code if isinstance(code, int) else 0


@commands.command(
    "fivetran-test",
    context_settings={"allow_interspersed_args": False},
)
def fivetran_test(
    command: _Command = [],  # noqa: B006  never modified
    config: _Config = "",
    state: _State = "",
    *,
    destination: _Destination = False,
    address: _Address = "",
    seconds: _Seconds = 3600,
    resumes: _Resumes = 2,
) -> int:
    """Test a connector or destination as Fivetran calls it.

    Call each method of its server, such as the configuration form and the connection tests. Report
    the rows that a destination would contain, and each violation of the rules in docs/fivetran.md.
    Exit codes: 1 if a rule is violated, 2 if the arguments are invalid or the server cannot be
    started.
    """
    if bool(command) == bool(address):
        raise typer.BadParameter("pass either -- and a command to start, or --address")
    try:
        from fivetran_tester.cli import TesterOptions, run_test
    except ImportError as error:
        return _needs_fivetran(error)
    options = TesterOptions(list(command), config, state, destination, address, seconds, resumes)
    return run_test(options)


@commands.command("fivetran-protos")
def fivetran_protos(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="A checkout of Fivetran's partner SDK.")
    ],
) -> int:
    """Compare Fivetran's .proto files with the SDK's interface.

    Print each difference between the interface and the files in DIR. Exit codes: 1 if there are
    differences, 2 if the arguments are invalid or the comparison failed.
    """
    try:
        from tap_core.protocols.fivetran.proto_diff import compare
    except ImportError as error:
        return _needs_fivetran(error)
    return compare(Path(folder))


def _needs_fivetran(error: ImportError) -> int:
    return report_error(f"{error}. Install the extra: pip install 'tap-core-sdk[fivetran]'")


class _NoPluginError(Exception):
    """Raised if a name on the command line does not refer to a plugin that can be run."""


def _find_entry_point(plugin: str) -> Callable[[], Any]:
    """Return the function that runs a plugin.

    ``plugin`` is a class path, such as ``tap_x.tap:TapX``, or the name of a console script.

    Raises:
        _NoPluginError: There is no such script or class.
    """
    module, _, name = plugin.partition(":")
    if not name:
        for script in metadata.entry_points(group="console_scripts", name=plugin):
            return _get_runner(script.load(), plugin)
        raise _NoPluginError(
            f"No console script is called {plugin!r} in this Python environment. Install the"
            " plugin into it, or name its class: tap-core run tap_x.tap:TapX."
        )
    imported: Any = import_module(module)
    for part in name.split("."):
        if not hasattr(imported, part):
            raise _NoPluginError(f"{module} has no {name}.")
        imported = getattr(imported, part)
    return _get_runner(imported, plugin)


def _get_runner(imported: Any, plugin: str) -> Callable[[], Any]:
    """Return the function that runs a plugin: ``imported`` or, for a class, its method ``cli``.

    ``imported`` is the imported object, and ``plugin`` its name in error messages.

    Raises:
        _NoPluginError: ``imported`` is neither a plugin class nor a function.
    """
    runner: Callable[[], Any] | None = (
        getattr(imported, "cli", None) if isinstance(imported, type) else imported
    )
    if not callable(runner):
        raise _NoPluginError(f"{plugin} is neither a plugin class nor a function.")
    return runner


def _describe_import_error(plugin: str, error: ImportError) -> str:
    """Return the error message for a failed import of a plugin.

    The message refers to modules by their names in singer_sdk, which the plugin's code uses.
    """
    missing = error.name or ""
    if missing.partition(".")[0] not in {"tap_core", import_alias.SINGER_SDK}:
        return f"{plugin} cannot be imported: {error}"
    reason = str(error).partition(" (")[0].replace("tap_core", import_alias.SINGER_SDK)
    return (
        f"{plugin} imports a name of {import_alias.SINGER_SDK} that tap_core does not have:"
        f" {reason}. Please report it, with the name of the plugin."
    )
