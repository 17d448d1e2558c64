"""Tests that every tap and target should pass, made from its class, for an author's own tests.

Rules of the room: pytest may be imported here, and nowhere else. A tap never imports this
room. Names of classes, tests and fixtures are singer_sdk's (version 0.54), because authors
select tests by name and override fixtures.
"""

from __future__ import annotations

from typing import Any

from tap_core.testing.config import SuiteConfig
from tap_core.testing.factory import get_tap_test_class, get_target_test_class
from tap_core.testing.legacy import (
    _get_tap_catalog as _get_tap_catalog,
)
from tap_core.testing.legacy import (
    _select_all as _select_all,
)
from tap_core.testing.legacy import (
    sync_end_to_end,
    tap_sync_test,
    tap_to_target_sync_test,
    target_sync_test,
)
from tap_core.testing.runners import SingerTestRunner, TapTestRunner, TargetTestRunner

__all__ = [
    "SingerTestRunner",
    "SuiteConfig",
    "TapTestRunner",
    "TargetTestRunner",
    "get_tap_test_class",
    "get_target_test_class",
    "sync_end_to_end",
    "tap_sync_test",
    "tap_to_target_sync_test",
    "target_sync_test",
]


def __getattr__(name: str) -> Any:
    """Give what is deprecated, with a warning."""
    if name in {"get_standard_tap_tests", "get_standard_target_tests"}:
        import warnings

        from tap_core.testing import legacy

        newer = name.replace("standard_", "").replace("tests", "test_class")
        warnings.warn(
            f"{name} is deprecated: use {newer}, which tests more.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(legacy, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
