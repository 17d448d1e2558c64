"""Command line ``--port N``, which serves a tap or target over gRPC to Fivetran.

Fivetran sends settings and states in its calls, so there is no ``--config``. The exit code is 0
after a stop, 1 if the port cannot be used or a package is not installed, and 2 for invalid
arguments.
Source: Fivetran's Partner SDK development guide, "Requirements".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from tap_core.parsing.command_line import Program, make_program
from tap_core.protocols.fivetran.listen_address import (
    ALL_ADDRESSES,
    MAX_PORT,
    ListenAddress,
    check_host,
)
from tap_core.protocols.fivetran.port_option import HOST_VARIABLE
from tap_core.protocols.fivetran.request_limits import MESSAGE_LIMIT, RequestLimits
from tap_core.redaction import write_to_stderr

__all__ = ["port_command"]

_DEFAULT_LIMITS: Final = RequestLimits()


def _check_port(text: str) -> str:
    if not text.isdecimal() or int(text) > MAX_PORT:
        raise typer.BadParameter(f"{text!r} is not a port: use 0 to {MAX_PORT}")
    return text


def _check_host(text: str) -> str:
    try:
        return check_host(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _check_count(text: str) -> str:
    if not text.isdecimal() or not int(text):
        raise typer.BadParameter(f"{text!r} is not a number above zero")
    return text


_Port = Annotated[
    str,
    typer.Option(
        "--port", metavar="N", callback=_check_port, help="Port to listen on; 0: a free port."
    ),
]
_Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        envvar=HOST_VARIABLE,
        show_envvar=True,
        show_default=True,
        callback=_check_host,
        help="Address or host name to listen on; 127.0.0.1: this machine only.",
    ),
]


def _make_count_option(flag: str, text: str) -> Any:
    """Return a command-line option for a number above zero. ``text`` is its help text."""
    return typer.Option(flag, metavar="N", show_default=True, callback=_check_count, help=text)


_MaxCalls = Annotated[str, _make_count_option("--max-calls", "Maximum number of concurrent calls.")]
_MaxRequest = Annotated[
    str, _make_count_option("--max-request", "Maximum size of a request in bytes.")
]
_MaxHeld = Annotated[
    str, _make_count_option("--max-held", "Maximum memory of the requests of all calls in bytes.")
]


def port_command(name: str, serve: Callable[[ListenAddress], int]) -> Program:
    """Return the command-line program that runs a gRPC server. Call its ``main()`` to run it.

    Args:
        name: Name of the program.
        serve: Function that runs a server on an address until it is stopped, and returns the exit
            code.
    """

    def run(
        port: _Port,
        host: _Host = ALL_ADDRESSES,
        max_calls: _MaxCalls = str(_DEFAULT_LIMITS.calls),
        max_request: _MaxRequest = str(_DEFAULT_LIMITS.message),
        max_held: _MaxHeld = str(_DEFAULT_LIMITS.held),
    ) -> int:
        max_held_bytes = int(max_held)
        message = min(int(max_request), max_held_bytes, MESSAGE_LIMIT)
        limits = RequestLimits(int(max_calls), message, max_held_bytes)
        try:
            return serve(ListenAddress(int(port), host, limits))
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in {"grpc", "google"}:
                raise
            write_to_stderr(f"{name} --port needs gRPC: pip install 'tap-core-sdk[fivetran]'\n")
            return 1

    return make_program(
        name,
        run,
        description="Serve Fivetran's partner interface. Settings and states come with its calls."
        " Any client that reaches the port can make every call: there is no login.",
    )
