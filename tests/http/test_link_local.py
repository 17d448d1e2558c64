"""No response leads a request to a link-local address or to a cloud's metadata service."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tap_core.http.link_local import is_link_local
from tap_core.http.origins import UntrustedHostError
from tap_core.http.transport import get_document
from tests.http.conftest import Source, Users
from tests.http.server import Reply, Server, page
from tests.manifest.running import manifest, run, stream

METADATA = (
    *("169.254.169.254", "169.254.170.2", "169.254.0.1", "100.100.100.200", "192.0.0.192"),
    *("168.63.129.16", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518"),
    *("169.254.169.254.", "[fe80::1]", "[fd00:ec2::254]", "[fd20:ce::254]", "[::169.254.169.254]"),
    *("[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[fe80::1%25lo]"),
    *("[fd00:c1::a9fe:a9fe]", "[fd00:100::100:200]", "[fd00:a9fe:a9fe::1]", "[fd00:42::42]"),
    "[64:ff9b:1::a9fe:a9fe]",
)
OTHERS = (
    *("127.0.0.1", "10.1.2.3", "192.168.1.1", "172.16.0.1", "100.64.0.1", "8.8.8.8", "[::1]"),
    *(
        "[fd12:3456::1]",
        "[2001:db8::1]",
        "[64:ff9b:1::a00:1]",
        "example.com",
        "169.254.example",
        "",
    ),
    "[::ffff:10.0.0.1]",
)


@pytest.mark.parametrize("host", METADATA)
def test_redirect_to_a_metadata_service_is_refused(server: Server, source: Source, host: str):
    """SEC25: a stream without credentials, over plain HTTP, follows redirects to other hosts."""
    server.answers(Reply(status=302, headers={"Location": f"http://{host}/latest/"}))
    with pytest.raises(UntrustedHostError, match=r"metadata service.*nothing was sent there"):
        source.records()
    assert len(server.requests) == 1


@pytest.mark.parametrize("host", OTHERS)
def test_address_on_another_network_is_not_link_local(host: str):
    assert not is_link_local(host)


@pytest.mark.parametrize("answer", ["169.254.169.254", "fd00:ec2::254"])
def test_redirect_to_a_name_of_a_metadata_service_is_refused(
    server: Server, source: Source, answer: str
):
    """SEC25: a name is resolved before the connection."""
    server.answers(Reply(status=302, headers={"Location": "http://rebound.example/latest/"}))
    with (
        resolving("rebound.example", answer),
        pytest.raises(UntrustedHostError, match=rf"rebound.example \({answer}\)"),
    ):
        source.records()


def test_name_that_changes_its_address_before_the_connection_is_refused(
    server: Server, source: Source
):
    """SEC25: the address of the connection counts, not the one that the name had before."""
    server.answers(Reply(status=302, headers={"Location": named(server)}), page({"id": 1}))
    with (
        patch("tap_core.http.connection_pools.is_link_local", lambda host: host == "127.0.0.1"),
        pytest.raises(UntrustedHostError, match=r"localhost \(127.0.0.1\)"),
    ):
        source.records()
    assert len(server.requests) == 1


@pytest.mark.filterwarnings("ignore:prepare_request is deprecated")
def test_link_to_a_metadata_service_is_refused(server: Server, source: Source):
    """SEC25: the link of the next page, in a stream without credentials."""

    def follow_link(self: Any, context: Any, next_page_token: Any) -> Any:
        request = Users.prepare_request(self, context, None)
        request.url = str(next_page_token or request.url)
        return request

    server.answers(page({"id": 1}, next="http://169.254.169.254/latest/"))
    with pytest.raises(UntrustedHostError, match="metadata service"):
        source.records(prepare_request=follow_link)
    assert len(server.requests) == 1


def test_redirect_of_a_manifests_stream_to_a_metadata_service_is_refused(
    server: Server, tmp_path: Path
):
    """SEC25: the stream of a manifest without an authenticator."""
    server.answers(Reply(status=302, headers={"Location": "http://169.254.169.254/latest/"}))
    with pytest.raises(UntrustedHostError, match="metadata service"):
        run(manifest(tmp_path, stream("users", "/users")), server)


def test_redirect_of_a_document_to_a_metadata_service_is_refused(server: Server):
    """SEC25: a document, such as a schema."""
    server.answers(Reply(status=302, headers={"Location": "http://169.254.169.254/latest/"}))
    with pytest.raises(UntrustedHostError, match="metadata service"):
        get_document(server.url, timeout=5)


def test_redirect_to_a_private_network_is_followed(server: Server, source: Source):
    server.answers(Reply(status=302, headers={"Location": named(server)}), page({"id": 1}))
    assert source.records() == [{"id": 1}]


@pytest.mark.parametrize("allowed", [(), ("link.example",)])
def test_source_at_a_link_local_address_can_be_read(
    server: Server, source: Source, allowed: tuple[str, ...]
):
    """SEC25: the code or the settings of the tap may name such an address."""
    port = server.url.rpartition(":")[2]
    server.answers(page({"id": 1}))
    url = f"http://link.example:{port}"
    if allowed:
        allowed = (f"{allowed[0]}:{port}",)
        server.answers(Reply(status=302, headers={"Location": url}), page({"id": 1}))
        url = server.url
    with (
        resolving("link.example", "127.0.0.1"),
        patch("tap_core.http.connection_pools.is_link_local", lambda _: True),
        patch("tap_core.http.origins.is_link_local", lambda _: True),
    ):
        assert source.records(config={"url": url}, allowed_hosts=allowed) == [{"id": 1}]


def named(server: Server) -> str:
    """Return the URL of a server by another name of this machine."""
    return server.url.replace("127.0.0.1", "localhost") + "/users"


def resolving(name: str, address: str) -> Any:
    """Return a patch of the resolver that gives an address for a name."""
    resolve = socket.getaddrinfo

    def answer(host: Any, *args: Any, **kwargs: Any) -> Any:
        return resolve(address if host == name else host, *args, **kwargs)

    return patch("socket.getaddrinfo", answer)
