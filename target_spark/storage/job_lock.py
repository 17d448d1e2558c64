"""Lock of a job on the file system, which prevents two runs of one job at the same time.

The lock is a kernel lock (flock) on a file. The JVM inherits the open file, so the lock is
held until both this process and its JVM have ended. The file also contains:

- the process that holds the lock, for error messages;
- the ids of Spark Connect sessions, which may outlive both processes and which the next run closes;
- the start time of the last run, so that start times increase even if the clock was set back.

If the warehouse is a local folder, the lock file is in it. Otherwise the file is in the user's
cache folder, and the lock only covers runs on this machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tap_core.io.private_files import UntrustedPathError
from target_spark.errors import JobLockError, TableError
from target_spark.spark.jvm import cache_folder
from target_spark.storage.lock_files import open_lock_file
from target_spark.storage.uris import resolve_address, to_local_folder

__all__ = [
    "JobLock",
    "get_lock_holder",
    "get_start_ticks",
    "lock_file_path",
    "monotonic_run_start",
    "wait_for_orphaned_jvms",
]

_POLL_SECONDS = 0.1
_STARTED = "run_started"
_SESSIONS = "sessions"
_ENGINE = "engine"
_LONGEST_NAME = 100


def lock_file_path(warehouse: str, job: str) -> Path:
    """Return the path of a job's lock file, which need not exist.

    If ``warehouse``, the location of the tables, is a local folder, the path is inside it, else in
    the user's cache folder. All forms of the same path or URL give the same result.
    """
    name = re.sub(r"[^A-Za-z0-9._-]", "_", job).lstrip(".")[:_LONGEST_NAME]
    if name != job:
        name += "-" + hashlib.sha256(job.encode()).hexdigest()[:12]
    location = resolve_address(warehouse)
    folder = to_local_folder(location)
    if folder is not None:
        return folder / "_target_spark" / f"{name}.lease"
    location_hash = hashlib.sha256(location.encode()).hexdigest()[:16]
    return cache_folder() / "leases" / location_hash / f"{name}.lease"


def get_lock_holder(warehouse: str, job: str) -> str | None:
    """Return a text that describes the process that holds a job's lock; None if the lock is free.

    Args:
        warehouse: The path or URL of the tables.
        job: The name of the job.

    Raises:
        JobLockError: The file system does not support locks, or another user could change the lock
            file.
        OSError: The lock file cannot be opened.
    """
    path = lock_file_path(warehouse, job)
    try:
        file = _open_file(warehouse, path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except UntrustedPathError as error:
        raise _untrusted_lock_error(error, job) from None
    try:
        return None if _try_lock(file, path) else _describe_owner(_read_owner(file))
    finally:
        os.close(file)


def monotonic_run_start(warehouse: str, jobs: Collection[str], now: int) -> int:
    """Return a start time for a run that is later than the start of the job's last run.

    The result is ``now`` or, if the clock was set back, one millisecond after the last start.

    Args:
        warehouse: The path or URL of the tables.
        jobs: The current and all former names of the job.
        now: The current time, in milliseconds since 1970.

    Returns:
        The start time, in milliseconds since 1970.
    """
    return max(now, *(_read_last_start(warehouse, job) + 1 for job in jobs))


def _read_last_start(warehouse: str, job: str) -> int:
    """Return the start of a job's last run in milliseconds since 1970; -1 if it is unknown."""
    try:
        file = _open_file(warehouse, lock_file_path(warehouse, job), os.O_RDONLY)
    except OSError:
        return -1
    try:
        return int(_read_owner(file)[_STARTED])
    except (ValueError, KeyError, TypeError):
        return -1
    finally:
        os.close(file)


def wait_for_orphaned_jvms(warehouse: str, prefix: str, wait_seconds: float = 60) -> None:
    """Wait until the JVMs of killed runs have ended, for all jobs whose names start with a prefix.

    A JVM that outlives its run could still commit. There is no wait for active runs. The lock files
    of ended runs are deleted, so each of these job names must belong to only one run. Fivetran
    destinations use such names.

    Args:
        warehouse: The path or URL of the tables.
        prefix: The prefix of the job names.
        wait_seconds: The longest wait for each job.

    Raises:
        JobLockError: The JVM of a killed run did not end in time.
    """
    for path in sorted(lock_file_path(warehouse, prefix).parent.glob(f"{prefix}*.lease")):
        try:
            file = _open_file(warehouse, path, os.O_RDWR)
        except OSError:  # the owner has deleted it meanwhile, or is another user
            continue
        try:
            _wait_for_lock(file, path, path.stem, wait_seconds)
            path.unlink(missing_ok=True)
        except JobLockError:
            owner = _read_owner(file)
            if not owner.get("pid") or _is_dead(owner):  # else it is an active run
                raise
        finally:
            os.close(file)


class JobLock:
    """Exclusive lock of a job; only the run that holds it may commit rows of the job.

    Create it with `acquire` and end it with `release`.
    """

    def __init__(self, path: Path, file: int, owner: Mapping[str, Any]) -> None:
        self._path = path
        self._file = file
        self._owner = dict(owner)

    @classmethod
    def acquire(
        cls,
        warehouse: str,
        job: str,
        *,
        run: str = "",
        started: int = 0,
        wait_seconds: float = 60,
    ) -> JobLock:
        """Acquire the lock of a job.

        If the previous run was killed and its JVM is still running, wait until the JVM ends.

        Args:
            warehouse: The path or URL of the tables.
            job: The name of the job.
            run: The id of the run.
            started: The start of the run in milliseconds since 1970. The lock file stores it, so
                that `monotonic_run_start` returns a later time for the next run.
            wait_seconds: The longest wait for the JVM of a killed run.

        Raises:
            JobLockError: Another run is active, the JVM of a killed run did not end in time, or
                another user could change the lock file.
            TableError: The folder of the lock file cannot be written.
        """
        path = lock_file_path(warehouse, job)
        file = _open_for_writing(warehouse, path, job)
        try:
            _wait_for_lock(file, path, job, wait_seconds)
            former = _read_owner(file)
            owner = {
                "job": job,
                "run": run,
                _STARTED: started,
                **_describe_this_process(),
                _SESSIONS: former.get(_SESSIONS, []),
                _ENGINE: former.get(_ENGINE),
            }
            lock = cls(path, file, owner)
            lock._write()
        except OSError as error:  # a full disk
            os.close(file)
            raise _not_writable_error(error) from error
        except BaseException:
            os.close(file)
            raise
        return lock

    def fileno(self) -> int:
        """Return the file descriptor of the lock file.

        The JVM must inherit the descriptor, so that the lock lasts until the JVM ends.
        """
        return self._file

    def record_jvm(self, pid: int) -> None:
        """Store the process id of the run's JVM in the lock file."""
        self._owner["jvm"] = pid
        self._write()

    @property
    def leftover_sessions(self) -> tuple[str, ...]:
        """The ids of the Spark Connect sessions that an earlier, killed run left open."""
        return tuple(self._owner.get(_SESSIONS, ()))

    def record_sessions(self, names: Sequence[str]) -> None:
        """Store in the lock file the ids of this run's Spark Connect sessions.

        If this run is killed, the next run gets the ids from `leftover_sessions`.
        """
        self._owner[_SESSIONS] = list(names)
        self._write()

    @property
    def leftover_engine(self) -> str | None:
        """The folder of the shared Spark process that an earlier, killed run used, or None."""
        engine: str | None = self._owner.get(_ENGINE)
        return engine

    def record_engine(self, folder: str | None) -> None:
        """Store in the lock file the folder of the background Spark process that this run shares.

        If this run is killed, the next run gets the folder from `leftover_engine`. None means that
        the run starts its own Spark.
        """
        self._owner[_ENGINE] = folder
        self._write()

    def release(self, *, remove: bool = False) -> None:
        """Release the lock, even if the JVM still has the lock file open. Later calls do nothing.

        Args:
            remove: True to delete the lock file, which is safe only if no other run uses the job
                name. False to keep the file for the next run of the job.
        """
        if self._file < 0:
            return
        sessions = self._owner.get(_SESSIONS)
        self._owner = {_STARTED: self._owner[_STARTED]}
        if sessions:  # they could not be ended
            self._owner[_SESSIONS] = sessions
        with suppress(OSError):  # the lock is released even if the disk is full
            self._write()
        if remove:
            self._path.unlink(missing_ok=True)
        fcntl.flock(self._file, fcntl.LOCK_UN)
        os.close(self._file)
        self._file = -1

    def _write(self) -> None:
        """Replace the content of the lock file in one call, so that a kill leaves valid JSON."""
        text = json.dumps(self._owner).encode()
        # Spaces overwrite the rest of a longer previous content.
        os.pwrite(self._file, text.ljust(os.fstat(self._file).st_size), 0)


def _open_file(warehouse: str, path: Path, flags: int) -> int:
    return open_lock_file(path, flags, in_warehouse=to_local_folder(warehouse) is not None)


def _open_for_writing(warehouse: str, path: Path, job: str) -> int:
    try:
        return _open_file(warehouse, path, os.O_RDWR | os.O_CREAT)
    except UntrustedPathError as error:
        raise _untrusted_lock_error(error, job) from None
    except OSError as error:
        raise _not_writable_error(error) from error


def _not_writable_error(error: OSError) -> TableError:
    reason = f"{error.filename} is a file" if isinstance(error, FileExistsError) else error
    return TableError(
        f"The folder for the tables cannot be written: {reason}. Give this user the permission or"
        " free disk space to write there, or set path to a folder that can be written."
    )


def _untrusted_lock_error(error: UntrustedPathError, job: str) -> JobLockError:
    return JobLockError(
        f"The lock of job {job!r} cannot be trusted: {error}. Change its owner and mode, or remove"
        " it, while no run of the job is active; or choose a folder that only this user, or one"
        " group, may write (path; for tables at an address, XDG_CACHE_HOME)."
    )


def _wait_for_lock(file: int, path: Path, job: str, seconds: float) -> None:
    """Lock an open lock file, and wait at most ``seconds`` for the JVM of a killed run to end.

    Raises:
        JobLockError: Another run is active, or the JVM did not end in time.
    """
    end = time.monotonic() + seconds
    while True:
        if _try_lock(file, path):
            return
        owner = _read_owner(file)
        if owner.get("pid") and not _is_dead(owner):
            raise JobLockError(
                f"Another run of job {job!r} is active: {_describe_owner(owner)}. Wait for it or"
                " end it; pipelines that load into one location must differ in the setting job."
                f" (The lock is {path}.)"
            )
        if time.monotonic() >= end:
            raise JobLockError(
                f"The last run of job {job!r} has ended, but its JVM still holds the lock after"
                f" {seconds:g} s and may yet commit: {_describe_owner(owner)}. End that JVM and"
                f" start again. (The lock is {path}.)"
            )
        time.sleep(_POLL_SECONDS)


def _try_lock(file: int, path: Path) -> bool:
    """Lock an open lock file, and return True. Return False if another process has locked it.

    Raises:
        JobLockError: The file system does not support locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise JobLockError(
            f"The file system of {path} does not support locks ({error}), so two runs could write"
            " at the same time. Set path to a folder on a file system with locks."
        ) from error
    return True


def _read_owner(file: int) -> dict[str, Any]:
    """Return the JSON content of a lock file, such as the process id and host of its run.

    Return an empty dictionary if the file is empty or is just being written.
    """
    try:
        owner = json.loads(os.pread(file, 65536, 0))
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _describe_this_process() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "born": get_start_ticks(os.getpid()),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _is_dead(owner: Mapping[str, Any]) -> bool:
    """Return True if the run described by ``owner``, the content of a lock file, has ended.

    Return False for a process on another machine, because it cannot be checked.
    """
    if owner.get("host") != socket.gethostname():
        return False
    pid = int(owner["pid"])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # the process exists and belongs to another user
    return get_start_ticks(pid) != owner.get("born")


def get_start_ticks(pid: int) -> str | None:
    """Return a process's start time, to distinguish it from a later process with the same id.

    The unit is kernel ticks since boot, from ``/proc``. Return None if the process does not exist
    or is a zombie.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _describe_owner(owner: Mapping[str, Any]) -> str:
    if "pid" not in owner:
        return "its owner is unknown"
    jvm = f", JVM {owner['jvm']}" if "jvm" in owner else ""
    return f"process {owner['pid']} on {owner['host']}, since {owner['started']}{jvm}"
