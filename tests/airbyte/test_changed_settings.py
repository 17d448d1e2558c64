"""A tap that changes its settings during a run reports them to the platform."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tap_core import Stream, Tap
from tap_core import typing as th
from tap_core.exceptions import ConfigurationError
from tap_core.redaction import redact
from tests.airbyte.rules import read_faults

SECRET = "very-much-hidden-2"


class Pages(Stream):
    """A stream that changes a setting between its records."""

    name = "pages"
    schema = th.PropertiesList(th.Property("key", th.StringType)).to_dict()

    def get_records(self, context: Any) -> Any:
        yield {"key": "first"}
        self._tap.update_config({"session_key": SECRET, "page": 7})
        self._tap.update_config({"page": 7})
        self.logger.warning("The key is %s now.", self.config["session_key"])
        yield {"key": str(self.config["page"])}


class TapKeys(Tap):
    name = "tap-keys"
    config_jsonschema = th.PropertiesList(
        th.Property("session_key", th.StringType, secret=True),
        th.Property("page", th.IntegerType, default=1),
        th.Property("url", th.StringType),
    ).to_dict()

    def discover_streams(self) -> Any:
        return [Pages(self)]


def test_control_message_has_all_settings_after_the_previous_records(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """CT1, CT2: one message for two changes of a setting; settings not in the file are omitted."""
    stream = {"name": "pages", "json_schema": Pages.schema}
    catalog = {"streams": [{"stream": stream, "sync_mode": "full_refresh"}]}
    files = {"config": {"session_key": "old", "url": "u"}, "catalog": catalog}
    arguments = ["read"]
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
        arguments += [f"--{name}", str(tmp_path / name)]
    with pytest.raises(SystemExit) as ended:
        TapKeys.cli(arguments)
    output = capsysbinary.readouterr().out
    assert ended.value.code in {0, None}
    assert read_faults(output, catalog, 0) == []
    messages = [json.loads(line) for line in output.splitlines()]
    order = [message["type"] for message in messages if message["type"] in {"RECORD", "CONTROL"}]
    assert order == ["RECORD", "CONTROL", "RECORD"]
    [control] = [message["control"] for message in messages if message["type"] == "CONTROL"]
    assert control["type"] == "CONNECTOR_CONFIG"
    config = control["connectorConfig"]["config"]
    assert config == {"session_key": SECRET, "url": "u", "page": 7}
    other_lines = [line for line in output.splitlines() if b'"CONTROL"' not in line]
    assert SECRET.encode() not in b"".join(other_lines)


def test_singer_run_warns_of_changed_settings(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"session_key": "old"}')
    TapKeys.cli(["--config", str(config)], standalone_mode=False)
    out, log = capfd.readouterr()
    messages = [json.loads(line) for line in out.splitlines() if '"RECORD"' in line]
    assert [message["record"]["key"] for message in messages] == ["first", "7"]
    assert "The tap has changed 'session_key', 'page': the next run needs" in log
    assert SECRET not in log + out
    assert "CONTROL" not in out
    assert config.read_text() == '{"session_key": "old"}'


def test_other_secrets_stay_hidden_after_many_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tap_core.redaction.process_secrets._LATEST", 2)
    tap = TapKeys(config={"session_key": SECRET})
    for page in range(2, 6):
        tap.update_config({"page": page})
    assert redact(SECRET) == "***"


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"sesion_key": "x"}, "no setting 'sesion_key'"), ({"page": SECRET}, "page")],
)
def test_invalid_changed_setting_is_refused(changes: dict[str, Any], message: str) -> None:
    """CT2: a platform would end the sync."""
    tap = TapKeys(config={"session_key": "old"})
    results: list[Any] = []
    tap.config_listener = results.append
    with pytest.raises(ConfigurationError, match=message):
        tap.update_config(changes)
    assert (results, dict(tap.config)) == ([], {"session_key": "old", "page": 1})
    tap.update_config({"page": 1})
    assert results == []
