"""The main job of `make demo`: two runs of the pipe and a query."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.samples.cut_flights import cut_package

ROOT = Path(__file__).resolve().parents[2]
JOB = [sys.executable, str(ROOT / "samples" / "main_job.py")]
WHOLE_YEAR = {"flights": 336_776, "weather": 26_115}
SOME_WEEKS = "2013-09-22", "2013-10-10"
"""Around the end of the first run, and with enough flights for the query."""

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def report(home: Path, run: str) -> dict[str, dict[str, int]]:
    text = (home / "logs" / f"{run}-report.json").read_text()
    streams: dict[str, dict[str, int]] = json.loads(text)["streams"]
    return streams


def some_weeks(folder: Path) -> dict[str, int]:
    return cut_package(folder, *SOME_WEEKS)


def get_expected_rows(folder: Path) -> dict[str, int]:
    return WHOLE_YEAR


@pytest.mark.parametrize(
    "data", [some_weeks, pytest.param(get_expected_rows, marks=pytest.mark.thorough)]
)
def test_two_runs_load_every_row_once_and_the_query_is_answered(
    tmp_path: Path, data: Callable[[Path], dict[str, int]]
) -> None:
    home = tmp_path / "demo"
    rows = data(tmp_path / "packages")
    process = subprocess.run(
        [*JOB, str(home)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "packages")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    output = process.stdout

    assert "\x1b" not in output, "no colours and no bars where there is no terminal"
    assert re.search(r"flights: [\d,]+ read\n", output)
    first, second = report(home, "first"), report(home, "second")
    read_again = {
        name: int(count.replace(",", ""))
        for name, count in re.findall(
            r"(\w+): [\d,]+ rows are new, ([\d,]+) were read again", output
        )
    }
    assert (
        first["flights"]["written"] + second["flights"]["written"]
        == rows["flights"] + read_again["flights"]
    )
    assert (
        first["weather"]["written"] + second["weather"]["written"]
        == rows["weather"] + read_again["weather"]
    )
    assert 0 < read_again["flights"] < 200
    assert read_again["weather"] == 3
    assert all(counts["quarantined"] == 0 for counts in [*first.values(), *second.values()])
    assert "United Air Lines" in output
    assert f"Report: {home / 'report.html'}" in output.replace("\n", "")
    page = (home / "report.html").read_text()
    assert "Time per run" in page
    assert "flights" in page
    assert len((home / "state.jsonl").read_text().splitlines()) >= 2


def test_non_empty_folder_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    process = subprocess.run([*JOB, str(tmp_path)], capture_output=True, text=True, check=False)
    assert process.returncode != 0
    assert "not empty" in process.stderr
    assert (tmp_path / "mine.txt").read_text() == "keep me"


def test_progress_bars_are_shown_on_a_terminal() -> None:
    """Only the display runs, on a pseudo-terminal."""
    code = (
        "import sys; sys.argv = ['main_job']\n"
        "from main_job import Display\n"
        "with Display() as display:\n"
        "    for rows in range(1, 3002):\n"
        "        display.count('flights', rows)\n"
        "    display.print_message('done')\n"
    )
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=follower,
        stderr=follower,
        env={**os.environ, "PYTHONPATH": str(ROOT / "samples"), "TERM": "xterm", "COLUMNS": "100"},
    ) as process:
        os.close(follower)
        output = b""
        with suppress(OSError):  # the end of a terminal
            while block := os.read(leader, 65536):
                output += block
        process.wait(timeout=60)
    os.close(leader)
    assert process.returncode == 0, output
    assert "━".encode() in output
    assert b"3,000 read" in output
