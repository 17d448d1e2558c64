"""What a destination tells of its errors, and of descriptions that cannot be."""

from __future__ import annotations

import errno

import pytest

from tap_core.exceptions import ConfigurationError, ConfigValidationError
from tap_core.protocols.fivetran import proto_messages
from tap_core.protocols.fivetran.enums import DataType
from target_spark.errors import StorageError, TableError
from target_spark.fivetran.configuration_form import parse_settings
from target_spark.fivetran.error_messages import explain_error
from target_spark.fivetran.table_schema import parse_columns


class SparkError(Exception):
    """As PySpark raises them: with a condition, and a text that may repeat values."""

    def getCondition(self) -> str:  # noqa: N802
        return "CAST_INVALID_INPUT"


def test_an_error_of_ours_is_told_as_it_is() -> None:
    assert explain_error(TableError("Table a.b exists already.")) == "Table a.b exists already."


def test_of_an_error_of_sparks_only_its_kind_is_reported() -> None:
    """F3: its text may repeat what stands in a row."""
    said = explain_error(SparkError("The value 'MARKED' cannot be cast"))
    assert "CAST_INVALID_INPUT" in said
    assert "MARKED" not in said
    assert "MARKED" not in explain_error(ValueError("MARKED"))
    behind_java = RuntimeError("An error occurred: x.DeltaError: [DELTA_SOMETHING] 'MARKED' is odd")
    assert "(DELTA_SOMETHING)" in explain_error(behind_java)
    assert "MARKED" not in explain_error(behind_java)


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
def test_a_missing_permission_is_named(error) -> None:
    said = explain_error(error)
    assert "permission is missing" in said
    assert "read, write and delete" in said


def test_a_permission_that_is_missing_behind_another_error_is_found() -> None:
    error = RuntimeError("the job failed")
    error.__cause__ = PermissionError(errno.EACCES, "Permission denied")
    assert "permission is missing" in explain_error(error)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space is left"),
        (OSError(errno.ETIMEDOUT, "timed out"), "does not respond"),
        (ConnectionRefusedError("py4j"), "Spark ended"),
        (
            RuntimeError("java.io.IOException: Mkdirs failed to create file:/a/b"),
            "cannot be created",
        ),
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
def test_what_helps_is_said(error, words) -> None:
    said = explain_error(error)
    assert words.lower() in said.lower()
    assert len(said.encode()) < 8192


def test_a_long_error_is_cut() -> None:
    """F4: its text has to fit into a header."""
    assert len(explain_error(TableError("ü" * 50_000)).encode()) < 8192


def column(name: str, kind: DataType, digits: tuple[int, int] | None = None):
    made = proto_messages.Column(name=name, type=int(kind))
    if digits:
        made.params.decimal.precision, made.params.decimal.scale = digits
    return made


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([column("a", DataType.LONG), column("a", DataType.STRING)], "twice"),
        ([column("a", DataType.UNSPECIFIED)], "no type"),
        ([column("a", DataType.DECIMAL, (39, 2))], "the maximum is 38"),
        ([column("a", DataType.DECIMAL, (2, 3))], "the maximum is 38"),
    ],
)
def test_a_table_that_cannot_be_is_refused(columns, words) -> None:
    with pytest.raises(ValueError, match=words):
        parse_columns(columns)


def test_names_that_a_format_refuses_or_takes_for_one_become_others() -> None:
    named = parse_columns(
        [column(name, DataType.LONG) for name in ("a b", "id", "ID", "_file")], ["_file"]
    )
    assert [each.column for each in named.columns] == ["a_b", "id_2", "ID", "_file_2"]
    assert [each.name for each in named.columns] == ["a b", "id", "ID", "_file"]


def test_rows_are_known_by_their_keys_or_by_fivetrans_own_column() -> None:
    plain = parse_columns([column("a", DataType.LONG), column("_fivetran_id", DataType.STRING)])
    assert [each.name for each in plain.keys] == ["_fivetran_id"]
    keyed = parse_columns(
        [
            proto_messages.Column(name="a", type=int(DataType.LONG), primary_key=True),
            column("_fivetran_id", DataType.STRING),
        ]
    )
    assert [each.name for each in keyed.keys] == ["a"]
    assert parse_columns([column("a", DataType.DECIMAL)]).columns[0].digits == (38, 10)


def test_settings_of_spark_that_are_no_json_are_not_shown() -> None:
    """F3: there are keys in them."""
    with pytest.raises(ConfigurationError, match="not a JSON object") as refused:
        parse_settings({"spark": '{"spark.hadoop.fs.s3a.secret.key": "MARKED"'})
    assert "MARKED" not in str(refused.value)
    assert parse_settings({"path": "lake"})["path"] == "lake"
