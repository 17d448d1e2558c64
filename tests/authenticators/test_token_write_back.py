"""A tap run as a program writes a replaced refresh token back to its config file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from tests.http.server import Reply, page, serving

ROOT = Path(__file__).parents[2]
TAP = """
from tap_core import RESTStream, Tap
from tap_core.authenticators import OAuthAuthenticator


class Login(OAuthAuthenticator):
    def __init__(self, token, **how):
        super().__init__(**how)
        self._token = token

    @property
    def oauth_request_body(self):
        return {"grant_type": "refresh_token", "refresh_token": self._token}


class Users(RESTStream):
    name = "users"
    path = "/users"
    records_jsonpath = "$.data[*]"
    schema = {"properties": {"id": {"type": "integer"}}}

    @property
    def url_base(self):
        return self.config["url"]

    @property
    def authenticator(self):
        return Login(self.config["refresh_token"], auth_endpoint=self.config["url"] + "/token")


class TapUsers(Tap):
    name = "tap-users"
    config_jsonschema = {"properties": {"url": {"type": "string"}}}

    def discover_streams(self):
        return [Users(self)]


TapUsers.cli()
"""


def api():
    """Return a reply function that accepts the first refresh token once, then the second."""
    good = ["first"]

    def answer(request):
        if request.path != "/token":
            return page({"id": 1})
        (used,) = parse_qs(request.body.decode())["refresh_token"]
        if used != good[-1]:
            return Reply({"error": "invalid_grant"}, 400)
        good.append("second")
        return Reply({"access_token": "t", "expires_in": 3600, "refresh_token": "second"})

    return answer


@pytest.mark.parametrize("files", [1, 2])
def test_refresh_token_is_written_back_only_with_a_single_config_file(
    tmp_path: Path, files: int
) -> None:
    (tmp_path / "tap.py").write_text(TAP)
    with serving() as server:
        server.answers_by(api())
        settings = {"url": server.url, "refresh_token": "first"}
        (tmp_path / "config.json").write_text(json.dumps(settings, indent=3))
        (tmp_path / "more.json").write_text("{}")
        second_config = ["--config", "more.json"] if files > 1 else []
        process = subprocess.run(
            [sys.executable, "tap.py", "--config", "config.json", *second_config],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert process.returncode == 0, process.stderr
    assert '"id":1' in process.stdout
    stored_token = "second" if files == 1 else "first"
    expected = json.dumps({**settings, "refresh_token": stored_token}, indent=3)
    assert (tmp_path / "config.json").read_text() == expected
    assert ("The next run needs the new one" in process.stderr) is (files > 1)
    assert "second" not in process.stderr
