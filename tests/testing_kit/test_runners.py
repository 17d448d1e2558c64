"""Runners run taps and targets in this process and collect their messages."""

from __future__ import annotations

import io
import json
import sys
import warnings
from pathlib import Path

import pytest

from tap_core import RecordSink, Stream, Tap, Target, testing
from tap_core.testing import (
    SuiteConfig,
    TapTestRunner,
    TargetTestRunner,
    get_tap_test_class,
    sync_end_to_end,
    tap_sync_test,
    tap_to_target_sync_test,
    target_sync_test,
)
from tap_core.testing.factory import BaseTestClass
from tap_core.testing.legacy import get_standard_tap_tests
from tap_core.testing.suites import SingerTestSuite
from tap_core.testing.tap_tests import AttributeIsDateTimeTest, TapValidFinalStateTest
from tap_core.testing.templates import (
    AttributeTestTemplate,
    StreamTestTemplate,
    TapTestTemplate,
    TestTemplate,
)


class Numbers(Stream):
    name = "numbers"
    primary_keys = ("n",)
    replication_key = "n"
    is_sorted = True
    schema = {"properties": {"n": {"type": "integer"}, "any": {}}}

    def get_records(self, context):
        for n in range(self.config.get("count", 500)):
            yield {"n": n}


class Squares(Numbers):
    name = "squares"
    parent_stream_type = Numbers
    state_partitioning_keys = []


class TapNumbers(Tap):
    name = "tap-numbers"
    config_jsonschema = {"properties": {"count": {"type": "integer"}}}

    def discover_streams(self):
        return [Numbers(self)]


class TapSquares(TapNumbers):
    def discover_streams(self):
        return [*super().discover_streams(), Squares(self)]


class Kept(RecordSink):
    def process_record(self, record, context):
        TargetKept.kept.append(record)


class TargetKept(Target):
    name = "target-kept"
    config_jsonschema = {"properties": {}}
    default_sink_class = Kept
    kept = []


@pytest.fixture(autouse=True)
def _nothing_kept():
    TargetKept.kept = []


# Taps


def test_max_records_limit_applies_to_each_stream() -> None:
    runner = TapTestRunner(TapNumbers, {"count": 500}, SuiteConfig(max_records_limit=7))
    runner.sync_all()
    assert runner.records == {"numbers": [{"n": n} for n in range(7)]}
    assert runner.raw_messages[0]["type"] == "SCHEMA"
    assert len(runner.schema_messages) == 1
    assert len(runner.record_messages) == 7
    assert runner.state_messages


def test_record_limit_can_be_set_per_stream() -> None:
    limits = SuiteConfig(max_records_limit=3, max_records_limit_by_stream={"squares": 2})
    runner = TapTestRunner(TapSquares, {}, limits)
    runner.sync_all()
    assert len(runner.records["numbers"]) == 3
    squares = [record["n"] for record in runner.records["squares"]]
    assert squares[:2] == [0, 1]
    assert set(squares) == {0, 1}


def test_record_limit_of_none_reads_the_whole_stream() -> None:
    limits = SuiteConfig(max_records_limit=3, max_records_limit_by_stream={"numbers": None})
    runner = TapTestRunner(TapNumbers, {"count": 200}, limits)
    runner.sync_all()
    assert len(runner.records["numbers"]) == 200


def test_record_limit_of_an_unknown_stream_is_rejected() -> None:
    limits = SuiteConfig(max_records_limit_by_stream={"nmubers": 2})
    with pytest.raises(ValueError, match=r"have: nmubers\. It has numbers, squares\."):
        TapTestRunner(TapSquares, {}, limits).sync_all()


def test_tap_runner_clears_messages_before_each_run() -> None:
    runner = TapTestRunner(TapNumbers, {"count": 2})
    runner.sync_all()
    runner.sync_all()
    assert len(runner.records["numbers"]) == 2
    assert len(runner.raw_messages) < 10


def test_messages_of_other_types_are_kept_as_raw_messages() -> None:
    class Whole(Numbers):
        replication_key = None

    class TapWhole(TapNumbers):
        def discover_streams(self):
            return [Whole(self)]

    runner = TapTestRunner(TapWhole, {"count": 1, "emit_activate_version_messages": True})
    runner.sync_all()
    kinds = {message["type"] for message in runner.raw_messages}
    assert kinds == {"SCHEMA", "ACTIVATE_VERSION", "RECORD", "STATE"}
    assert len(runner.record_messages) == 1


def test_tap_runner_runs_discovery_and_connection_test(capsys: pytest.CaptureFixture[str]) -> None:
    runner = TapTestRunner(TapNumbers, {"count": 2})
    assert json.loads(runner.run_discovery())["streams"][0]["tap_stream_id"] == "numbers"
    assert runner.run_connection_test()
    assert "RECORD" in capsys.readouterr().out


def test_plugin_is_created_with_the_runners_arguments_or_overrides() -> None:
    runner = TapTestRunner(TapNumbers, {"count": 2}, state={"bookmarks": {"numbers": {"a": 1}}})
    assert runner.new_tap().state == {"bookmarks": {"numbers": {"a": 1}}}
    assert runner.create({"state": {}}).state == {}


def test_log_of_a_failing_tap_is_written_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    class Failing(Numbers):
        def get_records(self, context):
            print("half way", file=sys.stderr)
            raise RuntimeError("gone")
            yield

    class TapFailing(TapNumbers):
        def discover_streams(self):
            return [Failing(self)]

    with pytest.raises(RuntimeError, match="gone"):
        TapTestRunner(TapFailing).sync_all()
    assert "half way\n" in capsys.readouterr().err


# Targets

LINES = [
    {"type": "SCHEMA", "stream": "s", "schema": Numbers.schema, "key_properties": []},
    {"type": "RECORD", "stream": "s", "record": {"n": 1}},
    {"type": "STATE", "value": {"bookmarks": {"s": 1}}},
]
TEXT = "".join(json.dumps(line) + "\n" for line in LINES)


def test_target_runner_reads_an_input_file(tmp_path: Path) -> None:
    path = tmp_path / "messages.singer"
    path.write_text(TEXT)
    runner = TargetTestRunner(TargetKept, input_filepath=path)
    runner.sync_all()
    assert TargetKept.kept == [{"n": 1}]
    assert runner.state_messages == [{"bookmarks": {"s": 1}}]
    assert runner.stdout == '{"bookmarks": {"s": 1}}\n', "a state leaves as it came"
    assert runner.stderr is not None
    runner.sync_all()
    assert TargetKept.kept == [{"n": 1}, {"n": 1}], "the file is opened anew"


@pytest.mark.parametrize("input_kind", ["input_io", "target_input"])
def test_target_runner_reads_a_text_stream(input_kind: str) -> None:
    text = io.StringIO(TEXT)
    if input_kind == "input_io":
        runner = TargetTestRunner(TargetKept, input_io=text)
    else:
        runner = TargetTestRunner(TargetKept)
        runner.target_input = text
    runner.sync_all()
    assert TargetKept.kept == [{"n": 1}]
    assert not text.closed, "who opened it closes it"
    assert runner.target_input is text


def test_target_runner_without_input_does_nothing() -> None:
    runner = TargetTestRunner(TargetKept)
    assert runner.target_input is None
    runner.sync_all(finalize=False)
    assert runner.state_messages == []


# Functions for custom tests


def test_tap_sync_test_returns_stdout_and_stderr() -> None:
    out, err = tap_sync_test(TapNumbers(config={"count": 3}))
    lines = [json.loads(line) for line in out]
    assert [line["record"]["n"] for line in lines if line["type"] == "RECORD"] == [0, 1, 2]
    assert isinstance(err.read(), str)


def test_target_sync_test_loads_the_input_and_returns_the_state() -> None:
    out, _ = target_sync_test(TargetKept(), io.StringIO(TEXT), finalize=False)
    assert TargetKept.kept == [{"n": 1}]
    out, _ = target_sync_test(TargetKept(), io.StringIO(TEXT))
    assert json.loads(out.read()) == {"bookmarks": {"s": 1}}
    out, _ = target_sync_test(TargetKept(), None)
    assert out.read() == ""


def test_tap_to_target_sync_test_loads_the_taps_records() -> None:
    tap_out, _, target_out, _ = tap_to_target_sync_test(
        TapNumbers(config={"count": 3}), TargetKept()
    )
    assert TargetKept.kept == [{"n": n} for n in range(3)]
    last = [json.loads(line) for line in tap_out][-1]
    assert json.loads(target_out.read().splitlines()[-1]) == last["value"]


def test_sync_end_to_end_applies_the_mappers() -> None:
    class Doubling:
        """A minimal inline mapper: `listen` reads lines and prints messages."""

        def listen(self, lines):
            for line in lines:
                message = json.loads(line)
                if message["type"] == "RECORD":
                    message["record"]["n"] *= 2
                print(json.dumps(message))

    sync_end_to_end(TapNumbers(config={"count": 3}), TargetKept(), Doubling(), Doubling())
    assert TargetKept.kept == [{"n": 0}, {"n": 4}, {"n": 8}]


@pytest.mark.parametrize("select_all", [True, False])
def test_tap_catalog_selects_all_streams_on_request(select_all: bool) -> None:
    class Aside(Numbers):
        selected_by_default = False

    class TapAside(TapNumbers):
        def discover_streams(self):
            return [Aside(self)]

    catalog = testing._get_tap_catalog(TapAside, {}, select_all=select_all)
    [stream] = catalog["streams"]
    [root] = [entry["metadata"] for entry in stream["metadata"] if not entry["breadcrumb"]]
    assert bool(root.get("selected")) is select_all


def test_deprecated_standard_tests_are_six_functions() -> None:
    tests = get_standard_tap_tests(TapSquares, {"count": 1})
    assert [test.__name__ for test in tests] == [
        "_test_cli_prints",
        "_test_discovery",
        "_test_stream_connections",
        "_test_pkeys_in_schema",
        "_test_state_partitioning_keys_in_schema",
        "_test_replication_keys_in_schema",
    ]
    for test in tests:
        test()


def test_deprecated_names_work_and_name_their_replacement() -> None:
    with pytest.warns(DeprecationWarning, match="use get_tap_test_class"):
        assert testing.get_standard_tap_tests is get_standard_tap_tests
    from tap_core.testing import suites

    with pytest.warns(DeprecationWarning, match="SingerTestSuite"):
        assert suites.TestSuite is SingerTestSuite
    for module in (testing, suites):
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = module.nothing


# Templates and the class


def test_custom_suites_argument_is_not_changed() -> None:
    suites: list[SingerTestSuite] = []
    get_tap_test_class(TapNumbers, custom_suites=suites)
    assert suites == []


def test_suite_of_another_plugin_kind_adds_no_tests() -> None:
    suite = SingerTestSuite("target", [TestTemplate])
    test_class = get_tap_test_class(
        TapNumbers,
        custom_suites=[suite],
        include_tap_tests=False,
        include_stream_tests=False,
        include_stream_attribute_tests=False,
    )
    assert [name for name in vars(test_class) if name.startswith("test")] == []
    assert issubclass(test_class, BaseTestClass)


def test_property_without_a_type_gets_no_attribute_tests() -> None:
    test_class = get_tap_test_class(TapNumbers)
    ids = {param.id for params in test_class.params.values() for param in params}
    assert ids == {"numbers", "numbers.n"}


def test_generated_test_method_can_be_called_directly() -> None:
    test_class = get_tap_test_class(TapNumbers, config={"count": 2})
    runner = TapTestRunner(TapNumbers, {"count": 2})
    runner.sync_all()
    stream = runner.new_tap().streams["numbers"]
    config = SuiteConfig()
    test_class.test_tap_cli_prints(config, None, runner)
    test_class().test_tap_stream_primary_keys(config, None, runner, stream)
    for name in ("n", "any"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            test_class.test_tap_stream_attribute_is_integer(
                config=config, resource=None, runner=runner, stream=stream, attribute_name=name
            )
        assert bool(caught) is (name == "any")


def test_progress_markers_in_the_final_state_fail() -> None:
    runner = TapTestRunner(TapNumbers, {"count": 1})
    for last in ({"type": "STATE", "value": {"progress_markers": {}}}, {"progress_markers": 1}):
        runner.state_messages = [last]
        with pytest.raises(AssertionError, match=r"^Final state has in-progress markers\. It is"):
            TapValidFinalStateTest().run(SuiteConfig(), None, runner)
    runner.state_messages = [{"type": "STATE", "value": None}]
    TapValidFinalStateTest().run(SuiteConfig(), None, runner)


def test_template_without_a_name_is_rejected() -> None:
    runner = TapTestRunner(TapNumbers)

    class Nameless(TapTestTemplate):
        def test(self):
            raise AssertionError

    with pytest.raises(ValueError, match="Nameless must define `name`"):
        Nameless().run(SuiteConfig(), None, runner)
    with pytest.raises(NotImplementedError):
        _ = TestTemplate().id
    with pytest.raises(NotImplementedError, match="must define `evaluate`"):
        AttributeTestTemplate.evaluate(None, "n", {})


def test_template_tears_down_after_failures_and_optional_steps() -> None:
    steps = []

    class Steps(TapTestTemplate):
        name = "steps"

        def setup(self):
            steps.append("setup")
            raise NotImplementedError

        def validate(self):
            steps.append("validate")
            raise AssertionError("not there")

        def teardown(self):
            steps.append("teardown")

    runner = TapTestRunner(TapNumbers, {"count": 1})
    with pytest.raises(AssertionError, match="not there"):
        Steps().run(SuiteConfig(), None, runner)
    assert steps == ["setup", "validate", "teardown"]
    assert runner.records["numbers"], "by default a test runs the plugin"


def test_template_ids_contain_stream_and_attribute_names() -> None:
    runner = TapTestRunner(TapNumbers)
    stream = runner.new_tap().streams["numbers"]

    class Named(StreamTestTemplate):
        name = "named"

        def test(self):
            assert self.id == "numbers__named"
            assert self.required_kwargs == ["stream"]

    Named().run(SuiteConfig(), None, runner, stream)
    dates = AttributeIsDateTimeTest()
    dates.stream, dates.attribute_name = stream, "n"
    assert dates.id == "numbers__n__is_datetime"
