"""The gRPC service SourceConnector of Fivetran's Partner SDK, implemented for any tap.

Each call creates a new tap, so that calls with different settings are independent. For each
configuration, the server remembers renewed tokens and the tables of the last Schema call, because
a connector cannot store them in Fivetran.
Source: Fivetran's Partner SDK, connector_sdk.proto.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from json import dumps
from typing import Any, Final, Generic, TypeVar

from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.allowed_names import AllowedNames
from tap_core.protocols.fivetran.allowed_settings import check_allowed_settings
from tap_core.protocols.fivetran.configuration import parse_configuration
from tap_core.protocols.fivetran.configuration_form import build_form
from tap_core.protocols.fivetran.connection_tests import NAME_LIMIT, run_test
from tap_core.protocols.fivetran.error_messages import format_error
from tap_core.protocols.fivetran.grpc_server import Handler, RpcCall, Service
from tap_core.protocols.fivetran.logging import ServerLog, format_count
from tap_core.protocols.fivetran.schema_response import schema_response
from tap_core.protocols.fivetran.update import KnownTables, discover_tables, update
from tap_core.redaction import make_redactor
from tap_core.sync.interfaces import SyncTap

__all__ = ["make_connector_service"]

_MAX_CONFIGURATIONS: Final = 64
"""Maximum number of configurations with cached values."""

_Value = TypeVar("_Value")

_logger = logging.getLogger("fivetran")


def make_connector_service(
    tap_class: type[SyncTap], journal: ServerLog, allowance: AllowedNames | None = None
) -> Service:
    """Return the gRPC service that Fivetran calls to run a tap.

    Args:
        tap_class: Class of the tap.
        journal: Log of the server.
        allowance: Settings that calls may set although the tap does not declare them, because the
            operator allows them; None for no such settings.
    """
    connector = _Connector(tap_class, journal, allowance or AllowedNames.of(tap_class.name, {}))
    return Service(
        "SourceConnector",
        {
            "ConfigurationForm": Handler(connector.form),
            "Test": Handler(connector.test),
            "Schema": Handler(connector.schema),
            "Update": Handler(connector.update, task=_make_task),
        },
        explain=lambda error: format_error(error, journal.clean),
    )


def _make_task(text: str) -> Any:
    """Return an UpdateResponse with a Task: the error message ``text``, for Fivetran's users."""
    return proto_messages.UpdateResponse(task=proto_messages.Task(message=text))


class _ConfigurationCache(Generic[_Value]):
    """Cache of one value per Fivetran configuration, such as the tables of the tap.

    It holds the values of the 64 configurations that were stored last. Threads may share it.
    """

    def __init__(self) -> None:
        self._values: dict[bytes, _Value] = {}
        self._lock = threading.Lock()

    def get(self, configuration: Mapping[str, str]) -> _Value | None:
        with self._lock:
            return self._values.get(_digest(configuration))

    def store(self, configuration: Mapping[str, str], value: _Value) -> None:
        key = _digest(configuration)
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = value
            if len(self._values) > _MAX_CONFIGURATIONS:
                del self._values[next(iter(self._values))]


def _digest(configuration: Mapping[str, str]) -> bytes:
    """Return the SHA-256 hash of a configuration: a cache key that contains no secrets."""
    return sha256(dumps(dict(configuration), sort_keys=True).encode()).digest()


class _Connector:
    """Handlers of the gRPC calls to a Fivetran connector, which run taps of one class."""

    def __init__(
        self, tap_class: type[SyncTap], journal: ServerLog, allowance: AllowedNames
    ) -> None:
        self._tap_class = tap_class
        self._allowance = allowance
        self._journal = journal
        self._renewed = _ConfigurationCache[dict[str, Any]]()
        self._known_tables = _ConfigurationCache[KnownTables]()

    def form(self, _request: Any, _call: RpcCall) -> Any:
        """Handle the RPC `ConfigurationForm`: return the setup form for the tap's settings."""
        kind = self._tap_class
        schema = kind._full_schema()  # noqa: SLF001  the SDK's own method
        can_select = not kind.selection_not_supported
        return build_form(schema, kind.connection_tests, selects_tables=can_select)

    def test(self, request: Any, call: RpcCall) -> Any:
        """Handle the RPC `Test`: run a connection test of the tap and return its result."""
        call.note(request.name[:NAME_LIMIT])
        configuration = dict(request.configuration)
        failure = run_test(
            self._tap_class.connection_tests,
            lambda: self._open_tap(configuration),
            request.name,
            self._journal.clean,
        )
        if failure is None:
            return proto_messages.TestResponse(success=True)
        call.failure = self._journal.clean(failure)
        return proto_messages.TestResponse(failure=call.failure)

    def schema(self, request: Any, call: RpcCall) -> Any:
        """Handle the RPC `Schema`: return all tables and columns of the tap."""
        configuration = dict(request.configuration)
        with self._open_tap(configuration) as tap:
            tap.check_streams()
            tables = discover_tables(tap)
        self._known_tables.store(configuration, {table.id: table for table in tables})
        call.note(format_count(len(tables), "table"))
        return schema_response(tables, can_select=not self._tap_class.selection_not_supported)

    def update(self, request: Any, call: RpcCall) -> Iterator[bytes]:
        """Handle the RPC `Update`: sync the tap, and yield encoded responses with its data."""
        configuration = dict(request.configuration)
        return update(
            lambda: self._open_tap(configuration),
            request,
            call,
            self._known_tables.get(configuration),
        )

    @contextmanager
    def _open_tap(self, configuration: Mapping[str, str]) -> Iterator[SyncTap]:
        """Create a tap with the settings in a configuration, and close it after the block.

        If it cannot be closed, that is logged: the data that it has sent are valid.

        Raises:
            ConfigurationError: A setting is invalid, or gRPC calls are not allowed to set it.
        """
        tap = self._create_tap(configuration)
        try:
            yield tap
        finally:
            try:
                tap.close()
            except Exception as error:  # noqa: BLE001  raised by the author's code
                _logger.warning("The tap cannot be closed (%s).", type(error).__name__)

    def _create_tap(self, configuration: Mapping[str, str]) -> SyncTap:
        """Create a tap with the settings in a configuration, without catalog and state."""
        schema = self._tap_class._full_schema()  # noqa: SLF001  the SDK's own method
        settings = self._renewed.get(configuration) or parse_configuration(configuration, schema)
        self._journal.add_redactor(make_redactor(settings, schema))
        check_allowed_settings(settings, schema, self._allowance)
        tap = self._tap_class(config=settings, setup_mapper=False)

        def store_renewed(renew: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
            renewed = renew(self._renewed.get(configuration) or settings)
            self._journal.add_redactor(make_redactor(renewed, schema))
            self._renewed.store(configuration, renewed)
            _logger.warning(
                "A setting has a new value, such as a token that the source has replaced. It is"
                " used from now on, but the connector cannot change the stored settings: after a"
                " restart of the connector, it may be necessary to log in again."
            )

        tap.config_listener = store_renewed
        return tap
