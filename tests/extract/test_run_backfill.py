"""`target-spark run --from --to`: rows of the range are loaded, the state in the tables stays."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.types import Context, Record
from target_spark.target import TargetSpark

TAP = "tests.extract.test_run_backfill:TapDates"
ROOT = Path(__file__).parents[2]


class Days(Stream):
    """One record for each first day of a month, for two shops that Spark's workers read."""

    name = "days"
    primary_keys = ("shop", "day")
    replication_key = "day"
    partitions = ({"shop": 1}, {"shop": 2})
    schema = th.PropertiesList(
        th.Property("shop", th.IntegerType),
        th.Property("day", th.DateType),
        th.Property("label", th.StringType),
    ).to_dict()

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Yield the records from the starting value on."""
        start = self.get_starting_replication_key_value(context) or ""
        for month in (1, 2, 3):
            if (day := f"2026-{month:02}-01") >= start:
                yield {**(context or {}), "day": day, "label": self.config["label"]}


class TapDates(Tap):
    """A tap whose records carry the setting ``label``."""

    name = "tap-dates"
    config_jsonschema = th.PropertiesList(th.Property("label", th.StringType)).to_dict()

    def discover_streams(self) -> list[Stream]:
        """Return the only stream."""
        return [Days(self)]


def write_settings(folder: Path, **settings: Any) -> str:
    (path := folder / "config.json").write_text(json.dumps(settings))
    return str(path)


def target_spark(*arguments: str) -> str:
    process = subprocess.run(
        [sys.executable, "-m", "target_spark", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.spark
@pytest.mark.thorough
def test_backfill_loads_the_range_and_keeps_the_state(tmp_path: Path) -> None:
    """The ordinary run after it resumes where the last ordinary run ended."""
    import pyarrow.parquet

    tables = tmp_path / "tables"

    def run(label: str, *arguments: str) -> list[tuple[int, str]]:
        settings = {"path": str(tables), "format": "parquet", "label": label}
        target_spark(
            "run", "--tap", TAP, "--config", write_settings(tmp_path, **settings), *arguments
        )
        rows = pyarrow.parquet.read_table(tables / "days").to_pylist()
        return sorted((row["shop"], str(row["day"])) for row in rows if row["label"] == label)

    def last_state() -> Any:
        config = write_settings(tmp_path, path=str(tables), format="parquet")
        return json.loads(target_spark("last-state", "--config", config))

    assert len(run("first")) == 6
    state = last_state()
    assert run("again", "--from", "2026-01-01", "--to", "2026-02-01") == [
        (1, "2026-01-01"),
        (2, "2026-01-01"),
    ]
    assert last_state() == state
    assert run("later") == [(1, "2026-03-01"), (2, "2026-03-01")]


@pytest.mark.parametrize(
    "settings",
    [{"write_mode": "overwrite"}, {"streams": {"days": {"write_mode": "overwrite"}}}],
)
def test_stream_that_overwrites_is_refused(
    tmp_path: Path, settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows of a range would replace the table. The error comes before Spark starts."""
    config = write_settings(tmp_path, path=str(tmp_path), format="parquet", label="x", **settings)
    arguments = ["run", "--tap", TAP, "--config", config, "--from", "2026-01-01"]
    assert TargetSpark.get_command(["run"]).main(arguments, standalone_mode=False) == 1
    assert "Stream days is written by overwrite" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--to", "2026-01-01"], "--to needs --from"),
        (["--from", "2026-01-01", "--state", "state.json"], "cannot be combined with --state"),
    ],
)
def test_invalid_range_is_a_usage_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        TargetSpark.get_command(["run"]).main(["run", "--tap", TAP, *arguments])
    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
