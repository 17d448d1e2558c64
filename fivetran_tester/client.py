"""gRPC client of a Fivetran connector or destination: calls by rpc name, and errors of calls.

A server should report an error as a status other than OK whose text is a JSON document of the type
Task, as Fivetran's protocol requires.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Final

import grpc

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.proto_descriptors import PACKAGE
from tap_core.protocols.fivetran.request_limits import MESSAGE_LIMIT

__all__ = ["TEXT_LIMIT", "Client", "RefusedError", "Stream"]

TEXT_LIMIT: Final = 8 * 1024
"""Bytes of an error's text; gRPC cannot transmit a text of this size or more."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
)


@dataclass
class RefusedError(Exception):
    """Error for a gRPC call that ended with an error status.

    Attributes:
        rpc: Name of the rpc, such as "Update".
        code: Name of the gRPC status code.
        text: Text of the error.
        is_task: True if the status contained a Task, the form that Fivetran requires.
    """

    rpc: str
    code: str
    text: str
    is_task: bool

    def __str__(self) -> str:
        return f"{self.rpc}: {self.code}, {self.text}"


class Stream:
    """Responses of a streaming gRPC call: iterate over them, or cancel the call.

    Raises:
        RefusedError: During iteration, if the call ends with a status other than OK.
    """

    def __init__(self, rpc: str, call: Any) -> None:
        self._rpc = rpc
        self._call = call

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._call
        except grpc.RpcError as error:
            raise _to_refused_error(self._rpc, error) from None

    def cancel(self) -> None:
        """Cancel the gRPC call, so that the server stops sending responses."""
        self._call.cancel()


class Client:
    """Client of a Fivetran connector or destination, which calls the rpcs of one gRPC service.

    Args:
        address: ``host:port`` of the server.
        service: Name of the service, such as "SourceConnector".
        seconds: Time limit of a call.
    """

    def __init__(self, address: str, service: str, seconds: float = 3600) -> None:
        self._channel: Any = grpc.insecure_channel(address, options=_OPTIONS)
        self._service = service
        self._seconds = seconds

    def call(self, rpc: str, request: Any) -> Any:
        """Call an rpc that has one response, and return the response.

        Raises:
            RefusedError: The call ended with a status other than OK.
        """
        method = self._channel.unary_unary(*self._get_method(rpc))
        try:
            return method(request, timeout=self._seconds)
        except grpc.RpcError as error:
            raise _to_refused_error(rpc, error) from None

    def stream(self, rpc: str, request: Any) -> Stream:
        """Call an rpc that has a stream of responses, and return the open stream."""
        return Stream(
            rpc, self._channel.unary_stream(*self._get_method(rpc))(request, timeout=self._seconds)
        )

    def close(self) -> None:
        """Close the connection to the server."""
        self._channel.close()

    def _get_method(self, rpc: str) -> tuple[str, Any, Any]:
        """Return an rpc's gRPC path, the encoder of its request and the decoder of its response."""
        response = getattr(proto_messages, proto_messages.get_rpcs(self._service)[rpc].response)
        encode = methodcaller("SerializeToString")
        return f"/{PACKAGE}.{self._service}/{rpc}", encode, response.FromString


def _to_refused_error(rpc: str, error: Any) -> RefusedError:
    """Convert a `grpc.RpcError` of a call of ``rpc`` to a `RefusedError`."""
    text = error.details() or ""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if isinstance(document, Mapping) and document.get("alert_type") == "TASK":
        return RefusedError(rpc, error.code().name, str(document.get("message", "")), is_task=True)
    return RefusedError(rpc, error.code().name, text, is_task=False)
