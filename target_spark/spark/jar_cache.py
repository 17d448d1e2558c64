"""Cache of the jars that Spark's resolver (Ivy) downloads, verified by SHA-256 before each use.

The cache folder is used only if no other user can change it between the check and the use.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from tap_core.io.private_files import (
    UntrustedPathError,
    check_folder,
    check_parents,
    find_trust_fault,
    make_private_folder,
    open_regular,
)
from target_spark.errors import SparkUnavailableError
from target_spark.spark.jar_versions import SHA256
from target_spark.spark.jvm import cache_folder, share_folder
from target_spark.spark.launch_files import format_java_properties, get_utf8_locale

__all__ = [
    "cached",
    "fetch",
    "get_jar_path",
    "ivy_folder",
    "locked",
    "remove_incomplete_jars",
    "sha256",
]

_CHUNK: Final = 1024 * 1024
_RESOLVER_SETTINGS: Final = (
    "spark.jars.packages",
    "spark.jars.excludes",
    "spark.jars.ivy",
    "spark.jars.ivySettings",
    "spark.jars.repositories",
    "spark.driver.extraJavaOptions",
)
"""Spark settings that are passed to Spark's resolver, which downloads jars. The last one is passed
because it may contain the address of a proxy."""


def ivy_folder(setting: str | None) -> Path:
    """Return the folder for downloaded jars.

    This is ``setting``, the value of the Spark setting ``spark.jars.ivy``, unless it is None or
    empty. The default is the folder ``share/target-spark/ivy`` of the Python environment if it
    exists, as in container images, and otherwise a folder in the user's cache.
    """
    if setting:
        return Path(setting)
    installed = share_folder() / "ivy"
    return installed if installed.is_dir() else cache_folder() / "ivy"


def cached(folder: Path, coordinates: Sequence[str]) -> list[str] | None:
    """Return the paths of jars in the cache, or None if one of them is missing or incomplete.

    The SHA-256 of each jar is compared with that of the published jar.

    Args:
        folder: The cache folder.
        coordinates: Maven coordinates of the jars, such as ``io.delta:delta-storage:4.4.0``.

    Raises:
        SparkUnavailableError: Another user can change the cache, or a jar differs from the
            published one.
    """
    jars = {name: get_jar_path(folder, name) for name in coordinates}
    try:
        if not folder.exists():
            return None
        _check_trusted(folder)
        if not all(map(zipfile.is_zipfile, jars.values())):
            return None
        for name, jar in jars.items():
            _check_jar(folder, name, jar)
    except UntrustedPathError as error:
        raise SparkUnavailableError(
            f"The cache of Spark's jars ({folder}) is not used, because another user could change"
            f" it: {error}. Let only this user write it (chmod -R go-w), or set spark.jars.ivy (in"
            " the setting spark) to another folder."
        ) from None
    except OSError:  # the folder cannot be read, which `fetch` reports
        return None
    return [str(jar) for jar in jars.values()]


def remove_incomplete_jars(folder: Path, coordinates: Sequence[str]) -> None:
    """Delete cached jars that are not complete zip files, so that Spark's resolver replaces them.

    The resolver would keep them, because it checks only if a file with the name exists.

    Args:
        folder: The cache folder.
        coordinates: Maven coordinates of the jars to check.
    """
    for jar in (get_jar_path(folder, name) for name in coordinates):
        if jar.is_file() and not zipfile.is_zipfile(jar):
            jar.unlink()


def get_jar_path(folder: Path, coordinates: str) -> Path:
    """Return the path of a jar in the cache: ``a.b:c:1`` -> ``<folder>/jars/a.b_c-1.jar``."""
    return folder / "jars" / f"{coordinates.replace(':', '_', 1).replace(':', '-')}.jar"


def _check_trusted(folder: Path) -> None:
    check_parents(folder)
    check_folder(folder)
    if (folder / "jars").exists():
        check_folder(folder / "jars")


def _check_jar(folder: Path, coordinates: str, jar: Path) -> None:
    """Check that a cached jar has the SHA-256 of the published jar.

    Raises:
        SparkUnavailableError: The SHA-256 differs.
        UntrustedPathError: Another user can change the file.
    """
    handle, status = open_regular(jar, os.O_RDONLY)
    with os.fdopen(handle, "rb") as file:
        if fault := find_trust_fault(status):
            raise UntrustedPathError(jar, fault)
        digest = sha256(file)
    if digest != SHA256[coordinates]:
        raise SparkUnavailableError(
            f"The jar {jar} is not used, because it is not {coordinates} as published: its SHA-256"
            f" is {digest} and should be {SHA256[coordinates]}. Remove the folder {folder}: the"
            " next run fetches its jars again. If that does not help, the repository that they"
            " come from holds another file. A jar of your own goes into the setting jars."
        )


def sha256(file: BinaryIO) -> str:
    """Return the SHA-256 of an open file, from its current position to its end, in hexadecimal."""
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Context manager: hold an exclusive lock on the cache folder, and yield its file descriptor.

    The folder is created if it does not exist. The lock prevents two processes from downloading
    the same file. A child process that inherits the descriptor holds the lock too.

    Raises:
        SparkUnavailableError: The folder cannot be written.
    """
    try:
        make_private_folder(folder)
        lock, status = open_regular(folder / ".lock", os.O_RDWR | os.O_CREAT)
        if fault := find_trust_fault(status):
            os.close(lock)
            raise UntrustedPathError(folder / ".lock", fault)
    except OSError as error:
        raise SparkUnavailableError(
            f"The folder for Spark's jars cannot be written: {error}. Set spark.jars.ivy"
            " (in the setting spark) to a folder that can be written."
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def fetch(conf: Mapping[str, str], home: Path, lock: int) -> bool:
    """Download the jars in ``spark.jars.packages`` into the cache, with Spark's resolver.

    The resolver runs in a child process, without executing code of the jars, and logs to standard
    error.

    Args:
        conf: Spark settings.
        home: The installation folder of Spark.
        lock: The file descriptor of the cache's lock, which the resolver's process inherits.

    Returns:
        True if the download succeeded.
    """
    properties = {key: conf[key] for key in _RESOLVER_SETTINGS if key in conf}
    properties |= {"spark.master": "local[1]", "spark.submit.deployMode": "client"}
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".conf") as file:
        # In a private file, because addresses of repositories may contain passwords.
        file.write(format_java_properties(properties))
        file.flush()
        command = [str(home / "bin" / "spark-submit"), "--properties-file", file.name]
        command += ["--load-spark-defaults", "--class", "org.apache.ivy.Main"]
        # spark-submit downloads the jars before it runs this class, which only prints its version.
        result = subprocess.run(  # noqa: S603  (Spark's own program)
            [*command, "spark-internal", "-version"],
            env={**os.environ, **get_utf8_locale(os.environ), "SPARK_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # signals to this process group do not reach the resolver
            pass_fds=[lock],
            umask=0o022,  # jars that others can write are rejected
            check=False,
        )
    return result.returncode == 0
