"""Every code block of the README and the docs runs, in the order in which it is read.

The blocks of one document are one terminal session in a temporary folder: a later block starts in
the directory that an earlier one changed to, with the variables that it exported, and may use the
files that it made. The project's commands are on the PATH. `test_installed_wheel` runs the pages
for users once more, without the repository. The word after the three backticks defines the action:

- ``sh``: run by `sh -e`, exit 0 expected; ``sh exit=1``: that exit expected
- ``python``: run by the interpreter; ``python file=tap.py``: saved under that name, then imported
  by no block until a later one runs it
- ``json file=…``, ``yaml file=…``, ``toml file=…``: saved; without a name: parsed
- ``sh only=repository``, ``sh only=wheel``: run here alone, or by `test_installed_wheel` alone
- ``console skip="why"`` or ``sh skip="why"``: not run, and the reason is there to read
- ``text``: words or a drawing, nothing to run
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.samples.cut_flights import january

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "samples").rglob("*.md")]
)
RUNS = {"sh", "python"}
DATA = {"json", "yaml", "toml"}
WORDS = {"text", "mermaid"}
OWN_MODULE = re.compile(r"(tap_core|target_spark|pyspark_tap)\b")
IN_REPOSITORY = re.compile(
    r"\btap[-_](flights|airlines|planes|petstore|postgres)\b|\b(samples|images|scripts)/"
    r"|^make |-m tests\b|tests/(docs|images|project)\b",
    re.MULTILINE,
)
"""Code that runs only in a clone of this repository."""


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its options and its line."""

    language: str
    options: dict[str, str]
    body: str
    line: int


def find_blocks(text: str) -> list[Block]:
    blocks, lines = [], text.splitlines()
    position = 0
    while position < len(lines):
        opened = re.match(r"^(\s*)```(.*)$", lines[position])
        position += 1
        if not opened:
            continue
        start = position
        while not lines[position].strip().startswith("```"):
            position += 1
        indent = len(opened.group(1))
        body = "\n".join(line[indent:] for line in lines[start:position]) + "\n"
        blocks.append(_block(opened.group(2), body, start))
        position += 1
    return blocks


def _block(info: str, body: str, line: int) -> Block:
    parts = shlex.split(info)
    options = dict(word.split("=", 1) for word in parts[1:])
    return Block(parts[0] if parts else "", options, body, line)


def environment(folder: Path) -> dict[str, str]:
    """The caller's environment with the project's commands and settings for faster runs."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("TAP_", "TARGET_", "PYTEST_"))}
    return {
        **keep,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{folder}{os.pathsep}{january()}",
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


class Terminal:
    """A shell session: directory and exported variables are those that the last block left.

    A block that sets its own EXIT trap, or that fails, leaves them unchanged.

    Attributes:
        output: What the last block that ran has written to standard output.
    """

    def __init__(self, folder: Path, variables: dict[str, str], place: str = "repository") -> None:
        self.folder, self.variables, self.place = folder, variables, place
        self.output = ""

    def perform(self, block: Block) -> None:
        """Run or save a block, unless its options exclude it here."""
        skipped = "skip" in block.options or block.options.get("only", self.place) != self.place
        if block.language in WORDS or skipped:
            return
        if "file" in block.options:
            path = self.folder / block.options["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.body)
        elif block.language == "python":
            (self.folder / f"block_{block.line}.py").write_text(block.body)
            self._run(block, f"python block_{block.line}.py")
        elif block.language == "sh":
            self._run(block, block.body)
        elif block.language == "json":
            json.loads(block.body)

    def _run(self, block: Block, script: str) -> None:
        with TemporaryDirectory() as temporary:
            directory, variables = Path(temporary) / "directory", Path(temporary) / "variables"
            remember = (
                f"pwd > {shlex.quote(str(directory))}; env -0 > {shlex.quote(str(variables))}"
            )
            process = subprocess.run(
                ["sh", "-e", "-c", f"trap {shlex.quote(remember)} EXIT\n{script}"],
                cwd=self.folder,
                env=self.variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=1800,
                check=False,
            )
            self.output = process.stdout
            expected_code = int(block.options.get("exit", "0"))
            assert process.returncode == expected_code, (
                f"line {block.line}:\n{process.stdout}\n{process.stderr}"
            )
            if variables.exists():
                self.folder = Path(directory.read_text().removesuffix("\n"))
                pairs = variables.read_text().split("\0")[:-1]
                self.variables = dict(pair.split("=", 1) for pair in pairs)


def identify(path: Path) -> str:
    return str(path.relative_to(ROOT))


LONG = {
    "airbyte.md",
    "cluster.md",
    "first-load.md",
    "first-pipeline.md",
    "state.md",
    "target.md",
    "testing.md",
}
"""Pages whose blocks take many seconds; other tests run the same commands."""


@pytest.mark.parametrize("document", DOCUMENTS, ids=identify)
def test_every_block_has_a_known_language_and_skip_reason(document: Path) -> None:
    for block in find_blocks(document.read_text("utf-8")):
        assert block.language in RUNS | DATA | WORDS, f"line {block.line}: {block.language!r}"
        assert block.options.get("only", "wheel") in {"wheel", "repository"}, block.line
        assert "skip" not in block.options or len(block.options["skip"]) > 10, block.line


@pytest.mark.parametrize("document", DOCUMENTS, ids=identify)
def test_names_imported_from_the_project_exist_in_blocks_that_are_not_run(document: Path) -> None:
    for block in find_blocks(document.read_text("utf-8")):
        if block.language != "python" or "skip" not in block.options:
            continue
        for node in ast.walk(ast.parse(textwrap.dedent(block.body))):
            if isinstance(node, ast.ImportFrom) and OWN_MODULE.match(node.module or ""):
                module = importlib.import_module(str(node.module))
                missing = [name.name for name in node.names if not hasattr(module, name.name)]
                assert missing == [], f"line {block.line}: {node.module} has no {missing}"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(path, marks=[pytest.mark.thorough] if path.name in LONG else [])
        for path in DOCUMENTS
        if find_blocks(path.read_text("utf-8"))
    ],
    ids=identify,
)
def test_every_block_runs(document: Path, tmp_path: Path) -> None:
    for sample in ("samples",):
        shutil.copytree(
            ROOT / sample,
            tmp_path / sample,
            ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"),
        )
    terminal = Terminal(tmp_path, environment(tmp_path))
    for block in find_blocks(document.read_text("utf-8")):
        terminal.perform(block)


def test_blocks_that_need_a_clone_of_the_repository_are_announced() -> None:
    """The installed package has no samples, no tests, no Dockerfiles and no Makefile."""
    pages = {ROOT / "README.md", *(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "releasing.md"}
    silent = []
    for page in pages:
        text = page.read_text("utf-8")
        needy = [block.line for block in find_blocks(text) if IN_REPOSITORY.search(block.body)]
        before = " ".join("\n".join(text.splitlines()[: min(needy, default=0)]).split())
        if needy and "a clone of this repository" not in before:
            silent.append(f"{identify(page)}, line {needy[0]}")
    assert silent == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=identify)
def test_every_relative_link_resolves(document: Path) -> None:
    prose = re.sub(r"```.*?```", "", document.read_text("utf-8"), flags=re.DOTALL)
    broken = [
        target
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose)
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert broken == []


def test_every_path_in_inline_code_exists() -> None:
    """This covers names such as `tap_core/state/replication_key_comparator.py` in running text."""
    broken = {}
    for document in DOCUMENTS:
        named = re.findall(
            r"`((?:tap_core|target_spark|tests|samples|docs|scripts)/[\w./-]*)`",
            document.read_text("utf-8"),
        )
        missing = [name for name in named if not (ROOT / name).exists()]
        if missing:
            broken[identify(document)] = missing
    assert broken == {}


def test_a_failing_block_fails(tmp_path: Path) -> None:
    [block] = find_blocks("words\n```sh\nfalse\n```\n")
    with pytest.raises(AssertionError, match="line 2"):
        Terminal(tmp_path, environment(tmp_path)).perform(block)


def test_blocks_of_a_document_share_directory_and_variables(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    text = "```sh\ncd inner\nexport WORD='a b'\n```\n```sh\nprintf %s \"$WORD\" > word\n```\n"
    terminal = Terminal(tmp_path, environment(tmp_path))
    for block in find_blocks(text):
        terminal.perform(block)
    assert (tmp_path / "inner" / "word").read_text() == "a b"


def test_block_of_another_place_is_not_run(tmp_path: Path) -> None:
    [block] = find_blocks("```sh only=wheel\nfalse\n```\n")
    Terminal(tmp_path, environment(tmp_path)).perform(block)
    with pytest.raises(AssertionError, match="line 1"):
        Terminal(tmp_path, environment(tmp_path), place="wheel").perform(block)


def test_blocks_are_parsed_with_their_options() -> None:
    text = '```python file="a b.py"\nx = 1\n```\n- item\n  ```sh exit=3\n  exit 3\n  ```\n'
    first, second = find_blocks(text)
    assert (first.language, first.options, first.body) == ("python", {"file": "a b.py"}, "x = 1\n")
    assert (second.language, second.options["exit"], second.body) == ("sh", "3", "exit 3\n")
