"""One test module run by singer_sdk and by tap_core: the same tests and outcomes.

Intended differences are listed with their reasons.
"""

from __future__ import annotations

import pytest

from tests.peers import missing_reason, peer_python
from tests.testing_kit.running import Run, faulty_taps, run_pytest

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(peer_python("singer_sdk") is None, reason=missing_reason("singer_sdk")),
]

NO_TEST = "TestTemplate::test"
"""singer_sdk's template, which pytest collects as a test if a module imports it."""

DIFFERENT = {
    # singer_sdk keeps the values of the first property of a test and reuses them for every later
    # property: it tests `age` with the values of `id`.
    "TestWrongType::test_tap_stream_attribute_is_integer[things.age]": ("failed", "passed"),
}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Run:
    python = peer_python("singer_sdk")
    assert python is not None
    folder = tmp_path_factory.mktemp("theirs")
    return run_pytest(folder, faulty_taps("singer_sdk"), python=python)


@pytest.mark.thorough
def test_same_tests_as_singer_sdk_are_collected_in_the_same_order(run: Run, theirs: Run) -> None:
    assert len(theirs.collected) > 400
    assert run.collected == [name for name in theirs.collected if name != NO_TEST]


def test_outcomes_are_those_of_singer_sdk_except_known_differences(run: Run, theirs: Run) -> None:
    different = {
        name: (run.outcomes[name], theirs.outcomes[name])
        for name in theirs.outcomes.keys() - {NO_TEST}
        if run.outcomes[name] != theirs.outcomes[name]
    }
    assert different == DIFFERENT


def test_warnings_of_singer_sdk_are_given_as_well(run: Run, theirs: Run) -> None:
    def warned(run: Run) -> set[tuple[str, str]]:
        return {(name, text[:30]) for name, kind, text in run.warnings if kind == "UserWarning"}

    assert warned(theirs) - warned(run) == set()
    additional = {name for name, _ in warned(run) - warned(theirs)}
    assert additional == {
        # The second property of the stream, as above.
        "TestEmpty::test_tap_stream_attribute_is_datetime[things.day]",
        # singer_sdk compares generators, which are never equal: it finds no key twice.
        "TestKeyTwice::test_tap_stream_primary_keys[things]",
    }


def test_failure_messages_begin_as_those_of_singer_sdk(run: Run, theirs: Run) -> None:
    texts = [
        "Record does not match stream schema: ",
        "No records returned in stream 'things'.",
        "Fields in records but not in transformed catalog: (",
        "Schema is not valid: ",
        "Record missing primary key: ",
        "Primary keys contain some key values that are null",
        "Unable to parse value ('yesterday') with datetime parser.",
        "Unable to cast value ('maybe') to boolean type.",
        "Unable to cast value ('1.5') to float type.",
        "Unable to cast value ('{}') to dict type.",
        "Detected null values for attribute ('x')",
        "Coding error in stream 'things': primary_key 'no_key' is missing in schema",
        "No records were available to test",
        "Fields in transformed catalog but not in records: (",
    ]
    assert [text for text in texts if text not in run.output] == []
    assert [text for text in texts if text not in theirs.output] == []
