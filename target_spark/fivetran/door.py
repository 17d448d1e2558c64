"""``target-spark --port``: a destination that Fivetran calls.

Rules of the room: the target is handed in and never imported. One Spark serves all calls, and
ends with the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tap_core.protocols.fivetran.command import PortCommand

if TYPE_CHECKING:
    from target_spark.fivetran.destination import Plugin

__all__ = ["destination_command"]


def destination_command(name: str, plugin: type[Plugin]) -> PortCommand:
    """Return the command that serves a destination."""

    def serve_on(port: int) -> int:
        from tap_core.protocols.fivetran.log import Journal
        from tap_core.protocols.fivetran.server import serve
        from target_spark.fivetran.destination import destination
        from target_spark.fivetran.engine import Sparks

        journal, sparks = Journal("sdk_destination"), Sparks()
        return serve(destination(plugin, sparks, journal), port, journal, sparks.close)

    return PortCommand(name, serve_on)
