"""Colors that the programs print on a terminal are readable on a dark and a light background."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.terminal import TerminalSession, find_unreadable, open_terminal

ROOT = Path(__file__).parents[2]
PROGRAM = """
import os, sys
import typer.rich_utils  # imported once for all commands
from tap_core.cli import main as tap_core
from tap_core.manifest.cli import main as tap_manifest
from tap_core.preview.tables import print_table
from target_spark.target import TargetSpark

def run(program, words):
    sys.argv[1:] = words.split()
    try:
        sys.exit(program(sys.argv[1:]))
    finally:
        sys.stdout.flush()

for program, words in [
    (tap_core, "--help"),
    (tap_core, "new --help"),
    (tap_core, "nwe"),
    (tap_core, "new"),
    (tap_manifest, "--help"),
    (tap_manifest, ""),
    (TargetSpark.cli, "--help"),
    (TargetSpark.cli, "show --confg x stream"),
    (TargetSpark.cli, "show stream --format xml"),
    (lambda words: print_table(["id"], [words]), "1"),
]:
    child = os.fork()  # each command is the first one of its process
    if child == 0:
        run(program, words)
    os.waitpid(child, 0)
"""


def show(session: TerminalSession, **variables: str) -> None:
    """Print help, errors and a table on a terminal."""
    removed = ("NO_COLOR", "FORCE_COLOR", "TERM")
    inherited = {name: value for name, value in os.environ.items() if name not in removed}
    environment = {**inherited, "PYTHONPATH": str(ROOT), **variables}
    with session.start([sys.executable, "-c", PROGRAM], env=environment) as program:
        assert program.wait(300) == 0
    text = "\n".join(session.terminal.lines())
    assert text.count("Usage: ") == 9
    assert "Traceback" not in text


def test_help_errors_and_tables_are_readable_on_a_dark_and_a_light_background() -> None:
    with open_terminal(80) as session:
        show(session, TERM="xterm-256color")
    assert (1,) in session.terminal.styles
    assert find_unreadable(session.terminal.styles) == []


@pytest.mark.thorough
def test_no_color_is_respected() -> None:
    with open_terminal(80) as session:
        show(session, TERM="xterm-256color", NO_COLOR="1")
    assert {code for style in session.terminal.styles for code in style} <= {0, 1, 2, 3, 4}


@pytest.mark.thorough
def test_terminal_without_control_sequences_gets_none() -> None:
    with open_terminal(80) as session:
        show(session, TERM="dumb")
    assert b"\x1b" not in session.raw


@pytest.mark.parametrize(
    ("style", "is_readable"),
    [
        ((0,), True),
        ((1,), True),
        ((1, 2), True),
        ((31,), True),
        ((2, 31), False),
        ((30,), False),
        ((37,), False),
        ((33,), False),
        ((1, 36), False),
        ((34,), False),
        ((97,), False),
        ((93,), False),
        ((90,), True),
        ((41,), False),
        ((38, 5, 196), False),
    ],
)
def test_style_is_readable_if_its_color_differs_from_black_and_white(
    style: tuple[int, ...], is_readable: bool
) -> None:
    assert (find_unreadable([style]) == []) is is_readable
