"""Dagster assets of the flights pipeline: one per stream, with the row counts of the last run."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from dagster import (
    AssetSelection,
    AssetSpec,
    Definitions,
    MaterializeResult,
    RetryPolicy,
    ScheduleDefinition,
    define_asset_job,
    multi_asset,
)

FOLDER = Path(os.environ.get("FLIGHTS_FOLDER", "/srv/flights"))
STREAMS = ("airlines", "airports", "flights", "planes", "weather")
NUMBERS = ("received", "inserted", "updated", "quarantined", "seconds")


@multi_asset(
    specs=[AssetSpec(stream, group_name="flights") for stream in STREAMS],
    retry_policy=RetryPolicy(max_retries=2, delay=60),
    pool="flights",
)
def flights_tables() -> Iterator[MaterializeResult]:
    """Load all streams in one run; a failed run raises an error."""
    subprocess.run([FOLDER / "load.sh"], check=True)
    streams = json.loads((FOLDER / "report.json").read_text())["streams"]
    for stream in STREAMS:
        metadata = {name: streams[stream][name] for name in NUMBERS}
        yield MaterializeResult(asset_key=stream, metadata=metadata)


load_flights = define_asset_job("load_flights", AssetSelection.groups("flights"))

definitions = Definitions(
    assets=[flights_tables],
    schedules=[ScheduleDefinition(job=load_flights, cron_schedule="*/15 * * * *")],
)
