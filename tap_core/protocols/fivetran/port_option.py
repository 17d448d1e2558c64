"""Option ``--port N``, which serves a tap or target over gRPC, and its related options.

Calls carry settings and states, so there is no ``--config``. gRPC is imported only after the
arguments are parsed. Exit codes: 0 after a stop, 1 if the port cannot be used or a package is not
installed, 2 for invalid arguments.
Source: Fivetran's Partner SDK development guide, "Requirements".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from tap_core.protocols.fivetran.listen_address import ListenAddress
    from tap_core.protocols.fivetran.request_limits import RequestLimits

__all__ = ["HOST_VARIABLE", "PortCommand", "has_port_option"]

HOST_VARIABLE: Final = "TAP_CORE_HOST"
"""Environment variable with the default of ``--host``."""

_FLAG: Final = "--port"
_LAST_PORT: Final = 65_535


def has_port_option(args: Sequence[str]) -> bool:
    """Return True if the command-line arguments contain ``--port``."""
    return any(word == _FLAG or word.startswith(f"{_FLAG}=") for word in args)


class PortCommand:
    """Command that runs a server on a port. Run it with ``main(args=…)``, like a click command.

    ``serve`` runs the server until it is stopped, and returns the exit code.
    """

    def __init__(self, name: str, serve: Callable[[ListenAddress], int]) -> None:
        self.name = name
        self._serve = serve

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        **extra: Any,
    ) -> int:
        """Run the server, then end the process with its exit code.

        With ``standalone_mode=False``, return the exit code instead.
        """
        words = list(sys.argv[1:] if args is None else args)
        code = self._run(self._parsed(prog_name or self.name, words))
        if extra.get("standalone_mode", True):
            sys.exit(code)
        return code

    def _parsed(self, program: str, words: Sequence[str]) -> ListenAddress:
        from tap_core.protocols.fivetran.listen_address import ListenAddress
        from tap_core.protocols.fivetran.request_limits import MESSAGE_LIMIT, RequestLimits

        given = _parser(program, RequestLimits()).parse_args(words)
        message = min(given.max_request, given.max_held, MESSAGE_LIMIT)
        limits = RequestLimits(given.max_calls, message, given.max_held)
        return ListenAddress(given.port, given.host, limits)

    def _run(self, place: ListenAddress) -> int:
        try:
            return self._serve(place)
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in {"grpc", "google"}:
                raise
            sys.stderr.write(
                f"{self.name} --port needs gRPC: pip install 'tap-core-sdk[fivetran]'\n"
            )
            return 1


def _parser(program: str, usual: RequestLimits) -> ArgumentParser:
    import argparse  # imported late: every tap imports this module

    from tap_core.protocols.fivetran.listen_address import ALL_ADDRESSES, check_host

    parser = argparse.ArgumentParser(
        prog=program,
        allow_abbrev=False,
        description="Serve Fivetran's partner interface. Settings and states come with its calls."
        " Any client that reaches the port can make every call: there is no login.",
    )

    def port(text: str) -> int:
        if not text.isdecimal() or int(text) > _LAST_PORT:
            raise argparse.ArgumentTypeError(f"{text!r} is not a port: use 0 to {_LAST_PORT}")
        return int(text)

    def host(text: str) -> str:
        try:
            return check_host(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    def count(text: str) -> int:
        if not text.isdecimal() or not int(text):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
        return int(text)

    parser.add_argument(_FLAG, type=port, required=True, help="port to listen on; 0: a free port")
    parser.add_argument(
        "--host",
        type=host,
        default=os.environ.get(HOST_VARIABLE) or ALL_ADDRESSES,
        help="the address or host name to listen on (default: %(default)s; 127.0.0.1: this machine"
        f" only). The environment variable {HOST_VARIABLE} sets the default",
    )
    counts = {
        "--max-calls": (usual.calls, "maximum number of concurrent calls"),
        "--max-request": (usual.message, "maximum size of a request in bytes"),
        "--max-held": (usual.held, "maximum memory of the requests of all calls in bytes"),
    }
    for flag, (default, text) in counts.items():
        parser.add_argument(flag, type=count, default=default, help=f"{text} (%(default)s)")
    return parser
