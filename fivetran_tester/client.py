"""One client of one server: a call by its name, and what a refusal says.

Rules of the room: messages are this project's own; a server is known by its address alone. A
status other than OK is read as the interface wants it: a JSON document that is a task.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.proto_descriptors import PACKAGE

__all__ = ["MESSAGE_LIMIT", "TEXT_LIMIT", "Client", "RefusedError", "Stream"]

MESSAGE_LIMIT: Final = 128 * 1024 * 1024
"""Bytes of the largest message, in both directions."""

TEXT_LIMIT: Final = 8 * 1024
"""Bytes from which on an error's text does not arrive."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
)


@dataclass
class RefusedError(Exception):
    """A call ended with a status; ``is_task`` where it is told as a task."""

    rpc: str
    code: str
    text: str
    is_task: bool

    def __str__(self) -> str:
        return f"{self.rpc}: {self.code}, {self.text}"


class Stream:
    """The answers of one call, which can be cancelled.

    Raises:
        RefusedError: on the way, where the call ends with a status that is not OK.
    """

    def __init__(self, rpc: str, call: Any) -> None:
        self._rpc = rpc
        self._call = call

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._call
        except grpc.RpcError as error:
            raise _refusal(self._rpc, error) from None

    def cancel(self) -> None:
        """End the call on this side."""
        self._call.cancel()


class Client:
    """Calls one service of the server at an address; a call may take so many ``seconds``."""

    def __init__(self, address: str, service: str, seconds: float = 3600) -> None:
        self._channel: Any = grpc.insecure_channel(address, options=_OPTIONS)
        self._service = service
        self._seconds = seconds

    def call(self, rpc: str, request: Any) -> Any:
        """Call and return the answer.

        Raises:
            RefusedError: the call ended with a status that is not OK.
        """
        method = self._channel.unary_unary(*self._method(rpc))
        try:
            return method(request, timeout=self._seconds)
        except grpc.RpcError as error:
            raise _refusal(rpc, error) from None

    def stream(self, rpc: str, request: Any) -> Stream:
        """Call and return the answers as they come."""
        return Stream(
            rpc, self._channel.unary_stream(*self._method(rpc))(request, timeout=self._seconds)
        )

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    def _method(self, rpc: str) -> tuple[str, Any, Any]:
        answer = getattr(proto_messages, proto_messages.rpcs(self._service)[rpc].response)
        return f"/{PACKAGE}.{self._service}/{rpc}", _serialized, answer.FromString


def _refusal(rpc: str, error: Any) -> RefusedError:
    """Return what a status of gRPC's says."""
    text = error.details() or ""
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if isinstance(told, Mapping) and told.get("alert_type") == "TASK":
        return RefusedError(rpc, error.code().name, str(told.get("message", "")), is_task=True)
    return RefusedError(rpc, error.code().name, text, is_task=False)


def _serialized(message: Any) -> bytes:
    encoded: bytes = message.SerializeToString()
    return encoded
