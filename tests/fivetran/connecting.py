"""A connector in a separate process, and its gRPC client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tap_core.protocols.fivetran import proto_messages
from tests.fivetran.server_process import PATIENCE, Running

__all__ = ["HERE", "Client", "serving"]

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


class Client:
    """A gRPC client that calls a connector as Fivetran does, with settings as text."""

    def __init__(self, server: Running, **settings: Any) -> None:
        self.server = server
        self.configuration = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in settings.items()
        }

    def call(self, rpc: str, **fields: Any) -> Any:
        """Return the answer of a call."""
        request, response = (
            getattr(proto_messages, f"{rpc}{kind}") for kind in ("Request", "Response")
        )
        if "configuration" in request.DESCRIPTOR.fields_by_name:
            fields["configuration"] = self.configuration
        return response.FromString(self.server.call(rpc, request(**fields)).result())

    def update(self, state: Any = None, selection: Any = None) -> Any:
        """Yield the responses of an Update; the call can be cancelled."""
        state = json.dumps(state) if isinstance(state, dict) else state
        request = proto_messages.UpdateRequest(
            configuration=self.configuration, selection=selection, state_json=state
        )
        method = self.server.channel.unary_stream(
            "/fivetran_sdk.v2.SourceConnector/Update",
            response_deserializer=proto_messages.UpdateResponse.FromString,
        )
        return method(request.SerializeToString(), timeout=PATIENCE)


@contextmanager
def serving(
    *command: str, path: Mapping[str, str] | None = None, stderr: Any = None
) -> Iterator[Running]:
    """Run a tap as a server on a free port; ``path`` adds environment variables."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TAP_", "PYTEST"))}
    process = subprocess.Popen(
        [sys.executable, *command, "--port", "0", "--host", "127.0.0.1"],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**environment, "PYTHONPATH": str(ROOT), **(path or {})},
    )
    server = Running(process)
    try:
        server.connect()
        yield server
    finally:
        server.close()
        if process.stdout:
            process.stdout.close()
