"""`target-spark run` on one machine: what is read, what of it is in the tables, what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from target_spark.target import TargetSpark
from tests.extract.many_taps import CONTEXTS, Shops

TAP = "tests.extract.sample_taps:SampleTap"
MANY = "tests.extract.many_taps:ManyTap"
ROOT = Path(__file__).parents[2]


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "target_spark", "run", *words],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def written(folder: Path, name: str, **settings: Any) -> str:
    path = folder / name
    path.write_text(json.dumps(settings))
    return str(path)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--tap", "tests.nowhere:Tap"], "cannot be imported"),
        (["--tap", "json:dumps"], "is not a tap"),
        (["--tap", TAP, "--catalog", "nowhere.json"], "nowhere.json cannot be read"),
        (["--tap", TAP, "--state", "nowhere.json"], "nowhere.json cannot be read"),
        (["--tap", TAP], "'visits' is a required property"),
        (["--tap", "tap_flights.tap:TapFlights"], "'path' is a required property"),
    ],
)
def test_what_cannot_be_run_is_refused_with_words(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is named wrongly is named in the error, before Spark is started."""
    code = TargetSpark.get_command(["run"]).main(["run", *words], standalone_mode=False)
    assert code == 1
    assert said in capsys.readouterr().err


def test_a_tap_is_needed() -> None:
    """Without a tap there is nothing to run."""
    with pytest.raises(SystemExit) as ended:
        TargetSpark.get_command(["run"]).main(["run"])
    assert ended.value.code == 2


@pytest.mark.spark
@pytest.mark.thorough
def test_on_one_machine_a_context_that_kills_its_process_is_one_that_failed(tmp_path: Path) -> None:
    """The others are committed; it is named, and the next run brings what it left out."""
    import pyarrow.parquet

    (visits := tmp_path / "visits").mkdir()
    tables = tmp_path / "tables"
    target = written(tmp_path, "target.json", path=str(tables), format="parquet")

    def once(**more: Any) -> tuple[subprocess.CompletedProcess[str], set[str]]:
        tap = written(tmp_path, "tap.json", visits=str(visits), rows=3, **more)
        done = run("--tap", TAP, "--tap-config", tap, "--config", target)
        found = pyarrow.parquet.read_table(tables / "orders", columns=["region"])
        return done, set(found["region"].to_pylist())

    done, regions = once(fails="south", how="kill")
    assert done.returncode == 1, done.stderr
    assert "SIGKILL" in done.stderr
    assert regions == {"north", "east", "west"}
    done, regions = once()
    assert done.returncode == 0, done.stderr
    assert regions == {"north", "south", "east", "west"}


@pytest.mark.spark
@pytest.mark.thorough
def test_rows_of_a_run_count_as_older_than_those_of_a_later_pipe(tmp_path: Path) -> None:
    """``_sdc_sequence`` does not run ahead of the clock, whatever many contexts there are.

    Within a run no two rows have the same, also where a context was read twice.
    """
    import pyarrow.parquet

    (visits := tmp_path / "visits").mkdir()
    tables = tmp_path / "tables"
    tap = written(tmp_path, "tap.json", visits=str(visits))
    asked = {"path": str(tables), "format": "parquet", "add_record_metadata": True}
    target = written(tmp_path, "target.json", **asked)
    done = run("--tap", MANY, "--tap-config", tap, "--config", target)
    assert done.returncode == 0, done.stderr
    assert len(list(visits.iterdir())) == 8
    ended = time.time() * 1000
    first = pyarrow.parquet.read_table(tables / "shops").to_pylist()
    assert sorted((row["shop"], row["id"]) for row in first) == [
        (shop, number) for shop in range(CONTEXTS) for number in range(1 + shop % 3)
    ]
    sequences = [row["_sdc_sequence"] for row in first]
    assert len(set(sequences)) == len(sequences)
    assert max(sequences) < ended * 2**20

    piped = "".join(
        f"{json.dumps(message)}\n"
        for message in (
            {"type": "SCHEMA", "stream": "shops", "schema": Shops.schema},
            *(
                {"type": "RECORD", "stream": "shops", "record": {"shop": shop, "id": 0}}
                for shop in range(CONTEXTS)
            ),
        )
    )
    loaded = subprocess.run(
        [sys.executable, "-m", "target_spark", "--config", target],
        cwd=ROOT,
        input=piped,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert loaded.returncode == 0, loaded.stderr
    found = pyarrow.parquet.read_table(tables / "shops")["_sdc_sequence"].to_pylist()
    assert min(set(found) - set(sequences)) > max(sequences)
    assert len(found) == len(first) + CONTEXTS
