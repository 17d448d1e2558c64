"""Make the pictures in docs/images: a terminal during a load, and the HTML report of two loads.

Run it in the repository's folder after `make setup`; it needs the program chromium:

    .venv/bin/python scripts/make_pictures.py

The data is that of the sample tap-flights, January and February of 2013.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.terminal import TerminalSession, open_terminal  # noqa: E402  needs the path

IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 110, 14
PIPE = "tap-flights --config tap.json $STATE | target-spark --config target.json >> state.jsonl"
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def main() -> None:
    """Load January and February, and make the pictures."""
    if BROWSER is None:
        sys.exit("The program chromium is missing: apt install chromium")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target = {"path": "warehouse", "job": "flights", "report_html": "report.html"}
        (folder / "target.json").write_text(json.dumps(target))
        load(folder, "2013-02-01T00:00:00Z", "")
        lines = load(folder, "2013-03-01T00:00:00Z", "--state state.jsonl")
        draw_terminal(lines, "tap-flights | target-spark", IMAGES / "load.svg")
        photograph(folder / "report.html", IMAGES / "report.png")


def load(folder: Path, until: str, state: str) -> list[str]:
    """Run the pipe in a terminal; return the lines of the screen when it last showed rows."""
    (folder / "tap.json").write_text(json.dumps({"until": until}))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with open_terminal(WIDTH, HEIGHT) as session:
        process = session.start(
            ["sh", "-c", PIPE.replace("$STATE", state)],
            cwd=folder,
            env={**os.environ, "PATH": path, "TERM": "xterm", "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        shown = watch(session, process)
        if process.wait():
            sys.exit("\n".join(session.terminal.lines()))
    return shown


def watch(session: TerminalSession, process: subprocess.Popen[bytes]) -> list[str]:
    """Return the screen as it was when its live line last counted rows."""
    shown: list[str] = []
    while process.poll() is None:
        with session.terminal.lock:
            screen = ["".join(row).rstrip() for row in session.terminal.screen]
        if "rows read" in screen[-1]:
            shown = screen
        time.sleep(0.1)
    return shown


def draw_terminal(lines: list[str], title: str, path: Path) -> None:
    """Write the lines of a screen as an SVG."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, legacy_windows=False)
        console.print(Text("\n".join(lines)), overflow="crop", no_wrap=True)
        console.save_svg(str(path), title=title)


def photograph(page: Path, path: Path) -> None:
    """Write a picture of the top of a page."""
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
