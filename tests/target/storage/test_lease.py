"""One run per job: a process that can commit holds the lease, and a kill -9 frees it."""

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
    _born,
    _locked,
    lock_file_path,
    monotonic_run_start,
    wait_for_orphaned_jvms,
)

HOLD = """
import subprocess, sys, time
from target_spark.storage.job_lock import JobLock
lease = JobLock.acquire(sys.argv[1], "job", run="first")
if len(sys.argv) > 2:  # a stand-in for the JVM: a process that has inherited the file
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


def start(owners, folder: Path, *words: str) -> tuple[subprocess.Popen[str], int | None]:
    """Start a process that holds the lease; return it, and its child's process id."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), *words], stdout=subprocess.PIPE, text=True
    )
    owners.append(process)
    child = int(process.stdout.readline()) if words else None
    assert process.stdout.readline() == "held\n"
    return process, child


def test_a_second_run_is_refused_and_told_who_is_at_work(owners, tmp_path):
    owner, _ = start(owners, tmp_path)
    with pytest.raises(JobLockError, match=rf"Another run of job 'job'.*process {owner.pid} on"):
        JobLock.acquire(str(tmp_path), "job")
    JobLock.acquire(str(tmp_path), "another job").release()


def test_two_runs_in_one_process_are_two_runs(tmp_path):
    first = JobLock.acquire(str(tmp_path), "job")
    with pytest.raises(JobLockError, match=str(os.getpid())):
        JobLock.acquire(str(tmp_path), "job")
    first.release()
    second = JobLock.acquire(str(tmp_path), "job")
    first.release()  # once more: it is not the second's to end
    with pytest.raises(JobLockError):
        JobLock.acquire(str(tmp_path), "job")
    second.release()


def test_the_lease_of_a_killed_run_is_taken_over_at_once(owners, tmp_path):
    owner, _ = start(owners, tmp_path)
    owner.kill()
    owner.wait()
    JobLock.acquire(str(tmp_path), "job", wait_seconds=0).release()


def test_a_killed_run_whose_jvm_lives_is_waited_for(owners, tmp_path):
    owner, child = start(owners, tmp_path, "600")
    owner.kill()
    owner.wait()
    with pytest.raises(JobLockError, match=rf"is dead.*after 0\.3 s.*JVM {child}\. End that JVM"):
        JobLock.acquire(str(tmp_path), "job", wait_seconds=0.3)

    ending = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {child}"])
    JobLock.acquire(str(tmp_path), "job", wait_seconds=60).release()
    ending.wait()


def test_a_jvm_that_ends_in_time_needs_no_help(owners, tmp_path):
    owner, _ = start(owners, tmp_path, "1")
    owner.kill()
    owner.wait()
    JobLock.acquire(str(tmp_path), "job").release()


def test_a_zombie_owner_is_a_dead_owner(owners, tmp_path):
    owner, child = start(owners, tmp_path, "600")
    owner.kill()  # and its parent does not wait for it: the process id stays in use
    os.waitid(os.P_PID, owner.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(JobLockError, match="is dead"):
        JobLock.acquire(str(tmp_path), "job", wait_seconds=0.1)
    os.kill(child, signal.SIGKILL)


def test_a_process_id_that_was_given_to_another_is_a_dead_owner(owners, tmp_path):
    owner, child = start(owners, tmp_path, "600")
    owner.kill()
    owner.wait()
    path = lock_file_path(str(tmp_path), "job")
    written = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**written, "pid": os.getpid()}), encoding="utf-8")
    with pytest.raises(JobLockError, match="is dead"):
        JobLock.acquire(str(tmp_path), "job", wait_seconds=0.1)
    path.write_text(json.dumps({**written, "host": "elsewhere"}), encoding="utf-8")
    with pytest.raises(JobLockError, match=r"Another run.*on elsewhere"):
        JobLock.acquire(str(tmp_path), "job", wait_seconds=0.1)
    path.write_text(json.dumps({**written, "pid": 1}), encoding="utf-8")
    with pytest.raises(JobLockError):  # process 1 lives, and did not begin when it says
        JobLock.acquire(str(tmp_path), "job", wait_seconds=0.1)
    os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("text", ["", '{"pid": 1, "ho', "[]", "\0\0"])
def test_what_is_written_in_the_file_does_not_decide(tmp_path, text):
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


def test_a_clock_that_was_set_back_makes_no_run_the_older_one(owners, tmp_path):
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


def test_the_lease_ends_for_the_jvm_too_when_it_is_released(tmp_path):
    lease = JobLock.acquire(str(tmp_path), "job")
    child = subprocess.Popen(["sleep", "600"], pass_fds=[lease.fileno()])
    lease.release()
    JobLock.acquire(str(tmp_path), "job", wait_seconds=0).release()
    child.kill()
    child.wait()


def test_what_people_read_is_in_the_file(tmp_path):
    lease = JobLock.acquire(str(tmp_path), "job", run="r-1")
    lease.record_jvm(4711)
    written = json.loads(lock_file_path(str(tmp_path), "job").read_text(encoding="utf-8"))
    lease.release()
    assert (written["job"], written["run"], written["pid"]) == ("job", "r-1", os.getpid())
    assert written["jvm"] == 4711


def test_each_job_has_a_file_of_its_own(tmp_path, monkeypatch):
    folder = str(tmp_path)
    names = ["job", "a/b", "a_b", "../x", ".x", "ä", "J" * 300, "J" * 301]
    files = [lock_file_path(folder, name) for name in names]
    assert len(set(files)) == len(names)
    assert {file.parent for file in files} == {tmp_path / "_target_spark"}
    assert max(len(file.name) for file in files) < 255
    assert lock_file_path(f"file://{folder}", "job") == lock_file_path(folder, "job")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    far = lock_file_path("s3a://bucket/tables", "job")
    assert far.is_relative_to(tmp_path / "cache")
    assert far != lock_file_path("s3a://bucket/others", "job")
    JobLock.acquire("s3a://bucket/tables", "job").release()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(TableError, match=r"cannot be written.*set path to"):
        JobLock.acquire(str(tmp_path / "file"), "job")


def test_a_file_system_that_cannot_lock_is_named(tmp_path):
    """Linux refuses locks on a file that is open as a path alone, as some file systems do."""
    file = os.open(tmp_path, os.O_PATH)
    try:
        with pytest.raises(JobLockError, match=f"{tmp_path} does not support locks"):
            _locked(file, tmp_path)
    finally:
        os.close(file)


def test_waiting_for_a_dead_owner_does_not_touch_a_living_one(owners, tmp_path):
    start(owners, tmp_path)
    wait_for_orphaned_jvms(str(tmp_path), "jo", wait_seconds=0)
    assert lock_file_path(str(tmp_path), "job").exists()


def test_what_a_dead_owner_started_is_waited_for_and_then_forgotten(owners, tmp_path):
    owner, child = start(owners, tmp_path, "600")
    owner.kill()
    owner.wait()
    with pytest.raises(JobLockError, match="may yet commit"):
        wait_for_orphaned_jvms(str(tmp_path), "jo", wait_seconds=0)
    ending = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {child}"])
    wait_for_orphaned_jvms(str(tmp_path), "jo", wait_seconds=60)
    ending.wait()
    assert _born(child or 0) is None
    assert not lock_file_path(str(tmp_path), "job").exists()


def test_a_lease_of_a_name_that_is_used_once_takes_its_file_along(tmp_path):
    lease = JobLock.acquire(str(tmp_path), "once")
    lease.release(remove=True)
    assert not lock_file_path(str(tmp_path), "once").exists()


@pytest.mark.parametrize("held", ["real", "former"])
def test_a_run_whose_settings_spell_the_folder_otherwise_is_refused(
    tmp_path: Path, held: str
) -> None:
    """Without a setting job: the default job and its lease are of the resolved location.

    An earlier release holds the lease of the name that it made of the path as it is spelled.
    """
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    config = {"path": str(link), "format": "parquet"}
    former = hashlib.sha256(f"parquet file://{link}".encode()).hexdigest()[:16]
    job = settings.get_job_name({**config, "path": str(real)}) if held == "real" else former
    lease = JobLock.acquire(str(real), job)
    try:
        done = loaded(tmp_path, config)
    finally:
        lease.release()
    assert done.returncode == 1
    assert f"Another run of job '{job}' is active" in done.stderr


def loaded(folder: Path, config: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Load one record in a process of its own."""
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


def test_a_full_disk_for_the_lease_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(TableError, match=r"cannot be written: .*No space left"):
            JobLock.acquire(str(tmp_path), "job")
    held = JobLock.acquire(str(tmp_path), "job")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        held.release()
    JobLock.acquire(str(tmp_path), "job").release()
