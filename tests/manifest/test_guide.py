"""docs/manifest.md names what there is, and the samples that it speaks of are without a fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tap_core.manifest.builder_options import NOT_SUPPORTED
from tap_core.manifest.lint import find_problems
from tap_core.manifest.registry import MODULES, get_component_class

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "manifest.md").read_text("utf-8")
SAMPLES = sorted((ROOT / "samples" / "manifests").glob("*/manifest.yaml"))


def test_the_guide_names_every_component_and_no_other() -> None:
    table = GUIDE.partition("## Components")[2].partition("\n\n`definitions`")[0]
    assert set(re.findall(r"`(\w+)`", table)) == set(MODULES)


def test_the_guide_names_what_is_not_there() -> None:
    words = GUIDE.partition("Of that reference, only")[2].partition("not supported")[0]
    assert set(re.findall(r"`(\w+)`", words)) == NOT_SUPPORTED


@pytest.mark.parametrize("name", MODULES)
def test_every_component_is_a_class_of_its_name_and_says_what_it_does(name: str) -> None:
    made = get_component_class(name)
    assert made is not None
    assert made.__name__ == name
    assert made.__doc__


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.parent.name)
def test_nothing_is_wrong_with_a_sample(path: Path) -> None:
    assert find_problems(path) == []
