"""Spool lines as DataFrames: the rows that fit their schema, and the lines that do not.

Both come from the same conversions of whole records, so each line is in exactly one of them. The
good rows are made in one of two ways:

- strict: a line that does not fit, or has an allowed but unusual spelling (a number in quotes, an
integer ``1.0``), fails the job with `BAD_ROWS_MARKER` in its error. This is the fast path, used
for almost every batch;
- not strict: lines that do not fit are left out, and `SpoolFrame.bad` has them with their reasons.
It runs after a strict job has failed. If the schema keeps rows with errors (Airbyte), only lines
without a usable key or deletion time are left out; in other rows a value that does not fit is
null and recorded in `_airbyte_meta`.

DataFrames are lazy: the spool files must exist until the last action on a DataFrame has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from target_spark.columns import ORDINAL, TableSchema, Timestamp
from target_spark.frames.airbyte_meta import constant_columns
from target_spark.frames.conversion_errors import build_error_columns, build_unparsed_reasons
from target_spark.frames.json_reader import read_lines, record_in_text, record_type
from target_spark.frames.misfit_repair import build_repair
from target_spark.frames.nested_values import extract_nested
from target_spark.frames.sql_casts import exact_cast
from target_spark.frames.sql_plan import (
    SelectPlan,
    build_row_check,
    count_missing_timezones,
    fast_plan,
    tolerant_plan,
)
from target_spark.spark.observation import get_observation
from target_spark.storage.row_ordinals import resolve_ordinals
from target_spark.tables.identifiers import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

__all__ = ["BatchMetadata", "Counts", "SpoolFrame", "latest_by_key", "read_spool"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_LINE_ORDINAL = (
    r"""coalesce(`n`, try_cast(regexp_extract(`_corrupt`, r'\A\{"n":([0-9]+)', 1) AS BIGINT))"""
)
"""SQL of a line's ordinal; a line that is not JSON still begins as target-spark wrote it."""


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """Values that the run adds to all rows of a batch.

    Attributes:
        received_at: When the first row was received; also the extraction time of messages without
            one.
        batched_at: When the batch was closed.
        sync_started_at: Start of the run, in milliseconds since 1970; orders the runs.
        sync_id: Airbyte's id of the sync, or None.
        starts: First ordinal of each spool file whose lines have the number of the file in place of
            their ordinal.
    """

    received_at: datetime
    batched_at: datetime
    sync_started_at: int
    sync_id: int | None = None
    starts: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts that Spark observed while it computed the good rows of a batch.

    Attributes:
        rows: The number of rows.
        zoneless: Per column, the number of date-times without a time zone, read as UTC.
        nulled: The number of rows with a null in place of a value that does not fit.
    """

    rows: int
    zoneless: Mapping[str, int]
    nulled: int = 0


def read_spool(
    spark: SparkSession, paths: Sequence[str], table_schema: TableSchema, metadata: BatchMetadata
) -> SpoolFrame:
    """Return the lines of spool files as a `SpoolFrame` with the columns of a table schema.

    ``metadata`` has the values that the run adds to all rows.
    """
    return SpoolFrame(spark, tuple(paths), table_schema, metadata)


class SpoolFrame:
    """Spool lines of one batch, to be read as good rows, bad rows, or both."""

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
        self._observation: Observation | None = None
        self._counted: DataFrame | None = None

    @property
    def rows(self) -> DataFrame:
        """All lines: the columns that the target fills, the ordinal, and ``reasons``.

        ``reasons`` is null in a good row. In a bad row it lists the errors of its values, and may
        be empty if the JSON reader refused the line. Values with errors are null.
        """
        faults = build_error_columns(self._table_schema)
        return self._exact().selectExpr(
            *tolerant_plan(self._table_schema).values,
            f"{_LINE_ORDINAL} AS {quote(ORDINAL)}",
            f"if({faults.any}, {faults.reasons}, NULL) AS `reasons`",
        )

    def good(self, strict: bool) -> DataFrame:
        """Return the rows that fit: the filled columns in table order, then the ordinal.

        `counts` refers to the first action on the latest result.

        Args:
            strict: True to let the job fail with `BAD_ROWS_MARKER` at the first line that does not
                fit
                or has an unusual spelling; False to leave out lines that do not fit.
        """
        if strict:
            plan = fast_plan(self._table_schema)
            lines = _with(
                self._lines(usual=True).where(build_row_check(self._table_schema)), plan.precomputed
            )
            return self._observed(lines, plan)
        plan, faults = tolerant_plan(self._table_schema), build_error_columns(self._table_schema)
        lines = self._exact().where(f"NOT {faults.any}")
        return self._observed(lines, plan, counts_nulled=faults.changes is not None)

    def _observed(
        self, lines: DataFrame, plan: SelectPlan, *, counts_nulled: bool = False
    ) -> DataFrame:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812 - the usual name

        self._observation = Observation()
        zoneless = enumerate(count_missing_timezones(self._table_schema).values())
        nulled = [F.expr("count_if(`_changes` != '[]')").alias("nulled")] if counts_nulled else []
        counts = (
            F.count(F.lit(1)).alias("rows"),
            *(F.expr(f"coalesce(sum({sql}), 0)").alias(f"zoneless_{n}") for n, sql in zoneless),
            *nulled,
        )
        self._counted = lines.agg(*counts)
        observed = lines.observe(self._observation, *counts)
        return observed.selectExpr(*plan.values, f"`n` AS {quote(ORDINAL)}")

    def counts(self, expected: int | None = None) -> Counts:
        """Return the counts of the last good DataFrame; call this after its first action.

        ``expected`` is the number of rows that there should be; None if unknown.

        Raises:
            RuntimeError: `good` was not called before.
        """
        if self._observation is None or self._counted is None:
            raise RuntimeError("counts are known only after an action on the good rows")
        counted = self._counted
        metrics = get_observation(self._spark, self._observation, lambda: counted, expected)
        names = enumerate(count_missing_timezones(self._table_schema))
        zoneless = {name: metrics[f"zoneless_{n}"] for n, name in names}
        nonzero = {name: count for name, count in zoneless.items() if count}
        return Counts(metrics["rows"], nonzero, metrics.get("nulled", 0))

    def bad(self) -> DataFrame:
        """Return the spool lines that do not fit their schema, for the quarantine table.

        The columns are ``raw`` (the record, byte by byte), ``reasons``, ``ordinal``,
        ``extracted_at`` and ``version``.
        """
        faults = build_error_columns(self._table_schema)
        faulty = (
            self._exact()
            .where(faults.any)
            .selectExpr(
                f"{_LINE_ORDINAL} AS `ordinal`",
                f"{faults.reasons} AS `found`",
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
        explained = _with(_with(faulty.join(raw, "ordinal"), unread.record), unread.precomputed)
        reasons = f"if(`unread`, concat(`found`, {unread.reasons}), `found`)"
        return explained.selectExpr(
            "`raw`", f"{reasons} AS `reasons`", "`ordinal`", "`extracted_at`", "`version`"
        )

    def _exact(self) -> DataFrame:
        """Return the lines with their converted values and error columns, each computed once.

        Spark would otherwise copy a conversion into each use of its result; an ``observe`` between
        them prevents that.
        """
        from pyspark.sql import functions as F  # noqa: N812 - the usual name

        faults = build_error_columns(self._table_schema)
        lines = _with(
            self._lines(), tolerant_plan(self._table_schema).precomputed + faults.precomputed
        )
        if faults.changes is not None:
            lines = lines.selectExpr("*", f"{faults.changes} AS `_changes`")
        return lines.observe("target_spark_lines", F.count(F.lit(1)).alias("lines"))

    def _lines(self, *, usual: bool = False) -> DataFrame:
        """Return the parsed lines, repaired if the schema keeps rows with errors.

        Constant columns of the run, and nested values with a separate column, are added. ``usual``
        is True to parse only values in their usual spelling, which is faster.
        """
        lines = self._read(usual=usual)
        if self._table_schema.nulls_misfits and not usual:
            steps, replaced = build_repair(self._table_schema)
            for step in steps:
                lines = lines.selectExpr("*", *step)
            lines = lines.selectExpr("* EXCEPT (`r`, `_corrupt`)", *replaced) if replaced else lines
        return _with(lines, extract_nested(self._table_schema))

    def _read(self, *, usual: bool) -> DataFrame:
        table_schema, meta = self._table_schema, self._table_schema.has_meta
        record = record_type(table_schema, usual=usual)
        lines = self._read_lines(record, meta=meta)
        received = _micros(self._metadata.received_at)
        batched = _micros(self._metadata.batched_at)
        if table_schema.keeps_whole:
            parts = f"{record_in_text(table_schema)} AS `r`"
            lines = lines.selectExpr("* EXCEPT (`r`)", "`r` AS `whole`", parts)
        head = constant_columns(self._metadata.sync_id) if meta else ()
        return lines.selectExpr(
            "*",
            *head,
            f"timestamp_micros({received}L) AS `_received_at`",
            f"timestamp_micros({batched}L) AS `_batched_at`",
            f"{self._metadata.sync_started_at}L AS `_started_at`",
        )

    def _read_lines(self, record: str, *, meta: bool = False) -> DataFrame:
        """Read the spool lines, with records parsed as the type ``record`` (DDL)."""
        lines = read_lines(self._spark, self._paths, record, meta=meta)
        if not self._metadata.starts:
            return lines
        ordinal = resolve_ordinals(_LINE_ORDINAL, self._metadata.starts)
        return lines.selectExpr("* EXCEPT (`n`)", f"{ordinal} AS `n`")


def latest_by_key(df: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return, for each key, the row with the greatest ordinal (the last one received)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - the usual name

    rank = "__target_spark_rank"
    window = Window.partitionBy(*map(quote, keys)).orderBy(F.col(quote(ORDINAL)).desc())
    return df.withColumn(rank, F.row_number().over(window)).where(f"`{rank}` = 1").drop(rank)


def _micros(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1)


def _with(lines: DataFrame, precomputed: Sequence[str]) -> DataFrame:
    return lines.selectExpr("*", *precomputed) if precomputed else lines
