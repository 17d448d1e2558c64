"""Settings of Spark that change stored values: refused if they differ, wherever they are set."""

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
from target_spark.spark.exact_value_conf import NEEDED, exact_conf, find_conflicts, get_needed
from target_spark.spark.session import SparkSettings, spark_conf

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
"""A value that falsifies, for each that is needed."""

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


def loaded(folder: Path, spark: dict[str, Any], **env: str) -> subprocess.CompletedProcess[str]:
    """Load date-times as a process of its own."""
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


@pytest.mark.parametrize("key", sorted(NEEDED))
def test_a_setting_that_falsifies_values_is_refused(key: str) -> None:
    """The key, the value needed and the reason are told; the needed value itself is taken."""
    needed = NEEDED[key]
    for remote in ({}, {"remote": "sc://host", "staging": "/s"}):
        config: dict[str, Any] = {"path": "/a", **remote}
        [fault] = settings.find_faults({**config, "spark": {key: OTHERS[needed.value]}})
        assert fault.startswith(f"spark: {key} is {OTHERS[needed.value]!r} and must be")
        assert repr(needed.value) in fault
        assert needed.why in fault
        for same in (needed.value, needed.value.lower(), f" {needed.value}"):
            assert settings.find_faults({**config, "spark": {key: same}}) == []


def test_switches_may_be_written_as_booleans() -> None:
    spark = {"spark.sql.ansi.enabled": True, "spark.sql.parquet.binaryAsString": False}
    assert settings.find_faults({"path": "/a", "spark": spark}) == []
    wrong = {key: not value for key, value in spark.items()}
    assert len(settings.find_faults({"path": "/a", "spark": wrong})) == 2


@given(st.from_regex(r"[a-z]{1,8}(\.[a-zA-Z]{1,12}){0,3}", fullmatch=True))
def test_what_earlier_sparks_did_is_refused_under_any_key(name: str) -> None:
    key = f"spark.sql.legacy.{name}"
    needed = get_needed(key)
    assert needed is not None
    assert list(find_conflicts({key: "LEGACY"})) == [(key, needed)]
    assert list(find_conflicts({key: needed.value.upper()})) == []


def test_former_names_of_a_key_need_the_same() -> None:
    key = "spark.sql.legacy.parquet.datetimeRebaseModeInWrite"
    assert list(find_conflicts({key: "CORRECTED"})) == []
    assert [found for found, _ in find_conflicts({key: "LEGACY"})] == [key]


@pytest.mark.parametrize("key", ["lake.table-default", "target_spark.table-override"])
def test_an_iceberg_property_that_lets_keys_be_twice_is_refused(key: str) -> None:
    key = f"spark.sql.catalog.{key}.write.merge.isolation-level"
    [fault] = settings.find_faults({"path": "/a", "format": "iceberg", "spark": {key: "snapshot"}})
    assert fault.startswith(f"spark: {key} is 'snapshot' and must be 'serializable'")
    assert settings.find_faults({"path": "/a", "spark": {key: "serializable"}}) == []


def test_no_setting_wins_over_those_that_values_depend_on() -> None:
    conf = spark_conf(SparkSettings(conf=dict.fromkeys(exact_conf(), "other")), "4.1.4")
    assert {key: conf[key] for key in exact_conf()} == exact_conf()


@pytest.mark.spark
def test_what_is_needed_is_what_spark_does_where_nothing_is_set(spark: SparkSession) -> None:
    """So it need not be set; and each key of earlier Sparks that there is has its value here."""
    public = {row.key: row.value for row in spark.sql("SET -v").collect()}
    for key in (key for key, needed in NEEDED.items() if not needed.is_set):
        if not key.startswith("spark.sql.iceberg."):  # Spark does not know their defaults
            spark.conf.unset(key)
            assert spark.conf.get(key).lower() == NEEDED[key].value.lower(), key
    for key, value in public.items():
        if key.startswith("spark.sql.legacy.") and value != "<undefined>":
            needed = get_needed(key)
            assert needed is not None
            assert value.lower() == needed.value.lower(), key
    assert list(find_conflicts(spark.conf.getAll)) == []


@pytest.mark.spark
def test_what_the_settings_of_an_installation_say_does_not_shift_values(tmp_path: Path) -> None:
    """Where every session is given the needed value; all others are refused once Spark is up."""
    import pyarrow.parquet

    defaults = tmp_path / "spark-defaults.conf"
    falsifying = {
        "spark.sql.session.timeZone": "Europe/Berlin",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    }
    defaults.write_text("".join(f"{key} {value}\n" for key, value in falsifying.items()))
    env = {"SPARK_CONF_DIR": str(tmp_path)}
    done = loaded(tmp_path, {}, **env)
    assert done.returncode == 0, done.stderr
    found = pyarrow.parquet.read_table(tmp_path / "tables" / "a").to_pylist()
    assert sorted(row["at"].isoformat() for row in found) == [
        "1500-01-01T00:00:00+00:00",
        "2024-07-01T10:00:00+00:00",
        "2024-07-01T12:00:00.000001+00:00",
    ]
    defaults.write_text("spark.sql.files.ignoreMissingFiles true\n")
    done = loaded(tmp_path, {}, **env)
    assert done.returncode == 1
    assert "spark.sql.files.ignoreMissingFiles is 'true' and must be 'false'" in done.stderr


def test_a_run_with_a_falsifying_setting_does_not_begin(tmp_path: Path) -> None:
    done = loaded(tmp_path, {"spark.sql.session.timeZone": "Europe/Berlin"})
    assert done.returncode == 1
    assert "spark.sql.session.timeZone is 'Europe/Berlin' and must be 'UTC'" in done.stderr
    assert not (tmp_path / "tables").exists()


def test_all_of_them_are_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "types.md").read_text("utf-8")
    assert [key for key in NEEDED if f"`{key}`" not in text] == []
