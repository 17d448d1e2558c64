"""Complete applications that read a tap as DataFrames, on one machine and on a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.standalone import StandaloneCluster
from tests.extract.sample_taps import REGIONS

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

ROOT = Path(__file__).resolve().parents[2]
SECRET = "m4rk3r-of-a-t0ken"
_CONF: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.port": "0",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}


def run_notebook(folder: Path, conf: Mapping[str, str], *, kills_worker: bool) -> dict[str, Any]:
    """Run the notebook; save its output in ``folder`` and return its last line as JSON."""
    for name in ("work", "events"):
        (folder / name).mkdir(parents=True)
    folders = {
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }
    arguments = {
        "conf": {**_CONF, **folders, **conf},
        "folder": str(folder / "work"),
        "kills_worker": kills_worker,
    }
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.extract.notebook",
            json.dumps({**arguments, "secret": SECRET}),
        ],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    (folder / "output.txt").write_text(process.stdout + process.stderr)
    assert process.returncode == 0, process.stderr[-5000:]
    results: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return results


def check_results(results: Mapping[str, Any]) -> None:
    assert results["registered"] == 30 * len(REGIONS)
    assert results["notes"] == sorted([f"{region}{n}", 30] for region in REGIONS for n in range(2))
    assert "Stream orders, in the context {'region': 'south'}: ValueError" in results["error"]


def find_files_with(text: str, folder: Path) -> Iterator[Path]:
    """Yield the files that contain a text, except the config file."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "config.json" and text.encode() in path.read_bytes():
            yield path


def test_spark_stores_no_secret_of_the_settings(tmp_path: Path):
    """Plans, UI, event log, errors and output contain no secret of the settings."""
    check_results(
        run_notebook(tmp_path / "one_machine", {"spark.master": "local[2]"}, kills_worker=False)
    )
    assert not list(find_files_with(SECRET, tmp_path))
    for subfolder in ("events", "work/ui"):
        assert list(find_files_with("stream=notes", tmp_path / "one_machine" / subfolder)), (
            "options are in plans"
        )


def test_cluster_reads_the_same_rows(tmp_path: Path):
    """Executors read the same rows, also if a worker dies; their logs contain no secret."""
    with StandaloneCluster(tmp_path / "cluster") as cluster:
        conf = {**cluster.small_application_conf, "spark.master": cluster.master}
        results = run_notebook(tmp_path / "on_cluster", conf, kills_worker=True)
    check_results(results)
    assert results["killed"] == sorted([region, 30] for region in REGIONS)
    assert "trying again" not in results["error"]
    assert not list(find_files_with(SECRET, tmp_path))
