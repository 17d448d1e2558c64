"""The command `target-spark replay`, which loads the records of a quarantine table again.

The quarantine table of a stream has the records that did not fit the columns of the stream's table.
A replay makes three commits, so that a failure neither loses a record nor loads one twice:

1. It writes the run's id to the column ``replay`` of the quarantined records.
2. It commits the rows to the table, with the run's id in the commit metadata. Records that still do
not match the schema are quarantined again before this commit.
3. It removes the records with the run's id from the quarantine.

The next replay completes an interrupted one. If the table's commit metadata contains the id of the
interrupted run, the rows were committed, and the records are removed from the quarantine.
Otherwise they are loaded again.
"""

from __future__ import annotations

import json
import time
import uuid
from array import array
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812  (as all of Spark's users call it)

from tap_core.events import Rows, SchemaEvent
from tap_core.exceptions import InvalidInputLine
from tap_core.protocols.singer.reader import SingerReader
from target_spark.config import settings
from target_spark.config.options import LoadOptions, QuarantineLimit, RunInfo, WriteMode
from target_spark.errors import TargetSparkError, UnsupportedError
from target_spark.frames import SpoolFrame
from target_spark.loader.batch_commit import BatchWriter
from target_spark.loader.commit_request import CommitRequest, CommitResult
from target_spark.loader.engine_retry import retry_with_engine
from target_spark.loader.loader import Loader
from target_spark.loader.report import Report
from target_spark.spark.spark_provider import SparkProvider
from target_spark.storage.job_lock import monotonic_run_start
from target_spark.storage.spool import Batch, SpoolFolder, open_spool_folder
from target_spark.storage.staged_rows import stage_frame
from target_spark.storage.uris import to_spark_uri
from target_spark.tables.identifiers import quote
from target_spark.tables.quarantine_table import SCHEMA
from target_spark.tables.table import QUARANTINE, Table, TableLayout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ReplayResult", "ReplayWriter", "reload_records", "replay"]

_NO_LIMIT: Final = 1 << 62
"""Batch limit that is never reached, so that all records are loaded in one batch."""

_POSITION: Final = "__target_spark_place"
"""Column that numbers the records in the order of their quarantine."""

_ORDER: Final = ("quarantined_at", "run", "batch", "ordinal")
"""Columns of the quarantine table that determine the order of its records."""

_EXTRACTED_AT: Final = "date_format(`extracted_at`, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'\")"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Result of loading the records in a stream's quarantine table again.

    Attributes:
        stream: The name of the stream.
        table: The name of the stream's table.
        found: The number of records that were in the quarantine.
        loaded: The number of records that are now in the table.
        unfit: The number of records that still do not match their schema.
        kept: The number of records that stay in the quarantine because the table already has a row
            with their key.
    """

    stream: str
    table: str
    found: int = 0
    loaded: int = 0
    unfit: int = 0
    kept: int = 0

    def describe(self) -> str:
        """Return the result of the replay as a sentence, with a hint if records were not loaded."""
        if not self.found:
            return f"{self.stream}: the quarantine of table {self.table} is empty."
        parts = [f"{self.stream}: {self.loaded} of {self.found} records are now in {self.table}"]
        if self.unfit:
            parts.append(f"{self.unfit} still do not fit (see the column reasons)")
        if self.kept:
            parts.append(
                f"{self.kept} have keys that are in the table, in rows that may be newer, and"
                " stay in the quarantine (load them with --overwrite)"
            )
        return "; ".join(parts) + "."


def replay(
    config: Mapping[str, Any], schema_event: SchemaEvent, *, overwrite: bool
) -> ReplayResult:
    """Start Spark, and load the records in a stream's quarantine table again.

    Records that are not loaded stay in the quarantine table.

    Args:
        config: The validated settings of the target.
        schema_event: The schema of the stream. It determines the conversion of the records.
        overwrite: True to replace rows of the table that have the same key as a record. False to
            leave these rows unchanged, and to keep the records in the quarantine.

    Raises:
        JobLockError: A run of the job is active.
        UnsupportedError: The stream is configured to be overwritten by each run, or ``dry_run`` is
            set.
        TargetSparkError: The records could not be loaded.
    """
    options = settings.load_options(config)
    if options.dry_run:
        raise UnsupportedError("A replay has no dry run: set dry_run to false.")
    job, location = settings.get_job_name(config), settings.get_location(config)
    former = settings.former_jobs(config)
    started = monotonic_run_start(location, (job, *former), int(time.time() * 1000))
    run = RunInfo(job, uuid.uuid4().hex, started, replays=True, former=former)
    with ExitStack() as stack:
        folder = stack.enter_context(
            closing(open_spool_folder(config.get("staging"), "uncommitted rows"))
        )
        spark_settings = settings.spark_settings(config, str(folder.path.absolute()))
        engine = SparkProvider(spark_settings, location, run)
        stack.enter_context(closing(engine))
        engine.begin()
        try:
            return reload_records(engine, options, run, folder, schema_event, overwrite=overwrite)
        except Exception as error:
            if not isinstance(error, TargetSparkError):  # for example a lost connection
                engine.raise_if_engine_lost(error)
            raise


def reload_records(
    engine: SparkProvider,
    options: LoadOptions,
    run: RunInfo,
    folder: SpoolFolder,
    schema_event: SchemaEvent,
    *,
    overwrite: bool,
) -> ReplayResult:
    """Load the records in a stream's quarantine table again, in a Spark process that is running.

    Records that are not loaded stay in the quarantine table.

    Args:
        engine: The Spark process of the run.
        options: The options of the load.
        run: The identity of the run.
        folder: The local folder for uncommitted rows.
        schema_event: The schema of the stream.
        overwrite: True to replace rows with the same key; False to leave them unchanged.
    """
    stream = schema_event.stream
    if options.mode(stream, keyed=bool(schema_event.keys)) is WriteMode.OVERWRITE:
        raise UnsupportedError(
            f"Stream {stream} is overwritten by each run, so its quarantine is not replayed:"
            " run the tap again with the corrected schema instead."
        )
    table, single = options.table(stream), _as_one_batch(options)
    writer = ReplayWriter(engine, single, run, folder, overwrite=overwrite)
    with writer.opened(table) as count:
        if not count:
            return ReplayResult(str(stream), table.name)
        report = Report()
        loader = Loader(single, engine, folder, lambda: writer, report, lambda _state: None)
        with closing(loader):
            loader.process_event(schema_event)
            for rows in writer.records(schema_event):
                loader.process_event(rows)
            loader.finish(whole=True)
        counts = report.as_dict()["streams"][str(stream)]
        unfit = counts["quarantined"] + writer.unreadable
        return ReplayResult(
            str(stream),
            table.name,
            found=count,
            loaded=counts["written"],
            unfit=unfit,
            kept=count - counts["written"] - unfit,
        )


def _as_one_batch(options: LoadOptions) -> LoadOptions:
    return replace(
        options,
        flush_rows=_NO_LIMIT,
        flush_bytes=_NO_LIMIT,
        flush_seconds=float(_NO_LIMIT),
        spool_bytes=_NO_LIMIT,
        max_quarantined=QuarantineLimit(),
    )


class ReplayWriter(BatchWriter):
    """Batch writer of a replay, which loads quarantined records again in a single batch.

    It first writes the run's id to the quarantined records, then commits their rows, and finally
    removes the records from the quarantine. After an interruption, the ids let the next replay
    complete this one.
    """

    def __init__(
        self,
        engine: SparkProvider,
        options: LoadOptions,
        run: RunInfo,
        folder: SpoolFolder,
        *,
        overwrite: bool,
    ) -> None:
        super().__init__(engine, options, run, folder)
        self._overwrite = overwrite
        self._staged: DataFrame | None = None
        self._written = False
        self._quarantine_table = Table("", "")
        self._positions = array("q")
        self._unreadable: list[int] = []

    @property
    def unreadable(self) -> int:
        """The number of quarantined records that are not JSON objects, and so cannot be loaded."""
        return len(self._unreadable)

    @contextmanager
    def opened(self, table: Table) -> Iterator[int]:
        """Context manager that copies the quarantined records of ``table`` to temporary files.

        Yield the number of records to load. Records that an interrupted replay has loaded are not
        counted.
        """
        self._quarantine_table = table.with_suffix(QUARANTINE)
        with ExitStack() as stack:
            count = retry_with_engine(
                self._engine,
                lambda: self._stage_records(table, stack),
                f"Table {self._quarantine_table.name}",
            )
            if count == 0:  # records that an earlier replay loaded may still be there
                self._rewrite(self._engine.spark(), self._source.drop(_POSITION))
            yield count or 0

    def _stage_records(self, table: Table, stack: ExitStack) -> int | None:
        """Copy the quarantined records of ``table`` to temporary files, and return their number.

        Return None if there is no quarantine table. ``stack`` deletes the files.
        """
        spark = self._engine.spark()
        if self._writer.get_column_types(spark, self._quarantine_table) is None:
            return None
        self._prepare_columns(spark, self._quarantine_table, SCHEMA, TableLayout())
        records = self._get_unloaded_records(spark, table)
        self._staged = stack.enter_context(stage_frame(spark, self._staging_area, records))
        return self._staged.count()

    def records(self, schema_event: SchemaEvent) -> Iterator[Rows]:
        """Yield the quarantined records as events for the loader, in the order of their quarantine.

        ``schema_event`` is the schema of the stream. Records that are not JSON objects are left
        out, and counted in `unreadable`.
        """
        positioned = self._source.selectExpr(
            f"`{_POSITION}` AS position", "raw", f"{_EXTRACTED_AT} AS extracted", "version"
        )
        for row in positioned.orderBy("position").toLocalIterator():
            rows = _decode_record(schema_event, row.raw, row.extracted, row.version)
            if rows is None:
                self._unreadable.append(row.position)
            else:
                self._positions.append(row.position)
                yield rows

    def write(self, request: CommitRequest) -> CommitResult:
        """Commit the rows of the quarantined records, and remove the records from the quarantine.

        This run's id is first written to the records, so that an interrupted replay can be
        completed. Records whose key exists in the table stay in the quarantine, unless overwriting
        is allowed.

        Raises:
            RuntimeError: The method was called before. A replay has only one batch.
        """
        if self._written:
            raise RuntimeError("a replay has only one batch, so that it is loaded atomically")
        self._written = True
        spark = self._engine.spark()
        existing = frozenset() if self._overwrite else self._find_existing_keys(spark, request)
        (batch,) = request.batches
        remaining = _remove_rows(batch, existing, self._folder)
        if not remaining.count:
            self._rewrite(spark, self._claim_records(spark, [*self._unreadable, *self._positions]))
            return CommitResult(0, 0, None, {})
        positions = (self._positions[ordinal - batch.first] for ordinal in existing)
        staying = [*self._unreadable, *positions]
        self._rewrite(spark, self._claim_records(spark, staying))
        outcome = super().write(replace(request, batches=(remaining,)))
        self._remove(self._engine.spark())
        return outcome

    @property
    def _source(self) -> DataFrame:
        if self._staged is None:
            raise RuntimeError("call `opened` first")
        return self._staged

    def _get_unloaded_records(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return the quarantined records without those that an interrupted replay has loaded.

        If that replay has committed its rows, its id is in the last commit of ``table``, the
        stream's table. An additional column numbers the records in the order of their quarantine.
        """
        quarantined = self._writer.rows(spark, self._quarantine_table)
        marker = self._writer.get_last_metadata(spark, table)
        return _select_unloaded(quarantined, (marker and marker.replay) or "")

    def _find_existing_keys(self, spark: SparkSession, request: CommitRequest) -> frozenset[int]:
        """Return the ordinals (positions in the input) of rows whose key is already in the table.

        The result is empty in append mode, which ignores keys, or if the table does not exist.
        """
        if (
            request.mode is WriteMode.APPEND
            or self._writer.get_column_types(spark, request.table) is None
        ):
            return frozenset()
        table_schema = self._prepare_columns(
            spark, request.table, request.table_schema, request.layout, request.stream
        )
        paths = [to_spark_uri(path) for batch in request.batches for path in batch.paths]
        frame = SpoolFrame(spark, paths, table_schema, self._make_batch_metadata(request))
        rows = frame.good(strict=False)
        ordinal = rows.columns[-1]
        keys = [quote(key) for key in table_schema.keys]
        existing = self._writer.rows(spark, request.table).select(*keys)
        matching = rows.select(*keys, quote(ordinal)).join(
            existing, list(table_schema.keys), "left_semi"
        )
        return frozenset(row[0] for row in matching.select(quote(ordinal)).toLocalIterator())

    def _claim_records(self, spark: SparkSession, numbers: Collection[int]) -> DataFrame:
        """Return the quarantined records; those to load get this run's id in the column ``replay``.

        If this run is interrupted, the next run completes the replay with these ids. ``numbers``
        has the numbers, from `_get_unloaded_records`, of the records that stay in the quarantine.
        """
        path = self._folder.new_path("stay")
        path.write_text("".join(f'{{"{_POSITION}":{number}}}\n' for number in numbers), "ascii")
        staying = spark.read.schema(f"`{_POSITION}` BIGINT").json(to_spark_uri(str(path)))
        staying = staying.withColumn("stays", F.lit(True))  # noqa: FBT003
        claim = F.when(F.col("stays"), None).otherwise(F.lit(self._run.id))
        joined = self._source.join(staying, _POSITION, "left").withColumn("replay", claim)
        return joined.select(*SCHEMA.types)

    def _remove(self, spark: SparkSession) -> None:
        """Remove the records with this run's id in the column ``replay`` from the quarantine table.

        Their rows have been loaded, or have been quarantined again as new records.
        """
        quarantined = self._writer.rows(spark, self._quarantine_table)
        self._rewrite(spark, quarantined.where(f"`replay` IS NULL OR `replay` <> '{self._run.id}'"))

    def _rewrite(self, spark: SparkSession, rows: DataFrame) -> None:
        """Replace the content of the quarantine table by the records in ``rows``, in one commit."""
        table = self._quarantine_table
        with stage_frame(spark, self._staging_area, rows) as staged:
            marker = self._make_marker(table, None)
            self._run_with_retries(table, lambda: self._writer.replace(table, staged, marker))
        self._tables[table.key].commits += 1


def _select_unloaded(quarantined: DataFrame, loaded_by: str) -> DataFrame:
    """Return the quarantined records that the replay ``loaded_by`` has not loaded, numbered."""
    missing = {
        name: F.lit(None).cast(ddl)
        for name, ddl in SCHEMA.types.items()
        if name not in quarantined.columns
    }
    quarantined = quarantined.withColumns(missing) if missing else quarantined
    waiting = quarantined.where(f"`replay` IS NULL OR `replay` <> '{loaded_by}'")
    # A replay that failed before its commit may have quarantined records a second time.
    failed = waiting.selectExpr("`replay` AS `run`").where("`run` IS NOT NULL").distinct()
    waiting = waiting.join(failed, "run", "left_anti").select(*SCHEMA.types)
    unclaimed = waiting.withColumn("replay", F.lit(None).cast("string"))
    return unclaimed.orderBy(*map(quote, _ORDER)).withColumn(
        _POSITION, F.monotonically_increasing_id()
    )


def _decode_record(
    schema_event: SchemaEvent, raw: str, extracted_at: str | None, version: int | None
) -> Rows | None:
    """Convert the JSON text ``raw`` of a quarantined record to a record event.

    Return None if ``raw`` is not a JSON object. ``extracted_at`` and ``version`` are values of the
    Singer RECORD message: its ``time_extracted`` and its table version.
    """
    head: dict[str, Any] = {
        "type": "RECORD",
        "stream": schema_event.stream.name,
        "time_extracted": extracted_at,
    }
    if version is not None:
        head["version"] = version
    line = json.dumps(head)[:-1] + ', "record": ' + raw + "}\n"
    try:
        (rows,) = SingerReader().feed(line.encode("utf-8", "surrogatepass"))
    except (InvalidInputLine, ValueError):
        return None
    return replace(rows, stream=schema_event.stream) if isinstance(rows, Rows) else None


def _remove_rows(batch: Batch, excluded: Collection[int], folder: SpoolFolder) -> Batch:
    """Return a batch of the rows that are not excluded, written to a new file in ``folder``.

    ``excluded`` has ordinals (positions in the input). If it is empty, the batch is returned as it
    is, and no file is written.
    """
    if not excluded:
        return batch
    path = folder.new_path("rows")
    count = 0
    with path.open("wb") as out:
        for source in batch.paths:
            with Path(source).open("rb") as lines:
                for line in lines:
                    if int(line[len(b'{"n":') : line.index(b",")]) not in excluded:
                        out.write(line)
                        count += 1
    return replace(batch, paths=(str(path),), count=count)
