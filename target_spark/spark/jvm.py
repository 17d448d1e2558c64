"""Java options and an installation folder that make Spark start and run faster.

Only speed is affected, and the user's options take precedence. Measured on Spark 4.1 and Java 17:

- Java's second compiler, which optimizes code, starts later than by default. This saves a third of
  the CPU time of a run with some hundred thousand rows, and a fifth for millions. The setting
  ``small_runs`` disables that compiler.
- A class archive (see `target_spark.spark.class_archive`) saves a third to a half of the start.
  Java ignores an archive of another Java version or other jars.
- Without Spark's machine learning jar, the start is a tenth faster. Therefore a local Spark starts
  from a folder of links to the other files of Spark. The folder also contains the jars of the table
  format, because Java archives only classes of jars on its class path.
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

from tap_core.exceptions import ConfigurationError
from tap_core.io.private_files import find_trust_fault, make_parents

__all__ = [
    "LAUNCHER_OPTIONS",
    "archive_file",
    "archive_options",
    "cache_folder",
    "find_exit_seconds",
    "has_class_archive",
    "jvm_options",
    "share_folder",
    "spark_home",
]

logger: logging.Logger = logging.getLogger(__name__)

_GARBAGE_COLLECTOR = re.compile(r"-XX:\+Use\w*GC")
"""Regular expression for a JVM option that chooses a garbage collector."""

_LATE_SECOND_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""JVM options that delay the second (optimizing) compiler. The values are ten times Java's."""

_WITHOUT_SECOND_COMPILER = "-XX:TieredStopAtLevel=1"
_CODE_CACHE = "-XX:ReservedCodeCacheSize=240m"
"""JVM option for the size of the memory for compiled code. If Java uses only one compiler, its
default is 48 MB. This is too small for a long-lived Spark, so that Java would discard compiled code
and compile it again."""
_SERIAL_COLLECTOR = "-XX:+UseSerialGC"
_EXIT_SECONDS = 30.0
_ARCHIVE_SECONDS = 900.0

LAUNCHER_OPTIONS = f"{_WITHOUT_SECOND_COMPILER} {_SERIAL_COLLECTOR} -Xshare:auto"
"""JVM options for Spark's launcher, a small JVM that only builds the command line for Spark."""


def cache_folder() -> Path:
    """Return target-spark's folder in the user's cache, such as ``~/.cache/target-spark``.

    Raises:
        ConfigurationError: The home folder of the user is unknown.
    """
    cache = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(cache or Path("~/.cache").expanduser(), "target-spark")
    except RuntimeError as error:
        raise ConfigurationError(
            "There is no folder for the cache of target-spark, because this user has no home"
            " folder. Set the environment variable HOME or XDG_CACHE_HOME."
        ) from error


def spark_home(master: str, spark_version: str, jars: Mapping[str, str] | None = None) -> Path:
    """Return the installation folder to start Spark from.

    If the environment variable ``SPARK_HOME`` is set, its value is returned. Otherwise, for a local
    master, the result is a folder of links to the installed PySpark without the machine learning
    jar, from which Spark starts faster. The folder is created if the Python environment is
    writable. In all other cases the result is the installed package, whose path is the same on a
    cluster's workers.

    Args:
        master: Spark's master URL.
        spark_version: The version of Spark.
        jars: Jars to copy into the folder of links, if possible: path -> required SHA-256.
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
    home = _find_or_create_home(package, spark_version, jars) if jars else None
    return home or _find_or_create_home(package, spark_version, {}) or package


def _find_or_create_home(package: Path, spark_version: str, jars: Mapping[str, str]) -> Path | None:
    """Return the folder of links to the files of the installed PySpark; create it if missing.

    Return None if that fails, or if another user can change the folder. ``jars`` maps the path of
    each jar to copy into the folder to its required SHA-256.
    """
    home = share_folder() / f"spark-{_hash(str(package), spark_version, *jars.values())}"
    copies = [home / "jars" / Path(jar).name for jar in jars]
    try:
        if not home.is_dir():
            _create_home(package, home, jars)
        return home if _is_trusted(home, home / "jars", *copies) else None
    except OSError:
        return None


def archive_file(java: str, home: Path) -> Path:
    """Return the path of the class archive for a Java program and an installation of Spark.

    A class archive is a file of loaded Java classes that makes a JVM start faster. It is stored in
    the Python environment, because it works only with the jars there. The file may be missing.

    Args:
        java: The path of the Java program.
        home: The installation folder of Spark.
    """
    return share_folder() / f"classes-{_hash(os.path.realpath(java), str(home))}.jsa"


def has_class_archive() -> bool:
    """Return True if the Python environment has a class archive, so that Spark starts faster."""
    return any(share_folder().glob("classes-*.jsa"))


def jvm_options(user_options: str, *, small_runs: bool) -> Iterator[str]:
    """Yield JVM options that make Spark faster.

    Args:
        user_options: The user's JVM options. If they choose a garbage collector, it is kept.
        small_runs: True to optimize for a fast start; False to optimize for long runs.
    """
    yield from (_CODE_CACHE, _WITHOUT_SECOND_COMPILER) if small_runs else _LATE_SECOND_COMPILER
    if not _GARBAGE_COLLECTOR.search(user_options):
        yield _SERIAL_COLLECTOR


def archive_options(user_options: str, archive: Path) -> Iterator[str]:
    """Yield the JVM options to start Spark faster from an archive of loaded Java classes.

    Yield nothing if the file ``archive`` does not exist, other users can change it, or
    ``user_options`` choose another archive.
    """
    is_used = archive.is_file() and _is_trusted(archive)
    if is_used and "-XX:SharedArchiveFile" not in user_options:
        yield f"-XX:SharedArchiveFile={archive}"
        yield "-Xshare:auto"


def find_exit_seconds(options: str) -> float:
    """Return the seconds to wait for the end of a JVM that was started with ``options``.

    A JVM gets 30 seconds, or 900 if it writes an archive of its Java classes when it ends.
    """
    return _ARCHIVE_SECONDS if "-XX:ArchiveClassesAtExit" in options else _EXIT_SECONDS


def share_folder() -> Path:
    """Return target-spark's folder in the Python environment, for files such as class archives."""
    return Path(sys.prefix, "share", "target-spark")


def _is_trusted(path: Path, *more_paths: Path) -> bool:
    """Return True if only this user, root or the Python environment's owner can write to the paths.

    Otherwise log a warning. The parent folder of ``path`` is checked too. The check is necessary
    because Java executes the content of the files.
    """
    owners = {Path(sys.prefix).stat().st_uid}
    for checked in (path.parent, path, *more_paths):
        status = checked.lstat()
        fault = "is a link" if stat.S_ISLNK(status.st_mode) else find_trust_fault(status, owners)
        if fault:
            logger.warning("%s is not used, because %s %s: remove it.", path, checked, fault)
            return False
    return True


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _create_home(package: Path, home: Path, jars: Mapping[str, str]) -> None:
    """Create a folder of links to all files of Spark except its machine learning jar.

    The folder appears only when it is complete; if another process created it first, that one is
    kept. ``jars`` maps the path of each jar to copy into the folder to its required SHA-256.

    Raises:
        OSError: The folder cannot be created, or the SHA-256 of a jar differs.
    """
    make_parents(home)
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
