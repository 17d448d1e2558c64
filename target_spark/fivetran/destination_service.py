"""Handlers of the gRPC calls that Fivetran makes to a destination.

Every call sends the configuration, and every call validates it. Each table is changed by only one
call at a time; different tables change in parallel. Handlers raise errors, and the server converts
them to responses, with a Task message if the response type has one.

Source: Fivetran's Partner SDK, ``destination_sdk.proto`` and its development guide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from tap_core.events import StreamId
from tap_core.exceptions import ConfigurationError
from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.configuration import parse_configuration
from tap_core.protocols.fivetran.configuration_form import build_form
from tap_core.protocols.fivetran.connection_tests import NAME_LIMIT
from tap_core.protocols.fivetran.enums import BatchFileFormat, Compression, Encryption
from tap_core.protocols.fivetran.grpc_server import Handler, RpcCall, Service
from tap_core.redaction import make_redactor
from target_spark.config import settings
from target_spark.config.options import LoadOptions
from target_spark.errors import TargetSparkError, UnsupportedError
from target_spark.fivetran.allowed_settings import CallRules
from target_spark.fivetran.batch_request import FileKind, FileParams, RequestFile
from target_spark.fivetran.configuration_form import FORM, TESTS, check_format, parse_settings
from target_spark.fivetran.error_messages import explain_error
from target_spark.fivetran.shared_spark import SharedSpark
from target_spark.fivetran.table_schema import FivetranSchema, parse_columns
from target_spark.tables.identifiers import RESERVED

if TYPE_CHECKING:
    from tap_core.protocols.fivetran.logging import ServerLog
    from target_spark.fivetran.tables import TableService
    from target_spark.loader.load_session import CommandTarget

__all__ = ["make_service"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def make_service(
    plugin: type[CommandTarget],
    shared_spark: SharedSpark,
    journal: ServerLog,
    rules: CallRules,
) -> Service:
    """Return the gRPC service of a Fivetran destination, with a handler for each method.

    Args:
        plugin: The target's class.
        shared_spark: The Spark application that all calls share.
        journal: The log handler of the server, which redacts the secrets of calls.
        rules: Rules for the settings that a call may set.
    """
    calls = _Calls(plugin, shared_spark, journal, rules)
    task = _build_task_factory
    handlers = {
        "ConfigurationForm": Handler(lambda _r, _c: build_form(FORM, TESTS, selects_tables=False)),
        "Capabilities": Handler(
            lambda _request, _call: proto_messages.CapabilitiesResponse(
                batch_file_format=int(BatchFileFormat.CSV)
            )
        ),
        "Test": Handler(calls.test, lambda text: proto_messages.TestResponse(failure=text)),
        "DescribeTable": Handler(calls.describe, task(proto_messages.DescribeTableResponse)),
        "CreateTable": Handler(calls.create, task(proto_messages.CreateTableResponse)),
        "AlterTable": Handler(calls.alter, task(proto_messages.AlterTableResponse)),
        "Truncate": Handler(calls.truncate, task(proto_messages.TruncateResponse)),
        "WriteBatch": Handler(calls.write, task(proto_messages.WriteBatchResponse)),
        "WriteHistoryBatch": Handler(calls.write_history, task(proto_messages.WriteBatchResponse)),
        # Fivetran then makes the same changes with the methods above.
        "Migrate": Handler(
            lambda _request, _call: proto_messages.MigrateResponse(unsupported=True)
        ),
    }
    return Service("DestinationConnector", handlers, explain_error)


def _build_task_factory(response_class: Any) -> Callable[[str], Any]:
    """Return a function that converts an error text to a response with a Task message."""
    return lambda text: response_class(task=proto_messages.Task(message=text))


@dataclass(frozen=True, slots=True)
class _Calls:
    """Handlers of Fivetran's RPCs. Each gets a request message and returns the response."""

    plugin: type[CommandTarget]
    shared_spark: SharedSpark
    journal: ServerLog
    rules: CallRules

    def test(self, request: Any, call: RpcCall) -> Any:
        """Respond to the RPC `Test`: run the connection test that the request names."""
        call.note(request.name[:NAME_LIMIT])
        if request.name not in TESTS:
            raise UnsupportedError(f"There is no such test; the tests are {', '.join(TESTS)}.")
        from target_spark.cli.doctor import preflight_checks, storage_checks

        config = self._validate_config(request)
        if request.name == "storage":
            with self.shared_spark.session(config) as spark:
                checks = list(storage_checks(_load_options(config), spark))
        else:
            checks = list(preflight_checks(config))
        failed = [f"{check.name}: {check.text}" for check in checks if check.verdict == "failed"]
        if failed:
            raise TargetSparkError(". ".join(failed))
        return proto_messages.TestResponse(success=True)

    def describe(self, request: Any, call: RpcCall) -> Any:
        """Respond to the RPC `DescribeTable`: return the columns of a table, or "not found"."""
        stream = _get_stream_id(request.schema_name, request.table_name)
        with self._tables(request) as tables:
            existing = tables.describe(stream)
        call.note(str(stream))
        if existing is None:
            return proto_messages.DescribeTableResponse(not_found=True)
        return proto_messages.DescribeTableResponse(
            table=_to_proto_table(request.table_name, existing.fivetran_schema)
        )

    def create(self, request: Any, call: RpcCall) -> Any:
        """Respond to the RPC `CreateTable`: create a table, and its schema if it does not exist."""
        stream = _get_stream_id(request.schema_name, request.table.name)
        with self._lock_table(request, stream, call) as tables:
            tables.create(stream, _parse_columns(tables, stream, request.table.columns))
        return proto_messages.CreateTableResponse(success=True)

    def alter(self, request: Any, call: RpcCall) -> Any:
        """Respond to the RPC `AlterTable`: change the columns or the keys of a table."""
        stream = _get_stream_id(request.schema_name, request.table.name)
        with self._lock_table(request, stream, call) as tables:
            fivetran_schema = _parse_columns(tables, stream, request.table.columns)
            changes = tables.alter(stream, fivetran_schema, drops=request.drop_columns)
        call.note(f"{stream}: {'; '.join(changes) or 'nothing to change'}")
        return proto_messages.AlterTableResponse(success=True)

    def truncate(self, request: Any, call: RpcCall) -> Any:
        """Respond to the RPC `Truncate`: delete old rows of a table, or mark them as deleted."""
        soft = request.soft.deleted_column if request.HasField("soft") else None
        has_limit = request.HasField("utc_delete_before")
        before = _to_datetime(request.utc_delete_before) if has_limit else None
        stream = _get_stream_id(request.schema_name, request.table_name)
        with self._lock_table(request, stream, call) as tables:
            rows = tables.truncate(stream, request.synced_column, before, soft)
        call.note(f"{stream}: {rows:,} rows")
        return proto_messages.TruncateResponse(success=True)

    def write(self, request: Any, call: RpcCall) -> Any:
        """Respond to the RPC `WriteBatch`: write the rows of batch files to a table."""
        from target_spark.fivetran.write_batch import write_changes

        kinds = (FileKind.REPLACE, FileKind.UPDATE, FileKind.DELETE)
        return self._write(write_changes, request, kinds, call)

    def write_history(self, request: Any, call: RpcCall) -> Any:
        """Respond to the RPC `WriteHistoryBatch`: write batch files to a table of row versions."""
        from target_spark.fivetran.write_history_batch import write_versions

        return self._write(write_versions, request, FileKind, call)

    def _write(
        self, write: Callable[..., int], request: Any, kinds: Iterable[FileKind], call: RpcCall
    ) -> Any:
        from target_spark.fivetran.write_batch import write_with_retry

        files = tuple(self._iterate_files(request, kinds))
        params = _parse_file_params(request.file_params)
        stream = _get_stream_id(request.schema_name, request.table.name)
        with self._lock_table(request, stream, call) as tables:
            fivetran_schema = _parse_columns(tables, stream, request.table.columns)
            written = write_with_retry(tables, stream, fivetran_schema, files, params, write)
        call.note(f"{stream}: {written.rows:,} rows from {written.files} files")
        return proto_messages.WriteBatchResponse(success=True)

    def _iterate_files(self, request: Any, kinds: Iterable[FileKind]) -> Iterator[RequestFile]:
        """Yield the batch files of the given kinds that a request names.

        Raises:
            BatchFileLoadError: A file is not in a folder that the operator allows.
        """
        for kind in kinds:
            for path in getattr(request, f"{kind.name.lower()}_files"):
                yield RequestFile(self.rules.check_file(path), kind, request.keys.get(path))

    # Steps of every call

    def _validate_config(self, request: Any) -> Mapping[str, Any]:
        """Validate the configuration in a gRPC request, and return the settings of the target.

        Before that, register the secrets of the configuration with the log handler, which redacts
        them.

        Raises:
            ConfigurationError: A setting is invalid, or gRPC calls are not allowed to set it.
        """
        schema = self.plugin._full_schema()  # noqa: SLF001  a class method of every plugin
        configuration = parse_configuration(request.configuration, schema)
        redactor = make_redactor(configuration, schema)
        self.journal.add_redactor(redactor)
        self.rules.check(configuration)
        try:
            config = self.plugin(config=parse_settings(configuration), parse_env_config=True).config
        except ConfigurationError as error:
            raise ConfigurationError(redactor(str(error))) from None
        check_format(settings.load_options(config))
        return config

    @contextmanager
    def _tables(self, request: Any) -> Iterator[TableService]:
        config = self._validate_config(request)
        with self.shared_spark.session(config) as spark:
            from target_spark.fivetran.tables import TableService

            yield TableService(spark, _load_options(config))

    @contextmanager
    def _lock_table(self, request: Any, stream: StreamId, call: RpcCall) -> Iterator[TableService]:
        """Context manager that locks a table for a gRPC call, and yields a `TableService`.

        Other calls for the table wait until the block ends. If the client of a waiting call
        disconnects, the call ends with an error and changes nothing, because the client may have
        repeated the call.
        """
        call.note(str(stream))
        with self._tables(request) as tables:
            table = tables.options.table(stream)
            with self.shared_spark.table_lock(table.key):
                call.check_active()
                yield tables


def _load_options(config: Mapping[str, Any]) -> LoadOptions:
    return replace(settings.load_options(config), namespaces_as_databases=True)


def _parse_columns(
    tables: TableService, stream: StreamId, columns: Iterable[Any]
) -> FivetranSchema:
    try:
        return parse_columns(columns, RESERVED.get(tables.format, ()))
    except ValueError as error:
        raise TargetSparkError(
            f"The call's description of table {stream} is invalid: {error}."
        ) from None


def _to_proto_table(name: str, fivetran_schema: FivetranSchema) -> Any:
    """Return Fivetran's protobuf message ``Table`` for a table name and its columns."""
    columns = []
    for column in fivetran_schema.columns:
        message = proto_messages.Column(
            name=column.name, type=int(column.type), primary_key=column.is_key
        )
        if column.decimal is not None:
            message.params.decimal.precision, message.params.decimal.scale = column.decimal
        columns.append(message)
    return proto_messages.Table(name=name, columns=columns)


def _parse_file_params(params: Any) -> FileParams:
    try:
        compression, encryption = Compression(params.compression), Encryption(params.encryption)
    except ValueError as error:
        raise UnsupportedError(
            f"The compression or encryption of the batch files is not supported: {error}."
        ) from None
    return FileParams(compression, encryption, params.null_string, params.unmodified_string)


def _to_datetime(stamp: Any) -> datetime:
    """Convert a protobuf ``Timestamp`` to a datetime in UTC, truncated to microseconds.

    Raises:
        UnsupportedError: The time is outside the years 1 to 9999.
    """
    try:
        return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)
    except OverflowError as error:
        raise UnsupportedError("utc_delete_before is out of the range of timestamps.") from error


def _get_stream_id(schema: str, table: str) -> StreamId:
    """Return the stream id of a table. Its namespace is the Fivetran schema, which may be ""."""
    return StreamId(table, schema or None)
