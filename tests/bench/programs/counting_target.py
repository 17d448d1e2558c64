"""A target that counts records, for two SDKs: the variable `BENCH_SDK` names the package.

The code is the same for both SDKs. The target fails if the number of records is not the setting
`expected`.
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
    record_count = 0

    def process_batch(self, context: dict[str, Any]) -> None:
        CountingSink.record_count += len(context["records"])


class TargetCounting(BASE.Target):
    name = "target-bench-counting"
    default_sink_class = CountingSink
    config_jsonschema = {"type": "object", "properties": {"expected": {"type": "integer"}}}

    def process_endofpipe(self) -> None:
        super().process_endofpipe()
        if self.config.get("expected") != CountingSink.record_count:
            sys.exit(f"{CountingSink.record_count} records were counted")


if __name__ == "__main__":
    TargetCounting.cli()
