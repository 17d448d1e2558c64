"""The pages for users can be followed with the installed wheel, without the repository.

The wheel is built, and every block of a page runs in an empty folder that contains only the folder
`wheels`. The page's own commands create the environment and install into it, from the package
index that pip is configured with.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.docs.test_code_blocks import Terminal, find_blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/first-tap.md", "docs/migrate.md")
DEVELOPMENT = ("COVERAGE", "MYPYPATH", "PYTEST", "PYTHON", "TAP_", "TARGET_", "VIRTUAL_ENV")


def user_environment() -> dict[str, str]:
    """Return a user's variables: the PATH has Python, but not the environment of the tests."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith(DEVELOPMENT)}
    inherited = os.environ["PATH"].split(os.pathsep)
    outside = [folder for folder in inherited if not Path(folder).is_relative_to(sys.prefix)]
    path = os.pathsep.join([str(Path(sys.base_prefix) / "bin"), *outside])
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return {**keep, "PATH": path, "JAVA_TOOL_OPTIONS": options}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize("page", PAGES)
def test_page_can_be_followed_with_the_installed_wheel(
    page: str, wheel: Path, tmp_path: Path
) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / wheel.name).symlink_to(wheel)
    terminal = Terminal(tmp_path, user_environment(), place="wheel")
    blocks = find_blocks((ROOT / page).read_text("utf-8"))
    assert any(wheel.name in block.body for block in blocks), f"{page} does not install the wheel"
    for block in blocks:
        terminal.perform(block)


def test_benchmark_of_the_first_minutes_finds_its_steps_in_the_pages() -> None:
    from tests.bench import first_minutes

    for page, steps in (
        ("README.md", first_minutes._FIRST_TABLE),
        ("docs/first-tap.md", first_minutes._FIRST_TAP),
    ):
        blocks = find_blocks((ROOT / page).read_text("utf-8"))
        assert first_minutes._count_blocks(blocks, steps) <= len(blocks)
