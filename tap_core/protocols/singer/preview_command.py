"""Command ``test-stream`` of a tap: print the requests, first records and schema of a stream."""

from __future__ import annotations

from typing import Annotated

import typer

from tap_core.config.loading import ConfigInput
from tap_core.parsing.command_line import parse_limit
from tap_core.protocols.singer.cli import ConfigOption, create_tap, get_logger, logged_errors

__all__ = ["make_app"]


def make_app() -> typer.Typer:
    """Return a typer application with the command ``test-stream``. Its ``obj`` is the tap class."""
    app = typer.Typer()
    app.command("test-stream")(_test_stream)
    return app


def _test_stream(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="Name of the stream.", metavar="STREAM")],
    *,
    config: ConfigOption = [],  # noqa: B006  never modified
    limit: Annotated[
        str, typer.Option("--limit", metavar="N", help="Number of records to show.")
    ] = "5",
) -> None:
    """Show the first records and the schema of a stream."""
    count = parse_limit(context, limit)
    with logged_errors(get_logger(context.obj), "source", config):
        from tap_core.preview.report import preview_stream

        config_input = ConfigInput.from_cli_args(*config)
        preview_stream(lambda: create_tap(context.obj, config_input), stream, count)
