"""Rows from spool files (JSON lines) as DataFrames: rows that fit the schema, and bad rows.

Good rows are computed in one of two modes:

- strict, the fast mode for almost every batch. The Spark job fails with `BAD_ROWS_MARKER` in its
  error at the first bad row, or at a valid value in a less common form, such as a number in quotes;
- not strict, used after a strict job has failed. All valid forms are converted, and bad rows are
  left out. `SpoolFrame.bad` returns the bad rows with their errors. For streams of Airbyte, a row
  is bad only if its key or deletion time is invalid. Other invalid values become null, which
  `_airbyte_meta` records.

DataFrames are lazy: the spool files must exist until the last action on a DataFrame has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from target_spark.columns import ORDINAL, TableSchema, Timestamp
from target_spark.frames.airbyte_meta import constant_columns
from target_spark.frames.conversion_errors import build_error_columns, build_unparsed_reasons
from target_spark.frames.json_reader import parse_record_text, read_lines, record_type
from target_spark.frames.nested_values import extract_nested
from target_spark.frames.record_repair import build_repair
from target_spark.frames.sql_casts import exact_cast
from target_spark.frames.sql_plan import (
    SelectPlan,
    build_row_check,
    build_timezone_counts,
    fast_plan,
    tolerant_plan,
)
from target_spark.spark.row_counts import get_observation
from target_spark.storage.row_ordinals import resolve_ordinals
from target_spark.tables.identifiers import format_instant, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

__all__ = ["BatchMetadata", "Counts", "SpoolFrame"]

_LINE_ORDINAL = (
    r"""coalesce(`n`, try_cast(regexp_extract(`_corrupt`, r'\A\{"n":([0-9]+)', 1) AS BIGINT))"""
)
"""SQL of the ordinal (input position) of a line in a spool file.

If the line is not valid JSON, the ordinal is extracted from its start, such as ``{"n":17``.
"""


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """Times and ids of a batch of rows, which fill metadata columns such as ``_sdc_received_at``.

    Attributes:
        received_at: The time when the first row of the batch was received. It is also used as the
            extraction time of records that have none.
        batched_at: The time when the batch was closed, so that no more rows were added.
        sync_started_at: The start of the run, in milliseconds since 1970; later runs have larger
            values.
        sync_id: Airbyte's id of the sync; None if it is unknown.
        starts: The first ordinal (position in the input) of each partition that Spark workers read,
            by partition number. Spool files contain the position of a row in its partition; the
            first ordinal is added to it. Empty if Spark workers read no rows.
    """

    received_at: datetime
    batched_at: datetime
    sync_started_at: int
    sync_id: int | None = None
    starts: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of the valid rows of one commit.

    Attributes:
        rows: The number of rows.
        zoneless: The number of date-times without a time zone, which are read as UTC, by column.
            Columns without such date-times are left out.
        nulled: The number of rows with an invalid value that was replaced by null.
    """

    rows: int
    zoneless: Mapping[str, int]
    nulled: int = 0


class SpoolFrame:
    """The rows of one commit, read from spool files as DataFrames of good and bad rows.

    A row is bad, and must be quarantined, if a value cannot be converted exactly to its column's
    type. If ``table_schema.nulls_invalid_values`` is set (for Airbyte), such values become null
    instead, except in keys and deletion times.

    Args:
        spark: The session.
        paths: The paths or URLs of the spool files.
        table_schema: The schema with the column types of the converted values.
        metadata: Times and ids of the batch, which fill the metadata columns.
    """

    def __init__(
        self,
        spark: SparkSession,
        paths: Sequence[str],
        table_schema: TableSchema,
        metadata: BatchMetadata,
    ) -> None:
        self._spark = spark
        self._paths = paths
        self._table_schema = table_schema
        self._metadata = metadata
        # Several frames can be parts of one query, in which each name must be unique.
        self._lines_name = f"target_spark_lines_{uuid4().hex}"
        self._observation: Observation | None = None
        self._counted: DataFrame | None = None

    @property
    def rows(self) -> DataFrame:
        """All rows, good and bad, with the columns of the table and ``ordinal`` and ``reasons``.

        ``ordinal`` is the position of the row in the input. ``reasons`` is null in a good row, and
        an array of error texts in a bad row. The array is empty if Spark's JSON reader could not
        parse the record. Invalid values are null.
        """
        faults = build_error_columns(self._table_schema)
        return self._convert_lines().selectExpr(
            *tolerant_plan(self._table_schema).values,
            f"{_LINE_ORDINAL} AS {quote(ORDINAL)}",
            f"if({faults.is_bad}, {faults.reasons}, NULL) AS `reasons`",
        )

    def good(self, strict: bool) -> DataFrame:
        """Return the rows whose values all fit their columns, with converted values.

        The columns are in table order. The last column is the ordinal, the row's position in the
        input. After the first action on the result, `counts` returns the number of rows.

        Args:
            strict: True for the fast mode, whose Spark job fails at the first bad row (see the
                module's docstring). False to convert all valid forms and to leave out bad rows.
        """
        if strict:
            plan = fast_plan(self._table_schema)
            lines = _add_columns(
                self._parse_lines(parse_numbers=True).where(build_row_check(self._table_schema)),
                plan.precomputed,
            )
            return self._observe_counts(lines, plan)
        plan, faults = tolerant_plan(self._table_schema), build_error_columns(self._table_schema)
        lines = self._convert_lines().where(f"NOT {faults.is_bad}")
        return self._observe_counts(lines, plan, counts_nulled=faults.changes is not None)

    def _observe_counts(
        self, lines: DataFrame, plan: SelectPlan, *, counts_nulled: bool = False
    ) -> DataFrame:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812 - the usual name

        self._observation = Observation()
        sums = enumerate(build_timezone_counts(self._table_schema).values())
        nulled = [F.expr("count_if(`_changes` != '[]')").alias("nulled")] if counts_nulled else []
        counts = (
            F.count(F.lit(1)).alias("rows"),
            *(F.expr(f"coalesce(sum({sql}), 0)").alias(f"zoneless_{index}") for index, sql in sums),
            *nulled,
        )
        self._counted = lines.agg(*counts)
        observed = lines.observe(self._observation, *counts)
        return observed.selectExpr(*plan.values, f"`n` AS {quote(ORDINAL)}")

    def counts(self, expected: int | None = None) -> Counts:
        """Return the row counts of the DataFrame that `good` returned last.

        Spark collects the counts during the first action on that DataFrame.

        Args:
            expected: The expected number of rows; None if unknown. If Spark collected a different
                number, the rows are counted by a separate Spark job.

        Raises:
            RuntimeError: `good` was not called before.
        """
        if self._observation is None or self._counted is None:
            raise RuntimeError("counts are known only after an action on the good rows")
        counted = self._counted
        metrics = get_observation(self._spark, self._observation, lambda: counted, expected)
        names = enumerate(build_timezone_counts(self._table_schema))
        zoneless = {name: metrics[f"zoneless_{index}"] for index, name in names}
        nonzero = {name: count for name, count in zoneless.items() if count}
        return Counts(metrics["rows"], nonzero, metrics.get("nulled", 0))

    def bad(self) -> DataFrame:
        """Return the rows with values that do not fit their columns, for the quarantine table.

        The columns are ``raw`` (the record as it was received), ``reasons`` (an array of error
        texts), ``ordinal`` (the position in the input), ``extracted_at`` and ``version`` (the table
        version).
        """
        faults = build_error_columns(self._table_schema)
        faulty = (
            self._convert_lines()
            .where(faults.is_bad)
            .selectExpr(
                f"{_LINE_ORDINAL} AS `ordinal`",
                f"{faults.reasons} AS `value_reasons`",
                "`_corrupt` IS NOT NULL AS `unread`",
                f"{exact_cast('`t`', Timestamp(), truncate=True)} AS `extracted_at`",
            )
        )
        raw = self._read_lines("STRING").selectExpr(
            f"{_LINE_ORDINAL} AS `ordinal`",
            "coalesce(`r`, `_corrupt`, 'null') AS `raw`",
            "`v` AS `version`",
        )
        unread = build_unparsed_reasons(self._table_schema)
        explained = _add_columns(
            _add_columns(faulty.join(raw, "ordinal"), unread.record), unread.precomputed
        )
        reasons = f"if(`unread`, concat(`value_reasons`, {unread.reasons}), `value_reasons`)"
        return explained.selectExpr(
            "`raw`", f"{reasons} AS `reasons`", "`ordinal`", "`extracted_at`", "`version`"
        )

    def _convert_lines(self) -> DataFrame:
        """Return all rows, good and bad, with helper columns for converted values and errors."""
        # Without `observe`, Spark would repeat a conversion for each use of its result.
        from pyspark.sql import functions as F  # noqa: N812 - the usual name

        faults = build_error_columns(self._table_schema)
        lines = _add_columns(
            self._parse_lines(), tolerant_plan(self._table_schema).precomputed + faults.precomputed
        )
        if faults.changes is not None:
            lines = lines.selectExpr("*", f"{faults.changes} AS `_changes`")
        return lines.observe(self._lines_name, F.count(F.lit(1)).alias("lines"))

    def _parse_lines(self, *, parse_numbers: bool = False) -> DataFrame:
        """Return the rows of the spool files as parsed JSON, with values not yet converted.

        Helper columns are added: the times and ids of the batch, which are the same in all rows,
        and key properties that are nested in objects.

        If ``parse_numbers`` is True, JSON numbers are parsed as numbers, which is fast. Otherwise
        they are read as text, and numbers in quotes are accepted too.
        """
        lines = self._read_records(parse_numbers=parse_numbers)
        if self._table_schema.nulls_invalid_values and not parse_numbers:
            # An object or array in place of a value, or the reverse, becomes null.
            steps, replacements = build_repair(self._table_schema)
            for step in steps:
                lines = lines.selectExpr("*", *step)
            if replacements:
                lines = lines.selectExpr("* EXCEPT (`r`, `_corrupt`)", *replacements)
        return _add_columns(lines, extract_nested(self._table_schema))

    def _read_records(self, *, parse_numbers: bool) -> DataFrame:
        """Return the rows in the spool files: records as structs, and columns of batch metadata."""
        table_schema, meta = self._table_schema, self._table_schema.has_meta
        record = record_type(table_schema, parse_numbers=parse_numbers)
        lines = self._read_lines(record, meta=meta)
        if table_schema.keeps_whole:
            parts = f"{parse_record_text(table_schema)} AS `r`"
            lines = lines.selectExpr("* EXCEPT (`r`)", "`r` AS `whole`", parts)
        constants = constant_columns(self._metadata.sync_id) if meta else ()
        return lines.selectExpr(
            "*",
            *constants,
            f"{format_instant(self._metadata.received_at)} AS `_received_at`",
            f"{format_instant(self._metadata.batched_at)} AS `_batched_at`",
            f"{self._metadata.sync_started_at}L AS `_started_at`",
        )

    def _read_lines(self, record: str, *, meta: bool = False) -> DataFrame:
        """Return the lines of the spool files, which store rows as JSON, as a DataFrame.

        The column ``n`` is the ordinal, the position of the row in the input.

        Args:
            record: The Spark DDL type of each record, such as ``STRUCT<id: STRING>``.
            meta: True to include the metadata that an Airbyte source added to each row.
        """
        lines = read_lines(self._spark, self._paths, record, meta=meta)
        if not self._metadata.starts:
            return lines
        ordinal = resolve_ordinals(_LINE_ORDINAL, self._metadata.starts)
        return lines.selectExpr("* EXCEPT (`n`)", f"{ordinal} AS `n`")


def _add_columns(lines: DataFrame, precomputed: Sequence[str]) -> DataFrame:
    return lines.selectExpr("*", *precomputed) if precomputed else lines
