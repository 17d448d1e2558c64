"""How Spark's JVM is started: options that make short runs cheap and long ones fast.

Rules of the room: what is chosen here is about speed only; options of the user come last
and win. Measured on Spark 4.1 and Java 17:

- The second compiler costs more than it gives before a method has run very often, so it
  is told to wait (`_PATIENT`): a third less CPU for a run of a few hundred thousand
  rows, a fifth less for millions. ``small_runs`` does without it.
- Classes that were read and checked once can be kept in an archive that later JVMs map
  into memory: a third to a half of the start. It is made on purpose, by
  ``python -m target_spark.spark.class_archive``, and used wherever it fits; Java itself refuses one
  that does not (another version, other jars).
- Every session loads what Spark's machine learning registers in it, a tenth of the
  start, and nothing here asks for it. So a local Spark is started from a folder of links
  to all of Spark but that jar.
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
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tap_core.io.private_files import trust_fault
from target_spark.storage.hadoop_fs import is_remote_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "LAUNCHER_OPTIONS",
    "archive_file",
    "cache_folder",
    "collect_garbage",
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

LAUNCHER_OPTIONS = " ".join([*_WITHOUT_SECOND_COMPILER, _ONE_THREAD_COLLECTS, "-Xshare:auto"])
"""For the small JVM that Spark starts before, only to work out a command line."""


def cache_folder() -> Path:
    """Return the user's folder for what is made or fetched once."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(cache, "target-spark")


def spark_home(master: str, spark_version: str) -> Path:
    """Return the folder that Spark is started from; `SPARK_HOME` wins.

    For a local master it is a folder of links, made here where the Python environment can
    be written. Other masters tell their workers the folder, so they get the real one.
    """
    given = os.environ.get("SPARK_HOME")
    if given:
        return Path(given)
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("pyspark")
    package = Path(found.origin).parent
    if not master.startswith("local"):
        return package
    home = _share() / f"spark-{_key(str(package), spark_version)}"
    try:
        if not home.is_dir():
            _link_all_but_ml(package, home)
        return home if _is_trusted(home, home / "jars") else package
    except OSError:
        return package


def archive_file(java: str, home: Path) -> Path:
    """Return where the archive of classes for this Java and this Spark is kept.

    It stands in the Python environment, since it fits the jars of that one alone.
    """
    return _share() / f"classes-{_key(os.path.realpath(java), str(home))}.jsa"


def jvm_options(given: str, *, small_runs: bool, archive: Path | None) -> Iterator[str]:
    """Yield the options for speed; ``given`` are the user's, which follow them."""
    yield from _WITHOUT_SECOND_COMPILER if small_runs else _PATIENT
    if not _COLLECTOR.search(given):
        yield _ONE_THREAD_COLLECTS
    is_used = archive is not None and archive.is_file() and _is_trusted(archive)
    if is_used and "-XX:SharedArchiveFile" not in given:
        yield f"-XX:SharedArchiveFile={archive}"
        yield "-Xshare:auto"


def _share() -> Path:
    return Path(sys.prefix, "share", "target-spark")


def _is_trusted(path: Path, *beside: Path) -> bool:
    """Return True if nobody but this user, root or the owner of the environment wrote these.

    A path that is not trusted is named in a warning: Java runs what is in it.
    """
    owners = {Path(sys.prefix).stat().st_uid}
    for each in (path.parent, path, *beside):
        status = each.lstat()
        fault = "is a link" if stat.S_ISLNK(status.st_mode) else trust_fault(status, owners)
        if fault:
            logger.warning("%s is not used, since %s %s: remove it.", path, each, fault)
            return False
    return True


def _key(*what: str) -> str:
    return hashlib.sha256("\n".join(what).encode()).hexdigest()[:16]


def _link_all_but_ml(package: Path, home: Path) -> None:
    """Make the folder of links; it appears whole, and another process may be first."""
    home.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        (fresh / "jars").mkdir(mode=0o755)
        for name in ("bin", "python"):
            (fresh / name).symlink_to(package / name)
        for jar in (package / "jars").iterdir():
            if not jar.name.startswith("spark-mllib_"):
                (fresh / "jars" / jar.name).symlink_to(jar)
        fresh.chmod(0o755)
        fresh.rename(home)
    except OSError:
        if not home.is_dir():
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def collect_garbage(spark: SparkSession) -> None:
    """Return the memory of a batch of large rows to the heap, so that batches do not add up."""
    if not is_remote_session(spark):
        spark.sparkContext._jvm.java.lang.System.gc()  # type: ignore[union-attr]  # noqa: SLF001
