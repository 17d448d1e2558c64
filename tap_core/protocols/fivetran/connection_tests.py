"""Execution of the connection tests of a tap.

A failing test raises no error: any exception becomes the message of the result. Requests are
retried only briefly, so that a test ends soon. Source: Fivetran's Partner SDK development guide,
"Test".
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Final

from tap_core.http.fail_fast import fail_fast
from tap_core.protocols.fivetran.error_messages import format_error
from tap_core.sync.interfaces import SyncTap

__all__ = ["NAME_LIMIT", "run_test"]

NAME_LIMIT: Final = 100
"""Maximum length, in characters, of a test's name in messages. Clients may send any name."""


def run_test(
    tests: Collection[str],
    open_tap: Callable[[], AbstractContextManager[SyncTap]],
    name: str,
    hide: Callable[[str], str] = str,
) -> str | None:
    """Run a connection test of a tap: the test ``NAME`` calls the tap's method ``check_NAME()``.

    Args:
        tests: Names of the tap's tests. A test with another name fails, and no tap is created.
        open_tap: Creates the tap, and closes it at the end of the block.
        name: Name of the test, such as "connection".
        hide: Returns a text with its secrets redacted.

    Returns:
        The reason for a failure, or None if the test succeeded.
    """
    if name not in tests:
        known = ", ".join(map(repr, tests)) or "none"
        return f"There is no test {name[:NAME_LIMIT]!r}. Known are: {known}."
    try:
        with open_tap() as tap, fail_fast():
            check = getattr(tap, f"check_{name}", None)
            if not callable(check):
                return (
                    f"The test '{name}' cannot be run: the connector lacks the method check_{name}."
                )
            check()
    except Exception as error:  # noqa: BLE001  any exception fails the test
        return format_error(error, hide)
    return None
