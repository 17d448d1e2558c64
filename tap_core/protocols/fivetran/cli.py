"""The command that makes a server of a tap: ``tap-x --port 50051``.

Rules of the room: the tap's class is handed in and never imported. The main thread and its
signals are the server's. Taps run in other threads, where Python allows no handler of signals:
an author who sets one is let pass. Source: Fivetran's Partner SDK development guide,
"Requirements".
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tap_core.http.https_policy import require_https
from tap_core.protocols.fivetran.port_option import PortCommand

if TYPE_CHECKING:
    from tap_core.protocols.fivetran.connector_service import ConnectorTap
    from tap_core.protocols.fivetran.listen_address import ListenAddress

__all__ = ["connector_command"]


def connector_command(tap_class: type[ConnectorTap]) -> PortCommand:
    """Return the command that serves a tap on a port."""

    def run(place: ListenAddress) -> int:
        from tap_core.protocols.fivetran.allowed_names import AllowedNames
        from tap_core.protocols.fivetran.connector_service import make_connector_service
        from tap_core.protocols.fivetran.grpc_server import serve
        from tap_core.protocols.fivetran.logging import JsonLogHandler
        from tap_core.redaction import remove_addresses

        require_https()
        journal = JsonLogHandler("sdk_connector", remove_addresses)
        # Before any call: what a call loads into the environment must not count.
        allowance = AllowedNames.of(tap_class.name, os.environ)
        with _handlers_of_the_main_thread():
            return serve(make_connector_service(tap_class, journal, allowance), place, journal)

    return PortCommand(tap_class.name, run)


@contextmanager
def _handlers_of_the_main_thread() -> Iterator[None]:
    """Let handlers of signals that other threads set be forgotten, where Python would raise."""
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
