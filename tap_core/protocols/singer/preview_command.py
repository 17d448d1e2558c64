"""Command ``test-stream`` of a tap: the requests, the first records and the schema of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tap_core.config.loading import ConfigInput
from tap_core.exceptions import ConfigurationError, SyncError
from tap_core.protocols.error_classification import SYSTEM, failure_type, summarize_error
from tap_core.protocols.singer.cli import ConfigOption, get_logger, logged_errors
from tap_core.sync.interfaces import SyncTap

__all__ = ["make_app"]


def make_app() -> typer.Typer:
    """Return a typer application with the command, which gets the tap class as ``obj``."""
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
    if not limit.isdecimal() or int(limit) < 1:
        raise typer.BadParameter(f"{limit!r} is not a number of at least 1.", context)
    with logged_errors(context.obj):
        _preview(context.obj, config, stream, int(limit))


def _preview(tap_class: type[SyncTap], config: Sequence[str], stream: str, limit: int) -> None:
    """Print a preview of a stream. If the source cannot be read, log one error and exit with 1."""
    from tap_core.preview.report import preview_stream

    given = ConfigInput.from_cli_args(*config)

    def make_tap() -> SyncTap:
        tap = tap_class(config=given.config, parse_env_config=given.parse_env, validate_config=True)
        tap.config_file = given.file
        return tap

    try:
        preview_stream(make_tap, stream, limit)
    except (ConfigurationError, BrokenPipeError):
        raise
    except Exception as error:
        is_known = failure_type(error) != SYSTEM
        if not is_known and not isinstance(error, (SyncError, OSError)):
            raise  # an error of the tap's code needs its traceback
        get_logger(tap_class).error(summarize_error(error) if is_known else str(error))
        raise typer.Exit(1) from None
