"""Detection of table rules that a batch violates, such as constraints, from Spark's error text.

After a NOT NULL violation the loader makes the column nullable. Any other violation ends the run
with an error that names the rule, but contains no values of rows.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from target_spark.errors import TableError
from target_spark.tables.table import Table

__all__ = ["check_constraint_violation", "is_not_null_violation"]

_NULL: Final = re.compile(
    r"\[(?:DELTA_NOT_NULL_CONSTRAINT_VIOLATED|DELTA_MISSING_NOT_NULL_COLUMN_VALUE"
    r"|NOT_NULL_ASSERT_VIOLATION"
    # Error of Delta's MERGE into a table with column defaults, for a column without one:
    r"|DELTA_INSERT_COLUMN_MISMATCH\].* is not specified in INSERT"
    r"|INCOMPATIBLE_DATA_FOR_TABLE[.](?:NULLABLE_COLUMN|CANNOT_FIND_DATA)"
    # Errors of MERGE for a column that it does not set, and for a field in a struct:
    r"|DATATYPE_MISMATCH[.]INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS\].*No assignment for"
    r"|DATATYPE_MISMATCH[.]CAST_WITHOUT_SUGGESTION\].* NOT NULL)",
    re.DOTALL,
)


class _Rule(NamedTuple):
    """A rule of a table that a batch may violate.

    Attributes:
        error: The pattern of the error. Its groups are inserted into ``fault``.
        fault: A description of the rule and the violation.
        remedy: An instruction for the user.
    """

    error: re.Pattern[str]
    fault: str
    remedy: str


_RULES: Final = (
    _Rule(
        re.compile(
            r"\[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES\] CHECK constraint Generated Column"
            r" (?P<open>\()?(?P<rule>.+?)(?(open)\)) violated by row with values"
        ),
        "has a generated column with the rule ({rule}), which a row of this batch violates",
        "Fix the rows at their source, or remove the property in a stream map, so that Delta"
        " computes its values",
    ),
    _Rule(
        re.compile(
            r"\[(?:DELTA_VIOLATE_CONSTRAINT_WITH_VALUES|CHECK_CONSTRAINT_VIOLATION)\]"
            r" (?:CHECK constraint )?(?P<name>\S+) (?P<open>\()?(?P<rule>.+?)(?(open)\))"
            r" violated by row with values"
        ),
        "has the constraint {name} ({rule}), which a row of this batch violates",
        "Fix the rows at their source or in a stream map, or drop the constraint"
        " (ALTER TABLE ... DROP CONSTRAINT)",
    ),
    _Rule(
        re.compile(
            r"\[DELTA_EXCEED_CHAR_VARCHAR_LIMIT\].*?Failed check: (?P<rule>.+?)[.]\s", re.DOTALL
        ),
        "has text of a limited length ({rule}), which a row of this batch exceeds",
        "Change the column to type string",
    ),
    _Rule(
        re.compile(r"\[(?:DELTA_EXCEED_CHAR_VARCHAR_LIMIT|EXCEED_LIMIT_LENGTH)\]"),
        "has text of a limited length, which a row of this batch exceeds",
        "Change the column to type string",
    ),
    _Rule(
        re.compile(r"\[DELTA_CANNOT_MODIFY_APPEND_ONLY\]"),
        "has the property delta.appendOnly, and this batch would change or remove rows",
        "Set write_mode to append, or set the property to false (ALTER TABLE ... SET"
        " TBLPROPERTIES)",
    ),
    _Rule(
        re.compile(
            r"\[DELTA_IDENTITY_COLUMNS_\w+_NOT_SUPPORTED\] .*IDENTITY column (?P<name>.+?) is not"
        ),
        "has the identity column {name}: Delta generates its values, and does not accept those of"
        " this batch",
        "Rename or remove the property in a stream map, or create the table with an ordinary"
        " column; an identity column cannot be a key of the stream",
    ),
    _Rule(
        re.compile(r"Cannot add field (?P<name>.+?) as an identifier field: not a required field"),
        "must get a nullable column for this batch, and the identifier field {name} cannot be"
        " nullable",
        "Fix the rows at their source or in a stream map, or drop the identifier field"
        " (ALTER TABLE ... DROP IDENTIFIER FIELDS)",
    ),
)


def is_not_null_violation(text: str) -> bool:
    """Return True if a Spark error text reports a null in a column that is declared NOT NULL."""
    return _NULL.search(text) is not None


def check_constraint_violation(table: Table, error: BaseException) -> None:
    """Raise a TableError if the error means that a batch violates a rule of its table.

    CHECK constraints, generated columns, identity columns, the lengths of char and varchar columns,
    append-only tables and Iceberg's identifier fields are detected. Any other error is ignored.

    Args:
        table: The table, which is named in the message.
        error: The exception that Spark raised.

    Raises:
        TableError: The batch violates a rule of the table.
    """
    text = str(error)
    for rule in _RULES:
        if match := rule.error.search(text):
            fault = rule.fault.format(**match.groupdict())
            raise TableError(
                f"Table {table.name} ({table.key}) {fault}. Nothing of the batch was written to it,"
                f" and no state that covers it is emitted. {rule.remedy}, and start again."
            ) from error
