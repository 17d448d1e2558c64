"""Java options and installation folder that make short runs cheap and long runs fast.

All choices here affect speed only; the user's options come last and override them. Measured on
Spark 4.1 and Java 17:

- Delaying the second compiler (`_PATIENT`) saves a third of the CPU time of a run with some hundred
thousand rows, and a fifth for millions. ``small_runs`` disables that compiler.
- A shared archive of classes (see `target_spark.spark.class_archive`) saves a third to a half of
the start. Java rejects an archive that does not fit its version and jars.
- Loading Spark's machine learning costs a tenth of the start and is not needed, so a local Spark
starts from a folder of links to all of Spark except that jar. Java archives only classes of jars
on its class path, so such a folder also has the jars of the table format.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from tap_core.io.private_files import trust_fault

__all__ = [
    "LAUNCHER_OPTIONS",
    "archive_file",
    "archive_options",
    "cache_folder",
    "find_exit_seconds",
    "has_class_archive",
    "jvm_options",
    "spark_home",
]

logger: logging.Logger = logging.getLogger(__name__)

_COLLECTOR = re.compile(r"-XX:\+Use\w*GC")
_PATIENT = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_WITHOUT_SECOND_COMPILER = ("-XX:TieredStopAtLevel=1",)
_ONE_THREAD_COLLECTS = "-XX:+UseSerialGC"
_EXIT_SECONDS = 30.0
_ARCHIVE_SECONDS = 900.0

LAUNCHER_OPTIONS = " ".join([*_WITHOUT_SECOND_COMPILER, _ONE_THREAD_COLLECTS, "-Xshare:auto"])
"""Options for the small JVM that Spark starts first, only to build a command line."""


def cache_folder() -> Path:
    """Return the user's cache folder for files that target-spark downloads or generates."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(cache, "target-spark")


def spark_home(master: str, spark_version: str, jars: Mapping[str, str] | None = None) -> Path:
    """Return the installation folder to start Spark from.

    If the environment variable `SPARK_HOME` is set, it is used. Otherwise, for a local master, it
    is a folder of links to the installed PySpark without its machine learning jar, so that Spark
    starts faster. This folder is created if the Python environment is writable. For any other
    master it is the installed package, because workers use the same path.

    Args:
        master: Spark's master URL.
        spark_version: The version of Spark.
        jars: Further jars for the class path: the path of each, with the SHA-256 that its content
            must have. Copies of them are in the folder if it could be created with them.
    """
    from_environment = os.environ.get("SPARK_HOME")
    if from_environment:
        return Path(from_environment)
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pyspark")
    package = Path(spec.origin).parent
    if not master.startswith("local"):
        return package
    for added in (jars, None) if jars else (None,):
        home = _find_home(package, spark_version, added or {})
        if home is not None:
            return home
    return package


def _find_home(package: Path, spark_version: str, jars: Mapping[str, str]) -> Path | None:
    """Return the folder of links to the installed PySpark, with copies of further jars.

    Return None if it cannot be created, or if another user can change it.
    """
    home = _share() / f"spark-{_key(str(package), spark_version, *jars.values())}"
    copies = [home / "jars" / Path(jar).name for jar in jars]
    try:
        if not home.is_dir():
            _create_home(package, home, jars)
        return home if _is_trusted(home, home / "jars", *copies) else None
    except OSError:
        return None


def archive_file(java: str, home: Path) -> Path:
    """Return the path of the class archive for a Java program and a Spark folder.

    A class archive is a file of loaded Java classes that lets a JVM start faster. It is stored in
    the folder of the Python environment, because it works only with the jars of that environment.
    The file may not exist.
    """
    return _share() / f"classes-{_key(os.path.realpath(java), str(home))}.jsa"


def has_class_archive() -> bool:
    """Return True if the Python environment has a class archive, for any table format."""
    return any(_share().glob("classes-*.jsa"))


def jvm_options(given: str, *, small_runs: bool) -> Iterator[str]:
    """Yield the JVM options that make Spark faster.

    Args:
        given: The user's JVM options. If they choose a garbage collector, no option for that
            purpose is yielded.
        small_runs: True to optimize for a fast start; False to optimize for long runs.
    """
    yield from _WITHOUT_SECOND_COMPILER if small_runs else _PATIENT
    if not _COLLECTOR.search(given):
        yield _ONE_THREAD_COLLECTS


def archive_options(given: str, archive: Path) -> Iterator[str]:
    """Yield the JVM options that make Java use a class archive, a file of loaded Java classes.

    Nothing is yielded if the file does not exist, or if other users can change it.

    Args:
        given: The user's JVM options. If they choose a class archive, nothing is yielded.
        archive: The path of the class archive.
    """
    is_used = archive.is_file() and _is_trusted(archive)
    if is_used and "-XX:SharedArchiveFile" not in given:
        yield f"-XX:SharedArchiveFile={archive}"
        yield "-Xshare:auto"


def find_exit_seconds(options: str) -> float:
    """Return the seconds in which a JVM with the given options should end after a request to end.

    A JVM that writes a class archive at its end needs longer than others.
    """
    return _ARCHIVE_SECONDS if "-XX:ArchiveClassesAtExit" in options else _EXIT_SECONDS


def _share() -> Path:
    return Path(sys.prefix, "share", "target-spark")


def _is_trusted(path: Path, *beside: Path) -> bool:
    """Return True if only this user, root or the owner of the Python environment can write files.

    Otherwise log a warning. The check is necessary because Java executes the content of the files.

    Args:
        path: The file to check. Its folder is checked too.
        *beside: Other files to check.
    """
    owners = {Path(sys.prefix).stat().st_uid}
    for each in (path.parent, path, *beside):
        status = each.lstat()
        fault = "is a link" if stat.S_ISLNK(status.st_mode) else trust_fault(status, owners)
        if fault:
            logger.warning("%s is not used, because %s %s: remove it.", path, each, fault)
            return False
    return True


def _key(*what: str) -> str:
    return hashlib.sha256("\n".join(what).encode()).hexdigest()[:16]


def _create_home(package: Path, home: Path, jars: Mapping[str, str]) -> None:
    """Create a folder of links to all files of Spark except its machine learning jar.

    The folder appears only when it is complete. If another process creates it first, that folder is
    used.

    Args:
        package: The folder of the installed PySpark.
        home: The folder to create.
        jars: Jars to copy into the folder: the path of each, with the SHA-256 of its content.

    Raises:
        OSError: The folder cannot be created, or a jar has other content.
    """
    home.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        (temporary / "jars").mkdir(mode=0o755)
        for name in ("bin", "python"):
            (temporary / name).symlink_to(package / name)
        for jar in (package / "jars").iterdir():
            if not jar.name.startswith("spark-mllib_"):
                (temporary / "jars" / jar.name).symlink_to(jar)
        for path, digest in jars.items():
            _copy_jar(Path(path), temporary / "jars" / Path(path).name, digest)
        temporary.chmod(0o755)
        temporary.rename(home)
    except OSError:
        if not home.is_dir():
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _copy_jar(jar: Path, copy: Path, digest: str) -> None:
    content = jar.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise OSError(f"{jar} is not the published jar")
    copy.write_bytes(content)
    copy.chmod(0o644)
