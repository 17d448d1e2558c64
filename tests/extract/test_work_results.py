"""The results of Spark's tasks, and the state that the driver makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, ClassVar, cast

import pyarrow as pa
import pytest

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.events import Event, SpooledRows
from tap_core.protocols.singer.writer import encode_body
from tap_core.state.encoder import encode_value
from tap_core.sync.plan import get_schemas
from tap_core.sync.work_units import WorkResult, WorkResults, WorkUnit
from tap_core.types import Context, Record
from target_spark.extract.spark_distributor import SparkDistributor
from target_spark.extract.sync_task import RESULT_STREAM, PartResult, SparkTask
from target_spark.extract.tap_factory import TapSpec

TENTH, LARGE = Decimal("0.1"), Decimal("12345678901234567890.5")


class Sums(Stream):
    """A stream whose contexts and bookmarks have values that are not part of JSON."""

    name = "sums"
    replication_key = "sum"
    partitions: ClassVar[list[Context]] = [
        {"key": TENTH},
        {"key": datetime(2024, 1, 1, tzinfo=timezone.utc)},
    ]
    schema = th.PropertiesList(th.Property("sum", th.NumberType)).to_dict()

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield a number that no float equals."""
        del context
        yield {"sum": LARGE}


class Accounts(Sums):
    """A stream with a namespace, such as the schema of a database."""

    name = "books-accounts"

    @property
    def namespace(self) -> str:
        return "books"


class SumTap(Tap):
    """The tap with the first stream."""

    name = "tap-sums"
    config_jsonschema: ClassVar = {"properties": {}}

    def discover_streams(self) -> list[Stream]:
        """Return the stream."""
        return [Sums(self)]


class Output:
    """Output of a tap, which ignores its messages."""

    encode = staticmethod(encode_body)

    def __init__(self, distributor: Distributor | None) -> None:
        self.distributor = distributor

    def emit(self, event: Event) -> None:
        """Ignore a message."""


class Distributor:
    """Distributor that runs the task of Spark's workers in this process."""

    max_units = 100

    def __init__(self, tap: Tap) -> None:
        (schema,) = get_schemas(tap.streams["sums"])
        self.schemas = {"sums": schema}

    def explain_refusal(self, _stream: object) -> None:
        """Sync all streams."""

    def sync(self, units: Sequence[WorkUnit], *, in_order: bool) -> WorkResults:
        """Sync the work units, and return their results as the driver reads them."""
        del in_order
        source = TapSpec("test", f"{__name__}:SumTap", {})
        task = SparkTask(source, units, self.schemas, 0)
        numbers = pa.RecordBatch.from_pydict({"id": list(range(len(units)))})
        rows = [row for batch in task(iter([numbers])) for row in batch.to_pylist()]
        lines = [row["value"].decode() for row in rows if row["stream"] == RESULT_STREAM]
        return WorkResults([], [PartResult.read(line).result for line in lines])


def sync(state: dict[str, Any], *, distributes: bool) -> str:
    tap = SumTap(config={}, state=state)
    tap.set_protocol_writer(Output(Distributor(tap) if distributes else None))
    tap.sync_all()
    return encode_value(tap.state).decode()


def test_state_is_the_same_whether_workers_or_this_process_read_the_contexts() -> None:
    """Decimals are numbers and times have a T; a context of the state is found again."""
    state = sync({}, distributes=False)
    assert f'"replication_key_value":{LARGE}' in state
    assert sync({}, distributes=True) == state
    assert sync(json.loads(state, parse_float=Decimal), distributes=True) == state


class ReadByWorkers(SparkDistributor):
    """A distributor whose workers have read two rows of each partition of a stream."""

    output = ""

    def _run_with_retries(self, step: Any) -> Any:
        del step
        result = WorkResult(0, counts={self.output: 2})
        return [PartResult(result, "file", {self.output: 20}, (), ())], "memory:/parts"


@pytest.mark.parametrize(
    ("stream", "output"), [("sums", "sums"), ("books-accounts", "books.books-accounts")]
)
def test_rows_have_the_table_version_of_their_stream(stream: str, output: str) -> None:
    unused = cast("Any", None)
    tap = SumTap(config={})
    streams = {instance.name: instance for instance in (Sums(tap), Accounts(tap))}
    distributor = ReadByWorkers(unused, streams, unused, unused, lambda _: 0)
    distributor.output = output
    results = distributor.sync([WorkUnit(0, stream, None, versions={stream: 7})], in_order=False)
    rows = [event for event in results.events if isinstance(event, SpooledRows)]
    assert [(str(event.stream), event.count, event.version) for event in rows] == [(output, 2, 7)]
