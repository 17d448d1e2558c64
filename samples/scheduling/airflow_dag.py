"""Airflow DAG of the flights pipeline. The XCom of the task is the report of the run."""

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
    catchup=False,  # one run loads all new data
    max_active_runs=1,
):
    BashOperator(
        task_id="load",
        # The last line of the output becomes the XCom, so the report is printed as one line.
        bash_command=f"{FOLDER}/load.sh && tr -d '\\n' < {FOLDER}/report.json",
        output_processor=json.loads,
        retries=2,
        retry_delay=timedelta(minutes=1),
    )
