"""Rate limits for the HTTP requests of all processes of a Spark job together.

A server on the driver counts the requests. Before a request, a worker asks the server for the time
to wait. Clients must know the secret key of the run, and messages are JSON, never pickled objects.
If workers cannot reach the driver, each worker may use a fixed fraction of the rate limit instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import math
import os
import secrets
import socket
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec
from typing_extensions import Self

from tap_core.http.rate_limit_counters import (
    InProcessCounters,
    RateCounterStore,
    RateLimits,
    Reservation,
)
from target_spark.errors import RateLimitServerError
from target_spark.extract.authenticated_server import (
    AuthenticatedConnections,
    accept_connections,
    get_max_connections,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RateLimitAddress", "RateLimitServer", "StaticShare"]

_LOOPBACK: Final = "127.0.0.1"
_PORT_SETTING: Final = "spark.tap.permits.port"
"""Spark setting with the port on which the driver listens."""

_LAST_PORT: Final = 65_535
_HANDSHAKE_SECONDS: Final = 3.0
"""Maximum time in seconds for a client to authenticate."""

_BACKLOG: Final = 1024
"""Maximum number of connections that wait to be accepted."""

_ANSWER_SECONDS: Final = 30.0
_RETRIES: Final = 3
_FIRST_PAUSE_SECONDS: Final = 0.5


class _RateLimitMessage(msgspec.Struct, frozen=True, array_like=True):
    """Message from a worker to the server that counts the HTTP requests of a Spark job.

    The message either reserves requests, or reports how many requests an API still allows.

    Attributes:
        name: The name of the rate limit.
        terms: The allowed rates, such as 10 requests per second.
        weight: The number of requests to reserve; 0 in a report.
        left: The number of remaining requests that the API reported; None if unknown.
        seconds: The seconds until the API resets the limit; None if unknown.
    """

    name: str
    terms: RateLimits
    weight: int = 0
    left: int | None = None
    seconds: float | None = None


# Compiled at import: msgspec crashes if two threads use a type for the first time at once.
_decode_message: Final = msgspec.json.Decoder(_RateLimitMessage).decode
_decode_reservation: Final = msgspec.json.Decoder(Reservation).decode


# ------------------------------------------------------------------------------ the driver
class RateLimitServer:
    """Server on the driver that limits the HTTP request rate of all processes of a Spark job.

    The server counts the HTTP requests. It can be used as a context manager.

    Args:
        host: The host name of the driver for executors (``spark.driver.host``).
        bind: The address to listen on (``spark.driver.bindAddress``); None for ``host``.
        port: The port to listen on; 0 for any free port.
    """

    def __init__(self, host: str = _LOOPBACK, bind: str | None = None, port: int = 0) -> None:
        self._host, self._bind, self._port = host, bind or host, port
        self._key = secrets.token_bytes(32)
        self._counters = InProcessCounters()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="permits", daemon=True)
        self._ready = threading.Event()
        self._closing = asyncio.Event()
        self._failure: OSError | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Start the server in a background thread. Return when it accepts connections.

        Raises:
            RateLimitServerError: The server cannot listen on the address.
        """
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise RateLimitServerError(
                f"The driver cannot listen on {self._bind}:{self._port} for its executors"
                f" ({self._failure.strerror or self._failure}): set spark.driver.bindAddress (in"
                " spark) to an address of this machine."
            ) from self._failure

    def close(self) -> None:
        """Stop this rate limit server, close its connections, and wait for its thread to end."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    @classmethod
    def of(cls, spark: SparkSession) -> RateLimitServer | None:
        """Create a server for the executors of a Spark session, without starting it.

        The port is that of the Spark setting ``spark.tap.permits.port``, or any free port if it is
        not set. Return None with Spark Connect, because executors cannot connect to this process.

        Raises:
            RateLimitServerError: The port is invalid.
        """
        if not hasattr(spark, "_jsparkSession"):
            return None
        host = spark.conf.get("spark.driver.host") or _LOOPBACK
        bind = spark.conf.get("spark.driver.bindAddress", host)
        port = spark.conf.get(_PORT_SETTING, "0") or "0"
        if not (port.isascii() and port.isdigit() and int(port) <= _LAST_PORT):
            raise RateLimitServerError(
                f"{_PORT_SETTING} (in spark) must be a port from 0 to {_LAST_PORT}, not {port}."
            )
        return cls(host, bind, int(port))

    @property
    def address(self) -> RateLimitAddress:
        """The host, port and secret key that workers need to connect to this server."""
        return RateLimitAddress(self._host, self._port, self._key)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._listen())
        except OSError as error:
            self._failure = error
        finally:
            self._loop.close()
            self._ready.set()

    async def _listen(self) -> None:
        """Accept connections until `close` is called, and serve each in a separate asyncio task."""
        with _bind_socket(self._bind, self._port) as listener:
            self._port = listener.getsockname()[1]
            accepting = asyncio.ensure_future(self._accept(listener))
            self._ready.set()
            await self._closing.wait()
            other_tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in other_tasks:
                task.cancel()
            await asyncio.gather(accepting, *other_tasks, return_exceptions=True)
            await asyncio.sleep(0)  # closed connections release their file descriptors

    async def _accept(self, listener: socket.socket) -> None:
        connections = AuthenticatedConnections(get_max_connections())
        tasks: set[asyncio.Task[None]] = set()  # the event loop keeps only weak references
        async for accepted in accept_connections(listener):
            task = asyncio.ensure_future(self._serve(accepted, connections))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            task.add_done_callback(partial(_close, accepted))

    async def _serve(self, accepted: socket.socket, connections: AuthenticatedConnections) -> None:
        """Authenticate a client, and respond to its messages until it disconnects."""
        reader, writer = await asyncio.open_connection(sock=accepted)
        connections.add(writer)
        try:
            if await self._authenticate(reader, writer):
                connections.mark_authenticated(writer)
                while line := await reader.readline():
                    connections.mark_used(writer)
                    writer.write(self._respond(line))
                    await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.TimeoutError, asyncio.CancelledError):
            pass  # the client disconnected, or uses another protocol; it may connect again
        finally:
            connections.discard(writer)

    async def _authenticate(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        challenge = secrets.token_hex(16).encode()
        writer.write(challenge + b"\n")
        proof = await asyncio.wait_for(reader.readline(), _HANDSHAKE_SECONDS)
        return hmac.compare_digest(proof.strip(), _compute_proof(self._key, challenge))

    def _respond(self, line: bytes) -> bytes:
        message = _decode_message(line)
        if message.weight:
            reservation = self._counters.reserve(
                message.name, _restore_infinity(message.terms), message.weight
            )
            return msgspec.json.encode(reservation) + b"\n"
        self._counters.lower(
            message.name, _restore_infinity(message.terms), message.left, message.seconds
        )
        return b"[0.0,true]\n"  # a `Reservation` that the client ignores


def _close(accepted: socket.socket, task: asyncio.Task[None]) -> None:
    """Close a connection's socket; called after the asyncio task that served it has ended."""
    accepted.close()  # a task that was cancelled before its start could not close it
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not log it


def _bind_socket(host: str, port: int) -> socket.socket:
    """Return a non-blocking listening TCP socket bound to a host and port."""
    family, kind, protocol, _, where = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.settimeout(0)
        listener.bind(where)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _compute_proof(key: bytes, challenge: bytes) -> bytes:
    """Return the response to a challenge, as a proof that a client has the secret key."""
    return hmac.new(key, challenge, hashlib.sha256).hexdigest().encode()


def _replace_infinity(terms: RateLimits) -> RateLimits:
    """Return the rate limits with -1 instead of infinity, which JSON cannot represent."""
    rates = tuple((-1.0 if math.isinf(calls) else calls, seconds) for calls, seconds in terms.rates)
    return RateLimits(terms.kind, rates)


def _restore_infinity(terms: RateLimits) -> RateLimits:
    """Return the rate limits with each -1 of `_replace_infinity` converted back to infinity."""
    rates = tuple((math.inf if calls < 0 else calls, seconds) for calls, seconds in terms.rates)
    return RateLimits(terms.kind, rates)


# ----------------------------------------------------------------------------- the workers
@dataclass(frozen=True, slots=True)
class RateLimitAddress:
    """Host, port and secret key of a `RateLimitServer`, which the driver sends to the workers."""

    host: str
    port: int
    key: bytes = field(repr=False)

    def counters(self) -> RateCounterStore:
        """Return the client of this process for the rate limit server at this address."""
        with _clients_lock:
            return _clients.setdefault((self, os.getpid()), _Client(self))


class _Client:
    """Thread-safe client of a `RateLimitServer`, with one connection per process.

    Its methods raise a `RateLimitServerError` if the server does not respond.
    """

    is_shared = True

    def __init__(self, address: RateLimitAddress) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._wire: BinaryIO | None = None

    def reserve(self, name: str, terms: RateLimits, weight: int = 1) -> Reservation:
        """Ask the server to reserve ``weight`` requests of the rate limit ``name``."""
        return self._call(_RateLimitMessage(name, _replace_infinity(terms), weight))

    def lower(
        self, name: str, terms: RateLimits, left: int | None, seconds: float | None = None
    ) -> None:
        """Tell the server how many more requests an API allows, according to a response header.

        ``left`` is that number, and ``seconds`` the time until the API resets it. Each may be
        unknown (None). The server then delays the requests of all workers accordingly.
        """
        self._call(_RateLimitMessage(name, _replace_infinity(terms), 0, left, seconds))

    def _call(self, message: _RateLimitMessage) -> Reservation:
        """Send a message to the rate limit server, and return its response.

        After a connection error, send it again, up to three times, after 0.5, 1 and 2 seconds.
        """
        line = msgspec.json.encode(message) + b"\n"
        pauses = (_FIRST_PAUSE_SECONDS * 2**number for number in range(_RETRIES))
        with self._lock:
            while True:
                try:
                    return self._exchange(line)
                except (OSError, msgspec.DecodeError) as error:
                    pause = next(pauses, None)
                    if pause is None:
                        raise self._explain_failure(error) from error
                time.sleep(pause)

    def _exchange(self, line: bytes) -> Reservation:
        try:
            wire = self._wire = self._wire or self._connect()
            wire.write(line)
            wire.flush()
            return _decode_reservation(wire.readline())
        except BaseException:
            self._close()
            raise

    def _connect(self) -> BinaryIO:
        address = self._address
        with socket.create_connection((address.host, address.port), _ANSWER_SECONDS) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire: Any = connection.makefile("rwb")
        challenge = wire.readline().strip()
        wire.write(_compute_proof(address.key, challenge) + b"\n")
        stream: BinaryIO = wire
        return stream

    def _close(self) -> None:
        if self._wire is not None:
            wire, self._wire = self._wire, None
            with contextlib.suppress(OSError):  # unsent data
                wire.close()

    def _explain_failure(self, error: Exception) -> RateLimitServerError:
        where = f"{self._address.host}:{self._address.port}"
        return RateLimitServerError(
            f"The driver counts the requests of this job at {where}, and this executor cannot"
            f" reach it ({error}). Allow executors to reach the driver's ports, and set"
            " spark.driver.host (in spark) to an address that they can reach."
        )


_clients: dict[tuple[RateLimitAddress, int], _Client] = {}
_clients_lock = threading.Lock()


# -------------------------------------------------------------------- without the driver
class StaticShare:
    """Request counter of a worker that uses a fixed fraction of each rate limit, without a server.

    Time is divided into slots. In each slot, the rate limit allows one request. The slots are
    assigned in turn to ``worker_count`` workers. This worker has the index ``number``, and each of
    its requests is delayed to one of its slots.
    """

    is_shared = True

    def __init__(self, number: int, worker_count: int) -> None:
        self._number = number
        self._worker_count = worker_count
        self._free_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def reserve(self, name: str, terms: RateLimits, weight: int = 1) -> Reservation:
        """Reserve one time slot of this worker for each of ``weight`` requests.

        The result has the seconds to wait until the last slot.
        """
        slot_seconds = max(seconds / calls for calls, seconds in terms.rates)
        now = time.time()
        with self._lock:
            after = max(now, self._free_at.get(name, now))
            slot = self._find_slot(after, slot_seconds) if slot_seconds else after
            slot += (weight - 1) * slot_seconds * self._worker_count
            self._free_at[name] = slot + slot_seconds / 2  # excludes this slot in spite of rounding
        return Reservation(slot - now, is_taken=True)

    def lower(
        self, name: str, terms: RateLimits, left: int | None, seconds: float | None = None
    ) -> None:
        """Delay all later requests until the API resets its limit, if no requests are ``left``.

        The API resets it in ``seconds``. Without this number, the delay is the longest period of
        the rate limit (``terms``).
        """
        if left == 0:
            wait = max(period for _, period in terms.rates) if seconds is None else seconds
            with self._lock:
                self._free_at[name] = max(self._free_at.get(name, 0.0), time.time() + wait)

    def _find_slot(self, after: float, slot_seconds: float) -> float:
        """Return the start of this worker's first time slot after the time ``after``.

        Times are in seconds since 1970. Each slot has ``slot_seconds``, and allows one request.
        """
        round_seconds = slot_seconds * self._worker_count
        first = slot_seconds * self._number
        return (math.floor((after - first) / round_seconds) + 1) * round_seconds + first
