"""What a task leaves behind in its worker, without Spark."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile
from zipimport import zipimporter

import pytest

from target_spark.spark.arrow_workers import reuse_worker


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An archive with two modules, on the path."""
    path = tmp_path / "modules.zip"
    with ZipFile(path, "w") as file:
        file.writestr("found_before.py", "VALUE = 1\n")
        file.writestr("found_after.py", "VALUE = 2\n")
    monkeypatch.syspath_prepend(str(path))
    yield str(path)
    for name in ("found_before", "found_after"):
        sys.modules.pop(name, None)


def test_archives_are_not_read_again_before_the_next_task(archive: str) -> None:
    """The list of an archive is not held where Spark makes it be read anew."""

    def task() -> Iterator[int]:
        yield importlib.import_module("found_before").VALUE

    found = reuse_worker(task())
    assert next(found) == 1
    assert isinstance(sys.path_importer_cache[archive], zipimporter)
    assert list(found) == []
    assert not any(isinstance(each, zipimporter) for each in sys.path_importer_cache.values())


def test_what_stands_in_an_archive_is_found_after_a_task_as_before(archive: str) -> None:
    """Also behind a task that failed."""

    def task() -> Iterator[int]:
        yield importlib.import_module("found_before").VALUE
        raise ValueError(archive)

    with pytest.raises(ValueError, match="modules"):
        list(reuse_worker(task()))
    assert importlib.import_module("found_after").VALUE == 2
