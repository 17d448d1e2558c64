"""Quarantine tables, which store records with values that do not fit the columns of a table.

A record is stored unchanged, with all errors and its position in the input, so that it can be
loaded later. `target_spark.frames.conversion_errors` detects the errors, and
`target_spark.loader.batch_commit` commits the records.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812  (as all of Spark's users call it)

from tap_core.redaction import HIDDEN, clean_document, is_secret_name, redact, redact_line
from tap_core.redaction.row_values import show_value
from target_spark.columns import Array, Column, ColumnType, Integer, TableSchema, Text, Timestamp
from target_spark.config.options import QuarantineLimit
from target_spark.errors import QuarantineError
from target_spark.loader.commit_request import CommitRequest
from target_spark.tables.quarantine_summary import Reason, describe_reasons

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "LONGEST_RECORD",
    "SCHEMA",
    "SHORT_RECORD",
    "QuarantineGuard",
    "find_example",
    "find_reasons",
    "get_values",
]

_COLUMNS: Final[Mapping[str, ColumnType]] = {
    "raw": Text(),
    "reasons": Array(Text()),
    "ordinal": Integer(),
    "extracted_at": Timestamp(),
    "quarantined_at": Timestamp(),
    "batch": Integer(),
    "run": Text(),
    "version": Integer(),
    "replay": Text(),
}
SCHEMA: Final = TableSchema(tuple(Column(name, name, type_) for name, type_ in _COLUMNS.items()))
"""The columns of quarantine tables. ``replay`` is the id of the last run that began to load the
record again, or null."""

_MOST_REASONS: Final = 100
"""Maximum number of different errors that are collected from one batch, most frequent first."""

LONGEST_RECORD: Final = 1 << 20
"""Maximum bytes of a record that is shown, or from which an example of a value is taken."""

SHORT_RECORD: Final = f"if(octet_length(`raw`) <= {LONGEST_RECORD}, `raw`, NULL) AS `raw`"
"""SQL expression for the column ``raw``, with null for longer records than `LONGEST_RECORD`."""

_LONGEST_EXAMPLE: Final = 80

_AFTER_PROPERTY: Final = re.compile(r"[:.\[]")
"""Pattern of the character after the property's name in an error text, such as ":" in "price: not a
number"."""


class QuarantineGuard:
    """Thread-safe counter of a run's quarantined rows, which checks the user's limit.

    Args:
        limit: The limit of the setting ``max_quarantined``.
        withholds: True to withhold a stream's states if too many of its rows are quarantined. False
            for a replay (a run that loads quarantined rows again), which withholds no states.
    """

    def __init__(self, limit: QuarantineLimit, *, withholds: bool = True) -> None:
        self._limit = limit
        self._withholds = withholds
        self._count = 0
        self._lock = threading.Lock()

    def add(
        self,
        request: CommitRequest,
        count: int,
        written: int,
        quarantined: int,
        reasons: Sequence[Reason],
    ) -> None:
        """Count rows that are about to be quarantined, and check the limit.

        Args:
            request: The commit request that contains the rows.
            count: The number of rows to be quarantined.
            written: The number of rows of the stream that this run has written before this batch.
            quarantined: The number of rows of the stream that this run has quarantined before this
                batch.
            reasons: The errors in the rows, for the message of the exception.

        Raises:
            QuarantineError: With these rows, the limit is exceeded.
        """
        limit = self._limit
        with self._lock:
            total = self._count + count
            if limit.rows is not None and total > limit.rows:
                raise _limit_exceeded_error(
                    request, count, f"That makes {total} in this run", limit, reasons
                )
            self._count = total
        bad_rows, rows = quarantined + count, written + quarantined + request.count
        if rows >= limit.judged_from and limit.is_exceeded(bad_rows, rows):
            so_far = f"That makes {bad_rows} of {rows} rows of this stream"
            raise _limit_exceeded_error(request, count, so_far, limit, reasons)

    def find_withhold_reason(self, written: int, quarantined: int) -> str | None:
        """Return the reason not to emit states that cover a stream's rows, or None to emit them.

        The reason is a phrase, such as "none of its rows could be written".

        Args:
            written: The number of rows of the stream that this run has written so far.
            quarantined: The number of rows of the stream that this run has quarantined so far.
        """
        if not quarantined or not self._withholds:
            return None
        if not written:
            return "none of its rows could be written"
        if self._limit.is_exceeded(quarantined, written + quarantined):
            return f"more of its rows do not fit than max_quarantined ({self._limit}) allows"
        return None


def _limit_exceeded_error(
    request: CommitRequest,
    count: int,
    so_far: str,
    limit: QuarantineLimit,
    reasons: Sequence[Reason],
) -> QuarantineError:
    return QuarantineError(
        f"{count} of {request.count} rows of stream {request.stream} do not fit their columns, for"
        f" example: {describe_reasons(reasons)}. {so_far}, and max_quarantined is {limit};"
        " nothing of this batch is committed."
    )


def get_values(batch: int, run: str) -> tuple[str, ...]:
    """Return the SQL expressions of the quarantine table's columns, in order.

    The expressions are evaluated on the DataFrame of quarantined rows that `SpoolFrame.bad`
    returns.

    Args:
        batch: The number of the commit.
        run: The id of the run.
    """
    computed = {
        "quarantined_at": "current_timestamp()",
        "batch": f"{batch}L",
        "run": f"'{run}'",
        "replay": "CAST(NULL AS STRING)",
    }
    return tuple(f"{computed.get(name, f'`{name}`')} AS `{name}`" for name in _COLUMNS)


def find_reasons(bad: DataFrame, table_schema: TableSchema) -> tuple[Reason, ...]:
    """Return the 100 most frequent errors in quarantined rows, each with an example value.

    Args:
        bad: The quarantined rows, as returned by `SpoolFrame.bad`.
        table_schema: The table schema of the rows.
    """
    rows = (
        bad.selectExpr("`ordinal`", SHORT_RECORD, "explode(`reasons`) AS `reason`")
        .groupBy("reason")
        .agg(F.count(F.lit(1)).alias("rows"), F.min_by("raw", "ordinal").alias("raw"))
        .orderBy(F.desc("rows"), "reason")
        .limit(_MOST_REASONS)
        .collect()
    )
    return tuple(
        Reason(row["reason"], row["rows"], find_example(row["raw"], row["reason"], table_schema))
        for row in rows
    )


def find_example(raw: str | None, reason: str, table_schema: TableSchema) -> str | None:
    """Return the value that caused a record's quarantine, redacted and shortened for a message.

    Return the record if the error is about the whole record. Return None if the record does not
    contain the value or is larger than 1 MiB.

    Args:
        raw: The record as JSON, or None if it is larger than 1 MiB.
        reason: The error text, such as "price: not a number". It starts with the name of a property
            unless it is about the whole record.
        table_schema: The table schema of the record.
    """
    if raw is None:
        return None
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return _format_example(raw, raw)
    path = _find_value_path(reason, table_schema)
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    if any(map(is_secret_name, path)):
        return HIDDEN
    return _format_example(value, json.dumps(clean_document(value, redact), ensure_ascii=False))


def _find_value_path(reason: str, table_schema: TableSchema) -> tuple[str, ...]:
    """Return the path of the value that an error text is about; ``()`` for the whole record.

    Example: "price: not a number" -> ``("price",)``.
    """
    columns = [each for each in table_schema.columns if _mentions(reason, each.source)]
    if not columns:
        return ()
    column = max(columns, key=lambda each: len(each.source))
    return tuple(column.path or (column.source,))


def _mentions(reason: str, source: str) -> bool:
    starts = source and reason.startswith(source)
    return bool(starts and _AFTER_PROPERTY.match(reason, len(source)))


def _format_example(value: Any, text: str) -> str:
    clean = redact_line(text)
    cut = clean if len(clean) <= _LONGEST_EXAMPLE else f"{clean[:_LONGEST_EXAMPLE]}..."
    return show_value(value, cut)
