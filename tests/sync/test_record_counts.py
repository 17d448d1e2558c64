"""The metric ``record_count`` equals the written records, however a sync ends."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tap_core.exceptions import InvalidStreamSortException
from tests.sync.syncing import (
    count_records,
    make,
    metric_points,
    read_counts,
    stream,
    sync,
    sync_until_error,
    with_hook,
)

both_paths = pytest.mark.parametrize(
    "on_path", [lambda kind: kind, with_hook], ids=["compiled", "hooked"]
)


@pytest.fixture(autouse=True)
def _log_at_info_level(caplog):
    caplog.set_level(logging.INFO)


def rows_then_error(error: BaseException, count: int) -> Any:
    """Return a function that yields ``count`` records and then raises ``error``."""

    def rows(_stream, _context):
        yield from ({"id": number} for number in range(count))
        raise error

    return rows


@both_paths
@pytest.mark.parametrize("error", [RuntimeError("away"), KeyboardInterrupt(), SystemExit(1)])
@pytest.mark.parametrize("count", [0, 1, 499, 2_345])
def test_record_count_of_a_failed_stream(on_path, error, count, caplog):
    output, _ = sync_until_error(type(error), on_path(stream("a", rows_then_error(error, count))))
    assert (
        read_counts(caplog.text)
        == count_records(output.messages)
        == ({"a": count} if count else {})
    )
    [time] = metric_points(caplog.text, "sync_duration")
    assert time["tags"]["status"] == "failed"


@both_paths
def test_record_count_of_a_failed_stream_with_maps(on_path, caplog):
    """Records are counted before the maps, which may emit any number of rows per record."""
    maps = {"a": {"__filter__": "id % 2 == 0"}}
    kind = on_path(stream("a", rows_then_error(RuntimeError("away"), 501)))
    output, _ = sync_until_error(RuntimeError, kind, config={"stream_maps": maps})
    assert count_records(output.messages) == {"a": 251}
    assert read_counts(caplog.text) == {"a": 501}


@both_paths
def test_record_count_includes_the_record_out_of_order(on_path, caplog):
    rows = [{"id": number} for number in (1, 2, 0, 3)]
    kind = stream("a", rows, replication_key="id", is_sorted=True)
    output, _ = sync_until_error(InvalidStreamSortException, on_path(kind))
    assert read_counts(caplog.text) == count_records(output.messages) == {"a": 3}


@both_paths
def test_record_count_of_a_stream_with_a_record_limit(on_path, caplog):
    kind = on_path(stream("a", [{"id": number} for number in range(9)]))
    output = []
    tap = make(kind, output=output)
    assert tap.run_sync_dry_run(dry_run_record_limit=4)
    assert read_counts(caplog.text) == {"a": 4}


@both_paths
def test_record_count_of_a_parent_with_a_failed_child(on_path, caplog):
    """The parent record whose child fails is not written; the earlier ones are."""

    def rows(_stream, context):
        yield from ({"id": number} for number in range(10))
        if context["of"] == 3:
            raise RuntimeError("away")

    contexts = {"get_child_context": lambda _self, record, context: {"of": record["id"]}}
    parent = on_path(stream("p", [{"id": number} for number in range(9)], **contexts))
    child = on_path(stream("c", rows, parent_stream_type=parent))
    output, _ = sync_until_error(RuntimeError, parent, child)
    assert read_counts(caplog.text) == count_records(output.messages) == {"p": 3, "c": 40}


@pytest.mark.parametrize("threads", [1, 4])
@both_paths
def test_contexts_of_a_stream_share_one_record_count(on_path, threads, caplog):
    contexts = {"get_child_context": lambda _self, record, context: {"of": record["id"]}}
    parent = on_path(
        stream(
            "p",
            [{"id": number} for number in range(3)],
            partitions=[{"at": letter} for letter in "abc"],
            max_parallel_partitions=threads,
            **contexts,
        )
    )
    child = on_path(
        stream(
            "c",
            [{"id": number} for number in range(5)],
            parent_stream_type=parent,
            max_parallel_partitions=threads,
        )
    )
    output = sync(parent, child)
    assert count_records(output.messages) == {"p": 9, "c": 45}
    points = {point["tags"]["stream"]: point for point in metric_points(caplog.text)}
    assert len(metric_points(caplog.text)) == 2
    assert {name: point["value"] for name, point in points.items()} == {"p": 9, "c": 45}
    assert all(point["tags"]["context"] == {} for point in points.values())


@both_paths
def test_record_count_of_parallel_partitions_when_one_fails(on_path, caplog):
    def rows(_stream, context):
        for number in range(5_000):
            if context["p"] == 2 and number == 700:
                raise RuntimeError("away")
            yield {"id": number, "p": context["p"]}

    partitions = [{"p": p} for p in range(4)]
    kind = on_path(stream("a", rows, partitions=partitions, max_parallel_partitions=4))
    output, _ = sync_until_error(RuntimeError, kind)
    assert read_counts(caplog.text) == count_records(output.messages)
