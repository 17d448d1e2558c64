"""The spool: lines, batches, and folders that belong to one process."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tap_core.events import Rows, StreamId
from tap_core.exceptions import InvalidInputLine
from target_spark.errors import DiskFullError
from target_spark.storage.spool import MAX_OPEN_FILES, RECORD_BYTES, Batch, Spool, SpoolFolder

A = StreamId("a")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[SpoolFolder]:
    opened = SpoolFolder(tmp_path)
    yield opened
    opened.close()


def read(batch: Batch) -> list[dict[str, Any]]:
    """Return the parsed lines of a batch."""
    (path,) = batch.paths
    return [json.loads(line) for line in Path(path).read_bytes().splitlines()]


def open_descriptors() -> int:
    """Return the number of open files of this process."""
    return len(list(Path("/dev/fd").iterdir()))


def test_line_contains_ordinal_time_version_and_the_unchanged_record(folder: SpoolFolder) -> None:
    spool = Spool(folder, A)
    bodies = [b'{"x" : 1.50}', b'{"x":1E400}']
    times = ['a "time"\n', None]
    spool.add(Rows(A, bodies, extracted_at=times, version=3), 17)
    batch = spool.close_batch()
    (path,) = batch.paths
    assert Path(path).read_bytes() == (
        b'{"n":17,"t":"a \\"time\\"\\n","v":3,"r":{"x" : 1.50}}\n'
        b'{"n":18,"t":null,"v":3,"r":{"x":1E400}}\n'
    )
    assert (batch.first, batch.last, batch.count, batch.version) == (17, 18, 2, 3)
    assert batch.nbytes == Path(path).stat().st_size


def test_one_extraction_time_may_apply_to_a_whole_chunk(folder: SpoolFolder) -> None:
    spool = Spool(folder, A)
    spool.add(Rows(A, [b"{}", b"{}"], extracted_at="noon"), 0)
    spool.add(Rows(A, [b"{}"]), 2)
    assert [line["t"] for line in read(spool.close_batch())] == ["noon", "noon", None]


def test_closing_starts_a_new_batch_and_keeps_the_old_file(folder: SpoolFolder) -> None:
    spool = Spool(folder, A)
    spool.add(Rows(A, [b'{"_sdc_deleted_at":null}']), 0)
    first = spool.close_batch()
    assert (spool.count, spool.nbytes, spool.age()) == (0, 0, 0.0)
    with pytest.raises(ValueError, match="Nothing is spooled for stream a"):
        spool.close_batch()
    spool.add(Rows(A, [b'{"n":2}']), 9)
    second = spool.close_batch()
    assert (first.has_deletes, second.has_deletes) == (True, False)
    assert [line["n"] for line in read(first) + read(second)] == [0, 9]
    first.remove()
    first.remove()
    assert not Path(first.paths[0]).exists()
    assert Path(second.paths[0]).exists()


def test_age_is_that_of_the_oldest_row(folder: SpoolFolder) -> None:
    spool = Spool(folder, A)
    before = time.monotonic()
    spool.add(Rows(A, [b"{}"]), 0)
    oldest = spool.oldest
    spool.add(Rows(A, [b"{}"]), 1)
    assert spool.oldest == oldest >= before
    assert 0 <= spool.age() <= time.monotonic() - before


def test_alternating_streams_use_a_limited_number_of_open_files(folder: SpoolFolder) -> None:
    spools = [Spool(folder, StreamId(f"s{i}")) for i in range(MAX_OPEN_FILES + 50)]
    descriptors = open_descriptors()
    for turn in range(2):
        for number, spool in enumerate(spools):
            spool.add(Rows(spool.stream, [b'{"turn":%d}' % turn]), turn * len(spools) + number)
    assert open_descriptors() <= descriptors + MAX_OPEN_FILES
    for number, spool in enumerate(spools):
        assert [line["n"] for line in read(spool.close_batch())] == [number, number + len(spools)]


def test_spool_folder_is_private_and_removed_on_close(tmp_path: Path) -> None:
    folder = SpoolFolder(tmp_path / "new" / "base")
    Spool(folder, A).add(Rows(A, [b"{}"]), 0)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    folder.close()
    assert list((tmp_path / "new" / "base").iterdir()) == []


def test_folder_of_an_active_run_is_kept_and_that_of_a_dead_one_removed(tmp_path: Path) -> None:
    script = (
        "import os, sys; from target_spark.storage.spool import SpoolFolder;"
        "folder = SpoolFolder(sys.argv[1]); print(folder.path, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    ) as other:
        assert other.stdout is not None
        theirs = Path(os.fsdecode(other.stdout.readline().rstrip()))
        own_folder = SpoolFolder(tmp_path)
        assert theirs.is_dir()
        other.kill()
        other.wait()
    assert theirs.is_dir()
    SpoolFolder(tmp_path).close()
    assert not theirs.exists()
    assert own_folder.path.is_dir()
    own_folder.close()


def test_folder_that_is_no_spool_is_not_removed(tmp_path: Path) -> None:
    foreign = tmp_path / "target-spark-notes"
    foreign.mkdir()
    (foreign / "keep.txt").write_text("mine")
    SpoolFolder(tmp_path).close()
    assert (foreign / "keep.txt").read_text() == "mine"


def test_spool_folder_is_locked(tmp_path: Path) -> None:
    folder = SpoolFolder(tmp_path)
    with (folder.path / "lock").open("rb") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    folder.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        SpoolFolder(tmp_path / "x")
    tmp_path.chmod(0o700)


def test_incomplete_folder_of_a_dead_run_is_removed(tmp_path):
    (tmp_path / ".new-target-spark-empty").mkdir()
    (tmp_path / ".new-target-spark-locked").mkdir()
    (tmp_path / ".new-target-spark-locked" / "lock").touch()
    folder = SpoolFolder(tmp_path)
    assert [*tmp_path.iterdir()] == [folder.path]
    folder.close()


def test_folder_removed_during_its_creation_is_created_again(tmp_path, monkeypatch):
    real, swept = fcntl.flock, []

    def sweep(lock, mode):
        real(lock, mode)
        if not swept:
            swept.extend(tmp_path.iterdir())
            shutil.rmtree(swept[0])

    monkeypatch.setattr(fcntl, "flock", sweep)
    folder = SpoolFolder(tmp_path)
    assert [*tmp_path.iterdir()] == [folder.path]
    assert len(swept) == 1
    folder.close()


def test_leftover_is_locked_until_it_is_deleted(tmp_path, monkeypatch):
    """The folder may be that of a run that begins, which then waits and creates another one.

    If it renamed the folder while the lock file was deleted, a third process would delete its rows.
    """
    leftover = tmp_path / ".new-target-spark-x"
    leftover.mkdir()
    (leftover / "lock").touch()
    real, removed = shutil.rmtree, []

    def remove(folder, **options):
        if folder == leftover:
            with (leftover / "lock").open("rb") as lock, pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            removed.append(folder)
        real(folder, **options)

    monkeypatch.setattr(shutil, "rmtree", remove)
    SpoolFolder(tmp_path).close()
    assert removed == [leftover]
    assert not leftover.exists()


def test_spooled_files_are_readable_only_by_their_owner(tmp_path):
    folder = SpoolFolder(tmp_path)
    path = folder.new_path("rows")
    folder.write(path, b"secret")
    folder.finish(path)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.path.iterdir()} == {0o600}
    folder.close()


@pytest.mark.parametrize("when", ["write", "finish", "another file is opened"])
def test_full_disk_error_names_the_spool_folder(tmp_path, monkeypatch, when):
    monkeypatch.setattr("target_spark.storage.spool.MAX_OPEN_FILES", 1)
    folder = SpoolFolder(tmp_path)
    path, other = folder.new_path("rows"), folder.new_path("rows")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        fill = {
            "write": lambda: folder.write(path, b"x" * 100_000),
            "finish": lambda: folder.finish(path),
            "another file is opened": lambda: folder.write(other, b"x"),
        }[when]
        if when != "write":
            folder.write(path, b"x" * 2000)
        with pytest.raises(DiskFullError, match=rf"uncommitted rows \({folder.path}\): File too"):
            fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    folder.close()
    assert not [*tmp_path.iterdir()]


def test_rest_of_an_interrupted_removal_is_removed(tmp_path):
    leftover = tmp_path / f"target-spark-{'0' * 32}"
    leftover.mkdir()
    (leftover / "rows-1").write_bytes(b"{}\n")
    SpoolFolder(tmp_path).close()
    assert not leftover.exists()


def test_files_written_late_by_a_dead_run_are_removed_on_close(tmp_path):
    folder = SpoolFolder(tmp_path)
    leftover = tmp_path / f"target-spark-{'0' * 32}"
    (leftover / "staged-1").mkdir(parents=True)
    (leftover / "staged-1" / "part-1").write_bytes(b"rows")
    folder.close()
    assert not [*tmp_path.iterdir()]


def test_too_long_record_is_an_error_that_names_the_limit(
    folder: SpoolFolder,
) -> None:
    """SEC13: no part of it is spooled, so no later state can be emitted."""
    spool = Spool(folder, A)
    longest = b'{"x":"%s"}' % (b"x" * (RECORD_BYTES.whole - 8))
    spool.add(Rows(A, [longest]), 1)
    message = (
        r"^Stream a: a record of 16,777,217 bytes is longer than 16 MiB.*TARGET_SPARK_RECORD_BYTES"
    )
    with pytest.raises(InvalidInputLine, match=message):
        spool.add(Rows(A, [b"{}", longest + b" "]), 2)
    batch = spool.close_batch()
    assert (batch.count, batch.last) == (1, 1)


def test_batch_knows_if_it_has_large_rows(folder: SpoolFolder) -> None:
    """SEC13: rows of 2 MiB and more are counted, so that few of them are committed at once."""
    spool = Spool(folder, A)
    spool.add(Rows(A, [b'{"x":1}', b'{"x":"%s"}' % (b"x" * (1 << 20))]), 1)
    assert not spool.large_bytes
    assert not spool.close_batch().has_large_rows
    large = b'{"x":"%s"}' % (b"x" * (2 << 20))
    spool.add(Rows(A, [b"{}", large, large]), 3)
    assert spool.large_bytes == 2 * len(large)
    assert spool.close_batch().has_large_rows
    assert not spool.large_bytes
