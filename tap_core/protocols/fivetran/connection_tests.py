"""The connection tests of a tap, run by name.

Rules of the room: a test that fails is an answer and no accident: whatever it raises is told in
words. A test answers soon: little time goes into trying again. Source: Fivetran's Partner SDK
development guide, "Test".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Final, Protocol

from tap_core.http.fail_fast import fail_fast
from tap_core.protocols.fivetran.error_messages import format_error

__all__ = ["NAME_LIMIT", "TestableTap", "run_test", "unknown_test"]

NAME_LIMIT: Final = 100
"""Letters that are told of the name of a test: a caller may send any."""


class TestableTap(Protocol):
    """A tap; its test ``x`` is its method ``check_x``."""

    connection_tests: ClassVar[Mapping[str, str]]


def run_test(tap: TestableTap, name: str, hide: Callable[[str], str] = str) -> str | None:
    """Run a test of a tap; return why it failed, None where it did not.

    ``hide`` takes secrets out of a text.
    """
    if name not in tap.connection_tests:
        return unknown_test(tap.connection_tests, name)
    check = getattr(tap, f"check_{name}", None)
    if not callable(check):
        return f"The test '{name}' cannot be run: the connector lacks the method check_{name}."
    try:
        with fail_fast():
            check()
    except Exception as error:  # noqa: BLE001  whatever it is, the test has failed
        return format_error(error, hide)
    return None


def unknown_test(tests: Mapping[str, str], name: str) -> str:
    """Say that there is no such test, and which there are."""
    known = ", ".join(map(repr, tests)) or "none"
    return f"There is no test {name[:NAME_LIMIT]!r}. Known are: {known}."
