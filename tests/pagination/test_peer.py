"""JSONPath expressions and paginators give the same results as in singer_sdk.

singer_sdk is run with the jsonpath-ng of this environment: with 1.16 it gives the values of a
single object for ``$[*]``, where it means to give the object.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonpath_ng
import pytest

from tests.pagination.peer_pages import PATHS, WALKS, is_comparable_jsonpath_version, outcomes
from tests.peers import missing_reason, peer_python

PEER = peer_python("singer_sdk")
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("peer_pages.py")
SLICES = {"$[:]", "$.a[:]"}  # from jsonpath-ng 1.16 on they select nothing from an object

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(PEER is None, reason=missing_reason("singer_sdk")),
]
needs_comparable_library = pytest.mark.skipif(
    not is_comparable_jsonpath_version(), reason="paths are compared with jsonpath-ng 1.11 to 1.15"
)


def run(python: str | Path, package: str, *import_paths: Path) -> dict[str, Any]:
    process = subprocess.run(
        [str(python), "-W", "ignore", str(SCRIPT), package],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, import_paths))},
    )
    return dict(json.loads(process.stdout))


def link_library(folder: Path, package: Path) -> Path:
    """Return a folder that contains only one library, to be searched before the environment."""
    (folder / package.name).symlink_to(package, target_is_directory=True)
    return folder


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    return dict(outcomes("tap_core"))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> dict[str, Any]:
    library = Path(jsonpath_ng.__file__).parent
    linked = link_library(tmp_path_factory.mktemp("library"), library)
    return run(PEER, "singer_sdk", linked)


@needs_comparable_library
@pytest.mark.parametrize("path", PATHS)
def test_each_path_finds_what_singer_sdk_finds(ours, theirs, path):
    assert ours["paths"][path] == theirs["paths"][path]


@pytest.mark.parametrize("title", WALKS)
def test_tokens_and_end_of_each_pagination_equal_those_of_singer_sdk(ours, theirs, title):
    for name, walks in theirs["walks"].items():
        assert ours["walks"][name][title] == walks[title], name


def test_pagination_cases_cover_every_kind_of_end(ours):
    ends = {walk[1] for walks in ours["walks"].values() for walk in walks.values()}
    assert ends == {
        "finished",
        "empty page",
        "more to come",
        "RuntimeError",
        "TypeError",
        "ValueError",
        "KeyError",
        "JSONDecodeError",
        "AttributeError",
    }


def test_paginator_classes_have_the_constructors_and_members_of_singer_sdk(ours, theirs):
    assert ours["shape"] == theirs["shape"]


@needs_comparable_library
def test_newer_jsonpath_ng_changes_only_slices_of_objects(ours, tmp_path):
    where = "import jsonpath_ng; print(jsonpath_ng.__path__[0])"
    process = subprocess.run(
        [str(PEER), "-c", where], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    linked = link_library(tmp_path, Path(process.stdout.strip()))
    newer = run(sys.executable, "tap_core", linked, ROOT)["paths"]
    assert {path for path in PATHS if newer[path] != ours["paths"][path]} <= SLICES
