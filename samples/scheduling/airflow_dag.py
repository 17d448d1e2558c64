"""The flights pipeline as an Airflow DAG. The report of each run is the XCom of its task."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

FOLDER = os.environ.get("FLIGHTS_FOLDER", "/srv/flights")

with DAG(
    "flights",
    schedule="*/15 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,  # one run loads all that is new
    max_active_runs=1,
):
    BashOperator(
        task_id="load",
        # The last line of the output becomes the XCom: the report, without its line ends.
        bash_command=f"{FOLDER}/load.sh && tr -d '\\n' < {FOLDER}/report.json",
        output_processor=json.loads,
        retries=2,
        retry_delay=timedelta(minutes=1),
    )
