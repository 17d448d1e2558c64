"""Optional pytest plugin for test classes that override ``pytest_generate_tests``.

Load it with ``pytest -p tap_core.testing.pytest_plugin``. Other generated test classes do not need
it, because `BaseTestClass` contains the hook. The plugin is not registered as an entry point,
because otherwise every pytest run in the environment would import the whole SDK.
"""

from __future__ import annotations

import pytest

from tap_core.testing.factory import BaseTestClass, parametrize

__all__ = ["pytest_generate_tests"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize the standard tests of a class whose author has overridden this pytest hook.

    Without this plugin, the standard tests of such a class would get no arguments.
    """
    cls = metafunc.cls
    if cls is None or not issubclass(cls, BaseTestClass):
        return
    if cls.pytest_generate_tests is not BaseTestClass.pytest_generate_tests:
        parametrize(metafunc, cls)
