"""Generated tests of taps with and without faults: names, outcomes and failure messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.testing_kit.running import Run, run_pytest

MATCHES = "test_tap_stream_record_matches_stream_schema[things]"
STREAM_TESTS = [
    "transformed_catalog_schema_matches_record",
    "record_matches_stream_schema",
    "record_schema_matches_transformed_catalog",
    "returns_record",
    "schema_is_valid",
    "primary_keys",
]


def get_attribute_test_id(test: str, name: str) -> str:
    return f"test_tap_stream_attribute_{test}[things.{name}]"


def get_stream_test_id(test: str) -> str:
    return f"test_tap_stream_{test}[things]"


def get_output(run: Run, test: str) -> str:
    """Return the text that pytest shows for one failure."""
    title = rf"_+ (?:ERROR at setup of )?{re.escape(test.replace('::', '.'))} _+"
    match = re.search(rf"\n{title}\n(.*?)\n_{{3,}} ", run.output, re.DOTALL)
    assert match, test
    return match[1]


def test_valid_tap_gets_all_tests_and_passes(run: Run) -> None:
    outcomes = run.get_outcomes("TestGood")
    assert list(outcomes) == [
        "test_tap_cli_prints",
        "test_tap_discovery",
        "test_tap_stream_connections",
        "test_tap_valid_final_state",
        *(get_stream_test_id(name) for name in STREAM_TESTS),
        get_attribute_test_id("is_boolean", "on"),
        get_attribute_test_id("is_datetime", "at"),
        get_attribute_test_id("is_datetime", "day"),
        get_attribute_test_id("is_integer", "id"),
        get_attribute_test_id("is_numeric", "ratio"),
        get_attribute_test_id("is_object", "address"),
        get_attribute_test_id("not_null", "id"),
    ]
    assert set(outcomes.values()) == {"passed"}
    assert run.warned("TestGood") == []


@pytest.mark.parametrize("cls", ["TestFamily", "TestMapped", "TestNoKey"])
def test_tap_without_a_fault_passes(run: Run, cls: str) -> None:
    assert run.get_outcomes(cls)
    assert run.bad(cls) == {}
    assert run.warned(cls) == []


def test_test_groups_can_be_excluded(run: Run) -> None:
    assert len(run.get_outcomes("TestTapAlone")) == 4


def test_mapped_stream_is_tested_with_its_mapped_properties(run: Run) -> None:
    names = run.get_outcomes("TestMapped")
    assert get_attribute_test_id("is_integer", "twice") in names
    assert not [name for name in names if "things.note" in name]


def test_parent_child_and_partitioned_streams_are_tested(run: Run) -> None:
    names = run.get_outcomes("TestFamily")
    for stream in ("children", "parents", "slices"):
        assert f"test_tap_stream_returns_record[{stream}]" in names


def test_stream_without_records_fails_one_test_and_warns_in_others(run: Run) -> None:
    assert run.bad("TestEmpty") == {get_stream_test_id("returns_record"): "failed"}
    output = get_output(run, f"TestEmpty::{get_stream_test_id('returns_record')}")
    assert "ignore_no_records_for_streams=['things']" in output
    warned = dict(run.warned("TestEmpty"))
    assert "stream 'things' gave 0" in warned[get_attribute_test_id("is_datetime", "day")]
    assert len(warned) == 6


@pytest.mark.parametrize("cls", ["TestEmptyAllowed", "TestEmptyAllowedByName"])
def test_stream_without_records_is_skipped_if_the_config_allows_it(run: Run, cls: str) -> None:
    assert run.bad(cls) == {get_stream_test_id("returns_record"): "skipped"}
    assert run.warned(cls) == []


def test_property_with_only_null_values_causes_a_warning(run: Run) -> None:
    assert run.bad("TestAllNull") == {}
    [(test, text)] = run.warned("TestAllNull")
    assert test == get_attribute_test_id("is_datetime", "at")
    assert "gave 1, none with a value of 'at'" in text


def test_property_missing_from_all_records_causes_a_warning(run: Run) -> None:
    [(test, text)] = run.warned("TestNeverThere")
    assert test == get_stream_test_id("transformed_catalog_schema_matches_record")
    assert "('rare')" in text


def test_duplicate_primary_key_causes_a_warning(run: Run) -> None:
    assert run.bad("TestKeyTwice") == {}
    [(test, text)] = run.warned("TestKeyTwice")
    assert test == get_stream_test_id("primary_keys")
    assert "2 records with 1 different keys (id); 2 of them have [1]" in text


FAULTS = {
    "TestWrongType": {
        MATCHES: ["age: 'old' is not of type 'integer', 'null' [2 times, first in record 2]"],
        get_attribute_test_id("is_integer", "age"): [
            "('old')",
            "'age' of stream 'things': 2 of 3 values",
        ],
    },
    "TestWrongNumber": {
        MATCHES: ["x: '1.5' is not of type"],
        get_attribute_test_id("is_numeric", "x"): ["1 of 1 values are no number", "post_process()"],
    },
    "TestWrongBoolean": {
        get_attribute_test_id("is_boolean", "x"): ["('maybe')", "1 of 2 values are no boolean"],
    },
    "TestWrongObject": {
        MATCHES: ["x: '{}' is not of type"],
        get_attribute_test_id("is_object", "x"): ["1 of 1 values are no object"],
    },
    # A property with two types gets the tests of both, as in singer_sdk.
    "TestTwoKinds": {get_attribute_test_id("is_numeric", "x"): ["1 of 2 values are no number"]},
    "TestWrongDate": {
        get_attribute_test_id("is_datetime", "x"): ["('yesterday')", "date or date-time"]
    },
    "TestWrongFormat": {MATCHES: ["x: '1.2.3.4.5' is not a 'ipv4'", "take the format off"]},
    "TestWrongDeepInside": {MATCHES: ["a[].n: 1 is less than the minimum of 3 [2 times"]},
    "TestOneOf": {get_attribute_test_id("not_null", "x"): ["1 of 1 records"]},
    "TestNull": {
        MATCHES: ["x: None is not of type 'string'"],
        get_attribute_test_id("not_null", "x"): [
            'first: {"id": 1, "x": null}',
            "leave `required` off",
        ],
    },
    "TestRequired": {
        MATCHES: ["(the record): 'x' is a required property [record 1]"],
        get_attribute_test_id("not_null", "x"): ["('x')"],
    },
    "TestUnknown": {
        get_stream_test_id("record_schema_matches_transformed_catalog"): [
            "('more')",
            "gave more = 1",
        ],
    },
    "TestKeyMissing": {get_stream_test_id("primary_keys"): ["'key' of stream 'things', record 1"]},
    "TestKeyNull": {get_stream_test_id("primary_keys"): ["values that are null: 'key' of stream"]},
    "TestBrokenSchema": {
        get_stream_test_id("schema_is_valid"): [
            "properties.x.minLength: -1 is less than the minimum"
        ],
    },
}


@pytest.mark.parametrize("cls", FAULTS)
def test_each_fault_fails_its_tests_and_is_reported(run: Run, cls: str) -> None:
    assert run.bad(cls) == dict.fromkeys(FAULTS[cls], "failed")
    for test, texts in FAULTS[cls].items():
        output = get_output(run, f"{cls}::{test}")
        assert [text for text in texts if text not in output] == []
        assert "def test(" not in output, "a verdict shows no code of the kit"


def test_failing_tap_makes_all_tests_errors_with_the_cause(run: Run) -> None:
    outcomes = run.get_outcomes("TestFailing")
    assert len(outcomes) > 10
    assert set(outcomes.values()) == {"error"}
    assert "the source is gone" in get_output(run, "TestFailing.test_tap_cli_prints")


def test_printed_line_that_is_not_a_message_is_named(run: Run) -> None:
    output = get_output(run, "TestPrinting.test_tap_cli_prints")
    assert "Line 2 of standard output is not a message: 'reading'" in output
    assert "print to sys.stderr" in output


def test_tap_without_streams_fails_with_a_message(run: Run) -> None:
    assert run.bad("TestNoStreams") == {
        "test_tap_valid_final_state": "failed",
        **{f"test_tap_stream_{name}": "error" for name in STREAM_TESTS},
    }
    output = get_output(run, "TestNoStreams.test_tap_stream_returns_record")
    assert "'tap-of' has no streams to test" in output
    assert "No STATE was written" in get_output(run, "TestNoStreams.test_tap_valid_final_state")


def test_subclass_can_add_and_override_tests_and_fixtures(run: Run) -> None:
    outcomes = run.get_outcomes("TestOwn")
    assert outcomes["test_tap_is_named"] == "passed"
    assert outcomes[get_stream_test_id("is_small")] == "passed"
    assert outcomes[get_stream_test_id("returns_record")] == "passed"
    assert outcomes[get_attribute_test_id("is_short", "at")] == "passed"
    assert outcomes[get_attribute_test_id("is_short", "day")] == "passed"
    assert outcomes[get_attribute_test_id("not_null", "id")] == "skipped"
    assert outcomes["test_something_else"] == "passed"
    assert set(outcomes.values()) == {"passed", "skipped"}
    assert "test_tap_discovery" not in outcomes


def test_deprecated_standard_tests_run_and_warn(run: Run) -> None:
    outcomes = run.get_outcomes("TestSuitesApart")
    assert [outcomes[f"test_legacy[{n}]"] for n in range(6)] == ["passed"] * 6
    name = "test_legacy_finds_keys_that_are_no_properties"
    assert [outcomes[f"{name}[{n}]"] for n in (3, 4, 5)] == ["failed"] * 3
    assert "'no_partition' is missing in schema, which has id, at" in run.output
    assert any(kind == "DeprecationWarning" for _, kind, _ in run.warnings)


TINY = """
import pytest
from tap_core import Stream, Tap
from tap_core.testing import get_tap_test_class


class Ones(Stream):
    name = "ones"
    schema = {"properties": {"one": {"type": "integer"}}}

    def get_records(self, context):
        yield {"one": 1}


class TapOnes(Tap):
    name = "tap-ones"

    def discover_streams(self):
        return [Ones(self)]


"""


def test_generated_tests_can_be_selected_by_name(tmp_path: Path) -> None:
    source = TINY + "TestOnes = get_tap_test_class(TapOnes)\n"
    run = run_pytest(tmp_path, source, "-k", "test_tap_stream_record_matches_stream_schema")
    assert run.outcomes == {
        "TestOnes::test_tap_stream_record_matches_stream_schema[ones]": "passed"
    }


def test_generated_class_can_be_subclassed_several_times(tmp_path: Path) -> None:
    source = TINY + (
        "class Base(get_tap_test_class(TapOnes)):\n"
        "    def test_one(self, runner):\n"
        "        assert runner.records == {'ones': [{'one': 1}]}, 'each class reads afresh'\n"
        "class TestFirst(Base): ...\n"
        "class TestSecond(Base):\n"
        "    @pytest.mark.skip(reason='an override that asks for no stream runs once')\n"
        "    def test_tap_stream_returns_record(self): ...\n"
    )
    run = run_pytest(tmp_path, source)
    assert run.bad("TestFirst") == {}
    assert run.bad("TestSecond") == {"test_tap_stream_returns_record": "skipped"}
    assert run.get_outcomes("TestSecond")["test_tap_stream_primary_keys[ones]"] == "passed"
    assert run.get_outcomes("TestSecond")["test_one"] == "passed"


def test_plugin_supports_a_class_with_its_own_generate_tests_hook(tmp_path: Path) -> None:
    source = TINY + (
        "class TestOnes(get_tap_test_class(TapOnes)):\n"
        "    def pytest_generate_tests(self, metafunc):\n"
        "        if 'number' in metafunc.fixturenames:\n"
        "            metafunc.parametrize('number', [1, 2])\n"
        "    def test_numbers(self, number): ...\n"
        "class TestPlain(get_tap_test_class(TapOnes)): ...\n"
        "class TestNothing:\n"
        "    def test_nothing(self): ...\n"
        "def test_function(): ...\n"
    )
    run = run_pytest(tmp_path, source, "-p", "tap_core.testing.pytest_plugin")
    assert set(run.outcomes.values()) == {"passed"}
    assert {"test_numbers[1]", "test_numbers[2]"} <= run.get_outcomes("TestOnes").keys()
    assert run.get_outcomes("TestPlain").keys() == run.get_outcomes("TestOnes").keys() - {
        "test_numbers[1]",
        "test_numbers[2]",
    }


def test_imported_templates_are_not_collected(run: Run) -> None:
    """The module of faulty taps imports all templates."""
    owners = {name.partition("::")[0] for name in run.collected}
    assert not [name for name in owners if not name.startswith("Test")]
    assert owners.isdisjoint({"TestTemplate", "TestParam"})
    assert not [text for _, kind, text in run.warnings if kind == "PytestCollectionWarning"]


def test_pytest_of_other_projects_does_not_load_tap_core(tmp_path: Path) -> None:
    source = (
        "import sys\n"
        "from importlib import metadata\n"
        "def test_it():\n"
        "    assert 'tap_core' not in sys.modules\n"
        "    plugins = metadata.entry_points(group='pytest11')\n"
        "    assert not [p for p in plugins if p.value.startswith('tap_core')]\n"
    )
    assert run_pytest(tmp_path, source).outcomes == {"test_it": "passed"}
