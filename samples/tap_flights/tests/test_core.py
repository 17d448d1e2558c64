"""The SDK's standard tests of this tap. Run them with `pytest samples/tap_flights/tests`."""

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
            "airports": None,  # weather needs New York's airports, which are late in the file
            "planes": 1500,  # few planes have a speed, and a test needs at least one value
        },
    ),
)
