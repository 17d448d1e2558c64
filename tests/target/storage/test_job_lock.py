"""The job lock: one run per job; the lock of a killed process is free again."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from target_spark.config import settings
from target_spark.errors import JobLockError, TableError
from target_spark.storage.job_lock import (
    JobLock,
    _try_lock,
    lock_file_path,
    monotonic_run_start,
    wait_for_orphaned_jvms,
)
from tests.ended_processes import wait_for_end

HOLD = """
import subprocess, sys, time
from target_spark.storage.job_lock import JobLock
lease = JobLock.acquire(sys.argv[1], "job", run="first")
if len(sys.argv) > 2:  # a process in place of the JVM, which inherits the file
    child = subprocess.Popen(["sleep", sys.argv[2]], pass_fds=[lease.fileno()], stdout=2)
    lease.record_jvm(child.pid)
    print(child.pid, flush=True)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def owners() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def start(owners, folder: Path, *arguments: str) -> tuple[subprocess.Popen[str], int | None]:
    """Start a process that holds the lock; return it and its child's process id."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), *arguments], stdout=subprocess.PIPE, text=True
    )
    owners.append(process)
    child = int(process.stdout.readline()) if arguments else None
    assert process.stdout.readline() == "held\n"
    return process, child


def test_second_run_is_rejected_naming_the_active_process(owners, tmp_path):
    owner, _ = start(owners, tmp_path)
    with pytest.raises(JobLockError, match=rf"Another run of job 'job'.*process {owner.pid} on"):
        JobLock.acquire(str(tmp_path), "job")
    JobLock.acquire(str(tmp_path), "another job").release()


def test_two_runs_in_one_process_exclude_each_other(tmp_path):
    first = JobLock.acquire(str(tmp_path), "job")
    with pytest.raises(JobLockError, match=str(os.getpid())):
        JobLock.acquire(str(tmp_path), "job")
    first.release()
    second = JobLock.acquire(str(tmp_path), "job")
    first.release()  # a second release does not end the other lock
    with pytest.raises(JobLockError):
        JobLock.acquire(str(tmp_path), "job")
    second.release()


def test_lock_of_a_killed_run_is_free_immediately(owners, tmp_path):
    owner, _ = start(owners, tmp_path)
    owner.kill()
    owner.wait()
    JobLock.acquire(str(tmp_path), "job", wait_seconds=0).release()


def test_lock_of_a_killed_run_waits_for_its_jvm(owners, tmp_path):
    owner, child = start(owners, tmp_path, "600")
    owner.kill()
    owner.wait()
    with pytest.raises(JobLockError, match=rf"has ended.*after 0\.3 s.*JVM {child}\. End that JVM"):
        JobLock.acquire(str(tmp_path), "job", wait_seconds=0.3)

    ending = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {child}"])
    JobLock.acquire(str(tmp_path), "job", wait_seconds=60).release()
    ending.wait()


def test_lock_is_acquired_once_the_jvm_of_a_dead_run_ends(owners, tmp_path):
    owner, _ = start(owners, tmp_path, "1")
    owner.kill()
    owner.wait()
    JobLock.acquire(str(tmp_path), "job").release()


def test_zombie_owner_counts_as_dead(owners, tmp_path):
    owner, child = start(owners, tmp_path, "600")
    owner.kill()  # its parent does not wait, so the process id stays in use
    os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(JobLockError, match="has ended"):
        JobLock.acquire(str(tmp_path), "job", wait_seconds=0.1)
    os.kill(child, signal.SIGKILL)


def test_reused_process_id_counts_as_a_dead_owner(owners, tmp_path):
    owner, child = start(owners, tmp_path, "600")
    owner.kill()
    owner.wait()
    path = lock_file_path(str(tmp_path), "job")
    written = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**written, "pid": os.getpid()}), encoding="utf-8")
    with pytest.raises(JobLockError, match="has ended"):
        JobLock.acquire(str(tmp_path), "job", wait_seconds=0.1)
    path.write_text(json.dumps({**written, "host": "elsewhere"}), encoding="utf-8")
    with pytest.raises(JobLockError, match=r"Another run.*on elsewhere"):
        JobLock.acquire(str(tmp_path), "job", wait_seconds=0.1)
    path.write_text(json.dumps({**written, "pid": 1}), encoding="utf-8")
    with pytest.raises(JobLockError):  # process 1 runs, and has another start time
        JobLock.acquire(str(tmp_path), "job", wait_seconds=0.1)
    os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("text", ["", '{"pid": 1, "ho', "[]", "\0\0"])
def test_content_of_the_lock_file_does_not_decide(tmp_path, text):
    path = lock_file_path(str(tmp_path), "job")
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    with closing(path.open("r+b")) as file:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(JobLockError, match="its owner is unknown"):
            JobLock.acquire(str(tmp_path), "job", wait_seconds=0.1)
    JobLock.acquire(str(tmp_path), "job", wait_seconds=0).release()
    assert json.loads(path.read_bytes()) == {"run_started": 0}


def test_run_start_increases_although_the_clock_was_set_back(owners, tmp_path):
    folder = str(tmp_path)
    assert monotonic_run_start(folder, ["job"], 1000) == 1000
    JobLock.acquire(folder, "job", started=5000).release()
    assert monotonic_run_start(folder, ["job"], 1000) == 5001
    assert monotonic_run_start(folder, ["job"], 6000) == 6000
    assert monotonic_run_start(folder, ["another job"], 1000) == 1000
    JobLock.acquire(
        folder, "job", started=7000
    )  # and this one is never given back, as after a kill
    assert monotonic_run_start(folder, ["job"], 1000) == 7001
    lock_file_path(folder, "job").write_text('{"run_st', encoding="utf-8")
    assert monotonic_run_start(folder, ["job"], 1000) == 1000


def test_lock_file_is_valid_if_the_process_is_killed_after_it_wrote(tmp_path, monkeypatch):
    lease = JobLock.acquire(str(tmp_path), "job", run="r" * 100, started=5000)
    monkeypatch.setattr(os, "ftruncate", lambda *_: None)  # a call that a kill prevents
    lease.release()
    assert monotonic_run_start(str(tmp_path), ["job"], 1000) == 5001


def test_release_frees_the_lock_although_the_jvm_has_the_file_open(tmp_path):
    lease = JobLock.acquire(str(tmp_path), "job")
    child = subprocess.Popen(["sleep", "600"], pass_fds=[lease.fileno()])
    lease.release()
    JobLock.acquire(str(tmp_path), "job", wait_seconds=0).release()
    child.kill()
    child.wait()


def test_lock_file_names_job_run_and_processes(tmp_path):
    lease = JobLock.acquire(str(tmp_path), "job", run="r-1")
    lease.record_jvm(4711)
    written = json.loads(lock_file_path(str(tmp_path), "job").read_text(encoding="utf-8"))
    lease.release()
    assert (written["job"], written["run"], written["pid"]) == ("job", "r-1", os.getpid())
    assert written["jvm"] == 4711


def test_each_job_has_its_own_lock_file(tmp_path, monkeypatch):
    folder = str(tmp_path)
    names = ["job", "a/b", "a_b", "../x", ".x", "ä", "J" * 300, "J" * 301]
    files = [lock_file_path(folder, name) for name in names]
    assert len(set(files)) == len(names)
    assert {file.parent for file in files} == {tmp_path / "_target_spark"}
    assert max(len(file.name) for file in files) < 255
    assert lock_file_path(f"file://{folder}", "job") == lock_file_path(folder, "job")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    remote_lock = lock_file_path("s3a://bucket/tables", "job")
    assert remote_lock.is_relative_to(tmp_path / "cache")
    assert remote_lock != lock_file_path("s3a://bucket/others", "job")
    JobLock.acquire("s3a://bucket/tables", "job").release()


def test_unwritable_folder_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(TableError, match=r"cannot be written: .*/file is a file\..*set path to"):
        JobLock.acquire(str(tmp_path / "file"), "job")


def test_file_system_without_locks_is_an_error_that_names_it(tmp_path):
    """Linux rejects locks on a file opened with O_PATH, as some file systems do for all files."""
    file = os.open(tmp_path, os.O_PATH)
    try:
        with pytest.raises(JobLockError, match=f"{tmp_path} does not support locks"):
            _try_lock(file, tmp_path)
    finally:
        os.close(file)


def test_wait_for_orphaned_jvms_ignores_running_owners(owners, tmp_path):
    start(owners, tmp_path)
    wait_for_orphaned_jvms(str(tmp_path), "jo", wait_seconds=0)
    assert lock_file_path(str(tmp_path), "job").exists()


def test_wait_for_orphaned_jvms_waits_and_removes_the_lock_file(owners, tmp_path):
    owner, child = start(owners, tmp_path, "600")
    owner.kill()
    owner.wait()
    with pytest.raises(JobLockError, match="may yet commit"):
        wait_for_orphaned_jvms(str(tmp_path), "jo", wait_seconds=0)
    ending = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {child}"])
    wait_for_orphaned_jvms(str(tmp_path), "jo", wait_seconds=60)
    ending.wait()
    assert wait_for_end(child)  # a process that ends closes its files first
    assert not lock_file_path(str(tmp_path), "job").exists()


def test_release_with_remove_deletes_the_lock_file(tmp_path):
    lease = JobLock.acquire(str(tmp_path), "once")
    lease.release(remove=True)
    assert not lock_file_path(str(tmp_path), "once").exists()


@pytest.mark.parametrize("held_name", ["real", "former"])
def test_second_run_with_another_spelling_of_the_path_is_rejected(
    tmp_path: Path, held_name: str
) -> None:
    """Without the setting job, the default job and its lock depend on the resolved location.

    An earlier release holds the lock of the name that it derived from the spelled path.
    """
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    config = {"path": str(link), "format": "parquet"}
    former = hashlib.sha256(f"parquet file://{link}".encode()).hexdigest()[:16]
    job = settings.get_job_name({**config, "path": str(real)}) if held_name == "real" else former
    lease = JobLock.acquire(str(real), job)
    try:
        process = load_one_record(tmp_path, config)
    finally:
        lease.release()
    assert process.returncode == 1
    assert f"Another run of job '{job}' is active" in process.stderr


def load_one_record(folder: Path, config: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Load one record in a separate process."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    schema = {"type": "SCHEMA", "stream": "a", "schema": {"properties": {"id": {}}}}
    record = {"type": "RECORD", "stream": "a", "record": {"id": "1"}}
    return subprocess.run(
        [sys.executable, "-m", "target_spark", "--config", str(folder / "config.json")],
        input="".join(f"{json.dumps(message)}\n" for message in (schema, record)),
        capture_output=True,
        text=True,
        check=False,
    )


def test_full_disk_for_the_lock_file_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(TableError, match=r"cannot be written: .*No space left"):
            JobLock.acquire(str(tmp_path), "job")
    lock = JobLock.acquire(str(tmp_path), "job")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        lock.release()
    JobLock.acquire(str(tmp_path), "job").release()


def test_engine_of_a_killed_run_is_known_to_the_next_run(tmp_path: Path) -> None:
    first = JobLock.acquire(str(tmp_path), "job")
    assert first.leftover_engine is None
    first.record_engine("/engines/one")
    os.close(first.fileno())  # as if it was killed
    second = JobLock.acquire(str(tmp_path), "job")
    assert second.leftover_engine == "/engines/one"
    second.record_engine(None)
    second.release()
    third = JobLock.acquire(str(tmp_path), "job")
    assert third.leftover_engine is None
    third.release()
