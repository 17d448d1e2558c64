"""HTTP file systems: requests stay with the origin of the configured address."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace

import pytest

from tap_core.exceptions import FatalAPIError
from tap_core.http.file_systems import keep_to_origin
from tap_core.http.origins import UntrustedHostError

HOME = "https://files.example.com/data"


class Connector:
    async def connect(self, req, traces, timeout):
        return f"connection to {req.url}"


@pytest.fixture
def connect(monkeypatch):
    """Return a function that connects the client of ``HOME``, or of another address, to a URL."""
    client = SimpleNamespace(ClientSession=SimpleNamespace, TCPConnector=Connector)
    monkeypatch.setitem(sys.modules, "aiohttp", client)

    async def run(url, home):
        session = await keep_to_origin(home, {})["get_client"](headers={"X-Api-Key": "k"})
        assert session.headers == {"X-Api-Key": "k"}
        return await session.connector.connect(SimpleNamespace(url=url), traces=[], timeout=1)

    return lambda url, home=HOME: asyncio.run(run(url, home))


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/data/a.csv",
        "http://files.example.com/data/a.csv",
        "https://files.example.com:8443/data/a.csv",
        "http://169.254.169.254/latest/meta-data",
        "http://2852039166/latest/meta-data",
        "https://files.example.com@example.com/a.csv",
        "https:///a.csv",
    ],
)
def test_redirect_to_another_origin_is_refused(connect, caplog, url):
    """SEC8: fsspec sends the configured headers to every host."""
    with pytest.raises(UntrustedHostError, match=r"from https://files\.example\.com to "):
        connect(url)
    assert "nothing was sent there" in caplog.text  # fsspec replaces the error


def test_redirects_within_the_origin_are_followed(connect):
    assert connect("https://files.example.com/data/") == f"connection to {HOME}/"
    assert connect("https://FILES.example.com:443/b")
    assert connect("https://example.com/data", home="http://example.com/data")


def test_other_file_systems_are_not_changed():
    assert keep_to_origin("s3://bucket/a", {"key": "k"}) == {"key": "k"}
    assert keep_to_origin("/data", {}) == {}


def test_address_that_is_no_url_is_refused():
    with pytest.raises(FatalAPIError, match="not a valid URL"):
        keep_to_origin("http://[", {})
