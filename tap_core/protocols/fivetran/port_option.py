"""Detection of the option ``--port``, which makes a tap or target serve Fivetran's calls.

The module is small because every plugin imports it. `port_command` parses the option.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["HOST_VARIABLE", "PORT_HINT", "has_port_option"]

HOST_VARIABLE: Final = "TAP_CORE_HOST"
"""Environment variable with the default of ``--host``."""

_FLAG: Final = "--port"

PORT_HINT: Final = "Fivetran: '{name} --port N' serves a {role}. Add --help for its options."
"""Text about the option for the help of a plugin."""


def has_port_option(args: Sequence[str]) -> bool:
    """Return True if command-line arguments ask to run the gRPC server for Fivetran.

    They contain ``--port`` and do not start with a command, such as ``read``.
    """
    if args and not args[0].startswith("-"):
        return False
    return any(word == _FLAG or word.startswith(f"{_FLAG}=") for word in args)
