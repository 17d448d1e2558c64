"""Error messages of a destination, and column descriptions that it refuses."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fivetran_tester.client import Client, RefusedError
from tap_core.events import StreamId
from tap_core.exceptions import ConfigurationError, ConfigValidationError
from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.enums import DataType
from tap_core.protocols.fivetran.grpc_server import RpcCall, Server
from tap_core.protocols.fivetran.listen_address import ListenAddress
from tap_core.protocols.fivetran.logging import ServerLog
from target_spark.cli import doctor
from target_spark.config.options import LoadOptions
from target_spark.errors import StorageError, TableError, TargetSparkError, UnsupportedError
from target_spark.fivetran.allowed_settings import CallRules
from target_spark.fivetran.configuration_form import parse_settings
from target_spark.fivetran.destination_service import make_service
from target_spark.fivetran.error_messages import explain_error
from target_spark.fivetran.shared_spark import SharedSpark
from target_spark.fivetran.table_schema import parse_columns
from target_spark.target import TargetSpark


class SparkError(Exception):
    """An error as PySpark raises it: with a condition, and a message that may contain values."""

    def getCondition(self) -> str:  # noqa: N802
        return "CAST_INVALID_INPUT"


def test_target_error_is_reported_unchanged() -> None:
    assert explain_error(TableError("Table a.b exists already.")) == "Table a.b exists already."


def test_spark_error_is_reported_by_its_condition_only() -> None:
    """F3: the message of a Spark error may contain values of a row."""
    message = explain_error(SparkError("The value 'MARKED' cannot be cast"))
    assert "CAST_INVALID_INPUT" in message
    assert "changed nothing" not in message  # an earlier statement of the call may have succeeded
    assert "MARKED" not in message
    assert "MARKED" not in explain_error(ValueError("MARKED"))
    from_java = RuntimeError("An error occurred: x.DeltaError: [DELTA_SOMETHING] 'MARKED' is odd")
    assert "(DELTA_SOMETHING)" in explain_error(from_java)
    assert "MARKED" not in explain_error(from_java)


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied", "tables"),
        RuntimeError(
            "org.apache.hadoop.security.AccessControlException: Permission denied: user=x"
        ),
        RuntimeError("software.amazon.awssdk.services.s3.model.S3Exception (Status Code: 403)"),
        RuntimeError("org.apache.iceberg.exceptions.ForbiddenException: not for you"),
        StorageError("Table t: the storage said Access Denied."),
    ],
)
def test_missing_permission_is_named(error) -> None:
    message = explain_error(error)
    assert "permission is missing" in message
    assert "read, write and delete" in message


def test_missing_permission_is_found_in_the_error_cause() -> None:
    error = RuntimeError("the job failed")
    error.__cause__ = PermissionError(errno.EACCES, "Permission denied")
    assert "permission is missing" in explain_error(error)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space is left"),
        (OSError(errno.ETIMEDOUT, "timed out"), "does not respond"),
        (ConnectionRefusedError("py4j"), "Spark ended"),
        (
            RuntimeError("java.io.IOException: Mkdirs failed to create file:/a/b"),
            "cannot be created",
        ),
        (
            RuntimeError("java.io.FileNotFoundException: File /a/part-0.parquet does not exist"),
            "a file of a table was removed",
        ),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 300), "cannot be created"),
        (MemoryError(), "no memory"),
        (
            RuntimeError(
                "io.delta.exceptions.X: \nio.delta.exceptions.ConcurrentAppendException: y"
            ),
            "another",
        ),
        (ConfigValidationError("path: it is no folder", errors=["path: it is no folder"]), "path"),
    ],
)
def test_common_errors_are_explained(error, expected) -> None:
    message = explain_error(error)
    assert expected.lower() in message.lower()
    assert len(message.encode()) < 8192


def test_failed_connection_test_explains_a_missing_permission_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = doctor.Check("storage", "failed", "a table could not be written: Access Denied")
    monkeypatch.setattr(doctor, "preflight_checks", lambda _config: iter([failed]))
    journal = ServerLog("sdk_destination")
    rules = CallRules.of("target-spark", {})
    service = make_service(TargetSpark, SharedSpark(), journal, rules)
    configuration = {"path": str(tmp_path), "format": "delta"}
    request = proto_messages.TestRequest(name="settings", configuration=configuration)
    with pytest.raises(TargetSparkError) as raised:
        service.handlers["Test"].answer(request, RpcCall("Test", None))
    message = service.explain(raised.value)
    assert message.count("permission is missing") == 1
    assert "storage: a table could not be written" in message


def test_format_without_upserts_is_refused_before_spark_starts(tmp_path: Path) -> None:
    journal, rules = ServerLog("sdk_destination"), CallRules.of("target-spark", {})
    service = make_service(TargetSpark, SharedSpark(), journal, rules)
    configuration = {"path": str(tmp_path), "format": "parquet"}
    request = proto_messages.DescribeTableRequest(configuration=configuration, table_name="t")
    with pytest.raises(UnsupportedError, match="Set format to delta or iceberg"):
        service.handlers["DescribeTable"].answer(request, RpcCall("DescribeTable", None))


def test_long_error_is_truncated() -> None:
    """F4: the message has to fit into an HTTP/2 header."""
    assert len(explain_error(TableError("ü" * 50_000)).encode()) < 8192


def column(name: str, kind: DataType, digits: tuple[int, int] | None = None):
    message = proto_messages.Column(name=name, type=int(kind))
    if digits:
        message.params.decimal.precision, message.params.decimal.scale = digits
    return message


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([column("a", DataType.LONG), column("a", DataType.STRING)], "twice"),
        ([column("a", DataType.UNSPECIFIED)], "no type"),
        ([column("a", DataType.DECIMAL, (39, 2))], "the maximum is 38"),
        ([column("a", DataType.DECIMAL, (2, 3))], "the maximum is 38"),
    ],
)
def test_invalid_columns_are_refused(columns, expected) -> None:
    with pytest.raises(ValueError, match=expected):
        parse_columns(columns)


class CountedName(str):
    """A name that counts its comparisons with other names."""

    __slots__ = ()
    __hash__ = str.__hash__
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)


def test_names_of_many_columns_are_not_compared_one_by_one() -> None:
    """SEC2: a request may have tens of thousands of columns."""
    parse_columns(
        SimpleNamespace(name=CountedName(f"c{number}"), type=DataType.STRING, primary_key=False)
        for number in range(1_000)
    )
    assert CountedName.comparisons < 20_000


def test_invalid_or_colliding_column_names_are_changed() -> None:
    named = parse_columns(
        [column(name, DataType.LONG) for name in ("a b", "id", "ID", "_file")], ["_file"]
    )
    assert [parsed.column for parsed in named.columns] == ["a_b", "id_2", "ID", "_file_2"]
    assert [parsed.name for parsed in named.columns] == ["a b", "id", "ID", "_file"]


def test_key_is_the_primary_key_or_fivetran_id() -> None:
    plain = parse_columns([column("a", DataType.LONG), column("_fivetran_id", DataType.STRING)])
    assert [parsed.name for parsed in plain.keys] == ["_fivetran_id"]
    keyed = parse_columns(
        [
            proto_messages.Column(name="a", type=int(DataType.LONG), primary_key=True),
            column("_fivetran_id", DataType.STRING),
        ]
    )
    assert [parsed.name for parsed in keyed.keys] == ["a"]
    assert parse_columns([column("a", DataType.DECIMAL)]).columns[0].digits == (38, 10)


def test_invalid_json_of_spark_settings_is_not_shown() -> None:
    """F3: the Spark settings can contain credentials."""
    with pytest.raises(ConfigurationError, match="not a JSON object") as caught:
        parse_settings({"spark": '{"spark.hadoop.fs.s3a.secret.key": "MARKED"'})
    assert "MARKED" not in str(caught.value)
    assert parse_settings({"path": "lake"})["path"] == "lake"


class WatchedSpark(SharedSpark):
    """Calls reach the lock of their table; their session records each use."""

    def __init__(self) -> None:
        super().__init__()
        self.used: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.used.append(name)
        raise AttributeError(name)

    @contextmanager
    def session(self, config: Mapping[str, Any]) -> Iterator[Any]:
        del config
        yield self


def test_call_whose_client_has_left_while_it_waited_for_the_table_has_no_effect(
    tmp_path: Path,
) -> None:
    """F43: such a call was repeated; later it would undo what newer calls have written."""
    sparks, journal = WatchedSpark(), ServerLog("sdk_destination")
    service = make_service(TargetSpark, sparks, journal, CallRules.of("target-spark", {}))
    server = Server(service, journal)
    port = server.start(ListenAddress(0, "127.0.0.1"))
    client = Client(f"127.0.0.1:{port}", service.name, seconds=1)
    options = LoadOptions(str(tmp_path), namespaces_as_databases=True)
    column = proto_messages.Column(name="id", type=int(DataType.LONG), primary_key=True)
    request = proto_messages.CreateTableRequest(
        configuration={"path": str(tmp_path), "format": "delta"},
        schema_name="s",
        table=proto_messages.Table(name="t", columns=[column]),
    )
    key = options.table(StreamId("t", "s")).key
    with sparks.table_lock(key):
        with pytest.raises(RefusedError, match="DEADLINE_EXCEEDED"):
            client.call("CreateTable", request)
        while any(call.is_active() for call in list(server._calls)):
            time.sleep(0.01)  # the server learns of the client's deadline a little later
    while server._calls:  # the call imports PySpark, which may take longer than stop() waits
        time.sleep(0.01)
    assert server.stop(grace_seconds=60)
    client.close()
    assert sparks.used == []
