"""What settings mean, and which of them cannot be together."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tap_core.events import StreamId
from target_spark.columns import Decimal
from target_spark.config import settings
from target_spark.config.options import LoadOptions, StreamOptions, WriteMode
from target_spark.errors import UnsupportedError
from target_spark.target import TargetSpark

A = StreamId("a")


def test_nothing_but_a_path_is_needed() -> None:
    options = settings.load_options({"path": "/t"})
    assert options == LoadOptions("/t")
    assert settings.find_faults({"warehouse": "/t"}) == []
    assert settings.load_options({"warehouse": "/t", "flush_rows": None}) == options


@pytest.mark.parametrize(
    "config,word",
    [
        ({}, "'path'"),
        ({"path": "/a", "warehouse": "/b"}, "two names"),
        ({"path": "/a", "format": "parquet", "write_mode": "upsert"}, "write_mode: parquet"),
        (
            {"path": "/a", "format": "parquet", "streams": {"x": {"write_mode": "upsert"}}},
            "streams.x.write_mode",
        ),
        ({"path": "/a", "numbers_as_decimal": "39,1"}, "38 digits"),
        ({"path": "/a", "master": "spark://host:7077"}, "staging"),
        ({"path": "/a", "remote": "sc://host"}, "staging"),
    ],
)
def test_what_cannot_be_is_said_with_the_setting(config: dict[str, Any], word: str) -> None:
    (fault,) = settings.find_faults(config)
    assert word in fault


def test_a_job_is_its_name_or_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings.get_job_name({"path": "/a", "job": "nightly"}) == "nightly"
    monkeypatch.chdir(tmp_path)
    same = [{"path": "x"}, {"path": f"{tmp_path}/x/"}, {"warehouse": f"file://{tmp_path}/x"}]
    assert len({settings.get_job_name(config) for config in same}) == 1
    others = [{"path": "x"}, {"path": "y"}, {"path": "x", "format": "parquet"}]
    assert len({settings.get_job_name(config) for config in others}) == 3


def test_a_default_job_is_of_the_resolved_location(tmp_path: Path) -> None:
    """However the path is spelled; the name that an earlier release made of it is known."""
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    paths = [real, link, f"{real}/../real", f"{link}/", f"file:{link}"]
    jobs = {settings.get_job_name({"path": str(path)}) for path in paths}
    assert len(jobs) == 1
    assert settings.former_jobs({"path": str(real)}) == ()
    former = hashlib.sha256(f"delta file://{link}".encode()).hexdigest()[:16]
    assert settings.former_jobs({"path": str(link)}) == (former,)
    assert settings.former_jobs({"path": str(link), "job": "nightly"}) == ()


def test_settings_reach_spark_and_the_columns() -> None:
    config = {
        "path": "/a",
        "spark": {"spark.x": True, "spark.y": 2, "spark.z": "w"},
        "numbers_as_decimal": "20,4",
        "add_record_metadata": True,
        "oversized_numbers_as_text": True,
        "small_runs": True,
        "jars": ["/x.jar"],
    }
    spark = settings.spark_settings(config)
    assert spark.conf == {"spark.x": "true", "spark.y": "2", "spark.z": "w"}
    assert (spark.format, spark.small_runs, spark.jars) == ("delta", True, ("/x.jar",))
    columns = settings.load_options(config).columns
    assert columns.plain_numbers == Decimal(20, 4)
    assert columns.metadata
    assert columns.oversized_as_text


@pytest.mark.parametrize(
    "options,keyed,mode",
    [
        (LoadOptions("/t"), True, WriteMode.UPSERT),
        (LoadOptions("/t"), False, WriteMode.APPEND),
        (LoadOptions("/t", "parquet"), True, WriteMode.APPEND),
        (LoadOptions("/t", every=StreamOptions(WriteMode.UPSERT)), False, WriteMode.APPEND),
        (LoadOptions("/t", every=StreamOptions(WriteMode.APPEND)), True, WriteMode.APPEND),
        (
            LoadOptions(
                "/t",
                every=StreamOptions(WriteMode.APPEND),
                streams={"a": StreamOptions(WriteMode.OVERWRITE)},
            ),
            True,
            WriteMode.OVERWRITE,
        ),
    ],
)
def test_how_a_stream_is_written(options: LoadOptions, keyed: bool, mode: WriteMode) -> None:
    assert options.mode(A, keyed=keyed) is mode


def test_a_stream_that_cannot_be_upserted_by_name_is_refused() -> None:
    options = LoadOptions("/t", streams={"a": StreamOptions(WriteMode.UPSERT)})
    with pytest.raises(UnsupportedError, match="no key properties"):
        options.mode(A, keyed=False)


def test_settings_of_other_targets_are_named_with_what_serves_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are no error, since orchestrators hand them to every target; a known one is quiet."""
    wanted = {"load_method": "write_mode", "batch_size_rows": "flush_rows"}
    given = {"path": str(tmp_path), "hard_delete": True, **dict.fromkeys(wanted, "upsert")}
    given["validate_records"] = None  # as an orchestrator says that it is not set
    TargetSpark(config=given)
    told = dict(zip(wanted, caplog.messages, strict=True))
    assert all(name in said and wanted[name] in said for name, said in told.items())
    assert set(settings.RENAMED_SETTINGS).isdisjoint(settings.SCHEMA["properties"])
