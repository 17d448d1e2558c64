"""``--port N``: the flag that makes a server of a tap or a target.

Rules of the room: the flag stands alone, since settings and states come with the calls. Nothing
of gRPC is imported before the words are right, and what is missing then is named. Exit codes: 0
stopped, 1 the port cannot be had or something is not installed, 2 wrong words. Source: Fivetran's
Partner SDK development guide, "Requirements".
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from argparse import ArgumentParser

__all__ = ["PortCommand", "asks_for_port"]

_FLAG: Final = "--port"
_LAST_PORT: Final = 65_535


def asks_for_port(args: Sequence[str]) -> bool:
    """Tell whether words call for a server."""
    return any(word == _FLAG or word.startswith(f"{_FLAG}=") for word in args)


class PortCommand:
    """A server as a command; run by ``main(args=…)``, as commands of click are.

    ``serve`` serves on a port until it is told to end, and returns the exit code.
    """

    def __init__(self, name: str, serve: Callable[[int], int]) -> None:
        self.name = name
        self._serve = serve

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        **extra: Any,
    ) -> int:
        """Serve; exit with the code where that is asked for."""
        words = list(sys.argv[1:] if args is None else args)
        code = self._run(_parser(prog_name or self.name).parse_args(words).port)
        if extra.get("standalone_mode", True):
            sys.exit(code)
        return code

    def _run(self, port: int) -> int:
        try:
            return self._serve(port)
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in {"grpc", "google"}:
                raise
            sys.stderr.write(
                f"{self.name} --port needs gRPC: pip install 'tap-core-sdk[fivetran]'\n"
            )
            return 1


def _parser(program: str) -> ArgumentParser:
    import argparse  # every run of a tap asks whether this is one

    parser = argparse.ArgumentParser(
        prog=program,
        allow_abbrev=False,
        description="Serve Fivetran's partner interface. Settings and states come with its calls.",
    )

    def port(text: str) -> int:
        if not text.isdecimal() or int(text) > _LAST_PORT:
            raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to {_LAST_PORT}")
        return int(text)

    parser.add_argument(_FLAG, type=port, required=True, help="where to listen; 0: a free port")
    return parser
