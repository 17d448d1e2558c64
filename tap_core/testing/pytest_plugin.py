"""A pytest plugin that is not needed: generated classes carry their own hook.

Rules of the room: singer_sdk registers a module of this name with pytest, which then
imports the whole SDK in every test run of every project where it is installed. Here
`BaseTestClass` has the hook, so nothing is registered and other projects' runs are as
fast as before. The module is here for ``-p`` and for a class whose author wrote a
``pytest_generate_tests`` of their own over it.
"""

from __future__ import annotations

import pytest

from tap_core.testing.factory import BaseTestClass, parametrize

__all__ = ["pytest_generate_tests"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the tests of a generated class their streams, unless the class does so itself."""
    cls = metafunc.cls
    if cls is None or not issubclass(cls, BaseTestClass):
        return
    if cls.pytest_generate_tests is not BaseTestClass.pytest_generate_tests:
        parametrize(metafunc, cls)
