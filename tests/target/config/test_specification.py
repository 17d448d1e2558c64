"""The connection specification of `spec` accepts the same configurations as the settings check."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tap_core.exceptions import ConfigValidationError
from tap_core.protocols.fivetran.configuration_form import build_form
from tap_core.schema.validators import get_validator_class
from target_spark.config.settings import SCHEMA
from target_spark.fivetran.configuration_form import FORM, TESTS
from target_spark.target import TargetSpark

SPARK = {
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.warehouse.dir": "/warehouse",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
}
"""Settings of Spark that define each catalog below."""

TOGETHER = {
    "path": st.sampled_from([None, "", "/tables", "s3a://bucket/tables", 7]),
    "warehouse": st.sampled_from([None, "", "/tables"]),
    "catalog": st.sampled_from([None, "lake", "spark_catalog", ""]),
    "database": st.sampled_from([None, "sales", "", 1]),
    "format": st.sampled_from([None, "delta", "iceberg", "csv"]),
    "master": st.sampled_from([None, "", "local", "local[2]", "local[*]", "yarn", "spark://h:1"]),
    "remote": st.sampled_from([None, "", "sc://host:15002"]),
    "staging": st.sampled_from([None, "", "/shared"]),
    "strict": st.sampled_from([None, False, True, "yes"]),
    "outside_catalog": st.sampled_from([None, "ignore", "fail", "keep"]),
    "misfits": st.sampled_from([None, "keep", "quarantine"]),
    "max_quarantined": st.sampled_from([None, 0, 1, -1]),
}
"""Settings that require or exclude others."""

OTHERS = {
    "format": st.sampled_from([None, "delta", "iceberg", "parquet"]),
    "write_mode": st.sampled_from([None, "append", "upsert", "overwrite", "scd2", "merge"]),
    "on_schema_change": st.sampled_from([None, "evolve", "widen", "ignore", "fail", "keep"]),
    "partition_by": st.sampled_from([None, [], ["day(at)"], [1]]),
    "cluster_by": st.sampled_from([None, ["a"], list("abcde")]),
    "streams": st.sampled_from([None, {}, {"a": {"table": "b"}}, {"a": {"other": 1}}]),
    "retain_days": st.sampled_from([None, 1, 7, 30.5, "7"]),
    "flush_rows": st.sampled_from([None, 0, 1, 1.0, True]),
    "jars": st.sampled_from([None, [], ["a.jar"]]),
    "numbers_as_decimal": st.sampled_from([None, "38,10", "38", "39,1"]),
    "table_prefix": st.sampled_from([None, "", "raw_", 1, ["a"]]),
    "full_refresh": st.sampled_from([None, ["a"], "a", [1], {"a": 1}]),
    "spark": st.sampled_from([None, {}, SPARK, {"other": 1}, {"spark.x": None}, "spark"]),
    "job": st.sampled_from([None, "", "nightly", 1]),
    "unknown": st.integers(),
}


def specification() -> dict[str, Any]:
    """Return the connectionSpecification that `spec` writes."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(out):
        TargetSpark.get_command(["spec"]).main(["spec"], standalone_mode=False)
    lines = out.buffer.getvalue().splitlines()  # type: ignore[attr-defined]
    [spec] = [json.loads(line)["spec"] for line in lines if b'"SPEC"' in line]
    return dict(spec["connectionSpecification"])


SPECIFICATION = specification()


def is_valid(config: dict[str, Any]) -> bool:
    """Return True if the specification, in which ``spark`` is a text, accepts a configuration."""
    spark = config.get("spark")
    config_as_text = {**config, "spark": json.dumps(spark)} if isinstance(spark, dict) else config
    return bool(get_validator_class()(SPECIFICATION).is_valid(config_as_text))


def is_accepted(config: dict[str, Any]) -> bool:
    try:
        TargetSpark(config=config)
    except ConfigValidationError:
        return False
    return True


@settings(deadline=None)
@given(st.fixed_dictionaries({"spark": st.just(SPARK)}, optional=TOGETHER))
@example({})
@example({"path": "/a", "warehouse": "/b"})
@example({"path": "/a", "master": "yarn"})
@example({"path": "/a", "remote": "sc://h", "staging": "/s", "master": "local[2]"})
def test_specification_and_settings_check_require_the_same(config: dict[str, Any]) -> None:
    assert is_valid(config) == is_accepted(config)


@settings(deadline=None)
@given(st.fixed_dictionaries({}, optional={**TOGETHER, **OTHERS}))
@example({"database": 1})
def test_accepted_configurations_are_valid_by_the_specification(config: dict[str, Any]) -> None:
    assert is_valid(config) or not is_accepted(config)


@pytest.mark.parametrize("name", ["path", "warehouse", "catalog", "database"])
def test_each_location_setting_alone_is_valid(name: str) -> None:
    assert is_valid({name: "x"})
    assert not is_valid({name: ""})
    assert not is_valid({name: None})


def test_every_setting_is_in_the_specification() -> None:
    assert SCHEMA["properties"].keys() <= SPECIFICATION["properties"].keys()


def test_configuration_form_marks_required_fields() -> None:
    fields = build_form(FORM, TESTS, selects_tables=False).fields
    assert {field.name: field.required for field in fields} == {
        "path": True,
        "format": True,
        "catalog": False,
        "spark": False,
    }
