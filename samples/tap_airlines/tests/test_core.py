"""The SDK's standard tests of this tap. Run them with `pytest samples/tap_airlines/tests`."""

from __future__ import annotations

from tap_airlines.service import API, TOKEN, start
from tap_airlines.tap import TapAirlines
from tap_core.testing import SuiteConfig, get_tap_test_class

__all__ = ["TestTapAirlines"]

TestTapAirlines = get_tap_test_class(
    TapAirlines,
    config={"api_url": start(API()), "token": TOKEN},
    suite_config=SuiteConfig(max_records_limit=100),
)
