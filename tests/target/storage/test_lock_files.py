"""Lock files: no other user of the machine can block a job or redirect a write."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from target_spark.errors import JobLockError
from target_spark.storage.job_lock import (
    JobLock,
    get_lock_holder,
    lock_file_path,
    monotonic_run_start,
    wait_for_orphaned_jvms,
)
from tests.other_user import STRANGER, as_root, run_as
from tests.other_user import open_to_all as open_to_all

TRY_TO_LOCK = """
try:
    file = os.open(sys.argv[1], os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("locked")
except PermissionError:
    print("denied")
"""
IMPORTS = """
from target_spark.errors import JobLockError
from target_spark.storage.job_lock import JobLock
"""
TAKE = """
os.umask(0o022)
try:
    JobLock.acquire(sys.argv[1], "job", wait_seconds=0).release()
    print("taken")
except JobLockError as error:
    print(error)
"""
PEER, TEAM = 61000, 61001


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def take(folder: Path) -> None:
    JobLock.acquire(str(folder), "job", wait_seconds=0).release()


def get_refusal(folder: Path) -> str:
    with pytest.raises(JobLockError) as caught:
        take(folder)
    assert monotonic_run_start(str(folder), ["job"], 1) == 1
    wait_for_orphaned_jvms(str(folder), "job", wait_seconds=0)
    return str(caught.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the job's lock file; its folder exists."""
    lock_path = lock_file_path(str(tmp_path), "job")
    lock_path.parent.mkdir(mode=0o700)
    return lock_path


def test_lock_file_and_its_folder_are_private(tmp_path: Path) -> None:
    """SEC18: a lock file and its folder are private; those of earlier versions become private."""
    take(tmp_path)
    path = lock_file_path(str(tmp_path), "job")
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    path.chmod(0o644)
    path.parent.chmod(0o755)
    assert get_lock_holder(str(tmp_path), "job") is None
    assert mode(path) == 0o644  # reading the holder changes nothing
    take(tmp_path)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)


def test_lock_file_of_an_address_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is in the user's cache, which no group shares, with any umask."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / "cache"))
    before = os.umask(0)
    try:
        JobLock.acquire("s3a://bucket/tables", "job").release()
    finally:
        os.umask(before)
    path = lock_file_path("s3a://bucket/tables", "job")
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    above = path.parent.parent
    assert mode(above) == mode(tmp_path / "home") == 0o755
    above.chmod(0o757)
    with pytest.raises(
        JobLockError, match=rf"{above} may be written by every user.*XDG_CACHE_HOME"
    ):
        JobLock.acquire("s3a://bucket/tables", "job")


@as_root
def test_other_users_can_neither_lock_nor_read_a_lock_file(open_to_all: Path) -> None:
    """SEC18: another user can neither lock nor read a lock file."""
    lease = JobLock.acquire(str(open_to_all), "job")
    lease.record_sessions(["session-of-spark-connect"])
    path = lock_file_path(str(open_to_all), "job")
    assert run_as(TRY_TO_LOCK, path) == "denied"
    lease.release()
    assert run_as(TRY_TO_LOCK, path) == "denied"
    take(open_to_all)


@pytest.mark.parametrize("exists", [True, False])
def test_symbolic_link_as_lock_file_is_not_followed(
    tmp_path: Path, path: Path, exists: bool
) -> None:
    """SEC18: a symbolic link in place of a lock file is not followed."""
    victim = tmp_path / "victim"
    if exists:
        victim.write_text("precious", encoding="utf-8")
    path.symlink_to(victim)
    assert f"{path} is a symbolic link" in get_refusal(tmp_path)
    assert victim.exists() == exists
    assert not exists or victim.read_text(encoding="utf-8") == "precious"


def test_hard_link_as_lock_file_is_rejected(tmp_path: Path, path: Path) -> None:
    """A hard link can be created without the right to write the file."""
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    os.link(victim, path)
    assert "second name" in get_refusal(tmp_path)
    assert victim.read_text(encoding="utf-8") == "precious"


@pytest.mark.parametrize("kind", ["folder", "fifo", "device"])
def test_lock_file_that_is_not_regular_is_rejected_immediately(
    tmp_path: Path, path: Path, kind: str
) -> None:
    """The open of a FIFO does not block."""
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif os.geteuid() == 0:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    else:
        pytest.skip("only root can make a device")
    assert "is not a regular file" in get_refusal(tmp_path)
    with pytest.raises(JobLockError, match="not a regular file"):
        get_lock_holder(str(tmp_path), "job")


@pytest.mark.parametrize("kind", ["link", "file"])
def test_lock_folder_that_is_a_link_or_file_is_rejected(tmp_path: Path, kind: str) -> None:
    """The target of the link is unchanged."""
    folder, elsewhere = tmp_path / "_target_spark", tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o755)
    if kind == "link":
        folder.symlink_to(elsewhere)
    else:
        folder.touch()
    assert f"{folder} is a link or a file" in get_refusal(tmp_path)
    assert list(elsewhere.iterdir()) == []
    assert mode(elsewhere) == 0o755


@as_root
@pytest.mark.parametrize("of", ["file", "folder"])
def test_lock_file_or_folder_of_another_user_is_rejected(
    tmp_path: Path, path: Path, of: str
) -> None:
    """In a folder that every user may write, another user could have created it first."""
    tmp_path.chmod(0o777)
    path.write_text(json.dumps({"run_started": 10**15}), encoding="utf-8")
    planted = path if of == "file" else path.parent
    os.chown(planted, STRANGER, STRANGER)
    message = get_refusal(tmp_path)
    assert f"{planted} belongs to another user" in message
    assert "or remove it" in message


@as_root
def test_group_members_share_the_locks_of_a_group_writable_warehouse(
    open_to_all: Path,
) -> None:
    """The lock excludes concurrent runs, and users outside of the group cannot open it."""
    os.chown(open_to_all, 0, TEAM)
    open_to_all.chmod(0o775)
    path = lock_file_path(str(open_to_all), "job")
    assert run_as(TAKE, open_to_all, user=PEER, group=TEAM, imports=IMPORTS) == "taken"
    assert path.stat().st_uid == PEER
    lease = JobLock.acquire(str(open_to_all), "job")
    output = run_as(TAKE, open_to_all, user=PEER, group=TEAM, imports=IMPORTS)
    assert "Another run of job 'job' is active" in output
    lease.release()
    assert run_as(TRY_TO_LOCK, path, user=PEER, group=TEAM) == "locked"
    assert run_as(TRY_TO_LOCK, path) == "denied"
    assert (mode(path), mode(path.parent)) == (0o660, 0o2770)
