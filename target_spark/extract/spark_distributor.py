"""Syncing of a tap's partitions by Spark workers, controlled by the driver.

One Spark job syncs a batch of partitions. If the driver and the workers share a folder, the workers
write their rows to it, and the driver makes the files of successful tasks visible. Otherwise Spark
writes the rows together with the results. Rows of lost or repeated tasks are never loaded twice,
because the driver passes rows to the loader only after the job has succeeded.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tap_core.events import Event, SchemaEvent, SpooledRows, StreamId
from tap_core.exceptions import PartitionsFailedError
from tap_core.sync.plan import get_schemas
from tap_core.sync.work_units import WorkResults
from target_spark.errors import TargetSparkError
from target_spark.extract.spool_output import publish_files
from target_spark.extract.sync_task import RESULT_STREAM, PartResult, SparkTask
from target_spark.spark.arrow_workers import map_in_arrow
from target_spark.storage.commit_retry import first_error_line, retry_transient
from target_spark.storage.row_ordinals import first_in_part
from target_spark.storage.staged_rows import translate_write_errors
from target_spark.storage.uris import to_local_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.work_units import WorkUnit
    from target_spark.extract.tap_factory import TapSpec
    from target_spark.spark.spark_provider import SparkProvider
    from target_spark.storage.staging_area import StagingArea

__all__ = ["MAX_PARTS_PER_JOB", "SparkDistributor"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_POLL_SECONDS: Final = 0.1
_OUTPUT_SCHEMA: Final = "stream INT, value BINARY"
"""Spark schema of the output of `SparkTask`."""

_PROBE_ROWS: Final = 1 << 16
"""Number of rows in `spark.range` to find the number of task slots.

It exceeds the number of partitions of `spark.range`, which has one for each task slot.
"""

_TASKS_PER_SLOT: Final = 8
"""Number of Spark tasks per task slot of the cluster.

If partitions need different times, many small tasks use the slots more evenly.
"""

MAX_PARTS_PER_JOB: Final = 1_000
"""Maximum number of partitions that one Spark job syncs, on clusters with at most 15 task slots."""

_PARTS_PER_SLOT: Final = 64
"""Maximum number of partitions of one Spark job per task slot, on larger clusters.

A job ends with its slowest partition, and other slots are idle until then."""

_MAX_OPEN_FILES: Final = "spark.sql.maxConcurrentOutputFileWriters"
"""Spark setting for the number of files that a task writes at once, one per stream."""

_ORDINAL: Final = r"CAST(regexp_extract(value, '^\\{\"n\":([0-9]+)', 1) AS BIGINT)"
"""SQL that extracts the ordinal (input position) of a row from the beginning of its line."""


class SparkDistributor:
    """Object that lets Spark workers sync the partitions of a tap's streams.

    A partition is a section of a stream that can be read independently, such as the child records
    of one parent record. An ordinal is the position of a row in the input.

    Args:
        source: The tap with its settings and catalog.
        streams: The streams of the tap by name.
        engine: The Spark process of the run.
        staging_area: Temporary storage that the workers can read and write.
        reserve: A function that reserves ordinals for a number of rows, and returns the first
            ordinal.
        here: The names in the option ``--here``: streams that the driver must read; ``*`` for all.
        width: The maximum number of partitions read at once; None for no limit.
    """

    def __init__(
        self,
        source: TapSpec,
        streams: Mapping[str, SyncStream],
        engine: SparkProvider,
        staging_area: StagingArea,
        reserve: Callable[[int], int],
        *,
        here: Sequence[str] = (),
        width: int | None = None,
    ) -> None:
        self._source = source
        self._streams = streams
        self._engine = engine
        self._staging_area = staging_area
        self._reserve = reserve
        self._here = frozenset(here)
        self._width = width
        self.max_units: int = MAX_PARTS_PER_JOB
        """Maximum number of partitions that the tap may pass to one call of `sync`.

        The rows of one call, which is one Spark job, are loaded before the next one starts."""
        self._parts_synced = 0
        self._tap_streams: dict[str, str] = {}
        """Name of the stream in the tap for each output stream. Stream maps may have renamed it."""
        self._addresses: list[str] = []
        """URLs of the temporary files, which `close` deletes."""

    def explain_refusal(self, stream: SyncStream) -> str | None:
        """Return the reason why the driver must read a stream; None if workers can read it.

        The reason is a phrase for the log, such as "--here selects it".
        """
        if self._here & {"*", stream.name}:
            return "--here selects it"
        return None

    def sync(self, parts: Sequence[WorkUnit], *, in_order: bool) -> WorkResults:
        """Sync partitions in one Spark job, and wait until it has ended.

        Args:
            parts: The partitions.
            in_order: True to discard all rows of partitions after the first failed one. False to
                keep the rows of every partition that succeeded.

        Returns:
            The events that load the rows, and the result of each partition.

        Raises:
            PartitionsFailedError: The Spark job failed, and no rows are loaded.
        """
        started = time.monotonic()
        schemas = self._get_output_schemas(parts)
        first_part = self._parts_synced
        self._parts_synced += len(parts)
        task = SparkTask(self._source, tuple(parts), schemas, first_part)
        results, address = self._run_with_retries(
            lambda spark, new_address: self._run(spark, task, new_address)
        )
        failed = [output.result.number for output in results if output.result.error is not None]
        if in_order and failed:
            first_failed, all_rows = min(failed), address
            first_invalid = first_in_part(first_part + first_failed)
            _, address = self._run_with_retries(
                lambda spark, copies: _copy_rows_below(spark, all_rows, copies, first_invalid)
            )
            results = [output for output in results if output.result.number <= first_failed]
        starts = self._reserve_ordinals(results, first_part)
        rows = sum(sum(output.result.counts.values()) for output in results)
        seconds = time.monotonic() - started
        names = ", ".join(sorted({part.stream for part in parts}))
        message = "Spark read %d contexts of %s: %d rows in %.1f s; %d contexts failed."
        logger.info(message, len(parts), names, rows, seconds, len(failed))
        return WorkResults(
            list(_build_events(results, schemas, address, self._get_table_versions(parts), starts)),
            [output.result for output in results],
        )

    def _reserve_ordinals(self, results: Iterable[PartResult], first_part: int) -> dict[int, int]:
        """Reserve ordinals (positions in the input) for all rows that a Spark job has read.

        Return the first ordinal of each partition, by the partition's number in the run.
        ``first_part`` is the number of the job's first partition.
        """
        counts = {output.result.number: sum(output.result.counts.values()) for output in results}
        ordinal = self._reserve(sum(counts.values()))
        starts: dict[int, int] = {}
        for number in sorted(counts):
            starts[first_part + number] = ordinal
            ordinal += counts[number]
        return starts

    def close(self) -> None:
        """Delete the temporary files of all Spark jobs that this object has run.

        Errors are ignored, because a later run deletes files that were left.
        """
        if not self._addresses or self._engine.failure is not None:
            return
        with contextlib.suppress(Exception):  # a later run removes the files
            spark = self._engine.spark()
            for address in self._addresses:
                self._staging_area.delete(spark, address)

    def _get_output_schemas(self, parts: Sequence[WorkUnit]) -> dict[str, SchemaEvent]:
        """Return the schemas of all streams that partitions may write to, by stream name.

        These are the streams of the partitions and their selected descendants, after stream maps.
        """
        family: dict[str, SyncStream] = {}
        for name in dict.fromkeys(part.stream for part in parts):
            stream = self._streams[name]
            for member in (stream, *stream.descendent_streams):
                if member.selected:
                    family[member.name] = member
        schemas: dict[str, SchemaEvent] = {}
        for member in family.values():
            for schema in get_schemas(member):
                schemas[str(schema.stream)] = schema
                self._tap_streams[str(schema.stream)] = member.name
        return schemas

    def _get_table_versions(self, parts: Sequence[WorkUnit]) -> dict[str, int]:
        """Return the Singer table version of each stream that the partitions write rows for.

        Streams without a table version are left out.
        """
        by_stream = {name: version for part in parts for name, version in part.versions.items()}
        return {
            output: by_stream[name]
            for output, name in self._tap_streams.items()
            if name in by_stream
        }

    def _run_with_retries(self, step: Callable[[SparkSession, str], _T]) -> tuple[_T, str]:
        """Call a function that writes rows to a temporary URL, and retry it after transient errors.

        Each attempt passes another URL to ``step``. Return the result of ``step``, and the URL of
        the successful attempt.

        Raises:
            PartitionsFailedError: The function failed with an error that is not transient.
        """
        address = ""

        def run_attempt() -> _T:
            nonlocal address
            address = self._staging_area.new_address("parts")
            self._addresses.append(address)
            with translate_write_errors(self._staging_area):
                return _run_cancellable(self._engine, lambda spark: step(spark, address))

        def raise_if_spark_failed(error: BaseException) -> None:
            if self._engine.failure is not None:
                raise self._engine.failure from error

        try:
            return retry_transient(
                run_attempt, "Partitions read by Spark's workers", raise_if_spark_failed
            ), address
        except TargetSparkError:
            raise
        except Exception as error:
            reason = _explain_failure(error)
            raise PartitionsFailedError(
                f"The rows that Spark's workers read are lost and not loaded: {reason}"
            ) from error

    def _run(self, spark: SparkSession, task: SparkTask, address: str) -> list[PartResult]:
        slots = _count_task_slots(spark)
        self.max_units = max(MAX_PARTS_PER_JOB, slots * _PARTS_PER_SLOT)
        tasks = min(len(task.parts), self._width or slots * _TASKS_PER_SLOT)
        spark.conf.set(_MAX_OPEN_FILES, len(task.streams) + 1)  # fewer make Spark sort all blocks
        numbers = spark.range(0, len(task.parts), 1, tasks)
        folder = to_local_folder(address)
        task = replace(task, folder=None if folder is None else str(folder))
        blocks = map_in_arrow(numbers, task, _OUTPUT_SCHEMA, "tap_rows")
        _write_blocks(blocks.selectExpr("stream", "CAST(value AS STRING) AS value"), address)
        lines = spark.read.schema("value STRING").text(f"{address}/stream={RESULT_STREAM}")
        results = [PartResult.read(row.value) for row in lines.collect()]
        if folder is not None:
            indices = {name: index for index, name in enumerate(task.streams)}
            files = {
                (indices[name], output.file) for output in results for name in output.result.counts
            }
            publish_files(str(folder), files)
        return results


def _write_blocks(blocks: DataFrame, address: str) -> None:
    """Write rows to text files, in one subfolder of ``address`` per stream, such as ``stream=0``.

    ``blocks`` has the columns ``stream`` (the index of a stream) and ``value`` (one or more rows as
    lines of JSON).
    """
    blocks.write.partitionBy("stream").option("maxRecordsPerFile", 0).text(address)


def _copy_rows_below(spark: SparkSession, address: str, destination: str, ordinal: int) -> None:
    """Copy the rows at ``address`` whose input position is below ``ordinal`` to ``destination``.

    This leaves out the rows of a failed partition and of all later partitions.
    """
    lines = spark.read.schema("value STRING, stream INT").text(address)
    rows = lines.where(f"stream <> {RESULT_STREAM}").where(f"{_ORDINAL} < {ordinal}")
    _write_blocks(rows.select("stream", "value"), destination)


def _build_events(
    results: Sequence[PartResult],
    schemas: Mapping[str, SchemaEvent],
    address: str,
    versions: Mapping[str, int],
    starts: Mapping[int, int],
) -> Iterator[Event]:
    """Yield the events for the loader: changed schemas first, and then the rows of each stream.

    Args:
        results: The results of the partitions, with schemas that differ from ``schemas``.
        schemas: The schemas of the output streams, by stream name.
        address: The URL of the folder with the rows.
        versions: The table version of each output stream that has one.
        starts: The first ordinal (position in the input) of each partition, by partition number.
    """
    rows: Counter[str] = Counter()
    nbytes: Counter[str] = Counter()
    deletes: set[str] = set()
    for output in results:
        rows.update(output.result.counts)
        nbytes.update(output.nbytes)
        deletes.update(output.deletes)
        yield from map(_parse_schema_event, output.schemas)
    for index, (name, schema) in enumerate(schemas.items()):
        if rows[name]:
            yield SpooledRows(
                schema.stream,
                [f"{address}/stream={index}"],
                rows[name],
                nbytes[name],
                version=versions.get(name),
                has_deletes=name in deletes,
                starts=starts,
            )


def _parse_schema_event(document: Mapping[str, Any]) -> SchemaEvent:
    nested = {name: tuple(path) for name, path in document["nested"].items()}
    named = {
        "stream": StreamId(**document["stream"]),
        "keys": tuple(document["keys"]),
        "nested": nested,
        "other_cursors": tuple(document["other_cursors"]),
    }
    return SchemaEvent(**{**document, **named})


def _explain_failure(error: Exception) -> str:
    """Return the reason why a Spark job that read partitions of a tap failed, in one line.

    If a worker could not import a Python module, the reason is only the name of this module.
    """
    missing = re.search(r"ModuleNotFoundError: [^\n]*", str(error))
    return f"{missing[0]}, in Spark's workers" if missing else first_error_line(error)


def _count_task_slots(spark: SparkSession) -> int:
    """Return the number of tasks that Spark can run at the same time, at least 1."""
    return (
        spark.range(_PROBE_ROWS).selectExpr("spark_partition_id() AS slot").distinct().count() or 1
    )


def _run_cancellable(engine: SparkProvider, step: Callable[[SparkSession], _T]) -> _T:
    """Call ``step`` with a Spark session in a separate thread, and return its result.

    If an exception such as KeyboardInterrupt is raised in the calling thread, the Spark jobs of the
    function are cancelled.

    Raises:
        BaseException: The exception that the function raised.
    """
    results: list[_T] = []
    errors: list[BaseException] = []
    tag = f"tap-{threading.get_ident()}-{time.monotonic_ns()}"

    def run_step() -> None:
        try:
            spark = engine.spark()
            spark.addTag(tag)
            results.append(step(spark))
        except BaseException as error:  # noqa: BLE001  (raised below)
            errors.append(error)

    thread = threading.Thread(target=run_step, name="tap-parts", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
    except BaseException:
        with contextlib.suppress(Exception):
            engine.spark().interruptTag(tag)
        thread.join()
        raise
    if errors:
        raise errors[0]
    return results[0]
