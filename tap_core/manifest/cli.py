"""Command `tap-manifest`, which runs the connector that an Airbyte manifest declares.

The connector is a Singer tap, an Airbyte source or a Fivetran connector. The program has the
commands lint, try and install. Without one of them, it parses its own options (the manifest, and
the behaviors in which this SDK differs from airbyte-cdk) and passes all other arguments to the
tap's command line. Problems of a manifest are printed as lines, without a traceback.
"""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from tap_core.config.similar_names import suggest
from tap_core.exceptions import ConfigurationError
from tap_core.io.private_files import replace_file
from tap_core.logging import setup_console_logging
from tap_core.parsing.command_line import (
    Program,
    VersionOption,
    choose_from,
    make_program,
    report_error,
    run_program,
)
from tap_core.redaction import redact_line

__all__ = ["commands", "install", "lint", "main", "try_stream"]

_TAP_COMMANDS: Final = frozenset({"spec", "check", "discover", "read", "test-stream"})
"""Commands that `tap-manifest` passes to the tap's command line."""

_MANIFEST_ENV: Final = "TAP_MANIFEST_FILE"
_CONFIG_OPTION: Final = "--config"
_EPILOG: Final = (
    "With --config, --catalog, --state, --discover, --about the manifest is a Singer tap; with the"
    " command spec, check, discover or read an Airbyte source; with --port N a Fivetran connector."
    " With --manifest, --help and --version are those of the tap."
)


_ManifestOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--manifest", metavar="FILE", envvar=_MANIFEST_ENV, show_envvar=True, help="The manifest."
    ),
]
_CutoffOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--cutoff",
        metavar="last_record|interval_end",
        envvar="TAP_MANIFEST_CUTOFF",
        show_envvar=True,
        **choose_from("last_record", "interval_end"),
        help="Bookmark of a complete window: its last record (the default), or its end.",
    ),
]
_BoundaryOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--boundary",
        metavar="send|drop",
        envvar="TAP_MANIFEST_BOUNDARY",
        show_envvar=True,
        **choose_from("send", "drop"),
        help="Send (the default) or drop records that equal the bookmark.",
    ),
]
_NewSlicesOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--new-slices",
        metavar="start|global_cursor",
        envvar="TAP_MANIFEST_NEW_SLICES",
        show_envvar=True,
        **choose_from("start", "global_cursor"),
        help="Where a slice that is new in a later sync begins: at the start date (the default),"
        " or at the latest bookmark of all slices.",
    ),
]
commands = typer.Typer()
"""Commands lint, try and install of `tap-manifest`, without the commands of the tap."""


class _ManifestProgram(Program):
    """Command-line parser of `tap-manifest`, which passes unknown arguments to the manifest's tap.

    If the first argument is a command of `tap-manifest`, all arguments belong to that command.
    """

    ignore_unknown_options = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of `tap-manifest`; store the tap's arguments in ``ctx.args``."""
        if args and args[0] not in _TAP_COMMANDS and args[0] in self.commands:
            return super().parse_args(ctx, args)
        ctx.allow_interspersed_args = True
        has_manifest = bool(os.environ.get(_MANIFEST_ENV)) or any(
            arg.partition("=")[0] == "--manifest" for arg in args
        )
        if has_manifest and not ctx.resilient_parsing:
            self.params = [param for param in self.params if param.name != "version"]
            self.add_help_option = False  # --help and --version are the tap's
        self.no_args_is_help = not has_manifest
        super().parse_args(ctx, args)
        rest = [*ctx._protected_args, *ctx.args]  # noqa: SLF001  typer has no public name for it
        if ctx.resilient_parsing:
            return rest
        if not has_manifest and rest and not rest[0].startswith("-"):
            self._check_command(ctx, rest)
        ctx._protected_args, ctx.args = [], rest  # noqa: SLF001
        return rest

    def _check_command(self, ctx: Any, args: list[str]) -> None:
        """Raise a usage error for an argument that is no command, such as a path of a manifest."""
        name = args[0]  # `resolve_command` would parse one such as ./a.yaml again, as an option
        if Path(name).suffix or not name[:1].isalnum():
            ctx.fail(f"No such command '{name}'. If it is the manifest, write --manifest {name}")
        self.resolve_command(ctx, args)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `tap-manifest` with ``argv`` (or ``sys.argv[1:]``), and return the exit code."""
    program = make_program(
        "tap-manifest",
        _run_manifest,
        _list_commands,
        description="Run a connector that is declared in YAML.",
        epilog=_EPILOG,
        cls=_ManifestProgram,
    )
    try:
        return run_program(program, argv)
    except ConfigurationError as error:
        return report_error(str(error))
    except ModuleNotFoundError as missing:
        if missing.name not in {"jinja2", "yaml"}:
            raise
        needed = "pip install 'tap-core-sdk[manifest]'"
        return report_error(
            f"Manifests need the package {missing.name}, which is missing: run {needed}."
        )


def _list_commands() -> typer.Typer:
    """Return the commands of `tap-manifest` and of the tap, for the list in the help text."""
    from tap_core.tap_base import import_commands

    listed = typer.Typer()
    listed.registered_commands = [
        *commands.registered_commands,
        *import_commands().registered_commands,
    ]
    return listed


def _run_manifest(
    context: typer.Context,
    manifest: _ManifestOption = "",
    cutoff: _CutoffOption = None,
    boundary: _BoundaryOption = None,
    new_slices: _NewSlicesOption = None,
    *,
    version: VersionOption = False,  # noqa: ARG001  (its callback prints the version)
) -> int:
    """Run the tap of a manifest with the arguments in ``context.args``; return the exit code."""
    if context.invoked_subcommand is not None:  # it runs after this function
        return 0
    if not manifest:
        for name, _, _ in (arg.partition("=") for arg in context.args):
            if name.startswith("-") and (hint := suggest(name, ["--manifest"])):
                context.fail(f"No such option: {name}.{hint}")
        context.fail(f"Missing option '--manifest' (env var: '{_MANIFEST_ENV}').")
    overrides = _collect_overrides(cutoff, boundary, new_slices)
    return _run_tap(Path(manifest), overrides, context.args)


def _collect_overrides(
    cutoff: str | None, boundary: str | None, new_slices: str | None
) -> dict[str, str]:
    """Return the values of the options that are set, such as ``{"cutoff": "interval_end"}``."""
    options = {"cutoff": cutoff, "boundary": boundary, "new_slices": new_slices}
    return {name: value for name, value in options.items() if value}


def _run_tap(manifest: Path, overrides: Mapping[str, str], arguments: Sequence[str]) -> int:
    from tap_core.manifest.tap import make_tap_class

    tap_class = make_tap_class(manifest, overrides)
    tap_class.config_file = _find_config_file(arguments)
    gc.freeze()  # modules and the document live as long as the process
    gc.set_threshold(20_000, 20, 20)  # requests create few reference cycles
    code = tap_class.cli(arguments, prog_name="tap-manifest")
    return code if isinstance(code, int) else 0


def _find_config_file(arguments: Sequence[str]) -> Path | None:
    """Return the path of the config file if ``--config`` names exactly one file; otherwise None.

    The path is needed before the tap parses its arguments, because stream discovery may refresh a
    token and write it to the config file.
    """
    words = iter(arguments)
    pairs = (word.partition("=") for word in words)
    files = [
        value if separator else next(words, "")
        for name, separator, value in pairs
        if name == _CONFIG_OPTION
    ]
    return Path(files[0]).absolute() if len(files) == 1 and files != ["ENV"] else None


@commands.command()
def lint(
    context: typer.Context,
    files: Annotated[
        list[str], typer.Argument(metavar="[FILE ...]", help="Manifests to check.")
    ] = [],  # noqa: B006  never modified
    manifest: Annotated[
        list[str],
        typer.Option("--manifest", metavar="FILE", help="The same as FILE.", show_default=False),
    ] = [],  # noqa: B006  never modified
) -> int:
    """List the problems of manifests by line.

    The exit code is 1 if a manifest cannot run. Without FILE, the environment variable
    TAP_MANIFEST_FILE names the manifest.
    """
    paths = [*files, *manifest] or [*filter(None, [os.environ.get(_MANIFEST_ENV)])]
    if not paths:
        context.fail("Missing argument 'FILE'.")
    setup_console_logging()  # shows that custom Python code is run
    from tap_core.manifest.lint import lint_manifest

    is_bad = False
    for path in paths:
        result = lint_manifest(Path(path))
        for line in [*map(str, result.problems), result.summarize()]:
            print(redact_line(line))  # noqa: T201  (the command's result)
        is_bad = is_bad or result.has_errors
    return int(is_bad)


@commands.command("try")
def try_stream(
    manifest: Annotated[str, typer.Argument(metavar="FILE", help="The manifest.")],
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Name of the stream.")],
    config: Annotated[
        list[str],
        typer.Option("--config", metavar="FILE", help="A config file, or ENV.", show_default=False),
    ] = [],  # noqa: B006  never modified
    limit: Annotated[
        str, typer.Option("--limit", metavar="N", help="Number of records to show.")
    ] = "5",
) -> int:
    """Show the first records and the schema of a stream."""
    config_options = [word for path in config for word in (_CONFIG_OPTION, path)]
    return _run_tap(Path(manifest), {}, ["test-stream", stream, "--limit", limit, *config_options])


@commands.command()
def install(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The path of the executable.")],
    manifest: _ManifestOption,
    cutoff: _CutoffOption = None,
    boundary: _BoundaryOption = None,
    new_slices: _NewSlicesOption = None,
) -> int:
    """Write an executable that runs a manifest.

    Use it for clients that need a single path. The executable runs the manifest with the options
    passed here.
    """
    manifest_path = Path(manifest).resolve()
    if not manifest_path.is_file():
        raise ConfigurationError(f"There is no manifest '{manifest_path}'.")
    command = [sys.executable, "-m", "tap_core.manifest.cli", "--manifest", str(manifest_path)]
    for option, value in _collect_overrides(cutoff, boundary, new_slices).items():
        command += [f"--{option.replace('_', '-')}", value]
    path = Path(name)
    try:
        replace_file(path, f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', mode=0o755)
    except OSError as error:
        raise ConfigurationError(
            f"The executable '{name}' cannot be written: {error.strerror}. Name a file in a folder"
            " that this user may write."
        ) from None
    print(path.resolve())  # noqa: T201  (the command's result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
