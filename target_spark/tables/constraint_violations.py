"""Detection of table constraints that a batch violates, from the text of Spark's error.

After a NOT NULL violation the loader makes the column nullable. Any other violation ends the run
with an error that names the constraint, but contains no values of rows.
"""

from __future__ import annotations

import re
from typing import Final

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

_CHECK: Final = re.compile(
    r"\[(?:DELTA_VIOLATE_CONSTRAINT_WITH_VALUES|CHECK_CONSTRAINT_VIOLATION)\]"
    r" (?:CHECK constraint )?(?P<name>\S+) (?P<rule>.+?) violated by row with values"
)
_LENGTH: Final = re.compile(
    r"\[(?:DELTA_EXCEED_CHAR_VARCHAR_LIMIT|EXCEED_LIMIT_LENGTH)\].*?(?:Failed check: (.+?)[.]\s|$)",
    re.DOTALL,
)


def is_not_null_violation(text: str) -> bool:
    """Return True if a Spark error text reports a null in a column that is declared NOT NULL."""
    return _NULL.search(text) is not None


def check_constraint_violation(table: Table, error: BaseException) -> None:
    """Raise a TableError if Spark's error was caused by a row that violates a table constraint.

    CHECK constraints and the lengths of char and varchar columns are detected. Any other error is
    ignored.

    Args:
        table: The table, which is named in the message.
        error: The exception that Spark raised.

    Raises:
        TableError: A row violates a constraint of the table.
    """
    text = str(error)
    if match := _CHECK.search(text):
        rule = match["rule"] if match["rule"].startswith("(") else f"({match['rule']})"
        raise TableError(
            f"Table {table.name} ({table.key}) has the constraint {match['name']} {rule}, which a"
            " row of this batch violates, so nothing of the batch was written and no state that"
            " covers it is emitted. Fix the rows at their source or in a stream map, or drop"
            " the constraint (ALTER TABLE ... DROP CONSTRAINT), and start again."
        ) from error
    if match := _LENGTH.search(text):
        rule = f" ({match[1]})" if match[1] else ""
        raise TableError(
            f"Table {table.name} ({table.key}) has text of a limited length{rule}, which a row"
            " of this batch exceeds; nothing of the batch was written and no state that covers"
            " it is emitted. Change the column to type string, and start again."
        ) from error
