"""A token server for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.authenticators.logins import TokenServer
from tests.http.server import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running_server:
        yield running_server


@pytest.fixture
def tokens(server: Server) -> TokenServer:
    return TokenServer(server)
