"""Optional pytest plugin; generated test classes work without it.

singer_sdk registers a module of this name with pytest, so every test run in the environment
imports the whole SDK. Here `BaseTestClass` contains the hook, and nothing is registered.
Load this module with ``-p`` if a test class overrides ``pytest_generate_tests``.
"""

from __future__ import annotations

import pytest

from tap_core.testing.factory import BaseTestClass, parametrize

__all__ = ["pytest_generate_tests"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize the tests of a generated class that has overridden its own parametrization hook.

    Such a class would otherwise lose the arguments of the standard tests.
    """
    cls = metafunc.cls
    if cls is None or not issubclass(cls, BaseTestClass):
        return
    if cls.pytest_generate_tests is not BaseTestClass.pytest_generate_tests:
        parametrize(metafunc, cls)
