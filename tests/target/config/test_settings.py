"""The effect of settings on load options, Spark settings and job names."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tap_core.events import StreamId
from tap_core.exceptions import ConfigValidationError
from target_spark.columns import Decimal, OnSchemaChange
from target_spark.config import settings
from target_spark.config.options import LoadOptions, StreamOptions, WriteMode
from target_spark.errors import UnsupportedError
from target_spark.target import TargetSpark

A = StreamId("a")


def test_only_the_path_is_required() -> None:
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
        ({"path": "~no-such-user/a"}, "path: There is no home folder for '~no-such-user'"),
        ({"path": "/a", "remote": "sc://a", "staging": "~no-such-user"}, "staging: There is no"),
        ({"path": "/a", "jars": ["~no-such-user/a.jar"]}, "jars: There is no home folder"),
        ({"path": "/a\ud800"}, r"path: A path has the character '\ud800', which the"),
        ({"path": "/a", "remote": "sc://[host", "staging": "/b"}, "remote: the host"),
    ],
)
def test_invalid_setting_is_named_in_its_error(config: dict[str, Any], word: str) -> None:
    (fault,) = settings.find_faults(config)
    assert word in fault


@pytest.mark.parametrize("text", ["38,100", "138,10", "decimal(38,10)", " 38,10", "38,10\n"])
def test_decimal_type_that_is_written_in_another_way_is_not_ignored(text: str) -> None:
    with pytest.raises(ConfigValidationError, match="numbers_as_decimal"):
        TargetSpark(config={"path": "/a", "numbers_as_decimal": text})


def test_default_job_name_depends_on_location_and_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.get_job_name({"path": "/a", "job": "nightly"}) == "nightly"
    monkeypatch.chdir(tmp_path)
    same = [{"path": "x"}, {"path": f"{tmp_path}/x/"}, {"warehouse": f"file://{tmp_path}/x"}]
    assert len({settings.get_job_name(config) for config in same}) == 1
    configs = [{"path": "x"}, {"path": "y"}, {"path": "x", "format": "parquet"}]
    assert len({settings.get_job_name(config) for config in configs}) == 3


def test_default_job_name_is_the_same_for_all_spellings_of_a_path(tmp_path: Path) -> None:
    """The job name that an earlier release derived from the spelling is known too."""
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    paths = [real, link, f"{real}/../real", f"{link}/", f"file:{link}"]
    jobs = {settings.get_job_name({"path": str(path)}) for path in paths}
    assert len(jobs) == 1
    assert settings.former_jobs({"path": str(real)}) == ()
    former = hashlib.sha256(f"delta file://{link}".encode()).hexdigest()[:16]
    assert settings.former_jobs({"path": str(link)}) == (former,)
    assert settings.former_jobs({"path": str(link), "job": "nightly"}) == ()


def test_settings_set_spark_and_column_options() -> None:
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
def test_write_mode_depends_on_keys_format_and_settings(
    options: LoadOptions, keyed: bool, mode: WriteMode
) -> None:
    assert options.mode(A, keyed=keyed) is mode


def test_upsert_set_for_a_stream_without_keys_is_rejected() -> None:
    options = LoadOptions("/t", streams={"a": StreamOptions(WriteMode.UPSERT)})
    with pytest.raises(UnsupportedError, match="no key properties"):
        options.mode(A, keyed=False)


def test_policy_for_schema_changes_of_a_stream_overrides_that_of_all_streams() -> None:
    config = {
        "path": "/t",
        "on_schema_change": "fail",
        "streams": {"a": {"on_schema_change": "ignore"}, "b": {"hard_delete": True}},
    }
    options = settings.load_options(config)
    assert options.of(A).on_schema_change is OnSchemaChange.IGNORE
    assert options.of(StreamId("b")).on_schema_change is OnSchemaChange.FAIL
    assert settings.load_options({"path": "/t"}).of(A).on_schema_change is None


def test_settings_of_other_targets_are_logged_with_their_equivalents(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Settings of other targets are no error, because orchestrators pass them to every target."""
    equivalents = {"load_method": "write_mode", "batch_size_rows": "flush_rows"}
    settings_of_other_targets = {
        "path": str(tmp_path),
        "hard_delete": True,
        **dict.fromkeys(equivalents, "upsert"),
    }
    settings_of_other_targets["validate_records"] = (
        None  # orchestrators pass None for unset settings
    )
    TargetSpark(config=settings_of_other_targets)
    messages = dict(zip(equivalents, caplog.messages, strict=True))
    assert all(name in text and equivalents[name] in text for name, text in messages.items())
    assert set(settings.RENAMED_SETTINGS).isdisjoint(settings.SCHEMA["properties"])
