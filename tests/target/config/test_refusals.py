"""Conflicting and unsupported settings: each is rejected at start, with a remedy."""

from __future__ import annotations

from typing import Any

import pytest

from target_spark.config import settings

HIVE = {
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.warehouse.dir": "/wh",
}
IN_HIVE = {"database": "lake", "spark": HIVE}
REST = {"catalog": "rest", "database": "a.b", "spark": {"spark.sql.catalog.rest": "x"}}


@pytest.fixture(autouse=True)
def no_settings_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)


def on(stream: str, **kwargs: Any) -> dict[str, Any]:
    return {"path": "/t", "streams": {stream: kwargs}}


@pytest.mark.parametrize(
    "config,parts",
    [
        # parquet
        ({"path": "/t", "format": "parquet", "database": "d"}, ["database: parquet"]),
        ({**on("s", catalog="c"), "format": "parquet"}, ["streams.s.catalog: parquet"]),
        ({"path": "/t", "format": "parquet", "partition_by": ["x"]}, ["partition_by: parquet"]),
        ({"path": "/t", "format": "parquet", "cluster_by": ["x"]}, ["cluster_by: parquet"]),
        ({"path": "/t", "format": "parquet", "compact": True}, ["compact: parquet"]),
        ({"path": "/t", "format": "parquet", "retain_days": 9}, ["retain_days: parquet"]),
        ({**on("s", write_mode="scd2"), "format": "parquet"}, ["streams.s.write_mode: parquet"]),
        ({"path": "s3://u:p@lake/t"}, ["path: the address contains credentials"]),
        # clusters and partitions
        ({"path": "/t", "format": "iceberg", "cluster_by": ["x"]}, ["cluster_by: iceberg"]),
        ({"path": "/t", "cluster_by": ["x"], "partition_by": ["y"]}, ["cluster_by: a Delta table"]),
        (
            {**on("s", cluster_by=["x"]), "partition_by": ["y"]},
            ["streams.s.cluster_by: a Delta table"],
        ),
        ({"path": "/t", "cluster_by": list("abcde")}, ["cluster_by: Delta supports at most 4"]),
        # names
        (on("s", table="a/b"), ["streams.s.table: 'a/b'"]),
        (on("s", table="_hidden"), ["streams.s.table: '_hidden'"]),
        ({"path": "/t", "report_html": "r.html", "run_history": False}, ["report_html: the page"]),
        ({"path": "/t", "table_prefix": ".x"}, ["table_prefix: '.x'"]),
        ({**IN_HIVE, "table_prefix": "Raw-"}, ["table_prefix: in a catalog"]),
        ({**IN_HIVE, "streams": {"s": {"table": "a-b"}}}, ["streams.s.table: 'a-b'"]),
        ({"database": "a.b", "spark": HIVE}, ["database: 'a.b'"]),
        # one table for two streams
        (
            {"path": "/t", "streams": {"a": {"table": "t"}, "b": {"table": "t"}}},
            ["streams.b.table: 't' is also the table of stream a"],
        ),
        (
            {**IN_HIVE, "streams": {"a": {"table": "t"}, "b": {"table": "T"}}},
            ["streams.b.table: 'T' is also the table of stream a"],
        ),
        # catalogs
        ({"path": "/t", "catalog": "lost"}, ["catalog: Spark knows no catalog 'lost'"]),
        ({"database": "lake"}, ["forgets its tables"]),
        (
            {"database": "lake", "spark": {"spark.sql.catalogImplementation": "hive"}},
            ["spark.sql.warehouse.dir"],
        ),
        ({"path": "/t", "format": "iceberg", "database": "a/b"}, ["database: 'a/b'"]),
        # a full refresh of history
        ({"path": "/t", "write_mode": "scd2", "full_refresh": ["s"]}, ["full_refresh: stream s"]),
        ({**on("s", write_mode="scd2"), "full_refresh": ["s"]}, ["full_refresh: stream s"]),
        # several errors together
        (
            {
                "path": "/t",
                "format": "parquet",
                "compact": True,
                "streams": {"s": {"table": "a b"}},
            },
            ["compact: parquet", "streams.s.table: 'a b'"],
        ),
        ({"format": "delta"}, ["'path' is a required property"]),
    ],
)
def test_unsupported_combinations_of_settings_are_rejected(
    config: dict[str, Any], parts: list[str]
) -> None:
    faults = settings.find_faults(config)
    assert len(faults) == len(parts), faults
    for fault, word in zip(faults, parts, strict=True):
        assert word in fault


@pytest.mark.parametrize(
    "config",
    [
        IN_HIVE,
        {"catalog": "spark_catalog", **IN_HIVE},
        {"path": "/t", "database": "lake"},
        {"database": "lake", "spark": {"spark.sql.catalog.spark_catalog": "io.unity.X"}},
        {**REST, "format": "iceberg"},
        {**REST, "streams": {"s": {"table": "a-b c"}}},
        {**IN_HIVE, "table_prefix": "raw_"},
        {"path": "/t", "table_prefix": "raw-"},
        {"path": "/t", "streams": {"a": {"table": "t"}, "b": {"table": "T"}}},
        {"path": "/t", "streams": {"a": {"table": "t"}, "b": {"table": "t", "database": "lake"}}},
        {"path": "/t", "write_mode": "scd2", "full_refresh": ["s"]}
        | {"streams": {"s": {"write_mode": "overwrite"}}},
        {"path": "/t", "format": "iceberg", "database": "a.b"},
        {"path": "/t", "format": "iceberg", "partition_by": ["x"], "sort_by": ["y"]},
        {"path": "/t", "format": "parquet", "sort_by": ["y"], "target_file_size": 1 << 20},
        {"path": "/t", "format": "parquet", "partition_by": [], "compact": False},
    ],
)
def test_supported_combinations_of_settings_are_accepted(config: dict[str, Any]) -> None:
    assert settings.find_faults(config) == []


def test_catalog_may_be_configured_in_spark_conf_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    assert settings.find_faults({"path": "/t", "catalog": "lost"}) == []


def test_location_and_default_job_include_catalog_and_database() -> None:
    assert settings.get_location(IN_HIVE) == "catalog:lake"
    assert settings.get_location({"catalog": "c"}) == "catalog:c.default"
    assert settings.get_location({"path": "/t", "database": "lake"}) == "/t"
    jobs = [
        settings.get_job_name(c) for c in (IN_HIVE, {"path": "/t"}, {"path": "/t", "database": "d"})
    ]
    assert len(set(jobs)) == 3
