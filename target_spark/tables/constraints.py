"""Rules of a table that a batch breaks: which, and what is done about it.

Rules of the room: pure. Such rules are known by the words of Spark and the table formats
in the text of an error. A null that a table does not take is a matter of its columns,
which can be relaxed; every other rule is its owner's, and is named. What a row holds is
never repeated.
"""

from __future__ import annotations

import re
from typing import Final

from target_spark.errors import TableError
from target_spark.tables.model import Table

__all__ = ["check_constraint_violation", "is_not_null_violation"]

_NULL: Final = re.compile(
    r"\[(?:DELTA_NOT_NULL_CONSTRAINT_VIOLATED|DELTA_MISSING_NOT_NULL_COLUMN_VALUE"
    r"|NOT_NULL_ASSERT_VIOLATION"
    r"|INCOMPATIBLE_DATA_FOR_TABLE[.](?:NULLABLE_COLUMN|CANNOT_FIND_DATA)"
    # What MERGE says of a column that it does not set, and of a field in a struct:
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
    """Tell whether an error says that a table did not take a batch because of a null."""
    return _NULL.search(text) is not None


def check_constraint_violation(table: Table, error: BaseException) -> None:
    """Let an error pass that is not about a rule of the table.

    Raises:
        TableError: a row broke one.
    """
    text = str(error)
    if found := _CHECK.search(text):
        rule = found["rule"] if found["rule"].startswith("(") else f"({found['rule']})"
        raise TableError(
            f"Table {table.name} ({table.key}) has the constraint {found['name']} {rule}, which a"
            " row of this batch does not keep, so nothing of the batch was written and no state"
            " that covers it leaves. Mend the rows at their source or in a stream map, or drop"
            " the constraint (ALTER TABLE ... DROP CONSTRAINT), and start again."
        ) from error
    if found := _LENGTH.search(text):
        rule = f" ({found[1]})" if found[1] else ""
        raise TableError(
            f"Table {table.name} ({table.key}) has text of a limited length{rule}, which a row"
            " of this batch exceeds; nothing of the batch was written and no state that covers"
            " it leaves. Let the column be of type string, and start again."
        ) from error
