"""Metrics have the names and the text format of singer_sdk."""

from __future__ import annotations

import json
import logging
import os
from types import MappingProxyType

import pytest

from tap_core import metrics
from tap_core.metrics import Metric, MetricExclusionFilter, Point, Tag


@pytest.fixture
def points(caplog):
    caplog.set_level(logging.INFO, logger=metrics.METRICS_LOGGER_NAME)

    def _points() -> list[dict]:
        texts = [record.getMessage() for record in caplog.records]
        assert all(text.startswith("METRIC: ") for text in texts)
        return [json.loads(text.removeprefix("METRIC: ")) for text in texts]

    return _points


def test_counter_logs_its_total_once(points):
    with metrics.record_counter("s", endpoint="/x", extra="e") as counter:
        counter.increment(1000)
        counter.increment()
        assert points() == []
    assert points() == [
        {
            "type": "counter",
            "metric": "record_count",
            "value": 1001,
            "tags": {"extra": "e", "stream": "s", "endpoint": "/x", "pid": os.getpid()},
        }
    ]


def test_counter_of_records_may_have_no_stream(points):
    with metrics.record_counter(extra="e"):
        pass
    assert points()[0]["tags"] == {"extra": "e", "pid": os.getpid()}


def test_counter_logs_again_after_its_interval(points):
    with metrics.record_counter("s", log_interval=-1) as counter:
        counter.increment(2)
        counter.increment(3)
    assert [point["value"] for point in points()] == [2, 3, 0]


def test_counter_context_is_a_tag_until_it_is_reset(points):
    with metrics.record_counter("s", log_interval=-1) as counter:
        counter.context = MappingProxyType({"region": "eu"})
        counter.increment()
        counter.with_context(None)
        counter.increment()
    first, second, _ = points()
    assert first["tags"]["context"] == {"region": "eu"}
    assert "context" not in second["tags"]
    assert counter.context is None


def test_timer_that_measures_several_blocks_logs_the_status_of_each(points):
    timer = metrics.sync_timer("s")
    with timer:
        pass
    with pytest.raises(KeyError), timer:
        raise KeyError
    with timer:
        pass
    statuses = [point["tags"]["status"] for point in points()]
    assert statuses == ["succeeded", "failed", "succeeded"]


def test_timer_logs_duration_and_status(points):
    with metrics.sync_timer("s", job="j") as timer:
        assert timer.elapsed() >= 0
    with pytest.raises(KeyError), metrics.sync_timer("s"):
        raise KeyError
    with metrics.sync_timer("s") as timer:
        timer.tags[Tag.STATUS] = "odd"
    good, bad, with_own_status = points()
    assert (good["type"], good["metric"]) == ("timer", "sync_duration")
    assert good["value"] >= 0
    assert [point["tags"]["status"] for point in (good, bad, with_own_status)] == [
        "succeeded",
        "failed",
        "odd",
    ]
    assert good["tags"]["job"] == "j"


def test_batch_and_http_request_counters_have_their_metric_names(points):
    with metrics.batch_counter("s") as batches, metrics.http_request_counter("s", "/x") as requests:
        batches.increment()
        requests.increment()
    assert {point["metric"]: point["tags"].get("endpoint") for point in points()} == {
        "batch_count": None,
        "http_request_count": "/x",
    }


def test_tag_value_that_json_lacks_becomes_text():
    point = Point("gauge", Metric.RECORD_COUNT, 1, {"when": complex(1, 2)})
    assert json.loads(str(point))["tags"] == {"when": "(1+2j)"}


@pytest.mark.parametrize(
    "rules, stays",
    [
        ({}, True),
        ({"metrics": ["record_count"]}, False),
        ({"metrics": [Metric.RECORD_COUNT]}, False),
        ({"metrics": [Metric.SYNC_DURATION]}, True),
        ({"types": ["counter"]}, False),
        ({"types": ["timer"]}, True),
        ({"tags": {"stream": "s"}}, False),
        ({"tags": {"stream": "t"}}, True),
    ],
)
def test_metrics_can_be_excluded_from_the_log(rules, stays):
    point = Point("counter", Metric.RECORD_COUNT, 1, {"stream": "s"})
    record = logging.makeLogRecord({"msg": "METRIC: %s", "args": (point,)})
    assert MetricExclusionFilter(**rules).filter(record) is stays


def test_metric_filter_keeps_other_log_lines():
    counter_filter = MetricExclusionFilter(types=["counter"])
    assert counter_filter.filter(logging.makeLogRecord({"msg": "x"}))
    assert counter_filter.filter(logging.makeLogRecord({"msg": "%s", "args": ("counter",)}))
