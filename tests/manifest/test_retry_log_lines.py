"""Log lines of retries name the stream and the attempt, also for token requests."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from tests.http.server import ReceivedRequest, Reply, page, serving
from tests.manifest.running import manifest, run, stream

LOGIN = """
authenticator:
  type: OAuthAuthenticator
  token_refresh_endpoint: "{{ config['url'] }}/token"
  grant_type: client_credentials
  client_id: me
  client_secret: top-secret
"""


def test_retries_of_records_and_tokens_name_stream_and_attempt(tmp_path: Path, caplog: Any) -> None:
    requested_paths: list[str] = []

    def answer(request: ReceivedRequest) -> Reply:
        requested_paths.append(request.path)
        if requested_paths.count(request.path) <= 2:
            return Reply(status=503)
        return Reply({"access_token": "t"}) if request.path == "/token" else page({"id": 1})

    caplog.set_level(logging.INFO)
    path = manifest(tmp_path, stream("orders", "/orders", LOGIN))
    with serving() as server:
        server.answers_by(answer)
        assert run(path, server).records("orders") == [{"id": 1}]
    retried = [record.getMessage() for record in caplog.records if "seconds" in record.msg]
    assert len(retried) == 4
    assert all(line.startswith("Stream 'orders': ") for line in retried)
    tokens, records = retried[:2], retried[2:]
    assert [f"after try {n} of" in line for n, line in enumerate(tokens, 1)] == [True, True]
    assert [f"after try {n}, failing" in line for n, line in enumerate(records, 1)] == [True, True]
    assert "Backing off _request" not in caplog.text
