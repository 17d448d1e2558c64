"""A newcomer follows "From a tap to an Iceberg table in a REST catalog" on the built site.

The code blocks are the text that a visitor of the HTML page copies. They run in an empty folder
that contains only the built wheel, in the order of the page, and their output is the one that the
page shows. Nothing in them is changed but the port of the catalog.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs.test_code_blocks import ROOT, Block, Terminal, find_blocks
from tests.docs.test_installed_wheel import user_environment
from tests.peers import PEERS, missing_reason, peer_python

PAGE = "first-pipeline"
PORT = "8181"
DUCKDB = peer_python("duckdb")
STEPS = {
    "installs the wheel": r"^pip install .*tap_core_sdk-.*\.whl",
    "writes a tap": r"^class \w+\(Tap\):",
    "tests the tap": r"^pytest ",
    "runs the tap": r"^python tap_\w+\.py --config \S+$",
    "starts a catalog": r"\bRESTCatalogServer\b",
    "configures the catalog": r'"spark\.sql\.catalog\.\w+\.type": "rest"',
    "checks the settings": r"^target-spark doctor ",
    "loads the table": r"\| target-spark --config \S+ >>",
    "attaches the catalog to DuckDB": r"^import duckdb$[\s\S]+\bATTACH\b",
    "reads the table": r"^python read\.py$",
    "loads the changes from the last state": r"--state \S+",
}
"""Step of the page: pattern of the first block that is this step."""


def find_missing_step(blocks: Sequence[Block]) -> str | None:
    """Return the first step that no block has after the blocks of the steps before it, or None."""
    remaining = iter(blocks)
    for step, pattern in STEPS.items():
        if not any(re.search(pattern, block.body, re.MULTILINE) for block in remaining):
            return step
    return None


class CodeReader(HTMLParser):
    """Parser that collects the code blocks of a built page.

    Attributes:
        blocks: The blocks in order. The line of a block is its line in the HTML.
    """

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[Block] = []
        self._language = self._file = self._body = ""
        self._part: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a block, the name of its file, or its text."""
        classes = (dict(attrs).get("class") or "").split()
        if tag == "div" and "highlight" in classes:
            self._language = classes[0].removeprefix("language-")
            self._file = self._body = ""
        elif tag == "span" and "filename" in classes:
            self._part = "file"
        elif tag == "pre":
            self._part = "body"

    def handle_endtag(self, tag: str) -> None:
        """End the name of a file, or a block."""
        if tag == "pre":
            options = {"file": self._file} if self._file else {}
            self.blocks.append(Block(self._language, options, self._body, self.getpos()[0]))
        if tag == "pre" or (tag == "span" and self._part == "file"):
            self._part = None

    def handle_data(self, data: str) -> None:
        """Add text to the part that is open."""
        if self._part == "file":
            self._file += data
        elif self._part == "body":
            self._body += data


def read_blocks(html: str) -> list[Block]:
    """Return the code blocks of a built page, as its visitors copy them."""
    reader = CodeReader()
    reader.feed(html)
    return reader.blocks


# The page


def test_page_has_each_step_in_order() -> None:
    page = ROOT / "docs" / f"{PAGE}.md"
    assert find_missing_step(find_blocks(page.read_text("utf-8"))) is None


def test_missing_or_late_step_is_found() -> None:
    blocks = find_blocks((ROOT / "docs" / f"{PAGE}.md").read_text("utf-8"))
    without = [block for block in blocks if "pytest -q" not in block.body]
    assert find_missing_step(without) == "tests the tap"
    assert find_missing_step(blocks[::-1]) is not None


def test_blocks_of_a_built_page_are_read_as_visitors_copy_them() -> None:
    html = (
        '<h1>A &amp; B</h1><div class="language-python highlight"><span class="filename">'
        'a.py</span><pre><span></span><code><span class="k">print</span>(1 &lt; 2)\n</code></pre>'
        '</div><p>Then <code>x</code>:</p><div class="language-sh highlight"><pre><span></span>'
        "<code>python<span> </span>a.py<span> &gt; </span>b\n</code></pre></div>"
    )
    first, second = read_blocks(html)
    assert (first.language, first.options, first.body) == (
        *("python", {"file": "a.py"}),
        "print(1 < 2)\n",
    )
    assert (second.language, second.options, second.body) == ("sh", {}, "python a.py > b\n")


# The path from the wheel to the rows


@pytest.fixture
def newcomer(tmp_path: Path) -> dict[str, str]:
    """Environment variables of a user whose home folder contains only DuckDB's extensions.

    DuckDB would download them from its server; here they are those of one version.
    """
    home = tmp_path / "home"
    home.mkdir()
    install = (
        "import duckdb, glob, sysconfig\n"
        "path = sysconfig.get_path('purelib') + '/duckdb_extension_*/**/*.duckdb_extension'\n"
        "for file in glob.glob(path, recursive=True): duckdb.execute(f\"INSTALL '{file}'\")\n"
    )
    subprocess.run([str(DUCKDB), "-c", install], env={"HOME": str(home)}, check=True)
    constraint = home / "constraint.txt"
    constraint.write_text(f"{PEERS['duckdb'][0]}\n")
    return {
        "XDG_CACHE_HOME": str(Path("~/.cache").expanduser()),  # the jars of earlier runs
        **user_environment(),
        "HOME": str(home),
        "PIP_CONSTRAINT": str(constraint),
    }


@contextlib.contextmanager
def stopped_afterwards(pid_file: Path) -> Iterator[None]:
    """Context manager: end the process of a file at the end of the block, if it still runs."""
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(pid_file.read_text()), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.peer
@pytest.mark.thorough
@pytest.mark.skipif(DUCKDB is None, reason=missing_reason("duckdb"))
def test_newcomer_follows_the_built_page_from_the_wheel_to_rows_in_duckdb(
    site: Path, wheel: Path, newcomer: dict[str, str], tmp_path: Path
) -> None:
    assert f'href="{PAGE}/"' in (site / "index.html").read_text("utf-8")
    blocks = read_blocks((site / PAGE / "index.html").read_text("utf-8"))
    missing = find_missing_step(blocks)
    assert missing is None, f"no block of the page {missing}"
    folder = tmp_path / "work"
    (folder / "wheels").mkdir(parents=True)
    (folder / "wheels" / wheel.name).symlink_to(wheel)
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        port = str(free_socket.getsockname()[1])
    terminal = Terminal(folder, newcomer, place="wheel")
    with stopped_afterwards(folder / "catalog.pid"):
        for block in blocks:
            if block.language == "text":
                # DuckDB adds a progress bar if the machine is slow.
                assert block.body in terminal.output, f"line {block.line} shows another output"
            terminal.perform(replace(block, body=block.body.replace(PORT, port)))
