"""Prefect flow of the flights pipeline, with retries and an artifact with the row counts."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.artifacts import create_table_artifact

FOLDER = Path(os.environ.get("FLIGHTS_FOLDER", "/srv/flights"))
NUMBERS = ("received", "inserted", "updated", "quarantined", "seconds")


@task(retries=2, retry_delay_seconds=60)
def load() -> dict[str, dict[str, Any]]:
    """Load all streams in one run and return the row counts; a failed run raises an error."""
    subprocess.run([FOLDER / "load.sh"], check=True)
    streams: dict[str, dict[str, Any]] = json.loads((FOLDER / "report.json").read_text())["streams"]
    return streams


@flow
def load_flights() -> None:
    """Load new flights, and add a table of row counts to the page of the run."""
    rows = [
        {"stream": stream, **{name: numbers[name] for name in NUMBERS}}
        for stream, numbers in load().items()
    ]
    create_table_artifact(rows, key="flights-load", description="Rows of the last run")


if __name__ == "__main__":
    load_flights.serve(name="flights", cron="*/15 * * * *", limit=1)
