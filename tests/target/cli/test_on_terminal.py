"""`target-spark` started in a terminal: what it says there, and what only programs read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.target.cli.test_target_cli import COMMAND, PATIENCE, config, environment
from tests.terminal import open_terminal


@pytest.mark.parametrize("prints_report", [False, True])
def test_target_without_a_pipe_says_that_it_reads_the_terminal(
    tmp_path: Path, *, prints_report: bool
) -> None:
    path = config(tmp_path, print_report=prints_report)
    with open_terminal(300) as session:
        command = [*COMMAND, "--config", str(path)]
        with session.start(command, env=environment(TERM="xterm"), cwd=tmp_path) as target:
            session.type(b"\x04")  # Ctrl-D
            assert target.wait(PATIENCE) == 0
    text = "\n".join(session.terminal.lines())
    assert "Singer messages are read from the terminal." in text
    assert "tap-NAME --config tap.json | target-spark --config target.json" in text
    assert "complete after" in text
    assert "METRIC" not in text
    assert ("REPORT: {" in text) is prints_report
