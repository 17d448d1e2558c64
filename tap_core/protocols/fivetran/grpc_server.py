"""gRPC server for Fivetran's calls: decoding, dispatch, error reporting and shutdown.

An exception of a handler is logged once and reported to Fivetran: as a Task message if the response
has a field for it, else by the gRPC status of the call. The server continues. Bytes that a handler
returns are sent unchanged. If the client cancels a call or the server stops, the handler is
notified, and the call does not end with the status OK.
Source: Fivetran's Partner SDK development guide, "Requirements" and "Error handling".
"""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Literal, NoReturn

from google.protobuf.message import DecodeError

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.listen_address import ListenAddress
from tap_core.protocols.fivetran.logging import Level, ServerLog
from tap_core.protocols.fivetran.proto_descriptors import PACKAGE
from tap_core.protocols.fivetran.request_limits import (
    MESSAGE_LIMIT,
    MissingRequestError,
    RequestLimits,
    RequestReceiver,
    RequestTooLargeError,
)

__all__ = ["Handler", "RpcCall", "Server", "Service", "serve"]

_logger = logging.getLogger("fivetran")

_OPEN_PORT_WARNING: Final = (
    "The port is open to other machines: it listens on {host}, and any client that reaches port"
    " {port} there can make every call, without a login. Let only Fivetran reach it; or listen on"
    " --host 127.0.0.1."
)

_PORT_ERRORS: Final = frozenset({0, errno.EADDRINUSE, errno.EACCES})
"""Error numbers of an unusable port. All other errors mean that the host is unusable."""

_GRACE_SECONDS: Final = 60.0
_FINAL_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.05

_OPTIONS: Final = (
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    ("grpc.so_reuseport", 0),  # else two servers could share one port unnoticed
    # Keepalive pings during a long call must not close the connection.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_ping_strikes", 0),
    # Buffer at most a stream's initial window of a request that is not yet received.
    ("grpc.http2.bdp_probe", 0),
)


@dataclass(frozen=True, slots=True)
class Handler:
    """Functions that implement one gRPC method of a service.

    Attributes:
        answer: Takes a request and its call. Returns the response, or yields several responses.
        task: Returns a response that reports an error as a Task message; None if responses of the
            method cannot contain a Task.
    """

    answer: Callable[[Any, RpcCall], Any]
    task: Callable[[str], Any] | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """Definition of a gRPC service: its name and the handlers of its methods by name.

    ``explain`` returns the message about an exception for users.
    """

    name: Literal["SourceConnector", "DestinationConnector"]
    handlers: Mapping[str, Handler]
    explain: Callable[[BaseException], str]


class RpcCall:
    """State of a gRPC call that the server is processing, from its request to its last response.

    A handler uses it to notice that the call was cancelled, and to add to its log line.
    ``request_limit`` is the maximum size of a request in bytes.
    """

    def __init__(self, name: str, context: Any, request_limit: int = MESSAGE_LIMIT) -> None:
        self.name = name
        self.request_limit = request_limit
        self.log_note = self.failure = ""
        self.end_reason: Literal["", "cancelled", "stopped"] = ""
        self.started = time.perf_counter()
        self._context = context
        self._lock = threading.Lock()
        self._is_over = self._is_server_stopping = False
        self._callbacks: list[Callable[[], None]] = []

    def is_active(self) -> bool:
        """Return True if the client of this gRPC call is still waiting for the response."""
        return not self.end_reason and bool(self._context.is_active())

    def check_active(self) -> None:
        """Raise an error, which ends the call, if the client has left or the server is stopping."""
        if self.end_reason:
            raise _make_end_status(self)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Register a function that runs once when this gRPC call ends, in any thread.

        If the call has ended already, the function runs immediately.
        """
        with self._lock:
            if not self._is_over:
                self._callbacks.append(callback)
                return
        _run_callback(callback)

    def wait_for_thread(self, thread: threading.Thread) -> None:
        """Wait until a thread that works for this gRPC call has ended, or the server stops.

        The call counts against the server's limits until its handler returns. Without this wait,
        clients could start any number of threads by calls that they cancel.
        """
        while thread.is_alive() and not self._is_server_stopping:
            thread.join(_POLL_SECONDS)

    def note(self, text: str) -> None:
        """Add a text, such as "3 tables", to the log line that this gRPC call gets at its end."""
        self.log_note = text

    def leave(self, reason: Literal["cancelled", "stopped"]) -> None:
        """End this gRPC call early, and run the functions added by `on_end` in another thread.

        ``reason`` is "cancelled" if the client has cancelled the call, or "stopped" if the server
        stops.
        """
        with self._lock:
            self._is_server_stopping = self._is_server_stopping or reason == "stopped"
            if self._is_over:
                return
            self.end_reason = reason
        if callbacks := self._end_once():  # in a thread, because callbacks may block
            threading.Thread(target=_run_callbacks, args=(callbacks,), daemon=True).start()

    def end(self) -> None:
        """End this gRPC call after its last response, and run the functions added by `on_end`."""
        _run_callbacks(self._end_once())

    def _end_once(self) -> list[Callable[[], None]]:
        """Mark this gRPC call as ended; return the functions registered by `on_end`, only once."""
        with self._lock:
            self._is_over = True
            callbacks, self._callbacks = self._callbacks, []
            return callbacks


def _run_callbacks(callbacks: Iterable[Callable[[], None]]) -> None:
    for callback in callbacks:
        _run_callback(callback)


def _run_callback(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception as error:  # noqa: BLE001  the other callbacks must run
        _logger.warning("The cleanup after a call failed (%s).", type(error).__name__)


class _UserError(Exception):
    """Raised by the gRPC server for an invalid request or response. Users see the message."""


class _UnreadableError(_UserError):
    """Raised for a request that is not a valid protobuf message."""

    def __init__(self, rpc: str) -> None:
        super().__init__(
            f"The request of {rpc} cannot be read: it is not a message of version 2 of Fivetran's"
            " interface."
        )


class _Status(Exception):  # noqa: N818  not always an error
    """Raised to end a gRPC call with a status code, such as CANCELLED, instead of a response."""

    def __init__(self, code: str, details: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.details = details


@dataclass(frozen=True, slots=True)
class _Route:
    """Method of a gRPC service that the server offers, with its handler.

    ``request`` is the message class of its requests. ``streams`` is True if the method returns a
    stream of responses.
    """

    name: str
    streams: bool
    request: Any
    handler: Handler


class Server:
    """gRPC server of one service. It processes several calls concurrently."""

    def __init__(self, service: Service, journal: ServerLog) -> None:
        self._service = service
        self._journal = journal
        self._changed = threading.Condition()
        self._calls: dict[RpcCall, bool] = {}
        self._is_stopping = False
        self._request_limit = MESSAGE_LIMIT
        self._receiver = RequestReceiver(RequestLimits())
        self._server: Any = None

    def start(self, listen_address: ListenAddress) -> int:
        """Start the gRPC server on an address, and return the port. For port 0, use a free port.

        Raises:
            OSError: The port cannot be used.
        """
        address, limits = listen_address.resolve(), listen_address.limits
        grpc = _import_grpc()
        handlers = {route.name: self._make_method_handler(route) for route in self._make_routes()}
        self._request_limit, self._receiver = limits.message, RequestReceiver(limits)
        self._server = grpc.server(
            ThreadPoolExecutor(limits.calls, "fivetran"),
            [grpc.method_handlers_generic_handler(f"{PACKAGE}.{self._service.name}", handlers)],
            options=(*_OPTIONS, ("grpc.max_receive_message_length", limits.message)),
            maximum_concurrent_rpcs=limits.calls,
        )
        with suppress(RuntimeError):  # raised by newer releases of gRPC only
            if bound := self._server.add_insecure_port(address):
                self._server.start()
                return int(bound)
        raise OSError(0, "it is taken")

    def stop(self, grace_seconds: float) -> bool:
        """Stop the server. Return True if all handlers have ended in time.

        New calls are rejected. Streaming calls are notified to end. A call that still runs after
        ``grace_seconds`` is cancelled, and its handler has five more seconds to end.
        """
        ended = self._server.stop(grace_seconds)
        with self._changed:
            self._is_stopping = True
            streaming_calls = [call for call, streams in self._calls.items() if streams]
        for call in streaming_calls:
            call.leave("stopped")
        ended.wait()
        with self._changed:
            return self._changed.wait_for(lambda: not self._calls, _FINAL_SECONDS)

    def _make_routes(self) -> Iterator[_Route]:
        """Yield the name, the message class and the handler of each gRPC method to serve."""
        for name, rpc in proto_messages.get_rpcs(self._service.name).items():
            if handler := self._service.handlers.get(name):
                yield _Route(name, rpc.streams, getattr(proto_messages, rpc.request), handler)

    def _make_method_handler(self, route: _Route) -> Any:
        """Return the method handler (``grpc.RpcMethodHandler``) for the method ``route``."""
        # gRPC reads only streams of requests on demand. A single request is a stream of one.
        if route.streams:
            return _import_grpc().stream_stream_rpc_method_handler(
                partial(self._handle_stream, route)
            )
        return _import_grpc().stream_unary_rpc_method_handler(partial(self._handle_unary, route))

    @contextmanager
    def _receive_request(
        self, route: _Route, call: RpcCall, requests: Iterator[bytes], context: Any
    ) -> Iterator[Any]:
        """Receive, parse and yield the request of a gRPC call.

        The memory of the request counts against the server's limit until the ``with`` block ends.
        ``requests`` yields the encoded messages from the client. The first one is the request.

        Raises:
            _UnreadableError: The bytes are not a valid request.
            RequestTooLargeError: The requests of all calls would use too much memory.
        """
        with ExitStack() as stack:
            try:
                received = self._receiver.request(requests, context, route.request)
                request = stack.enter_context(received)
            except (DecodeError, ValueError) as error:
                raise _UnreadableError(route.name) from error
            # The client cancelled the call or sent no request, or the request is too large.
            except (_import_grpc().RpcError, MissingRequestError):
                call.note(
                    "its request did not arrive. A request may have at most"
                    f" {call.request_limit:,} bytes (--max-request)"
                )
                call.leave("cancelled")
                raise
            yield request

    def _handle_unary(self, route: _Route, requests: Iterator[bytes], context: Any) -> bytes:
        """Run the handler of ``route``, a method with one response, and return it encoded."""
        try:
            with self._register_call(route, context) as call:
                try:
                    with self._receive_request(route, call, requests, context) as request:
                        return _encode(route.handler.answer(request, call))
                except BaseException as error:  # noqa: BLE001  SystemExit too: the server continues
                    return self._report_error(route, call, error)
        except _Status as status:
            _abort(context, status)

    def _handle_stream(
        self, route: _Route, requests: Iterator[bytes], context: Any
    ) -> Iterator[bytes]:
        """Run the handler of ``route``, a method with several responses, and yield them encoded."""
        try:
            with self._register_call(route, context) as call:
                try:
                    yield from self._yield_responses(route, call, requests, context)
                except GeneratorExit:  # gRPC closed the stream
                    call.leave("cancelled")
                    raise
                if call.end_reason:
                    raise _make_end_status(call)  # possibly incomplete, so it must not end with OK
        except _Status as status:
            _abort(context, status)

    def _yield_responses(
        self, route: _Route, call: RpcCall, requests: Iterator[bytes], context: Any
    ) -> Iterator[bytes]:
        """Yield the encoded responses of a gRPC handler and, if it fails, one with the error."""
        try:
            with self._receive_request(route, call, requests, context) as request:
                answers = route.handler.answer(request, call)
                try:
                    for answer in answers:
                        yield _encode(answer)
                finally:
                    _close(answers)  # before the memory of the request counts as free
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  SystemExit too: the server continues
            raised = error
        else:
            return
        yield self._report_error(route, call, raised)

    @contextmanager
    def _register_call(self, route: _Route, context: Any) -> Iterator[RpcCall]:
        """Register a call of the method ``route`` for the ``with`` block, and yield its `RpcCall`.

        At the end of the block, the call's callbacks run, and a line about the call is logged.

        Raises:
            _Status: The client has already cancelled the call, or the server is stopping.
        """
        call = RpcCall(route.name, context, self._request_limit)
        with self._changed:
            self._calls[call] = route.streams
            is_late = route.streams and self._is_stopping
        try:
            if is_late:
                call.leave("stopped")
            elif not context.add_callback(partial(call.leave, "cancelled")):
                call.leave("cancelled")
            if call.end_reason:  # cancelled while it waited for a thread, or the server is stopping
                raise _make_end_status(call)
            with self._journal.call():
                try:
                    yield call
                finally:
                    call.end()
                    self._journal.write(*_format_log_line(call))
        finally:
            with self._changed:
                del self._calls[call]
                self._changed.notify_all()

    def _report_error(self, route: _Route, call: RpcCall, error: BaseException) -> bytes:
        """Return an encoded response that reports an error to the user as a Task message.

        Raises:
            _Status: The error must be reported as a gRPC status, for example because responses of
                the method cannot contain a Task.
        """
        if call.end_reason:
            raise _make_end_status(call)
        call.failure = text = self._journal.clean(self._explain(error))
        if isinstance(error, _UnreadableError):
            raise _Status("INVALID_ARGUMENT", _format_alert(text))
        if isinstance(error, RequestTooLargeError):
            raise _Status("RESOURCE_EXHAUSTED", _format_alert(text))
        if route.handler.task is None:
            raise _Status("INTERNAL", _format_alert(text))
        return _encode(route.handler.task(text))

    def _explain(self, error: BaseException) -> str:
        """Return the message about an error for the user.

        The service's function ``explain`` returns it, except for errors of the server itself.
        """
        if isinstance(error, _UserError | RequestTooLargeError):
            return str(error)
        try:
            return self._service.explain(error)
        except Exception as second:  # noqa: BLE001  an error must always be reported
            kinds = f"{type(error).__name__}, then {type(second).__name__}"
            return f"The call failed, and its error could not be described ({kinds})."


def serve(
    service: Service,
    address: ListenAddress,
    journal: ServerLog,
    closing: Callable[[], None] = lambda: None,
) -> int:
    """Run a gRPC server until SIGTERM or SIGINT, and return the exit code of the process.

    Call this in the main thread only. After the first signal, active calls may finish, and
    streaming calls are notified to end. A second signal ends the process immediately.

    Args:
        service: Service to serve.
        address: Address to listen on.
        journal: Log of the server.
        closing: Called once when the server ends, to free resources of the caller.
    """
    with journal.attached(), _queue_signals() as signals:
        server = Server(service, journal)
        shutdown = _ShutdownThread(server, closing, journal)
        try:
            bound = server.start(address)
        except OSError as error:
            is_port_error = error.errno in _PORT_ERRORS
            subject = f"Port {address.port}" if is_port_error else f"Address {address.host}"
            reason = f"{subject} cannot be listened on: {error.strerror}."
            option = "--port" if is_port_error else "--host"
            journal.write("SEVERE", f"{reason} Choose another one with {option}.")
            shutdown.close()
            return 1
        journal.write("INFO", f"Listening on port {bound} ({address.families}).")
        if not address.is_loopback:
            journal.write("WARNING", _OPEN_PORT_WARNING.format(host=address.host, port=bound))
        _wait_for_signal(signals)
        journal.write("INFO", "Stopping: new calls are refused, active calls may finish.")
        shutdown.start()
        while shutdown.is_alive():
            shutdown.join(_POLL_SECONDS)
            if not signals.empty():
                shutdown.exit_now()
        if shutdown.is_stuck:
            journal.write("WARNING", "A call does not end: it is abandoned.")
            os._exit(1)
        return 0


class _ShutdownThread(threading.Thread):
    """Thread that stops the gRPC server after a signal, and then calls the function ``closing``.

    ``is_stuck`` is True if calls were still running after the server had stopped.
    """

    def __init__(self, server: Server, closing: Callable[[], None], journal: ServerLog) -> None:
        super().__init__(daemon=True)
        self.is_stuck = False
        self._server = server
        self._closing = closing
        self._journal = journal
        self._lock = threading.Lock()
        self._is_closed = False

    def run(self) -> None:
        self.is_stuck = not self._server.stop(_GRACE_SECONDS)
        self.close()

    def close(self) -> None:
        """Call the function ``closing``, which frees resources, unless it was called before.

        Its errors are logged instead of raised.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                self._closing()
            except Exception as error:  # noqa: BLE001  the server ends in any case
                kind = type(error).__name__
                self._journal.write(
                    "WARNING", f"The cleanup after the server's stop failed ({kind})."
                )

    def exit_now(self) -> None:
        """Exit with code 1, after at most five seconds for freeing the caller's resources."""
        self._journal.write("WARNING", "Stopped at once: calls under way are cut off.")
        closing = threading.Thread(target=self.close, daemon=True)
        closing.start()
        closing.join(_FINAL_SECONDS)
        os._exit(1)


@contextmanager
def _queue_signals() -> Iterator[SimpleQueue[int]]:
    """Yield a queue that receives each SIGTERM and SIGINT during the ``with`` block."""
    received: SimpleQueue[int] = SimpleQueue()
    numbers = (signal.SIGTERM, signal.SIGINT)
    previous = [
        signal.signal(number, lambda signum, _frame: received.put(signum)) for number in numbers
    ]
    try:
        yield received
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _wait_for_signal(signals: SimpleQueue[int]) -> None:
    """Wait in the main thread until a signal is in the queue.

    The wait is repeated in short intervals, because Python runs signal handlers in the main thread
    only. A single endless wait would miss a signal that another thread receives.
    """
    while True:
        try:
            signals.get(timeout=_POLL_SECONDS)
        except Empty:
            continue
        return


def _import_grpc() -> Any:
    """Import and return the module ``grpc``, with its fork handlers disabled.

    They are disabled because threads of the server start JVM processes.
    """
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    import grpc

    return grpc


def _encode(answer: Any) -> bytes:
    """Encode the response of a gRPC handler as protobuf bytes, unless it is encoded already.

    Raises:
        _UserError: The response is larger than Fivetran's limit for messages.
    """
    data: bytes = answer if isinstance(answer, bytes) else answer.SerializeToString()
    if len(data) > MESSAGE_LIMIT:
        raise _UserError(
            f"A response of {len(data):,} bytes exceeds Fivetran's limit of {MESSAGE_LIMIT:,}."
        )
    return data


def _close(answers: Iterable[Any]) -> None:
    """Close the generator of a gRPC handler before all responses were read.

    The generator then frees its resources. Iterables without ``close`` are left as they are.
    """
    close = getattr(answers, "close", None)
    if close is not None:
        _run_callback(close)


def _abort(context: Any, status: _Status) -> NoReturn:
    """End a call with a gRPC status instead of a response. Never return."""
    context.abort(getattr(_import_grpc().StatusCode, status.code), status.details)
    raise status  # not reached: abort() raises


def _make_end_status(call: RpcCall) -> _Status:
    """Return the gRPC status of a call that ended early: CANCELLED, or UNAVAILABLE at shutdown."""
    if call.end_reason == "stopped":
        return _Status("UNAVAILABLE", "The server is stopping.")
    return _Status("CANCELLED")


def _format_alert(text: str) -> str:
    """Return a message as JSON that Fivetran shows to the user: ``{"message": ..., ...}``."""
    return json.dumps({"message": text, "alert_type": "TASK"})


def _format_log_line(call: RpcCall) -> tuple[Level, str]:
    """Return the level and text of the log line about a call that has ended."""
    seconds = f"{time.perf_counter() - call.started:.2f} s"
    note = f": {call.log_note}" if call.log_note else ""
    if call.failure:
        return "SEVERE", f"{call.name} failed after {seconds}{note}: {call.failure}"
    if call.end_reason:
        is_cancelled = call.end_reason == "cancelled"
        by = "cancelled by the client" if is_cancelled else "cut short by the stop"
        return "INFO", f"{call.name} was {by} after {seconds}{note}"
    return "INFO", f"{call.name}{note} in {seconds}"
