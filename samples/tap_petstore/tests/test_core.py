"""The SDK's standard tests of this tap. Run them with `pytest samples/tap_petstore/tests`."""

from __future__ import annotations

from tap_core.testing import get_tap_test_class
from tap_petstore.service import KEY, start
from tap_petstore.tap import TapPetstore

__all__ = ["TestTapPetstore"]

TestTapPetstore = get_tap_test_class(TapPetstore, config={"api_url": start(), "api_key": KEY})
