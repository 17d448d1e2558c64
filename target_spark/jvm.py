"""How Spark's JVM is started: options that make short runs cheap and long ones fast.

Rules of the room: what is chosen here is about speed only; options of the user come last
and win. Measured on Spark 4.1 and Java 17:

- The second compiler costs more than it gives before a method has run very often, so it
  is told to wait (`_PATIENT`): a third less CPU for a run of a few hundred thousand
  rows, a fifth less for millions. ``small_runs`` does without it.
- Classes that were read and checked once can be kept in an archive that later JVMs map
  into memory: a third to a half of the start. It is made on purpose, by
  ``python -m target_spark.archive``, and used wherever it fits; Java itself refuses one
  that does not (another version, other jars).
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["LAUNCHER_OPTIONS", "archive_file", "cache_folder", "jvm_options"]

_COLLECTOR = re.compile(r"-XX:\+Use\w*GC")
_PATIENT = (
    "-XX:Tier4InvocationThreshold=250000",
    "-XX:Tier4MinInvocationThreshold=30000",
    "-XX:Tier4CompileThreshold=750000",
    "-XX:Tier4BackEdgeThreshold=2000000",
)
_WITHOUT_SECOND_COMPILER = ("-XX:TieredStopAtLevel=1",)
_ONE_THREAD_COLLECTS = "-XX:+UseSerialGC"

LAUNCHER_OPTIONS = " ".join([*_WITHOUT_SECOND_COMPILER, _ONE_THREAD_COLLECTS, "-Xshare:auto"])
"""For the small JVM that Spark starts before, only to work out a command line."""


def cache_folder() -> Path:
    """Return the user's folder for what is made or fetched once."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(cache, "target-spark")


def archive_file(java: str, spark_version: str) -> Path:
    """Return where the archive of classes for this Java and this Spark is kept.

    It stands in the Python environment, since it fits the jars of that one alone.
    """
    what = "\n".join([os.path.realpath(java), spark_version, _spark_folder()])
    name = hashlib.sha256(what.encode()).hexdigest()[:16]
    return Path(sys.prefix, "share", "target-spark", f"classes-{name}.jsa")


def jvm_options(given: str, *, small_runs: bool, archive: Path | None) -> Iterator[str]:
    """Yield the options for speed; ``given`` are the user's, which follow them."""
    yield from _WITHOUT_SECOND_COMPILER if small_runs else _PATIENT
    if not _COLLECTOR.search(given):
        yield _ONE_THREAD_COLLECTS
    if archive is not None and archive.is_file() and "-XX:SharedArchiveFile" not in given:
        yield f"-XX:SharedArchiveFile={archive}"
        yield "-Xshare:auto"


def _spark_folder() -> str:
    """Return the folder whose jars Spark is started with."""
    home = os.environ.get("SPARK_HOME")
    if home:
        return home
    from importlib.util import find_spec

    found = find_spec("pyspark")
    return str(found.origin) if found is not None else ""
