"""A valid target and faulty ones, and the test classes generated from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tap_core.sinks import BatchSink
from tap_core.target_base import Target
from tap_core.testing import SuiteConfig, get_target_test_class
from tap_core.testing.suites import SingerTestSuite
from tap_core.testing.target_tests import TargetDuplicateRecords
from tap_core.testing.templates import TargetFileTestTemplate

LOADED: dict[str, list[dict]] = {}


class SoundSink(BatchSink):
    max_size = 2

    def process_batch(self, context):
        LOADED.setdefault(self.stream_name, []).extend(context["records"])


class TargetSound(Target):
    name = "target-sound"
    default_sink_class = SoundSink
    config_jsonschema = {"type": "object", "properties": {"place": {"type": "string"}}}


class PickySink(SoundSink):
    def process_batch(self, context):
        if any(":" in name for record in context["records"] for name in record.get("d", {})):
            raise ValueError("no colons, please")
        super().process_batch(context)


class TargetPicky(TargetSound):
    default_sink_class = PickySink


class DeafSink(SoundSink):
    def _singer_validate_message(self, record):
        pass


class TargetDeaf(TargetSound):
    default_sink_class = DeafSink


TestSound = get_target_test_class(TargetSound, config={"place": "here"})
TestPicky = get_target_test_class(TargetPicky)
TestDeaf = get_target_test_class(TargetDeaf)


class TwiceLoaded(TargetDuplicateRecords):
    name = "duplicate_records"

    def setup(self):
        LOADED.clear()

    def validate(self):
        assert len(LOADED["test_duplicate_records"]) == 5

    def teardown(self):
        LOADED.clear()


class OwnFile(TargetFileTestTemplate):
    name = "own_file"

    @property
    def singer_filepath(self):
        return Path(__file__).parent / "own.singer"

    def validate(self):
        assert self.config.max_records_limit == 7
        assert self.resource == "a table"
        assert self.target.config["place"] == "there"
        assert self.runner.state_messages[-1] == {"x": 1}


class LacksItsFile(TargetFileTestTemplate):
    name = "lacks_its_file"


OWN = SingerTestSuite(kind="target", tests=[TwiceLoaded, OwnFile, LacksItsFile])
_Own = get_target_test_class(
    TargetSound,
    config={"place": "there"},
    custom_suites=[OWN],
    include_target_tests=False,
    suite_config=SuiteConfig(7),
)


class TestOwn(_Own):
    @pytest.fixture
    def resource(self):
        return "a table"
