"""A tap with worker threads that tests terminate: ``python parallel_taps.py --config FILE``."""

from __future__ import annotations

import sys
import threading
import time

import requests

from tap_core import Stream, Tap
from tap_core.sync import worker_pool

INTEGER = {"type": "integer"}
LONG = 120
PARTITIONS = 4
ALL_HAVE_BEGUN = threading.Barrier(PARTITIONS)


class Rows(Stream):
    """Four sorted partitions, then the behaviour of the setting ``mode``."""

    name = "a"
    primary_keys = ("p", "id")
    replication_key = "id"
    is_sorted = True
    max_parallel_partitions = PARTITIONS
    partitions = [{"p": number} for number in range(PARTITIONS)]
    schema = {
        "type": "object",
        "properties": {"p": INTEGER, "id": INTEGER, "text": {"type": "string"}},
    }
    STATE_MSG_FREQUENCY = 1_000

    def get_records(self, context):
        mode, partition = self.config["mode"], context["p"]
        try:
            for number in range(3):
                yield {"id": number}
            if mode == "failing":
                ALL_HAVE_BEGUN.wait(LONG)
            if mode == "requesting":
                requests.get(self.config["url"], timeout=LONG)
            if mode == "sleeping" or (mode == "failing" and partition):
                for _ in range(LONG * 100):
                    time.sleep(0.01)
                    yield {"id": 3}
            if mode == "failing":
                raise RuntimeError("the source is on fire")
            number = 3
            while mode == "writing" or number < 2_000:
                yield {"id": number, "text": "x" * (number % 997)}
                number += 1
        finally:
            print(f"closed {partition}", file=sys.stderr, flush=True)


class Other(Stream):
    """A stream that is synced after ``Rows`` and counts the remaining worker threads."""

    name = "b"
    schema = {"type": "object", "properties": {"id": INTEGER}}

    def get_records(self, context):
        names = [thread.name for thread in threading.enumerate()]
        yield {"id": sum("worker" in name for name in names)}


class ParallelTap(Tap):
    """The tap that tests terminate."""

    name = "tap-parallel"
    config_jsonschema = {
        "properties": {
            "mode": {"type": "string"},
            "url": {"type": "string"},
            "grace_seconds": {"type": "number"},
        }
    }

    def discover_streams(self):
        worker_pool.GRACE_SECONDS = self.config.get("grace_seconds", worker_pool.GRACE_SECONDS)
        return [Rows(self), Other(self)]


if __name__ == "__main__":
    ParallelTap.cli(sys.argv[1:])
