"""The import caches of a reused Spark worker after a task, without Spark."""

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
    """Create a zip archive with two modules on ``sys.path``."""
    path = tmp_path / "modules.zip"
    with ZipFile(path, "w") as file:
        file.writestr("found_before.py", "VALUE = 1\n")
        file.writestr("found_after.py", "VALUE = 2\n")
    monkeypatch.syspath_prepend(str(path))
    yield str(path)
    for name in ("found_before", "found_after"):
        sys.modules.pop(name, None)


def test_archive_importers_are_removed_after_a_task(archive: str) -> None:
    """The cached importer of a zip archive is removed, since Spark would read it again."""

    def task() -> Iterator[int]:
        yield importlib.import_module("found_before").VALUE

    values = reuse_worker(task())
    assert next(values) == 1
    assert isinstance(sys.path_importer_cache[archive], zipimporter)
    assert list(values) == []
    assert not any(
        isinstance(importer, zipimporter) for importer in sys.path_importer_cache.values()
    )


def test_modules_of_an_archive_are_found_after_a_failed_task(archive: str) -> None:
    """The next task can import other modules of the archive."""

    def task() -> Iterator[int]:
        yield importlib.import_module("found_before").VALUE
        raise ValueError(archive)

    with pytest.raises(ValueError, match="modules"):
        list(reuse_worker(task()))
    assert importlib.import_module("found_after").VALUE == 2
