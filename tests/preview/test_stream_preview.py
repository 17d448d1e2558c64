"""`tap-x test-stream`: requests, first records and schema of a stream, from an API on loopback."""

from __future__ import annotations

import json
import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest
import requests

from tap_core import typing as th
from tap_core.authenticators import BearerTokenAuthenticator
from tap_core.incremental.cursor import DatetimeBasedCursor
from tap_core.preview.tables import print_table
from tap_core.streams import RESTStream
from tap_core.tap_base import Tap
from tests.http.server import ReceivedRequest, Reply, Server, page

TOKEN = "t0ken-of-the-api"


class Api(RESTStream):
    records_jsonpath = "$.data[*]"
    next_page_token_jsonpath = "$.next"
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType), th.Property("gone", th.BooleanType)
    ).to_dict()

    @property
    def url_base(self) -> str:
        return self.config["url"]

    @property
    def authenticator(self) -> BearerTokenAuthenticator:
        return BearerTokenAuthenticator(token=self.config["token"])

    def get_url_params(self, context, next_page_token):
        return {"page": next_page_token, "api_key": "k-123456", "zone": self.config["token"]}


class Users(Api):
    name = "users"
    path = "/users"

    def post_process(self, row, context=None):
        return None if row.get("hidden") else row

    def get_child_context(self, record, context):
        return {"user": record["id"]}


class Posts(Api):
    name = "posts"
    path = "/users/{user}/posts"
    parent_stream_type = Users


class Days(Api):
    """Records by day, filtered by the client."""

    name = "days"
    path = "/days"
    schema = th.PropertiesList(th.Property("at", th.DateType)).to_dict()
    replication_key = "at"
    incremental_sync = DatetimeBasedCursor(
        cursor_field="at",
        datetime_format="%Y-%m-%d",
        start_datetime="2024-01-01",
        end_datetime="2024-01-09",
        step="P3D",
        cursor_granularity="P1D",
        is_client_side_incremental=True,
    )

    def get_url_params(self, context, next_page_token):
        return {"from": self.stream_interval.start_time}


class Broken(Api):
    name = "broken"
    path = "/broken"

    def parse_response(self, response):
        yield {"id": response.json()["no such key"]}


class Direct(Api):
    """Sends a request with the requests package itself."""

    name = "direct"
    path = "/"

    def get_records(self, context):
        yield from requests.get(f"{self.url_base}/old", timeout=10).json()["data"]


class TapApi(Tap):
    name = "tap-api"
    config_jsonschema = th.PropertiesList(
        th.Property("url", th.StringType, required=True),
        th.Property("token", th.StringType, secret=True),
    ).to_dict()

    def discover_streams(self):
        return [kind(self) for kind in (Users, Posts, Days, Broken, Direct)]


@pytest.fixture
def show(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Run the command and return its exit code, standard output and standard error."""

    def _show(*args: str, **settings: Any) -> tuple[int, str, str]:
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"url": server.url, "token": TOKEN, **settings}))
        arguments = ["test-stream", *args, "--config", str(config)]
        try:
            code = TapApi.cli(arguments, standalone_mode=False)
        except Exception as error:  # noqa: BLE001  what a process does with an uncaught error
            sys.excepthook(type(error), error, error.__traceback__)
            code = 1
        output = capsys.readouterr()
        return code or 0, output.out.replace(server.url, "http://api"), output.err

    return _show


def paths(server: Server) -> list[str]:
    return [request.path for request in server.requests]


def test_requests_records_and_schema_are_shown(server: Server, show):
    server.answers(page({"id": 1, "name": "Ada"}, {"id": None, "name": "Zoë"}))
    code, output, _ = show("users")
    assert code == 0
    assert output == (
        "GET http://api/users?api_key=***&zone=***: 200\n"
        "\n"
        "2 records of stream 'users', which has no more\n"
        "property  record 1  record 2\n"
        "id        1         null\n"
        "name      Ada       Zoë\n"
        "\n"
        "property  found          declared       difference\n"
        "id        integer, null  integer, null\n"
        "gone                     boolean, null  never seen\n"
        "name      string                        not in the schema\n"
        "\n"
        "2 differences between these records and the schema.\n"
    )


def test_no_more_pages_are_requested_than_the_records_need(server: Server, show):
    server.answers(page({"id": 1}, {"id": 2}, next=2), page({"id": 3}, {"id": 4}, next=3))
    assert "2 records of stream 'users'\n" in show("users", "--limit", "2")[1]
    assert len(server.requests) == 1
    server.requests.clear()
    server.answers(page({"id": 1}, {"id": 2}, next=2), page({"id": 3}, {"id": 4}, next=3))
    assert "3 records of stream 'users'\n" in show("users", "--limit", "3")[1]
    assert len(server.requests) == 2


def test_dropped_records_are_not_counted(server: Server, show):
    server.answers(page({"id": 1, "hidden": True}, {"id": 2}, next=2), page({"id": 3}))
    _, output, _ = show("users", "--limit", "2")
    assert "hidden" not in output
    assert len(server.requests) == 2


def test_child_stream_is_read_from_the_first_records_of_its_parent(server: Server, show):
    def answer(request: ReceivedRequest) -> Reply:
        return page({"id": 7}) if "posts" in request.path else page({"id": 1}, {"id": 2}, {"id": 3})

    server.answers_by(answer)
    _, output, _ = show("posts", "--limit", "2")
    assert paths(server) == ["/users", "/users/1/posts", "/users/2/posts"]
    assert "user      1         2\n" in output  # from the context


def test_time_windows_are_read_until_there_are_enough_records(server: Server, show):
    """The filter of the cursor applies; no state and no other message is written."""

    def answer(request: ReceivedRequest) -> Reply:
        start = request.query["from"][0]
        records = {"2024-01-04": [{"at": "2023-12-31"}, {"at": "2024-01-05"}]}
        return page(*records.get(start, []))

    server.answers_by(answer)
    _, output, _ = show("days", "--limit", "1")
    assert [request.query["from"] for request in server.requests] == [
        ["2024-01-01"],
        ["2024-01-04"],
    ]
    assert "at        2024-01-05\n" in output
    assert "2023-12-31" not in output
    assert '"type"' not in output


def test_redirects_and_requests_of_an_authors_own_are_shown(server: Server, show):
    def answer(request: ReceivedRequest) -> Reply:
        if request.path == "/old":
            return Reply(status=302, headers={"Location": "/new"})
        return page({"id": 1})

    server.answers_by(answer)
    _, output, _ = show("direct")
    assert output.startswith("GET http://api/old: 302\nGET http://api/new: 200\n")


def test_stream_without_records_is_not_compared(server: Server, show):
    server.answers(page())
    code, output, _ = show("users")
    assert code == 0
    assert output.endswith("\n0 records of stream 'users', which has no more\n")


def test_refused_credentials_are_one_error_without_a_traceback(server: Server, show):
    server.answers(Reply({"error": f"{TOKEN} is unknown"}, status=401))
    code, output, errors = show("users")
    assert code == 1
    assert output == "GET http://api/users?api_key=***&zone=***: 401\n"
    assert "The source refuses the credentials: check those in the configuration." in errors
    assert "Traceback" not in errors
    assert TOKEN not in errors + output
    assert "k-123456" not in errors + output


def test_unreachable_host_and_unusable_url_are_errors_without_a_traceback(server: Server, show):
    code, output, errors = show("users", url="http://127.0.0.1:1")
    assert code == 1
    assert "/users?api_key=***&zone=***: no response\n" in output
    assert "Traceback" not in errors
    code, output, errors = show("users", url="api")
    assert (code, output) == (1, "")
    assert "Invalid URL" in errors
    assert "Traceback" not in errors


def test_unknown_stream_is_an_error_with_a_similar_name(server: Server, show):
    code, output, errors = show("user")
    assert (code, output) == (1, "")
    assert "The tap has no stream 'user'. Did you mean 'users'?" in errors
    code, _, errors = show("invoices")
    assert "has no stream 'invoices'. Its streams: broken, days, direct, posts, users." in errors
    assert server.requests == []


def test_invalid_settings_are_an_error(server: Server, show):
    code, output, errors = show("users", url=5)
    assert (code, output) == (1, "")
    assert "Config validation failed" in errors


def test_error_of_the_taps_code_is_shown_with_its_traceback(server: Server, show):
    server.answers(page({"id": 1}))
    code, _, errors = show("broken")
    assert code == 1
    assert "Traceback" in errors
    assert "no such key" in errors


def test_record_that_is_no_dict_is_an_error_without_a_traceback(server: Server, show):
    server.answers(Reply({"data": [["a"]]}))
    code, _, errors = show("direct")
    assert code == 1
    assert "a record must be a dict, but the stream returned a value of type 'list'" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("args", [("--limit", "0"), ("--limit", "many"), ("--unknown",)])
def test_invalid_options_end_with_exit_code_2(args: tuple[str, ...]):
    with pytest.raises(SystemExit) as caught:
        TapApi.cli(["test-stream", "users", *args])
    assert caught.value.code == 2


def test_help_names_stream_and_options(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        TapApi.cli(["test-stream", "--help"], prog_name="tap-api")
    assert caught.value.code == 0
    output = capsys.readouterr().out
    assert "Usage: tap-api test-stream [OPTIONS]" in output
    assert "STREAM" in output
    assert "--config" in output
    assert "--limit" in output


def test_cells_are_one_short_line(capsys: pytest.CaptureFixture[str]):
    print_table(["a", "b"], [["x\ny\x1b[2J", "z" * 50]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == f"x\\ny\\x1b[2J  {'z' * 39}…"


def test_table_is_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        print_table(["id", "name"], [["1", "[bold]Ada"]])
        terminal.flush()
        output = os.read(reader, 10_000).decode()
    os.close(reader)
    assert "│ 1  │ [bold]Ada │" in output
