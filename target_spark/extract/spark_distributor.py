"""Parts of a tap's sync in Spark's workers, seen from the driver.

Rules of the room: parts that come together are one job of Spark's, whose results go into one folder
by Spark's own protocol of commits: what a lost worker has written counts for nothing, and what is
tried again counts once. In a folder that the driver has as well, workers write their rows
themselves, and only the files that the results name are shown to readers; to any other address
rows go with the results. Nothing is folded before the job has ended well. The job runs in a thread,
so that a signal can end it.
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
from target_spark.extract.task import RESULT_STREAM, PartResult, SparkTask
from target_spark.spark.arrow_workers import map_in_arrow
from target_spark.storage.retry import first_error_line, retry_transient
from target_spark.storage.row_ordinals import first_in_part
from target_spark.storage.staging import translate_write_errors
from target_spark.storage.uris import to_local_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tap_core.sync.interfaces import SyncStream
    from tap_core.sync.work_units import WorkUnit
    from target_spark.extract.tap_factory import TapSpec
    from target_spark.spark.engine import SparkProvider
    from target_spark.storage.staging_upload import StagingArea

__all__ = ["MAX_PARTS_PER_JOB", "SparkDistributor"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_LOOK_SECONDS: Final = 0.1
_ROWS: Final = "stream INT, value BINARY"
_MANY: Final = 1 << 16
_TASKS_PER_SLOT: Final = 8
"""So many tasks make up for parts of different lengths."""

MAX_PARTS_PER_JOB: Final = 1_000
"""Parts of one job, on a small cluster."""

_PARTS_PER_SLOT: Final = 64
"""So many for each slot of a large one: all wait for the last part of a job."""

_WRITERS: Final = "spark.sql.maxConcurrentOutputFileWriters"

_ORDINAL: Final = r"CAST(regexp_extract(value, '^\\{\"n\":([0-9]+)', 1) AS BIGINT)"


class SparkDistributor:
    """Syncs parts in one job of Spark's at a time.

    ``streams`` are the tap's, by name; ``reserve`` keeps ordinals for rows that were read;
    ``here`` are the streams that a user wants to be read by the driver (``*``: all), ``width`` how
    many parts may be read at once, as far as a user says.
    """

    def __init__(
        self,
        source: TapSpec,
        streams: Mapping[str, SyncStream],
        engine: SparkProvider,
        reach: StagingArea,
        reserve: Callable[[int], int],
        *,
        here: Sequence[str] = (),
        width: int | None = None,
    ) -> None:
        self._source = source
        self._streams = streams
        self._engine = engine
        self._reach = reach
        self._reserve = reserve
        self._here = frozenset(here)
        self._width = width
        self.most: int = MAX_PARTS_PER_JOB
        """Parts of one job: what is read of them is committed before the next are begun."""
        self._parts = 0
        self._origins: dict[str, str] = {}
        self._addresses: list[str] = []

    def refuses(self, stream: SyncStream) -> str | None:
        """Say why it does not take a stream; None: it does."""
        if self._here & {"*", stream.name}:
            return "it was asked for with --here"
        return None

    def sync(self, parts: Sequence[WorkUnit], *, in_order: bool) -> WorkResults:
        """Sync parts in one job; their rows stand in files when it returns.

        Raises:
            PartsFailedError: the job itself failed, so that nothing of it counts.
        """
        started = time.monotonic()
        described = self._described(parts)
        first = self._parts
        self._parts += len(parts)
        work = SparkTask(self._source, tuple(parts), described, first)
        told, address = self._patiently(lambda spark, place: self._run(spark, work, place))
        failed = [each.result.number for each in told if each.result.error is not None]
        if in_order and failed:
            upto, whole = min(failed), address
            sure = first_in_part(first + upto)
            _, address = self._patiently(
                lambda spark, place: _keep_below(spark, whole, place, sure)
            )
            told = [each for each in told if each.result.number <= upto]
        starts = self._starts(told, first)
        rows = sum(sum(each.result.counts.values()) for each in told)
        seconds = time.monotonic() - started
        names = ", ".join(sorted({part.stream for part in parts}))
        words = "%d contexts of %s: %d rows in %.1f s; %d failed."
        logger.info(words, len(parts), names, rows, seconds, len(failed))
        return WorkResults(
            list(_events(told, described, address, self._versions(parts), starts)),
            [each.result for each in told],
        )

    def _starts(self, told: Iterable[PartResult], first: int) -> dict[int, int]:
        """Keep ordinals for the rows that were read; return where those of each part begin."""
        counts = {each.result.number: sum(each.result.counts.values()) for each in told}
        ordinal = self._reserve(sum(counts.values()))
        starts: dict[int, int] = {}
        for number in sorted(counts):
            starts[first + number] = ordinal
            ordinal += counts[number]
        return starts

    def close(self) -> None:
        """Remove what was put down, as far as it is still there."""
        if not self._addresses or self._engine.failure is not None:
            return
        with contextlib.suppress(Exception):  # a later run removes it
            spark = self._engine.spark()
            for address in self._addresses:
                self._reach.forget(spark, address)

    def _described(self, parts: Sequence[WorkUnit]) -> dict[str, SchemaEvent]:
        """Return what rows may go out as: the streams of the parts, and those below them."""
        family: dict[str, SyncStream] = {}
        for name in dict.fromkeys(part.stream for part in parts):
            stream = self._streams[name]
            for each in (stream, *stream.descendent_streams):
                if each.selected:
                    family[each.name] = each
        found: dict[str, SchemaEvent] = {}
        for each in family.values():
            for told in get_schemas(each):
                found[str(told.stream)] = told
                self._origins[str(told.stream)] = each.name
        return found

    def _versions(self, parts: Sequence[WorkUnit]) -> dict[str, int]:
        """Return the table versions of rows, by the names under which these go out."""
        known = {name: version for part in parts for name, version in part.versions.items()}
        return {out: known[name] for out, name in self._origins.items() if name in known}

    def _patiently(self, step: Callable[[SparkSession, str], _T]) -> tuple[_T, str]:
        """Do a step that puts rows to a new address; again, elsewhere, where its failure passes."""
        address = ""

        def once() -> _T:
            nonlocal address
            address = self._reach.new_address("parts")
            self._addresses.append(address)
            with translate_write_errors(self._reach):
                return _awaited(self._engine, lambda spark: step(spark, address))

        def before_again(error: BaseException) -> None:
            if self._engine.failure is not None:
                raise self._engine.failure from error

        try:
            return retry_transient(
                once, "Rows on their way from Spark's workers", before_again
            ), address
        except TargetSparkError:
            raise
        except Exception as error:
            raise PartitionsFailedError(
                f"What was read in Spark's workers is lost, and none of it counts: {_reason(error)}"
            ) from error

    def _run(self, spark: SparkSession, work: SparkTask, address: str) -> list[PartResult]:
        slots = _slots(spark)
        self.most = max(MAX_PARTS_PER_JOB, slots * _PARTS_PER_SLOT)
        tasks = min(len(work.parts), self._width or slots * _TASKS_PER_SLOT)
        spark.conf.set(_WRITERS, len(work.streams) + 1)  # else all blocks are sorted by stream
        numbers = spark.range(0, len(work.parts), 1, tasks)
        folder = to_local_folder(address)
        work = replace(work, folder=None if folder is None else str(folder))
        blocks = map_in_arrow(numbers, work, _ROWS, "tap_rows")
        _write(blocks.selectExpr("stream", "CAST(value AS STRING) AS value"), address)
        lines = spark.read.schema("value STRING").text(f"{address}/stream={RESULT_STREAM}")
        told = [PartResult.read(row.value) for row in lines.collect()]
        if folder is not None:
            publish_files(str(folder), _files(told, work.streams))
        return told


def _files(told: Sequence[PartResult], streams: Iterable[str]) -> set[tuple[int, str]]:
    """Return the files of tasks that have rows: the numbers of their streams, and their names."""
    numbers = {name: number for number, name in enumerate(streams)}
    return {(numbers[name], each.file) for each in told for name in each.result.counts}


def _write(blocks: DataFrame, address: str) -> None:
    """Put blocks of lines into a folder for each stream, in one commit."""
    blocks.write.partitionBy("stream").option("maxRecordsPerFile", 0).text(address)


def _keep_below(spark: SparkSession, address: str, kept: str, ordinal: int) -> None:
    """Copy the rows before an ordinal: those behind a part that failed do not count."""
    lines = spark.read.schema("value STRING, stream INT").text(address)
    rows = lines.where(f"stream <> {RESULT_STREAM}").where(f"{_ORDINAL} < {ordinal}")
    _write(rows.select("stream", "value"), kept)


def _events(
    told: Sequence[PartResult],
    described: Mapping[str, SchemaEvent],
    address: str,
    versions: Mapping[str, int],
    starts: Mapping[int, int],
) -> Iterator[Event]:
    """Yield what there is to fold, in the order of the streams."""
    rows: Counter[str] = Counter()
    nbytes: Counter[str] = Counter()
    deletes: set[str] = set()
    for each in told:
        rows.update(each.result.counts)
        nbytes.update(each.nbytes)
        deletes.update(each.deletes)
        yield from map(_describe, each.described)
    for number, (name, what) in enumerate(described.items()):
        if rows[name]:
            yield SpooledRows(
                what.stream,
                [f"{address}/stream={number}"],
                rows[name],
                nbytes[name],
                version=versions.get(what.stream.name),
                has_deletes=name in deletes,
                starts=starts,
            )


def _describe(found: Mapping[str, Any]) -> SchemaEvent:
    """Make a description of what a worker told of one."""
    nested = {name: tuple(path) for name, path in found["nested"].items()}
    named = {"stream": StreamId(**found["stream"]), "keys": tuple(found["keys"]), "nested": nested}
    return SchemaEvent(**{**found, **named})


def _reason(error: Exception) -> str:
    """Return why a job failed; where a worker lacks a module, that is all there is to say."""
    lacking = re.search(r"ModuleNotFoundError: [^\n]*", str(error))
    return f"{lacking[0]}, in Spark's workers" if lacking else first_error_line(error)


def _slots(spark: SparkSession) -> int:
    """Return how many tasks Spark does at once, as far as it knows by now."""
    return spark.range(_MANY).selectExpr("spark_partition_id() AS slot").distinct().count() or 1


def _awaited(engine: SparkProvider, step: Callable[[SparkSession], _T]) -> _T:
    """Do a step in a thread of its own, and end it where this one is told to leave."""
    found: list[_T] = []
    fault: list[BaseException] = []
    tag = f"tap-{threading.get_ident()}-{time.monotonic_ns()}"

    def act() -> None:
        try:
            spark = engine.spark()
            spark.addTag(tag)
            found.append(step(spark))
        except BaseException as error:  # noqa: BLE001  (raised below)
            fault.append(error)

    thread = threading.Thread(target=act, name="tap-parts", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
    except BaseException:
        with contextlib.suppress(Exception):
            engine.spark().interruptTag(tag)
        thread.join()
        raise
    if fault:
        raise fault[0]
    return found[0]
