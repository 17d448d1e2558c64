"""The command `tap-core`, for actions that do not belong to a single tap or target.

``run`` passes all arguments after the plugin's name to the plugin and adds no flags. Modules that a
single command needs are imported by that command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from tap_core.compat import import_alias
from tap_core.redaction import redact_line, write_to_stderr

__all__ = ["main"]

_USAGE = """\
Usage: tap-core new NAME [OPTION ...]
       tap-core run PLUGIN [OPTION ...]
       tap-core fivetran-test [OPTION ...] -- COMMAND [ARGUMENT ...]
       tap-core fivetran-protos DIR

new: create the project of a tap or target, with tests that pass. Options: tap-core new --help

run: run an installed tap, target or mapper that imports singer_sdk on tap_core, without changes.

PLUGIN is a class, such as tap_x.tap:TapX, or the name of a console script, such as tap-x.
All options after it are passed to the plugin: --config, --catalog, --state, --discover ...

fivetran-test: test a connector or destination with the calls that Fivetran makes, and report the
rules that it breaks. Options: tap-core fivetran-test --help

fivetran-protos: compare the SDK's description of Fivetran's API with the .proto files in DIR.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line of ``python -m tap_core`` and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] in (["--help"], ["-h"]) or arguments[:2] == ["run", "--help"]:
        print(_USAGE, end="")  # noqa: T201  (the command's output)
        return 0
    if arguments[:1] == ["new"]:
        from tap_core.scaffold.cli import new

        return new(arguments[1:])
    if arguments[:1] in (["fivetran-protos"], ["fivetran-test"]):
        return _fivetran(arguments[0], arguments[1:])
    if len(arguments) < 2 or arguments[0] != "run":  # noqa: PLR2004  (run, and what)
        print(_USAGE, end="", file=sys.stderr)  # noqa: T201
        return 2
    return _run(arguments[1], arguments[2:])


def _fivetran(word: str, options: list[str]) -> int:
    try:
        if word == "fivetran-protos":
            from tap_core.protocols.fivetran.proto_diff import compare

            return compare(options)
        from fivetran_tester.cli import fivetran_test
    except ImportError as error:
        return _failed(f'{error}. Fivetran\'s interface is an extra: pip install ".[fivetran]"')
    return fivetran_test(options)


def _run(plugin: str, options: list[str]) -> int:
    import_alias.install_import_alias()
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, "")  # a tap of the working directory, as `python -m` would find it
    try:
        entry = _entry(plugin)
    except _NoPluginError as error:
        return _failed(str(error))
    except ImportError as error:
        return _failed(_missing(plugin, error))
    sys.argv = [plugin.partition(":")[0], *options]
    code = entry()
    return code if isinstance(code, int) else 0


class _NoPluginError(Exception):
    """A name on the command line does not refer to a plugin that can be run."""


def _entry(plugin: str) -> Callable[[], Any]:
    """Return the function that runs a plugin, as the plugin's console script would."""
    module, _, name = plugin.partition(":")
    if not name:
        scripts = metadata.entry_points(group="console_scripts", name=plugin)
        for script in scripts:
            return _callable(script.load(), plugin)
        raise _NoPluginError(
            f"No console script is called {plugin!r} in this Python environment. Install the"
            " plugin into it, or name its class: tap-core run tap_x.tap:TapX."
        )
    found: Any = import_module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise _NoPluginError(f"{module} has no {name}.")
        found = getattr(found, part)
    return _callable(found, plugin)


def _callable(found: Any, plugin: str) -> Callable[[], Any]:
    """Return the function that runs a plugin.

    ``found`` is the plugin's class, or the function itself.
    """
    command = getattr(found, "cli", None) if isinstance(found, type) else found
    if not callable(command):
        raise _NoPluginError(f"{plugin} is neither a plugin class nor a function.")
    run: Callable[[], Any] = command
    return run


def _missing(plugin: str, error: ImportError) -> str:
    """Return the message for a failed import; it shows the module name that the user entered."""
    lacking = error.name or ""
    if lacking.partition(".")[0] not in {"tap_core", import_alias.SINGER_SDK}:
        return f"{plugin} cannot be imported: {error}"
    said = str(error).partition(" (")[0].replace("tap_core", import_alias.SINGER_SDK)
    return (
        f"{plugin} imports a name of {import_alias.SINGER_SDK} that tap_core does not have:"
        f" {said}. Please report it, with the name of the plugin."
    )


def _failed(message: str) -> int:
    write_to_stderr(f"{redact_line(message)}\n")
    return 1
