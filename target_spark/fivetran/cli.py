"""Command ``target-spark --port``, which runs the gRPC server of the Fivetran destination."""

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
    """Return the command that runs a Fivetran destination: a gRPC server that Fivetran calls.

    ``name`` is the name of the program, ``plugin`` the target's class. All calls share one Spark
    application, which ends with the server.
    """

    def serve_at(address: ListenAddress) -> int:
        from tap_core.protocols.fivetran.grpc_server import serve
        from tap_core.protocols.fivetran.logging import ServerLog
        from target_spark.fivetran.allowed_settings import CallRules
        from target_spark.fivetran.destination_service import make_service
        from target_spark.fivetran.shared_spark import SharedSpark

        journal, spark = ServerLog("sdk_destination"), SharedSpark()
        # Read before any call, so that variables that a call sets have no effect on the rules.
        rules = CallRules.of(name, os.environ)
        return serve(make_service(plugin, spark, journal, rules), address, journal, spark.close)

    return port_command(name, serve_at)
