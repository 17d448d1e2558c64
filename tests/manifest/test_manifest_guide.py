"""docs/manifest.md lists all components, and the sample manifests have no problems."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tap_core.manifest.builder_options import NOT_SUPPORTED
from tap_core.manifest.lint import lint_manifest
from tap_core.manifest.registry import MODULES, get_component_class

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "manifest.md").read_text("utf-8")
SAMPLES = sorted((ROOT / "samples" / "manifests").glob("*/manifest.yaml"))


def test_guide_lists_exactly_the_supported_components() -> None:
    table = GUIDE.partition("## Components")[2].partition("\n\n`definitions`")[0]
    assert set(re.findall(r"`(\w+)`", table)) == set(MODULES)


def test_guide_lists_the_unsupported_components() -> None:
    sentence = GUIDE.partition("Of that reference, only")[2].partition("not supported")[0]
    assert set(re.findall(r"`(\w+)`", sentence)) == NOT_SUPPORTED


@pytest.mark.parametrize("name", MODULES)
def test_every_component_is_a_class_of_its_name_with_a_docstring(name: str) -> None:
    component_class = get_component_class(name)
    assert component_class is not None
    assert component_class.__name__ == name
    assert component_class.__doc__


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.parent.name)
def test_sample_manifest_has_no_problems(path: Path) -> None:
    assert lint_manifest(path).problems == []
