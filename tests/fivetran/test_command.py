"""The option --port, which starts a server instead of a sync."""

from __future__ import annotations

import pytest

from tap_core.protocols.fivetran.port_command import port_command
from tap_core.protocols.fivetran.port_option import has_port_option
from tap_core.tap_base import Tap
from target_spark.target import TargetSpark


class TapX(Tap):
    name = "tap-x"


@pytest.mark.parametrize(
    ("args", "is_server"),
    [
        (["--port", "1"], True),
        (["--port=1"], True),
        (["--portal", "1"], False),
        (["--config", "port"], False),
        (["check", "--port", "1"], False),
        ([], False),
    ],
)
def test_only_the_port_option_selects_the_server_command(args, is_server) -> None:
    assert has_port_option(args) is is_server
    for plugin in (TapX, TargetSpark):
        options = {param.name for param in plugin.get_command(args).params}
        assert ("port" in options) is is_server


@pytest.mark.parametrize(
    "arguments", [["--port"], ["--port", "x"], ["--port", "65536"], ["--port=-1"]]
)
def test_invalid_port_is_rejected(arguments, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        port_command("tap-x", lambda _: 0).main(arguments)
    assert "port" in capsys.readouterr().err


def test_config_option_is_rejected_together_with_port(capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        port_command("tap-x", lambda _: 0).main(["--port", "1", "--config", "c.json"])
    assert "--config" in capsys.readouterr().err


def test_command_exits_with_the_servers_exit_code() -> None:
    served: list[int] = []
    command = port_command("tap-x", lambda address: served.append(address.port) or 3)
    assert command.main(["--port", "50051"], standalone_mode=False) == 3
    with pytest.raises(SystemExit, match="3"):
        command.main(["--port=50052"])
    assert served == [50051, 50052]


def test_missing_grpc_error_names_the_extra_to_install(capsys) -> None:
    def serve(_: int) -> int:
        raise ModuleNotFoundError("No module named 'grpc'", name="grpc")

    assert port_command("tap-x", serve).main(["--port", "1"], standalone_mode=False) == 1
    assert "pip install 'tap-core-sdk[fivetran]'" in capsys.readouterr().err
