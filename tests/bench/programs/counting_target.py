"""A target that only counts, for two SDKs: `BENCH_SDK` says which one its classes come from.

Written as an author writes a target, and the same lines for both. How many
records there were goes to standard error at the end.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

SINKS: Any = importlib.import_module(os.environ["BENCH_SDK"] + ".sinks")
BASE: Any = importlib.import_module(os.environ["BENCH_SDK"] + ".target_base")


class CountingSink(SINKS.BatchSink):
    max_size = 10_000
    counted = 0

    def process_batch(self, context: dict[str, Any]) -> None:
        CountingSink.counted += len(context["records"])


class TargetCounting(BASE.Target):
    name = "target-bench-counting"
    default_sink_class = CountingSink
    config_jsonschema = {"type": "object", "properties": {"expected": {"type": "integer"}}}

    def process_endofpipe(self) -> None:
        super().process_endofpipe()
        if self.config.get("expected") != CountingSink.counted:
            sys.exit(f"{CountingSink.counted} records were counted")


if __name__ == "__main__":
    TargetCounting.cli()
