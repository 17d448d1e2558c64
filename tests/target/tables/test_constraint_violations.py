"""Errors of Spark and Delta about constraints of a table."""

from __future__ import annotations

import pytest

from target_spark.errors import TableError
from target_spark.storage.commit_retry import FailureKind, classify_failure, first_error_line
from target_spark.tables.constraint_violations import (
    check_constraint_violation,
    is_not_null_violation,
)
from target_spark.tables.table import Table

TABLE = Table("/lake/t", "t")


@pytest.mark.parametrize(
    "text",
    [
        "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: a.",
        "[DELTA_MISSING_NOT_NULL_COLUMN_VALUE] Column a, which has a NOT NULL constraint, is",
        "[NOT_NULL_ASSERT_VIOLATION] NULL value appeared in non-nullable field",
        (
            '[DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION] Cannot resolve "s" due to data type'
            ' mismatch: cannot cast "STRUCT<x: BIGINT>" to "STRUCT<x: BIGINT NOT NULL>".'
        ),
        (
            "[DATATYPE_MISMATCH.INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS] Cannot resolve:\n"
            "- No assignment for 'a'"
        ),
    ],
)
def test_not_null_violation_is_retried(text: str):
    assert is_not_null_violation(text)
    assert classify_failure(RuntimeError(text)) is FailureKind.STALE
    check_constraint_violation(TABLE, RuntimeError(text))


@pytest.mark.parametrize(
    "text",
    [
        "[DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION] cannot cast STRING to BIGINT",
        "[DELTA_FAILED_TO_MERGE_FIELDS] Failed to merge fields 'a' and 'a'",
        "NULL",
    ],
)
def test_other_errors_are_no_not_null_violations(text: str):
    assert not is_not_null_violation(text)
    check_constraint_violation(TABLE, RuntimeError(text))


def test_error_unknown_to_pyspark_is_read_from_its_cause():
    text = "org.apache.spark.sql.delta.DeltaAnalysisException: [DELTA_X] Cannot resolve t.a\n\tat x"
    wordless = RuntimeError("[INTERNAL_ERROR] Cannot find main error class 'DELTA_X'")
    wordless.__context__ = RuntimeError(text)
    assert classify_failure(wordless) is FailureKind.STALE
    assert "Cannot resolve t.a" in first_error_line(wordless)


@pytest.mark.parametrize("written", ["pos (id > 0)", "pos id > 0"])
def test_violated_check_constraint_is_named_without_the_row(written: str):
    text = (
        f"[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint {written} violated by row with"
        " values:\n - id : -1\n\tat org.apache"
    )
    with pytest.raises(TableError, match=r"constraint pos \(id > 0\), which") as raised:
        check_constraint_violation(TABLE, RuntimeError(text))
    assert "-1" not in str(raised.value)


@pytest.mark.parametrize(
    "text, message",
    [
        (
            (
                "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint Generated Column (id <=>"
                " CAST(u AS BIGINT)) violated by row with values:\n - id : 2"
            ),
            "a generated column with the rule (id <=> CAST(u AS BIGINT)), which",
        ),
        (
            (
                "[DELTA_CANNOT_MODIFY_APPEND_ONLY] This table is configured to only allow appends."
                " If you would like to permit updates or deletes, use 'ALTER TABLE null SET"
                " TBLPROPERTIES (delta.appendOnly=false)'."
            ),
            "has the property delta.appendOnly",
        ),
        (
            (
                "[DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED] UPDATE on IDENTITY column id is not"
                " supported."
            ),
            "has the identity column id:",
        ),
        (
            (
                "[DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED] Providing values for"
                " GENERATED ALWAYS AS IDENTITY column id is not supported."
            ),
            "has the identity column id:",
        ),
        (
            (
                "Unsupported table change: Cannot add field name as an identifier field: not a"
                " required field"
            ),
            "the identifier field name cannot be nullable",
        ),
    ],
)
def test_violated_rule_names_the_table_and_the_remedy(text: str, message: str):
    with pytest.raises(TableError) as raised:
        check_constraint_violation(TABLE, RuntimeError(text))
    assert str(raised.value).startswith("Table t (/lake/t) ")
    assert message in str(raised.value)
    assert "null SET" not in str(raised.value)


@pytest.mark.parametrize(
    "text,rule",
    [
        (
            (
                '[DELTA_EXCEED_CHAR_VARCHAR_LIMIT] Value "secret" exceeds char/varchar type'
                " length limitation. Failed check: ((v IS NULL) OR (length(v) <= 3)).\n\tat org"
            ),
            r"length \(\(\(v IS NULL\) OR \(length\(v\) <= 3\)\)\)",
        ),
        ("[EXCEED_LIMIT_LENGTH] Exceeds char/varchar type length limitation: 3.", "length, which"),
    ],
)
def test_too_long_text_is_reported_without_its_value(text: str, rule: str):
    with pytest.raises(TableError, match=rule) as raised:
        check_constraint_violation(TABLE, RuntimeError(text))
    assert "secret" not in str(raised.value)
