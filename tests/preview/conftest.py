"""A server for each test, and the state of the process that a command changes, restored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http.server import Server, serving
from tests.process_state import restore_process_state as restore_process_state


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started
