"""A tap and a target that run on either SDK, which the variable `BATCH_SDK` names.

As a program: ``tap CONFIG`` or ``target CONFIG < messages``; the target prints the records of each
batch on a line.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

SDK = importlib.import_module(os.environ["BATCH_SDK"])


class Rows(SDK.Stream):
    name = "rows"
    primary_keys = ("id",)
    replication_key = "at"
    is_sorted = True
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": ["string", "null"], "format": "date-time"},
            "name": {"type": ["string", "null"]},
            "price": {"type": ["number", "null"]},
            "on": {"type": ["boolean", "null"]},
            "deep": {"type": ["object", "null"], "properties": {"a": {"type": "integer"}}},
            "list": {"type": ["array", "null"], "items": {"type": "string"}},
        },
    }

    def get_records(self, context):
        for n in range(8):
            yield {
                "id": n,
                "at": f"2024-01-01T00:00:0{n}+00:00",
                "name": None if n == 2 else f"name {n} \u00e4",
                "price": n * 1.25,
                "on": n % 2 == 0,
                "deep": {"a": n},
                "list": ["x"] * (n % 3),
            }


class RowsTap(SDK.Tap):
    name = "tap-rows"

    def discover_streams(self):
        return [Rows(self)]


class RowsSink(SDK.BatchSink):
    def process_batch(self, context):
        print(json.dumps(context["records"], default=str), file=sys.stderr)


class RowsTarget(SDK.Target):
    name = "target-rows"
    default_sink_class = RowsSink


if __name__ == "__main__":
    kind = {"tap": RowsTap, "target": RowsTarget}[sys.argv[1]]
    kind.cli(["--config", sys.argv[2]])
