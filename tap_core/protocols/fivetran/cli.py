"""Command that serves a tap as a Fivetran connector: ``tap-x --port 50051``.

The server handles signals in the main thread. Taps run in other threads, in which Python rejects
signal handlers. If a tap's code sets one there, this is ignored.
Source: Fivetran's Partner SDK development guide, "Requirements".
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tap_core.http.https_policy import require_https
from tap_core.plugin_base import CliCommand
from tap_core.protocols.fivetran.port_command import port_command

if TYPE_CHECKING:
    from tap_core.protocols.fivetran.listen_address import ListenAddress
    from tap_core.sync.interfaces import SyncTap

__all__ = ["connector_command"]


def connector_command(tap_class: type[SyncTap]) -> CliCommand:
    """Return the program ``tap-x --port N``, which serves a tap as a Fivetran connector by gRPC."""

    def run(address: ListenAddress) -> int:
        from tap_core.protocols.fivetran.allowed_names import AllowedNames
        from tap_core.protocols.fivetran.connector_service import make_connector_service
        from tap_core.protocols.fivetran.grpc_server import serve
        from tap_core.protocols.fivetran.logging import ServerLog
        from tap_core.redaction.fivetran_logs import remove_addresses

        require_https()
        journal = ServerLog("sdk_connector", remove_addresses)
        # Read before any call, so that variables set by a call have no effect.
        allowance = AllowedNames.of(tap_class.name, os.environ)
        with _ignore_handlers_of_threads():
            return serve(make_connector_service(tap_class, journal, allowance), address, journal)

    return port_command(tap_class.name, run)


@contextmanager
def _ignore_handlers_of_threads() -> Iterator[None]:
    """Ignore calls of `signal.signal` outside the main thread during the ``with`` block.

    Python raises a ValueError for such a call, which would end a tap that sets signal handlers.
    """
    set_handler = signal.signal

    def set_here(number: int, handler: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            return set_handler(number, handler)
        return signal.getsignal(number)

    signal.signal = set_here  # type: ignore[assignment]
    try:
        yield
    finally:
        signal.signal = set_handler
