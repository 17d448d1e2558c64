"""One piece of work becomes one commit; rows that do not fit are set aside before it.

Rules of the room:

- Nearly every batch is good, so it is first written as if it were: the job fails on the
  first row that does not fit, and nothing of it is committed. Then, and from then on for
  that table, the careful way: good rows are staged, the others go to the quarantine by
  a commit of their own, and only then the good ones to the table, with the state.
- Rows written and rows set aside must be the rows that were spooled; a difference is an
  error, never a rounding.
- A table's commits are numbered from 1 within the run. Nobody else writes to it meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from shutil import rmtree
from typing import Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as all of Spark's users call it)

from target_spark.columns import (
    ORDINAL,
    Array,
    CanWiden,
    Column,
    ColumnType,
    Integer,
    Layout,
    Text,
    Timestamp,
    against_table,
)
from target_spark.columns.layout import DELETED_AT
from target_spark.engine import Engine
from target_spark.errors import CountError, QuarantineError
from target_spark.frames import BAD_ROWS, Frame, Metadata, read_spool
from target_spark.ledger import Covered, Marker
from target_spark.names import quote
from target_spark.options import LoadOptions, Run, WriteMode
from target_spark.places import spark_address
from target_spark.spool import SpoolFolder
from target_spark.tables import Design, Table
from target_spark.work import Outcome, Work
from target_spark.writers import Keys, newest_by_key, writer_for
from target_spark.writers.base import ONLY_DELETE

__all__ = ["QUARANTINE_SUFFIX", "BatchWriter", "quarantine_of"]

logger = logging.getLogger(__name__)

QUARANTINE_SUFFIX: Final = "__quarantine"
_QUARANTINE_COLUMNS: Final[Mapping[str, ColumnType]] = {
    "raw": Text(),
    "reasons": Array(Text()),
    "ordinal": Integer(),
    "extracted_at": Timestamp(),
    "quarantined_at": Timestamp(),
    "batch": Integer(),
    "run": Text(),
}
_QUARANTINE: Final = Layout(
    tuple(Column(name, name, type_) for name, type_ in _QUARANTINE_COLUMNS.items())
)


@dataclass
class _TableState:
    """What this run knows of one table."""

    commits: int = 0
    careful: bool = False
    wanted: Layout | None = None
    fitted: Layout | None = None


class BatchWriter:
    """Writes work into the tables of one format. Two threads may use it, for two tables."""

    def __init__(self, engine: Engine, options: LoadOptions, run: Run, folder: SpoolFolder) -> None:
        self._engine = engine
        self._run = run
        self._folder = folder
        self._writer = writer_for(options.format)
        self._tables: dict[str, _TableState] = defaultdict(_TableState)
        self._quarantined = _Limit(options.max_quarantined)

    @property
    def can_widen(self) -> CanWiden:
        """Whether the format can widen a type in place."""
        return self._writer.can_widen

    def write(self, work: Work) -> Outcome:
        """Commit the rows; those that do not fit are set aside first.

        Raises:
            QuarantineError: more rows would be set aside than the user allows.
            CountError: rows are missing or too many.
            CommitLostError: the table does not have what was written.
        """
        spark = self._engine.spark()
        layout = self._fit(spark, work.table, work.layout, work.design, rows_follow=True)
        if not work.batches:
            return self._empty(spark, work, layout)
        frame = read_spool(spark, _paths(work), layout, self._metadata(work))
        outcome = None
        if not self._tables[work.table.key].careful:
            outcome = self._write_all(spark, work, layout, frame)
        return outcome or self._write_good(spark, work, layout, frame)

    def prepare(self, table: Table, layout: Layout, design: Design) -> None:
        """Make the table where there is none, and let it grow where it must."""
        self._fit(self._engine.spark(), table, layout, design)

    def carry(self, table: Table, covered: Covered) -> None:
        """Commit a state without rows."""
        marker = self._marker(table, covered)
        self._writer.commit_empty(self._engine.spark(), table, marker)
        self._tables[table.key].commits += 1

    # The table

    def _fit(
        self,
        spark: SparkSession,
        table: Table,
        wanted: Layout,
        design: Design,
        *,
        rows_follow: bool = False,
    ) -> Layout:
        """Return the layout in the table's terms, the table made or grown where it must."""
        state = self._tables[table.key]
        if state.fitted is not None and state.wanted == wanted:
            return state.fitted
        types = self._writer.table_types(spark, table)
        if types is None:
            self._writer.create(spark, table, wanted, design, rows_follow=rows_follow)
            fitted = wanted
        else:
            fitted, changes = against_table(wanted, types, self._writer.can_widen)
            if changes:
                self._writer.alter(spark, table, changes)
        state.wanted, state.fitted = wanted, fitted
        return fitted

    # Rows

    def _write_all(
        self, spark: SparkSession, work: Work, layout: Layout, frame: Frame
    ) -> Outcome | None:
        """Write the rows as if all of them fitted; None, and nothing written, if not."""
        df = frame.good(strict=True)
        try:
            if work.mode is WriteMode.UPSERT:
                with self._staged(spark, df) as staged:
                    _check_count(work, frame.counts().rows, 0)
                    carried = self._commit(spark, work, layout, staged)
            else:
                carried = self._commit(spark, work, layout, df)
        except Exception as error:
            if BAD_ROWS not in str(error):
                raise
            self._tables[work.table.key].careful = True
            return None
        counts = frame.counts()
        _check_count(work, counts.rows, 0)
        return Outcome(counts.rows, 0, carried, counts.zoneless)

    def _write_good(self, spark: SparkSession, work: Work, layout: Layout, frame: Frame) -> Outcome:
        """Stage what fits, set the rest aside, then commit what fits."""
        with self._staged(spark, frame.good(strict=False)) as staged:
            counts = frame.counts()
            bad = work.count - counts.rows
            if bad:
                self._set_aside(spark, work, frame, bad)
            carried = self._commit(spark, work, layout, staged)
        return Outcome(counts.rows, bad, carried, counts.zoneless)

    def _commit(
        self, spark: SparkSession, work: Work, layout: Layout, df: DataFrame
    ) -> Covered | None:
        """Make the commit that carries the state; return the state."""
        carried = work.covered()
        marker, table = self._marker(work.table, carried), work.table
        if work.mode is WriteMode.UPSERT:
            keys = _keys(layout, hard_delete=work.hard_delete)
            self._writer.upsert(spark, table, df, keys, marker)
        elif work.mode is WriteMode.APPEND:
            self._writer.append(spark, table, df.drop(ORDINAL), marker)
        else:
            self._writer.replace(spark, table, _newest(df, layout), marker)
        self._tables[work.table.key].commits += 1
        return carried

    def _empty(self, spark: SparkSession, work: Work, layout: Layout) -> Outcome:
        """Let a table that is overwritten by nothing hold nothing."""
        columns = ", ".join(
            f"CAST(NULL AS {column.type.ddl}) AS {quote(column.name)}" for column in layout.columns
        )
        nothing = spark.sql(f"SELECT {columns}, 0L AS {quote(ORDINAL)} WHERE false")
        return Outcome(0, 0, self._commit(spark, work, layout, nothing), {})

    @contextmanager
    def _staged(self, spark: SparkSession, df: DataFrame) -> Iterator[DataFrame]:
        """Give rows that are evaluated once, whatever is done with them after."""
        path = self._folder.new_path("staged")
        address = spark_address(str(path))
        df.write.parquet(address)
        try:
            yield spark.read.schema(df.schema).parquet(address)
        finally:
            rmtree(path, ignore_errors=True)

    # Rows that do not fit

    def _set_aside(self, spark: SparkSession, work: Work, frame: Frame, count: int) -> None:
        """Commit the rows that do not fit to the table's quarantine.

        Raises:
            QuarantineError: they are too many; nothing is written.
            CountError: they are not as many as the good ones leave over.
        """
        bad = frame.bad()
        examples = _examples(bad)
        self._quarantined.add(count, work, examples)
        table = quarantine_of(work.table)
        self._fit(spark, table, _QUARANTINE, Design(), rows_follow=True)
        number = self._tables[work.table.key].commits + 1
        observed = Observation()
        rows = bad.observe(observed, F.count(F.lit(1)).alias("rows")).selectExpr(
            "`raw`",
            "`reasons`",
            "`ordinal`",
            "`extracted_at`",
            "current_timestamp() AS `quarantined_at`",
            f"{number}L AS `batch`",
            f"'{self._run.id}' AS `run`",
        )
        self._writer.append(spark, table, rows, self._marker(table, None))
        self._tables[table.key].commits += 1
        _check_count(work, work.count - count, observed.get["rows"])
        logger.warning(
            "Stream %s: %d rows do not fit and stand in %s, for example: %s",
            work.stream,
            count,
            table.name,
            examples,
        )

    def _marker(self, table: Table, covered: Covered | None) -> Marker:
        run = self._run
        number = self._tables[table.key].commits + 1
        if covered is None:
            return Marker(run.job, run.id, run.started, number, 0)
        state = covered.state.decode()
        return Marker(run.job, run.id, run.started, number, covered.ordinal, state)

    def _metadata(self, work: Work) -> Metadata:
        return Metadata(
            received_at=_instant(work.batches[0].received_at),
            batched_at=_instant(work.batches[-1].cut_at),
            sync_started_at=self._run.started,
        )


class _Limit:
    """How many rows may be set aside in a run, over all tables and threads."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._count = 0
        self._lock = threading.Lock()

    def add(self, count: int, work: Work, examples: str) -> None:
        """Count rows that are about to be set aside; raise if they are too many."""
        with self._lock:
            total = self._count + count
            if self._limit is not None and total > self._limit:
                raise QuarantineError(
                    f"{count} of {work.count} rows of stream {work.stream} do not fit their"
                    f" columns, for example: {examples}. That makes {total} in this run, and"
                    f" max_quarantined is {self._limit}; nothing of this batch is committed."
                )
            self._count = total


def quarantine_of(table: Table) -> Table:
    """Return where the rows go that do not fit a table."""
    return table.beside(QUARANTINE_SUFFIX)


def _paths(work: Work) -> list[str]:
    return [spark_address(path) for batch in work.batches for path in batch.paths]


def _keys(layout: Layout, *, hard_delete: bool) -> Keys:
    deleted = DELETED_AT if DELETED_AT in layout.types else None
    return Keys(layout.keys, ORDINAL, deleted, hard_delete)


def _newest(df: DataFrame, layout: Layout) -> DataFrame:
    """Return one row for each key, the newest; all rows where there are no keys."""
    if not layout.keys:
        return df.drop(ORDINAL)
    return newest_by_key(df, _keys(layout, hard_delete=False)).drop(ONLY_DELETE)


def _examples(bad: DataFrame) -> str:
    """Return in words what is wrong with the first few rows."""
    rows = bad.select("ordinal", "reasons").orderBy("ordinal").limit(3).collect()
    return "; ".join(f"message {row.ordinal}: {', '.join(row.reasons)}" for row in rows)


def _check_count(work: Work, written: int, set_aside: int) -> None:
    if written + set_aside != work.count:
        raise CountError(
            f"Stream {work.stream}: {work.count} rows were spooled, but {written} would be"
            f" written and {set_aside} set aside. No state that covers them is let out."
        )


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)
