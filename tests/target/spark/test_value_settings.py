"""Spark settings that change stored values: other values than the required ones are rejected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from target_spark.config import settings
from target_spark.spark.exact_value_conf import (
    REQUIRED,
    exact_conf,
    find_conflicts,
    get_required,
)
from target_spark.spark.session import SparkSettings, build_start_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHERS = {
    "UTC": "Europe/Berlin",
    "TIMESTAMP_LTZ": "TIMESTAMP_NTZ",
    "TIMESTAMP_MICROS": "TIMESTAMP_MILLIS",
    "CORRECTED": "LEGACY",
    "true": "false",
    "false": "true",
    "ANSI": "LEGACY",
    "EXCEPTION": "LAST_WIN",
    "STATIC": "DYNAMIC",
}
"""For each required value, one that would change stored values."""

MESSAGES = [
    {
        "type": "SCHEMA",
        "stream": "a",
        "schema": {"properties": {"at": {"type": "string", "format": "date-time"}}},
    },
    *(
        {"type": "RECORD", "stream": "a", "record": {"at": at}}
        for at in ("2024-07-01T12:00:00.000001Z", "2024-07-01T12:00:00+02:00", "1500-01-01")
    ),
]


def load_in_process(
    folder: Path, spark: dict[str, Any], **env: str
) -> subprocess.CompletedProcess[str]:
    """Load date-times in a separate process."""
    config = {"path": str(folder / "tables"), "format": "parquet", "small_runs": True}
    (folder / "config.json").write_text(json.dumps({**config, "spark": spark}), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "target_spark", "--config", str(folder / "config.json")],
        input="".join(f"{json.dumps(message)}\n" for message in MESSAGES),
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=False,
        timeout=600,
    )


@pytest.mark.parametrize("key", sorted(REQUIRED))
def test_value_changing_setting_is_rejected(key: str) -> None:
    """The error names key, required value and reason; the required value itself is accepted."""
    needed = REQUIRED[key]
    for remote in ({}, {"remote": "sc://host", "staging": "/s"}):
        config: dict[str, Any] = {"path": "/a", **remote}
        [fault] = settings.find_faults({**config, "spark": {key: OTHERS[needed.value]}})
        assert fault.startswith(f"spark: {key} is {OTHERS[needed.value]!r} and must be")
        assert repr(needed.value) in fault
        assert needed.why in fault
        for same in (needed.value, needed.value.lower(), f" {needed.value}"):
            assert settings.find_faults({**config, "spark": {key: same}}) == []


def test_switches_may_be_booleans() -> None:
    spark = {"spark.sql.ansi.enabled": True, "spark.sql.parquet.binaryAsString": False}
    assert settings.find_faults({"path": "/a", "spark": spark}) == []
    wrong = {key: not value for key, value in spark.items()}
    assert len(settings.find_faults({"path": "/a", "spark": wrong})) == 2


@given(st.from_regex(r"[a-z]{1,8}(\.[a-zA-Z]{1,12}){0,3}", fullmatch=True))
def test_any_legacy_key_is_rejected(name: str) -> None:
    key = f"spark.sql.legacy.{name}"
    needed = get_required(key)
    assert needed is not None
    assert list(find_conflicts({key: "LEGACY"})) == [(key, needed)]
    assert list(find_conflicts({key: needed.value.upper()})) == []


def test_former_names_of_a_key_require_the_same_value() -> None:
    key = "spark.sql.legacy.parquet.datetimeRebaseModeInWrite"
    assert list(find_conflicts({key: "CORRECTED"})) == []
    assert [name for name, _ in find_conflicts({key: "LEGACY"})] == [key]


@pytest.mark.parametrize("key", ["lake.table-default", "target_spark.table-override"])
def test_iceberg_isolation_level_that_allows_duplicate_keys_is_rejected(key: str) -> None:
    key = f"spark.sql.catalog.{key}.write.merge.isolation-level"
    [fault] = settings.find_faults({"path": "/a", "format": "iceberg", "spark": {key: "snapshot"}})
    assert fault.startswith(f"spark: {key} is 'snapshot' and must be 'serializable'")
    assert settings.find_faults({"path": "/a", "spark": {key: "serializable"}}) == []


def test_user_settings_do_not_override_required_values() -> None:
    conf = build_start_conf(SparkSettings(conf=dict.fromkeys(exact_conf(), "other")), "4.1.4")
    assert {key: conf[key] for key in exact_conf()} == exact_conf()


@pytest.mark.spark
def test_required_values_are_the_defaults_of_spark(spark: SparkSession) -> None:
    """Users need not set the required values; the same is true for each existing legacy key."""
    public = {row.key: row.value for row in spark.sql("SET -v").collect()}
    for key in (key for key, needed in REQUIRED.items() if not needed.is_set):
        if not key.startswith("spark.sql.iceberg."):  # Spark does not know their defaults
            spark.conf.unset(key)
            assert spark.conf.get(key).lower() == REQUIRED[key].value.lower(), key
    for key, value in public.items():
        if key.startswith("spark.sql.legacy.") and value != "<undefined>":
            needed = get_required(key)
            assert needed is not None
            assert value.lower() == needed.value.lower(), key
    assert list(find_conflicts(spark.conf.getAll)) == []


@pytest.mark.thorough
@pytest.mark.spark
def test_spark_defaults_conf_cannot_change_stored_values(tmp_path: Path) -> None:
    """Required values are set per session; other changes are rejected once Spark has started."""
    import pyarrow.parquet

    defaults = tmp_path / "spark-defaults.conf"
    falsifying = {
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    }
    defaults.write_text("".join(f"{key} {value}\n" for key, value in falsifying.items()))
    env = {"SPARK_CONF_DIR": str(tmp_path)}
    process = load_in_process(tmp_path, {}, **env)
    assert process.returncode == 0, process.stderr
    table_rows = pyarrow.parquet.read_table(tmp_path / "tables" / "a").to_pylist()
    assert sorted(row["at"].isoformat() for row in table_rows) == [
        "1500-01-01T00:00:00+00:00",
        "2024-07-01T10:00:00+00:00",
        "2024-07-01T12:00:00.000001+00:00",
    ]
    defaults.write_text("spark.sql.files.ignoreMissingFiles true\n")
    process = load_in_process(tmp_path, {}, **env)
    assert process.returncode == 1
    assert "spark.sql.files.ignoreMissingFiles is 'true' and must be 'false'" in process.stderr


def test_run_with_a_value_changing_setting_does_not_start(tmp_path: Path) -> None:
    process = load_in_process(tmp_path, {"spark.sql.session.timeZone": "Europe/Berlin"})
    assert process.returncode == 1
    assert "spark.sql.session.timeZone is 'Europe/Berlin' and must be 'UTC'" in process.stderr
    assert not (tmp_path / "tables").exists()


def test_all_required_settings_are_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "types.md").read_text("utf-8")
    assert [key for key in REQUIRED if f"`{key}`" not in text] == []
