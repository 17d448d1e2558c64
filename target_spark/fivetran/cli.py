"""``target-spark --port``: server of the Fivetran destination.

The target class is passed in and not imported. One Spark serves all calls and ends with the server.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tap_core.plugin_base import CliCommand
from tap_core.protocols.fivetran.port_command import port_command

if TYPE_CHECKING:
    from tap_core.protocols.fivetran.listen_address import ListenAddress
    from target_spark.loader.load_session import CommandTarget

__all__ = ["destination_command"]


def destination_command(name: str, plugin: type[CommandTarget]) -> CliCommand:
    """Return the command that runs a Fivetran destination: a gRPC server that Fivetran calls."""

    def serve_at(address: ListenAddress) -> int:
        from tap_core.protocols.fivetran.grpc_server import serve
        from tap_core.protocols.fivetran.logging import JsonLogHandler
        from target_spark.fivetran.allowed_settings import CallRules
        from target_spark.fivetran.destination_service import make_service
        from target_spark.fivetran.shared_spark import SharedSpark

        journal, spark = JsonLogHandler("sdk_destination"), SharedSpark()
        # Before any call: what a call loads into the environment must not count.
        rules = CallRules.of(name, os.environ)
        return serve(make_service(plugin, spark, journal, rules), address, journal, spark.close)

    return port_command(name, serve_at)
