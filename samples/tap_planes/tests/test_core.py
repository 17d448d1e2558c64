"""The SDK's standard tests of this tap. Run them with `pytest samples/tap_planes/tests`."""

from __future__ import annotations

from tap_core.testing import get_tap_test_class
from tap_planes.service import TOKEN, start
from tap_planes.tap import TapPlanes

__all__ = ["TestTapPlanes"]

TestTapPlanes = get_tap_test_class(TapPlanes, config={"api_url": start(), "token": TOKEN})
