"""A tap as a gRPC server in a separate process, called by a client."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from tap_core.protocols.fivetran.enums import TextField
from tests.fivetran.calls import Connector, group_by_table, list_states, make_selection
from tests.fivetran.connecting import HERE, ROOT, Client, serving
from tests.fivetran.server_process import Running
from tests.fivetran.shop import PEOPLE, TapShop

PROGRAM = str(HERE / "shop.py")


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(PROGRAM) as running:
        yield running


def test_tap_answers_every_call(server):
    """F1, F6, F7, F10, F12."""
    client = Client(server, people="3")
    form = client.call("ConfigurationForm")
    fields = {field.name: field for field in form.fields}
    assert fields.keys() == {
        "people",
        "pause",
        "fails_after",
        "emit_activate_version_messages",
        "token",
    }
    assert fields["token"].text_field == TextField.Password
    assert [(test.name, test.label) for test in form.tests] == [
        ("connection", "Reaching the source")
    ]
    assert client.call("Test", name="connection").success
    assert len(client.call("Schema").without_schema.tables) == 4
    assert len(group_by_table(client.update())["people"]) == 3


@pytest.mark.parametrize(
    "test, settings, expected",
    [
        ("connection", {"token": "wrong"}, "refused"),
        ("connection", {"people": "many"}, "people"),
        ("login", {}, "connection"),
    ],
)
def test_failed_connection_test_gives_its_reason(server, test, settings, expected):
    """F7: the log gives the reason too."""
    answer = Client(server, **settings).call("Test", name=test)
    assert expected in answer.failure
    line = server.await_line("Test failed after")
    assert line["level"] == "SEVERE"
    assert line["message"].endswith(f"s: {test}: {answer.failure}")


def test_unknown_connection_test_is_reported_without_creating_a_tap():
    """F7."""

    class TapNeverCreated(TapShop):
        def __init__(self, **options: Any) -> None:
            raise AssertionError("A tap is created.")

    answer = Connector(TapNeverCreated, people="many").call("Test", name="login")
    assert answer.failure == "There is no test 'login'. Known are: 'connection'."


def test_passed_connection_test_is_logged_by_name(server):
    assert Client(server, people="3").call("Test", name="connection").success
    assert server.await_line("Test: connection in")["level"] == "INFO"


@pytest.mark.parametrize(
    "settings, state, expected",
    [
        ({"people": "many"}, None, "people"),
        ({}, "[]", "state"),
        ({"fails_after": "1"}, None, "broken for good"),
    ],
)
def test_sync_error_is_a_task_after_the_records_already_sent(server, settings, state, expected):
    """F4."""
    *before, last = Client(server, **settings).update(state)
    assert expected in last.task.message
    assert not any(response.HasField("task") for response in before)
    if "fails_after" in settings:
        assert before[-1].HasField("checkpoint")
        assert len(group_by_table(before)["people"]) == 2


def test_invalid_settings_fail_schema_with_a_task_status(server):
    """F4."""
    with pytest.raises(grpc.RpcError) as caught:
        Client(server, people="many").call("Schema")
    message = json.loads(caught.value.details())
    assert message["alert_type"] == "TASK"
    assert "people" in message["message"]


def test_cancelled_sync_does_not_block_the_next_one(server):
    """F18."""
    running = Client(server, people="500", pause="0.05").update()
    next(running)
    running.cancel()
    assert len(group_by_table(Client(server).update())["people"]) == PEOPLE
    with pytest.raises(grpc.RpcError, match="CANCELLED"):
        list(running)


def test_stop_of_the_server_does_not_wait_for_a_cancelled_sync():
    with serving(PROGRAM) as server:
        running = Client(server, people="2", pause="600").update()
        next(running)
        running.cancel()
        server.process.terminate()
        assert server.await_exit() == 0


def test_concurrent_syncs_do_not_affect_each_other(server):
    """F18: each sync sends its own records."""
    counts: dict[int, int] = {}

    def run(count: int) -> None:
        responses = Client(server, people=count, pause="0.005").update()
        counts[count] = len(group_by_table(responses)["people"])

    threads = [threading.Thread(target=run, args=(count,)) for count in (3, 11, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {3: 3, 11: 11, 7: 7}


def test_log_has_a_json_line_for_each_table_and_call(server):
    """F2, F3."""
    secret = "very-secret-token"
    list(Client(server, token=secret).update(selection=make_selection({"wide": True})))
    server.await_line("Table wide: 1 row in ")
    server.await_line("Update: 1 table, 1 row in ")
    for line in map(json.loads, server.lines):
        assert line.keys() == {"level", "message", "message-origin"}
        assert line["message-origin"] == "sdk_connector"
        assert line["level"] in {"INFO", "WARNING", "SEVERE"}
    assert secret not in "".join(server.lines)


def test_killed_sync_resumes_from_its_last_state():
    """F16: the sync resumes in another process."""
    responses: list[Any] = []
    with serving(PROGRAM) as first:
        running = Client(first, people="40", pause="0.02").update()
        while len(group_by_table(responses).get("people", ())) < 5 or not list_states(responses):
            responses.append(next(running))
        while not responses[-1].HasField("checkpoint"):
            responses.append(next(running))
        first.process.kill()
    last = list_states(responses)[-1]
    resumed = Connector(TapShop, people=40).update(json.dumps(last))
    assert {row["id"] for _, row in group_by_table([*responses, *resumed])["people"]} == set(
        range(40)
    )


def test_renewed_refresh_token_is_used_by_the_next_call(caplog):
    class Renewing(TapShop):
        seen: list[Any] = []

        def check_connection(self) -> None:
            self.seen.append(self.config["token"])
            self.config_listener(lambda settings: {**settings, "token": "second"})

    connector = Connector(Renewing, token="first")
    other = Connector(Renewing, token="other")
    other.service = connector.service
    for caller in (connector, connector, other):
        assert caller.call("Test", name="connection").success
    assert Renewing.seen == ["first", "second", "other"]
    assert "log in again" in caplog.text


def test_setting_changed_by_the_tap_is_used_by_the_next_call(caplog):
    class Changing(TapShop):
        seen: list[Any] = []

        def check_connection(self) -> None:
            self.seen.append((self.config["token"], self.config.get("people")))
            self.update_config({"token": "second", "people": 5})

    connector = Connector(Changing, token="first")
    for _ in range(2):
        assert connector.call("Test", name="connection").success
    assert [token for token, _ in Changing.seen] == ["first", "second"]
    assert Changing.seen[1][1] == 5
    assert caplog.text.count("A setting has a new value") == 1
    assert "second" not in caplog.text


def test_other_protocols_do_not_import_grpc():
    program = (
        "import sys; from tests.fivetran.shop import TapShop;"
        "TapShop.cli(['--about'], standalone_mode=False);"
        "print([m for m in sys.modules if m.startswith(('grpc', 'google'))], file=sys.stderr)"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert process.stderr.splitlines()[-1] == "[]"
