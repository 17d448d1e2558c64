"""``target-spark --port``: a destination that Fivetran calls.

The target's class is a parameter and is not imported. One Spark serves all calls and ends with
the server.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tap_core.protocols.fivetran.command import PortCommand

if TYPE_CHECKING:
    from tap_core.protocols.fivetran.listening import Listening
    from target_spark.fivetran.destination import Plugin

__all__ = ["destination_command"]


def destination_command(name: str, plugin: type[Plugin]) -> PortCommand:
    """Return the command that serves a destination."""

    def serve_at(place: Listening) -> int:
        from tap_core.protocols.fivetran.log import Journal
        from tap_core.protocols.fivetran.server import serve
        from target_spark.fivetran.allowed_settings import CallRules
        from target_spark.fivetran.destination import destination
        from target_spark.fivetran.engine import Sparks

        journal, sparks = Journal("sdk_destination"), Sparks()
        # Before any call: what a call loads into the environment must not count.
        rules = CallRules.of(name, os.environ)
        return serve(destination(plugin, sparks, journal, rules), place, journal, sparks.close)

    return PortCommand(name, serve_at)
