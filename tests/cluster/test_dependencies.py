"""A tap that executors do not have is shipped with the application."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.environments import make_empty_environment, pack_environment, zip_package
from tests.cluster.jobs import Job
from tests.cluster.standalone import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.slow]

STREAMS = """
from tap_boxed.schema import NUMBERS
from tap_core import Stream


class Numbers(Stream):
    name = "numbers"
    schema = NUMBERS
    primary_keys = ("number",)
    partitions = [{"tens": number} for number in range(4)]

    def get_records(self, context):
        import os, sys

        for number in range(10):
            yield {"number": 10 * context["tens"] + number, "python": sys.executable,
                   "process": os.getpid()}
"""
SCHEMA = """
from tap_core import typing as th

NUMBERS = th.PropertiesList(
    th.Property("number", th.IntegerType),
    th.Property("python", th.StringType),
    th.Property("process", th.IntegerType),
).to_dict()
"""
TAP = """
from tap_core import Tap
from tap_boxed.streams import Numbers


class TapBoxed(Tap):
    name = "tap-boxed"

    def discover_streams(self):
        return [Numbers(self)]
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a tap package that is not installed."""
    folder = tmp_path_factory.mktemp("boxed") / "tap_boxed"
    folder.mkdir()
    modules = {"__init__": "", "streams": STREAMS, "schema": SCHEMA, "tap": TAP}
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def create_job(folder: Path, cluster: StandaloneCluster, package: Path, **spark: str) -> Job:
    """Return a job whose driver has the tap, and whose executors do not."""
    return Job(
        folder / "job",
        cluster,
        target={"spark": spark},
        tap="tap_boxed.tap:TapBoxed",
        environ={"PYTHONPATH": str(package.parent)},
        path=(),
    )


def check_numbers(job: Job, python: str) -> None:
    """Check that all rows are there, read only by processes of this Python."""
    rows = [json.loads(row) for row in job.rows("numbers").elements()]
    assert sorted(row["number"] for row in rows) == list(range(40))
    assert os.getpid() not in {row["process"] for row in rows}
    interpreters = {row["python"] for row in rows}
    assert all(interpreter.endswith(python) for interpreter in interpreters), interpreters


def test_tap_in_a_zip_is_shipped_to_executors_with_tap_core(
    standalone: StandaloneCluster, package: Path, tmp_path: Path
) -> None:
    """`spark.submit.pyFiles` ships it; the executors have `tap_core` and not the tap."""
    box = zip_package(package, tmp_path / "tap_boxed.zip")
    job = create_job(tmp_path, standalone, package, **{"spark.submit.pyFiles": str(box)})
    job.run().check()
    check_numbers(job, standalone.python)


def test_tap_missing_on_executors_is_an_error(
    standalone: StandaloneCluster, package: Path, tmp_path: Path
) -> None:
    """The error says what is missing and where; nothing is loaded."""
    result = create_job(tmp_path, standalone, package).run().check(1)
    assert "The tap tap_boxed.tap:TapBoxed cannot be imported" in result.err
    assert "install it on Spark's workers too" in result.err


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Start a cluster whose Python has no packages, not even `tap_core`."""
    folder = tmp_path_factory.mktemp("blank")
    python = str(make_empty_environment(folder / "python"))
    with StandaloneCluster(folder / "cluster", workers=1, python=python) as cluster:
        yield cluster


def test_packed_environment_is_shipped_to_executors_without_packages(
    blank: StandaloneCluster, package: Path, tmp_path: Path
) -> None:
    """`spark.archives` ships it, `spark.pyspark.python` names its Python."""
    archive = pack_environment(package, tmp_path / "environment.tar.gz")
    spark = {
        "spark.archives": f"{archive}#environment",
        "spark.pyspark.python": "./environment/bin/python",
    }
    job = create_job(tmp_path, blank, package, **spark)
    job.run().check()
    check_numbers(job, "/environment/bin/python")


def test_executors_without_tap_core_load_nothing(
    blank: StandaloneCluster, package: Path, tmp_path: Path
) -> None:
    """Without the environment the run fails, and no row is acknowledged."""
    spark = {"spark.pyspark.python": blank.python}
    job = create_job(tmp_path, blank, package, **spark)
    job.run().check(1)
    assert not job.rows("numbers")
