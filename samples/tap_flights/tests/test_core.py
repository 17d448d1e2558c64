"""The tests that every tap should pass: `pytest samples/tap_flights/tests` runs them."""

from __future__ import annotations

from tap_core.testing import SuiteConfig, get_tap_test_class
from tap_flights.tap import TapFlights

__all__ = ["TestTapFlights"]

TestTapFlights = get_tap_test_class(
    TapFlights,
    config={"until": "2013-01-02T00:00:00Z"},
    suite_config=SuiteConfig(
        max_records_limit=40,
        max_records_limit_by_stream={
            "airports": None,  # the first of New York's comes late, and is the parent of weather
            "planes": 1500,  # few have a known speed, and a test needs a value
        },
    ),
)
