"""The flag that makes a server."""

from __future__ import annotations

import pytest

from tap_core.protocols.fivetran.port_option import PortCommand, has_port_option
from tap_core.tap_base import Tap
from target_spark.target import TargetSpark


class TapX(Tap):
    name = "tap-x"


@pytest.mark.parametrize(
    ("args", "asks"),
    [
        (["--port", "1"], True),
        (["--port=1"], True),
        (["--portal", "1"], False),
        (["--config", "port"], False),
        ([], False),
    ],
)
def test_a_server_is_asked_for_by_the_flag_alone(args, asks) -> None:
    assert has_port_option(args) is asks
    assert isinstance(TapX.get_command(args), PortCommand) is asks
    assert isinstance(TargetSpark.get_command(args), PortCommand) is asks


@pytest.mark.parametrize("words", [["--port"], ["--port", "x"], ["--port", "65536"], ["--port=-1"]])
def test_a_port_that_is_none_is_refused(words, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        PortCommand("tap-x", lambda _: 0).main(words)
    assert "port" in capsys.readouterr().err


def test_settings_do_not_come_by_the_command_line(capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        PortCommand("tap-x", lambda _: 0).main(["--port", "1", "--config", "c.json"])
    assert "--config" in capsys.readouterr().err


def test_what_is_served_ends_with_its_code() -> None:
    served: list[int] = []
    command = PortCommand("tap-x", lambda place: served.append(place.port) or 3)
    assert command.main(["--port", "50051"], standalone_mode=False) == 3
    with pytest.raises(SystemExit, match="3"):
        command.main(["--port=50052"])
    assert served == [50051, 50052]


def test_a_missing_grpc_is_named_with_the_way_to_get_it(capsys) -> None:
    def serve(_: int) -> int:
        raise ModuleNotFoundError("No module named 'grpc'", name="grpc")

    assert PortCommand("tap-x", serve).main(["--port", "1"], standalone_mode=False) == 1
    assert "pip install 'tap-core-sdk[fivetran]'" in capsys.readouterr().err
