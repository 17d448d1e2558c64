"""The summary of quarantined rows, and the limits of a run, without Spark."""

from __future__ import annotations

import json
import shlex
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tap_core.exceptions import ConfigValidationError
from tap_core.redaction import Secrets, register_secrets
from target_spark.columns import ColumnOptions, TableSchema, schema_from_json_schema
from target_spark.config.options import QuarantineLimit
from target_spark.config.settings import load_options
from target_spark.loader.quarantine_limit import QuarantineGuard
from target_spark.loader.report import COMPLETE, Report
from target_spark.tables.quarantine_summary import QuarantineSummary, Reason, replay_command
from target_spark.tables.quarantine_table import find_example
from target_spark.target import TargetSpark

# Limits


@pytest.mark.parametrize(
    ("setting", "rows", "share"),
    [
        (None, None, None),
        (0, 0, None),
        (7, 7, None),
        (7.0, 7, None),
        (10**30, 10**30, None),
        ("7", 7, None),
        ("1%", None, Fraction(1, 100)),
        (" 0.5 % ", None, Fraction(1, 200)),
        ("100%", None, Fraction(1)),
        ("0%", 0, None),
    ],
)
def test_limit_is_a_number_of_rows_or_a_percentage(
    setting: Any, rows: int | None, share: Fraction | None
) -> None:
    assert QuarantineLimit.parse(setting) == QuarantineLimit(rows, share)
    config = {"path": "x", "max_quarantined": setting}
    assert load_options(TargetSpark(config=config).config).max_quarantined.rows == rows


@pytest.mark.parametrize(
    "setting",
    ["one", "-1%", "101%", "1,5%", "%", "1 percent", "1e2%", "٣%", "", -1, 1.5, True, [1]],
)
def test_invalid_limit_is_rejected_with_valid_examples(setting: Any) -> None:
    with pytest.raises(ConfigValidationError) as exc_info:
        TargetSpark(config={"path": "x", "max_quarantined": setting})
    (error,) = exc_info.value.errors
    assert "max_quarantined" in error
    if isinstance(setting, str):
        assert "neither a number of rows (100) nor a share" in error
        assert "'0.5%'" in error


def test_limit_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in {"2.5%": "2.5%", "12": "12"}.items():
        monkeypatch.setenv("TARGET_SPARK_MAX_QUARANTINED", text)
        target = TargetSpark(config={"path": "x"}, parse_env_config=True)
        assert str(load_options(target.config).max_quarantined) == expected


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 100))
def test_stream_is_withheld_beyond_its_percentage(
    written: int, quarantined: int, percent: int
) -> None:
    guard = QuarantineGuard(QuarantineLimit.parse(f"{percent}%"))
    reason = guard.find_withhold_reason(written, quarantined)
    if not quarantined:
        assert reason is None
    elif not written:
        assert reason == "none of its rows could be written"
    elif percent:  # 0% is a number of rows, which ends the run
        is_over = 100 * quarantined > percent * (written + quarantined)
        assert reason == (
            f"more of its rows do not fit than max_quarantined ({percent}%) allows"
            if is_over
            else None
        )


@given(st.integers(1, 10**9))
def test_percentage_is_evaluated_after_at_least_1000_rows(millionths: int) -> None:
    limit = QuarantineLimit(share=Fraction(millionths, 10**9))
    assert limit.judged_from >= 1000
    assert not limit.is_exceeded(10, limit.judged_from)


# The summary


def test_reasons_are_summed_over_batches_and_sorted_by_count() -> None:
    summary = QuarantineSummary("a__quarantine", "/tables/a__quarantine", "target-spark replay a")
    summary.add([Reason("n: no number", 2, '"x"'), Reason("id: a key must have a value", 1)])
    summary.add([Reason("id: a key must have a value", 4, "null"), Reason("d: no date", 1, "1")])
    summary.add([Reason("e: no date", 1, "2")])
    message = summary.describe(9, 20)
    assert message == (
        "9 of 20 rows do not fit their columns and are in table a__quarantine"
        " (/tables/a__quarantine). Why: 5 rows: id: a key must have a value (no value);"
        ' 2 rows: n: no number (for example "x"); 1 row: d: no date (for example 1); 1 more'
        " reasons. Fix the schema in the tap, and load the rows by: target-spark replay a"
        " (catalog.json: the corrected schema, as tap --discover prints it)"
    )
    assert "run again: the tap sends these rows again" in summary.describe(9, 9, withheld=True)
    assert "would go to table a__quarantine" in summary.describe(9, 9, dry_run=True)
    summary.replay = None
    assert summary.describe(9, 9).endswith("run again: the whole stream is loaded again.")


def test_replay_command_is_quoted_for_the_shell() -> None:
    command = replay_command("my stream's", ["a b.json", "ENV"])
    assert shlex.split(command) == [
        *("target-spark", "replay", "my stream's", "--config", "a b.json", "--config", "ENV"),
        *("--schema", "catalog.json"),
    ]
    assert "--config config.json" in replay_command("a", [])


def test_report_has_the_quarantine_as_json_and_text() -> None:
    report = Report(["target.json"])
    report.count_received("a", 5, 50)
    report.count_commit("a", 2, 3, 0.1)
    reason = Reason("id: a key must have a value", 3, "null")
    report.record_quarantine("a", "a__quarantine", "/t/a__quarantine", [reason], can_replay=True)
    report.record_outcome(COMPLETE)
    report_document = json.loads(json.dumps(report.as_dict()))["streams"]["a"]
    replay = "target-spark replay a --config target.json --schema catalog.json"
    assert report_document["quarantine"] == {
        "table": "a__quarantine",
        "place": "/t/a__quarantine",
        "replay": replay,
        "reasons": [{"reason": "id: a key must have a value", "rows": 3, "example": "null"}],
    }
    assert report_document["withheld"] is None
    (line,) = report.describe_quarantines()
    assert line.startswith("Stream a: 3 of 5 rows do not fit")
    assert replay in line
    report.record_withheld("a", "none of its rows could be written")
    assert report.describe_incomplete("a").startswith(
        "Stream a is not complete: none of its rows could be written; no state"
    )


# Examples


def make_table_schema(**properties: Any) -> TableSchema:
    return schema_from_json_schema({"properties": properties}, (), ColumnOptions())


INTEGER = {"type": "integer"}
TABLE_SCHEMA = make_table_schema(
    **{
        "n": INTEGER,
        "n.m": INTEGER,
        "o": {"type": "object", "properties": {"x": INTEGER}},
        "l": {"type": "array", "items": INTEGER},
        "api_key": INTEGER,
    }
)


@pytest.mark.parametrize(
    ("raw", "reason", "example"),
    [
        ('{"n": "two"}', "n: not an integer of 64 bits", '"two"'),
        ('{"n": 1, "n.m": 1.50}', "n.m: not an integer of 64 bits", "1.5"),
        ('{"o": {"x": "y"}}', "o.x: not an integer of 64 bits", '{"x": "y"}'),
        ('{"l": [1, "y"]}', "l[]: not an integer of 64 bits", '[1, "y"]'),
        ('{"n": null}', "n: a key must have a value", "null"),
        ("{}", "n: a key must have a value", None),
        ('{"api_key": "k"}', "api_key: not an integer of 64 bits", "***"),
        ('{"o": {"password": "k"}}', "o: not of the declared type", '{"password": "***"}'),
        ('["a", "b"]', "not an object", '["a", "b"]'),
        ("null", "the record is null", "null"),
        ("{torn", "the record does not have the structure that the schema declares", "{torn"),
        ('{"n": "a\\u001b[31m"}', "n: not an integer of 64 bits", '"a\\u001b[31m"'),
        ('{"n": "\u202e"}', "n: not an integer of 64 bits", '"\\u202e"'),
        (None, "n: not an integer of 64 bits", None),
    ],
)
def test_example_is_the_value_that_the_reason_refers_to(
    raw: str | None, reason: str, example: str | None
) -> None:
    assert find_example(raw, reason, TABLE_SCHEMA) == example


def test_example_is_short_without_secrets_and_optional(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Owner: ...

    owner = Owner()
    register_secrets(owner, Secrets.from_values(["hunter22"]))
    example = find_example(json.dumps({"n": "hunter22" + "x" * 1000}), "n: no number", TABLE_SCHEMA)
    assert example is not None
    assert len(example) < 100
    assert "hunter22" not in example
    monkeypatch.setenv("TAP_CORE_LOG_ROWS", "false")
    assert find_example('{"n": "two"}', "n: no number", TABLE_SCHEMA) == "<text of 3 characters>"


@given(st.text(), st.text(), st.sampled_from(sorted(TABLE_SCHEMA.types)))
def test_example_is_one_line_for_any_record_and_reason(raw: str, reason: str, name: str) -> None:
    for text in (raw, json.dumps({name: raw}, ensure_ascii=False)):
        example = find_example(text, f"{name}: {reason}", TABLE_SCHEMA)
        assert example is None or len(example.splitlines()) <= 1
