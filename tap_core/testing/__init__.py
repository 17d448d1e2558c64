"""Generated standard tests for taps and targets, for use in an author's test suite.

Only this package of `tap_core` imports pytest, which need not be installed where a tap runs.
Therefore, the code of a tap must not import this package. Names of classes, tests and fixtures are
those of singer_sdk (version 0.54), because authors select tests by name and override fixtures.
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
    """Return a deprecated function of this package, such as `get_standard_tap_tests`.

    The access emits a DeprecationWarning.

    Raises:
        AttributeError: The module has no attribute of this name.
    """
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
