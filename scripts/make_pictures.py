"""Make the pictures in docs/images: a terminal during a load, and the HTML report of two loads.

Run it in the repository's folder after `make setup`; it needs the program chromium:

    .venv/bin/python scripts/make_pictures.py

The data is that of the sample tap-flights, January and February of 2013.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import dropwhile, takewhile
from pathlib import Path

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.terminal import TerminalSession, open_terminal  # noqa: E402  needs the path

IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 132, 16
PIPE = "tap-flights --config tap.json $STATE | target-spark --config target.json >> state.jsonl"
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def main() -> None:
    """Load January and February, and make the pictures of the second load."""
    if BROWSER is None:
        sys.exit("The program chromium is missing: apt install chromium")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = {"path": "warehouse", "job": "flights", "report_html": "report.html"}
        (folder / "target.json").write_text(json.dumps({**target, "small_runs": True}))
        load(folder, "2013-02-01T00:00:00Z", "")
        progress, output = load(folder, "2013-03-01T00:00:00Z", "--state state.jsonl")
        table = dropwhile(lambda line: not line.startswith("stream "), output)
        table = takewhile(lambda line: not line.startswith("table of "), table)  # paths follow
        draw_terminal(progress, "during a load", IMAGES / "load.svg")
        draw_terminal(list(table), "at the end of a load", IMAGES / "summary.svg")
        take_screenshot(folder / "report.html", IMAGES / "report.png")


def load(folder: Path, until: str, state: str) -> tuple[list[str], list[str]]:
    """Run the pipe in a terminal; return the screen during the load, and all lines at its end."""
    (folder / "tap.json").write_text(json.dumps({"until": until}))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with open_terminal(WIDTH, HEIGHT) as session:
        process = session.start(
            ["sh", "-c", PIPE.replace("$STATE", state)],
            cwd=folder,
            env={**os.environ, "PATH": path, "TERM": "xterm", "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        screen = watch(session, process)
    if process.returncode:
        sys.exit("\n".join(session.terminal.lines()))
    return screen, session.terminal.lines()


def watch(session: TerminalSession, process: subprocess.Popen[bytes]) -> list[str]:
    """Return the last screen whose progress line shows that rows are being read."""
    last_screen: list[str] = []
    while process.poll() is None:
        with session.terminal.lock:
            screen = ["".join(row).rstrip() for row in session.terminal.screen]
        if "rows read" in screen[-1] and (not last_screen or ", 0/s" not in screen[-1]):
            last_screen = screen
        time.sleep(0.05)
    return last_screen


def draw_terminal(lines: list[str], title: str, path: Path) -> None:
    """Write the lines of a screen as an SVG that uses a font of the reader's machine."""
    own_font = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    with Path(os.devnull).open("w") as nowhere:
        console = Console(
            record=True, width=max(map(len, lines)), file=nowhere, legacy_windows=False
        )
        console.print(Text("\n".join(lines)), overflow="crop", no_wrap=True)
        console.save_svg(str(path), title=title, code_format=own_font)


def take_screenshot(page: Path, path: Path) -> None:
    """Write a picture of the top of an HTML page."""
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                str(BROWSER),
                *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *("--window-size=1000,900", f"--user-data-dir={profile}"),
                *(f"--screenshot={path}", page.as_uri()),
            ],
            check=True,
            capture_output=True,
        )


if __name__ == "__main__":
    main()
