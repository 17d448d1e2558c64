"""Tests generated from a target class: their names and outcomes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tap_core import testing
from tap_core.testing import target_tests
from tap_core.testing.suites import target_tests as suite
from tests.peers import missing_reason, peer_python
from tests.testing_kit.running import Run, run_pytest

MESSAGES = Path(testing.__file__).parent / "target_test_streams"
OWN_FILE = [
    {"type": "SCHEMA", "stream": "a", "schema": {"properties": {"x": {"type": "integer"}}}},
    {"type": "RECORD", "stream": "a", "record": {"x": 1}},
    {"type": "STATE", "value": {"x": 1}},
]


def run_targets(folder: Path, sdk: str = "tap_core", python: Path | None = None) -> Run:
    (folder / "own.singer").write_text("".join(json.dumps(message) + "\n" for message in OWN_FILE))
    source = (Path(__file__).parent / "faulty_targets.py").read_text("utf-8")
    source = source.replace("tap_core", sdk)
    return run_pytest(folder, source, **({"python": python} if python else {}))


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_targets(tmp_path_factory.mktemp("targets"))


def test_valid_target_passes_every_test(targets: Run) -> None:
    assert len(targets.get_outcomes("TestSound")) == len(suite.tests) == 16
    assert targets.bad("TestSound") == {}


def test_target_that_rejects_special_characters_fails_that_test(targets: Run) -> None:
    assert targets.bad("TestPicky") == {"test_target_special_chars_in_attributes": "failed"}


def test_target_that_accepts_missing_keys_fails_that_test(targets: Run) -> None:
    assert targets.bad("TestDeaf") == {"test_target_record_missing_key_property": "failed"}


def test_custom_suites_files_and_fixtures_are_used(targets: Run) -> None:
    assert targets.get_outcomes("TestOwn") == {
        "test_target_duplicate_records": "passed",
        "test_target_own_file": "passed",
        "test_target_lacks_its_file": "failed",
    }
    assert "must contain the test's messages" in targets.output


@pytest.mark.thorough
@pytest.mark.peer
@pytest.mark.skipif(peer_python("singer_sdk") is None, reason=missing_reason("singer_sdk"))
def test_target_tests_and_outcomes_are_those_of_singer_sdk(targets: Run, tmp_path: Path) -> None:
    theirs = run_targets(tmp_path, "singer_sdk", peer_python("singer_sdk"))

    assert theirs.collected
    assert targets.collected == [name for name in theirs.collected if "TestTemplate" not in name]
    assert targets.outcomes == {name: theirs.outcomes[name] for name in targets.outcomes}


@pytest.mark.parametrize(
    "name", [name for name in target_tests.__all__ if name != "TargetCliPrintsTest"]
)
def test_each_target_test_has_an_input_file_of_messages(name: str) -> None:
    path = getattr(target_tests, name)().singer_filepath

    messages = [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    assert {message["type"] for message in messages} <= {"SCHEMA", "RECORD", "STATE"}
    assert any(message["type"] == "SCHEMA" for message in messages)


def test_multiple_state_messages_test_requires_states_in_order(tmp_path: Path) -> None:
    source = """
from tap_core.sinks import RecordSink
from tap_core.target_base import Target
from tap_core.testing import get_target_test_class
from tap_core.testing.suites import SingerTestSuite
from tap_core.testing.target_tests import TargetMultipleStateMessages
from tap_core.testing.target_tests import TargetRecordMissingRequiredProperty


class Sink(RecordSink):
    def process_record(self, record, context):
        pass


class TargetQuick(Target):
    name = "target-quick"
    default_sink_class = Sink


class TargetMute(TargetQuick):
    def _write_state_message(self, state):
        pass


OWN = [SingerTestSuite("target", [TargetMultipleStateMessages])]
TestQuick = get_target_test_class(TargetQuick, custom_suites=OWN, include_target_tests=False)
TestMute = get_target_test_class(TargetMute, custom_suites=OWN, include_target_tests=False)
"""
    run = run_pytest(tmp_path, source)

    assert run.get_outcomes("TestQuick") == {"test_target_multiple_state_messages": "passed"}
    assert run.get_outcomes("TestMute") == {"test_target_multiple_state_messages": "failed"}
