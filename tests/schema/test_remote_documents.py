"""Remote documents: passwords are sent only to their host, and the size is limited."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from tap_core.http.origins import UntrustedHostError
from tap_core.http.response_limits import ResponseTooLargeError
from tap_core.schema.loading import load_document
from tests.http.certificates import over_tls, write_certificate
from tests.http.server import Reply, Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running_server:
        yield running_server


def test_redirect_to_another_host_sends_no_password(server):
    with serving() as other:
        other.answers(Reply({"a": 1}))
        server.answers(Reply(b"", status=302, headers={"Location": f"{other.url}/b.json"}))
        assert load_document(f"{server.url}/a.json") == {"a": 1}
        assert load_document(server.url.replace("//", "//me:pass-word@") + "/a.json") == {"a": 1}
        assert "Authorization" in server.requests[1].headers
        assert "Authorization" not in other.requests[1].headers


def test_https_document_is_not_redirected_to_http(server, tmp_path, monkeypatch):
    certificate = write_certificate(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    server.answers(Reply({"a": 1}))
    with serving(over_tls(certificate)) as secure:
        secure.answers(Reply({"a": 2}))
        assert load_document(f"{secure.url}/a.json") == {"a": 2}
        secure.answers(Reply(b"", status=302, headers={"Location": f"{server.url}/b.json"}))
        with pytest.raises(UntrustedHostError, match="plain HTTP"):
            load_document(f"{secure.url}/a.json")


def test_decoded_size_of_a_remote_document_is_limited(server):
    body = gzip.compress(b" " * 110_000_000, 1)
    server.answers(Reply(body, headers={"Content-Encoding": "gzip"}))
    with pytest.raises(ResponseTooLargeError):
        load_document(f"{server.url}/a.json")
