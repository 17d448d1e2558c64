"""The Airbyte commands of a tap's command line: ``spec``, ``check``, ``discover`` and ``read``.

The ``obj`` of a command's typer context is the tap class. The modules that run a command are
imported when it runs.
Source: the Airbyte protocol, sections "Common Interface" and "Source".
"""

from __future__ import annotations

import typer

from tap_core.protocols.airbyte.cli_args import (
    AirbyteCommand,
    CatalogPath,
    ConfigPath,
    Debug,
    StatePath,
)

__all__ = ["check", "commands", "discover", "read", "spec"]

commands = typer.Typer()
"""Typer application with the commands, for `make_program`."""


@commands.command(cls=AirbyteCommand)
def spec(context: typer.Context, *, debug: Debug = False) -> int:  # noqa: ARG001
    """Print the specification of the tap's settings for Airbyte."""
    return _run(context)


@commands.command(cls=AirbyteCommand)
def check(context: typer.Context, config: ConfigPath, *, debug: Debug = False) -> int:  # noqa: ARG001
    """Check that the tap can read with the settings, for Airbyte."""
    return _run(context)


@commands.command(cls=AirbyteCommand)
def discover(context: typer.Context, config: ConfigPath, *, debug: Debug = False) -> int:  # noqa: ARG001
    """Print the streams and their schemas for Airbyte."""
    return _run(context)


@commands.command(cls=AirbyteCommand)
def read(
    context: typer.Context,
    config: ConfigPath,  # noqa: ARG001
    catalog: CatalogPath,  # noqa: ARG001
    state: StatePath = "",  # noqa: ARG001
    *,
    debug: Debug = False,  # noqa: ARG001
) -> int:
    """Emit the records of the configured streams for Airbyte."""
    return _run(context)


def _run(context: typer.Context) -> int:
    from tap_core.protocols.airbyte.cli import run_source_command

    return run_source_command(context)
