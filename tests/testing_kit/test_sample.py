"""The sample tap passes the standard tests, run as its author runs them."""

from __future__ import annotations

from pathlib import Path

from tests.testing_kit.running import run_pytest

ROOT = Path(__file__).resolve().parents[2]


def test_sample_tap_passes_all_tests_without_a_warning(tmp_path: Path) -> None:
    source = (ROOT / "samples" / "tap_flights" / "tests" / "test_core.py").read_text("utf-8")
    run = run_pytest(tmp_path, source)
    outcomes = run.get_outcomes("TestTapFlights")
    assert set(outcomes.values()) == {"passed"}
    assert run.warnings == []
    assert "test_tap_stream_record_matches_stream_schema[weather]" in outcomes
    assert "test_tap_stream_attribute_is_integer[planes.speed]" in outcomes
    assert len(outcomes) > 50
