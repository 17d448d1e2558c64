"""Fivetran calls: a client's bytes sent to the real servers by gRPC.

A seed is JSON: the service and the call, and a message by its fields, or ``hex``; ``flips`` are
positions in the encoded message and the bytes to put there. Destination calls end where Spark would
start. A handler's exception is recorded where it is explained to the caller.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.connector_service import make_connector_service
from tap_core.protocols.fivetran.grpc_server import Server, Service
from tap_core.protocols.fivetran.listen_address import ListenAddress
from tap_core.protocols.fivetran.logging import ServerLog
from target_spark.errors import SparkUnavailableError
from target_spark.fivetran.allowed_settings import CallRules
from target_spark.fivetran.destination_service import make_service
from target_spark.fivetran.shared_spark import SharedSpark
from target_spark.target import TargetSpark
from tests.fuzz.readers import Read, typed_errors
from tests.fuzz.tap_readers import SmallTap

__all__ = ["make_calls"]

SECONDS = 30
ANSWERED = {"OK", "INVALID_ARGUMENT", "INTERNAL", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED"}


class UnavailableSpark(SharedSpark):
    """A Spark that cannot start, which ends a call."""

    @contextmanager
    def session(self, config: Mapping[str, Any]) -> Iterator[Any]:
        """Raise an error instead of starting Spark."""
        raise SparkUnavailableError("not here")
        yield


class Served:
    """A service on a local port, and the exceptions of its handlers."""

    def __init__(self, service: Service, journal: ServerLog) -> None:
        self.raised: list[BaseException] = []

        def explain(error: BaseException) -> str:
            self.raised.append(error)
            return service.explain(error)

        server = Server(replace(service, explain=explain), journal)
        self.name = service.name
        self.channel = grpc.insecure_channel(
            f"127.0.0.1:{server.start(ListenAddress(0, '127.0.0.1'))}"
        )
        self.call("ConfigurationForm", b"")

    def call(self, rpc: str, request: bytes) -> str:
        """Make a call; return the name of its status, once all responses were read."""
        self.raised.clear()
        path = f"/fivetran_sdk.v2.{self.name}/{rpc}"
        try:
            if rpc == "Update":
                list(self.channel.unary_stream(path)(request, timeout=SECONDS))
            else:
                self.channel.unary_unary(path)(request, timeout=SECONDS)
        except grpc.RpcError as error:
            return str(error.code().name)  # type: ignore[attr-defined]
        return "OK"


def make_calls(folder: Path) -> Read:
    """Return a reader that calls a connector and a destination."""
    _ = folder
    journal = ServerLog("sdk_connector")
    rules = CallRules.of("target-spark", {})
    services = [
        make_connector_service(SmallTap, journal),
        make_service(TargetSpark, UnavailableSpark(), journal, rules),
    ]
    served = {service.name: Served(service, journal) for service in services}

    def read(data: bytes) -> None:
        try:
            call = json.loads(data)
            server, rpc = served[call["service"]], str(call["rpc"])
            rpc.encode()  # a client cannot send other names
            request = _encode(server.name, rpc, call)
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
            return  # the mutation is no longer a call
        except (json_format.Error, SystemError):  # an enum name that is not text
            return
        status = server.call(rpc, request)
        for error in server.raised:
            if not isinstance(error, typed_errors()):
                raise error
        assert status in ANSWERED, status

    return read


def _encode(service: str, rpc: str, call: dict[str, Any]) -> bytes:
    """Return the bytes of a request."""
    if "hex" in call:
        request = bytearray.fromhex(call["hex"])
    else:
        known = proto_messages.get_rpcs(service).get(rpc)
        kind = getattr(proto_messages, known.request if known else "TestRequest")
        parsed = json_format.ParseDict(call.get("message", {}), kind(), ignore_unknown_fields=True)
        request = bytearray(parsed.SerializeToString())
    for position, byte in call.get("flips", ()):
        if request:
            request[int(position) % len(request)] = int(byte) % 256
    return bytes(request)
