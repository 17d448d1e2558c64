"""`target-spark` in a terminal: output for users, without the output for programs."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs.test_code_blocks import find_blocks
from tests.target.cli.test_target_cli import COMMAND, PATIENCE, ROOT, config, environment
from tests.terminal import TerminalSession, find_unreadable, open_terminal


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


STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \| "
PHASES = ("starting Spark (", "committing ")
ENDS = ("complete after ", "stream ", "files ", "table of files: ", "The start of Spark took ")


def wait_for_phases(session: TerminalSession, pipe: subprocess.Popen[bytes]) -> set[str]:
    """Wait until a pipe ends; return the phases that the last line of the terminal has shown."""
    phases: set[str] = set()
    end = time.monotonic() + 3 * PATIENCE
    while pipe.poll() is None:
        assert time.monotonic() < end, session.terminal.lines()
        phases |= {phase for phase in PHASES if phase in session.terminal.last_line}
        time.sleep(0.05)
    return phases


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(("table_format", "background"), [("delta", "light"), ("iceberg", "dark")])
def test_first_pipe_of_the_readme_is_readable_on_a_terminal(
    tmp_path: Path, table_format: str, background: str
) -> None:
    """The run shows its phases and complete lines, no JSON, and the command to read the table.

    New users had three problems: a broken live table, minutes without output, and output for
    programs.
    """
    [tap] = [
        block
        for block in find_blocks((ROOT / "README.md").read_text("utf-8"))
        if block.options.get("file") == "tap_files.py"
    ]
    (tmp_path / "tap_files.py").write_text(tap.body)
    (tmp_path / "papers").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "papers" / name).write_text(name)
    (tmp_path / "tap.json").write_text(json.dumps({"folder": "papers"}))
    target = {"path": "warehouse", "format": table_format}
    (tmp_path / "target.json").write_text(json.dumps(target))
    command = (
        f"{sys.executable} tap_files.py --config tap.json"
        f" | {shlex.join(COMMAND)} --config target.json >> state.jsonl"
    )
    with open_terminal(400, 60) as session:
        with session.start(
            ["sh", "-c", command],
            env=environment(TERM="xterm", COLORFGBG={"light": "0;15", "dark": "15;0"}[background]),
            cwd=tmp_path,
        ) as pipe:
            phases = wait_for_phases(session, pipe)
        assert pipe.returncode == 0, session.terminal.lines()
    assert phases == set(PHASES)
    assert find_unreadable(session.terminal.styles) == []
    lines = session.terminal.lines()
    logged = [line for line in lines if re.match(STAMP, line)]
    assert logged
    assert not any(re.search(f".{STAMP}", line) for line in lines)
    other_lines = [line for line in lines if line not in logged and not line.startswith(ENDS)]
    summary = [
        line for line in other_lines if line.startswith(("job ", "to print a table", "to show a"))
    ]
    assert [
        line for line in other_lines if line not in summary and "incubator modules" not in line
    ] == []
    assert not any("METRIC" in line or "REPORT" in line for line in lines)
    read = shlex.split(summary[-1].partition(": ")[2])
    if table_format == "iceberg":
        assert read == ["target-spark", "show", "files", "--config", "target.json"]
        read = [*COMMAND, *read[1:]]
    process = subprocess.run(
        read, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert "changed_at" in process.stdout
