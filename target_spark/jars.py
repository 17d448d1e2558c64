"""Which jars a table format needs beside Spark's own, and where they are kept.

Rules of the room: one table says which artifact belongs to which line of Spark; where
it has no row, we refuse with the way out. Spark's own resolver fetches the jars once,
without what Spark ships already; afterwards they are used from the cache, offline.
"""

from __future__ import annotations

import fcntl
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from target_spark.errors import SparkUnavailableError
from target_spark.jvm import cache_folder

__all__ = [
    "ARTIFACTS",
    "EXCLUDES",
    "cached",
    "format_conf",
    "ivy_folder",
    "jars_hint",
    "resolving",
    "wanted",
]

_DELTA = "4.4.0"
_EXTENSIONS = "spark.sql.extensions"
_CONF: Mapping[str, Mapping[str, str]] = {
    "delta": {
        _EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        _EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    },
}
"""What makes Spark know a format. Catalogs by path are told to it by their writer."""

_CATALOG = re.compile(r"spark\.sql\.catalog\.[^.]+")
_ICEBERG_CATALOGS = frozenset(
    {
        "org.apache.iceberg.spark.SparkCatalog",
        "org.apache.iceberg.spark.SparkSessionCatalog",
    }
)

ARTIFACTS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("delta", "4.0"): (
        f"io.delta:delta-spark_4.0_2.13:{_DELTA}",
        f"io.delta:delta-storage:{_DELTA}",
    ),
    ("delta", "4.1"): (
        f"io.delta:delta-spark_4.1_2.13:{_DELTA}",
        f"io.delta:delta-storage:{_DELTA}",
    ),
    ("delta", "4.2"): (
        f"io.delta:delta-spark_4.2_2.13:{_DELTA}",
        f"io.delta:delta-storage:{_DELTA}",
    ),
    ("iceberg", "4.0"): ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",),
    ("iceberg", "4.1"): ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
}
"""Format and line of Spark: the artifact, then what it needs beside it."""

EXCLUDES = (
    "io.unitycatalog:unitycatalog-hadoop",
    "io.unitycatalog:unitycatalog-client",
    "io.delta:delta-kernel-api",
    "io.delta:delta-kernel-defaults",
    "io.delta:delta-kernel-unitycatalog",
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8",
    "com.fasterxml.jackson.core:jackson-databind",
    "com.fasterxml.jackson.core:jackson-core",
    "com.fasterxml.jackson.core:jackson-annotations",
    "com.google.code.findbugs:jsr305",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-slf4j2-impl",
    "org.slf4j:slf4j-api",
    "org.apache.parquet:parquet-hadoop",
    "org.roaringbitmap:RoaringBitmap",
    "org.antlr:antlr4-runtime",
)
"""What the artifacts name and Spark has in newer versions, or file tables never use."""


def wanted(table_format: str, spark_version: str) -> tuple[str, ...]:
    """Return the Maven coordinates that a format needs on this version of Spark.

    Raises:
        SparkUnavailableError: nothing is published for this line of Spark.
    """
    if table_format == "parquet":
        return ()
    line = ".".join(spark_version.split(".")[:2])
    found = ARTIFACTS.get((table_format, line))
    if found is None:
        lines = sorted(known for name, known in ARTIFACTS if name == table_format)
        raise SparkUnavailableError(
            f"There is no {table_format} library for Spark {spark_version}"
            f" (there is for {', '.join(lines) or 'none'}). Install one of these lines,"
            " for example: pip install 'pyspark>=4.1.4,<4.2'; or set format to parquet."
        )
    return found


def ivy_folder(setting: str | None) -> Path:
    """Return the folder in which resolved jars are kept: the setting, or a user's cache."""
    return Path(setting) if setting else cache_folder() / "ivy"


def cached(folder: Path, coordinates: Sequence[str]) -> list[str] | None:
    """Return the jars' paths where an earlier run has resolved all of them, whole."""
    jars = [
        folder / "jars" / f"{name.replace(':', '_', 1).replace(':', '-')}.jar"
        for name in coordinates
    ]
    if all(zipfile.is_zipfile(jar) for jar in jars):
        return [str(jar) for jar in jars]
    return None


def format_conf(
    table_format: str,
    conf: Mapping[str, str],
    jars: Sequence[str],
    spark_version: str,
) -> dict[str, str]:
    """Return the settings that bring a format's classes into Spark.

    Jars come from a local path (`jars`, or `spark.jars` in `conf`), from the cache, or
    through `spark.jars.packages`. What `conf` says itself is kept and added to.
    """
    out = _words_of_the_format(table_format, conf)
    coordinates = wanted(table_format, spark_version)
    packages = conf.get("spark.jars.packages")
    local, missing = [*jars], ""
    if coordinates and not _given(coordinates[0], (*jars, conf.get("spark.jars"), packages)):
        found = cached(ivy_folder(conf.get("spark.jars.ivy")), coordinates)
        local += found or []
        missing = "" if found else coordinates[0]
    if local:
        out["spark.jars"] = _joined(*local, conf.get("spark.jars"))
    if missing or packages:
        out["spark.jars.ivy"] = str(ivy_folder(conf.get("spark.jars.ivy")))
        out["spark.jars.packages"] = _joined(missing, packages)
        out["spark.jars.excludes"] = _joined(*EXCLUDES, conf.get("spark.jars.excludes"))
    return out


@contextmanager
def resolving(conf: Mapping[str, str]) -> Iterator[None]:
    """Hold the cache's lock while Spark resolves jars: its resolver knows no other process."""
    if "spark.jars.packages" not in conf or "spark.jars.ivy" not in conf:
        yield
        return
    folder = Path(conf["spark.jars.ivy"])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SparkUnavailableError(
            f"The folder for Spark's jars cannot be written: {error}. Set spark.jars.ivy"
            " (in the setting spark) to a folder that can."
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def jars_hint(table_format: str, conf: Mapping[str, str]) -> str:
    """Return what to do when the jars were asked for and could not be had; else nothing."""
    packages = conf.get("spark.jars.packages")
    if not packages:
        return ""
    return (
        f" Most likely the jars of {table_format} could not be fetched ({packages}, cache"
        f" {conf.get('spark.jars.ivy')}; the resolver's words stand above). Ways out:"
        " let this machine reach Maven Central once, afterwards the cache is enough;"
        " or name a mirror in an Ivy settings file (spark.jars.ivySettings);"
        " or download the jars and give their paths in the setting jars;"
        " or set format to parquet, which needs no jar."
        " If the words above are 'download failed' for a jar that was 'found in"
        " local-m2-cache', remove that entry from ~/.m2/repository: it has no jar."
    )


def _words_of_the_format(table_format: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return what Spark is told of a format; a catalog that the user names stays theirs."""
    out = {key: conf.get(key, value) for key, value in _CONF.get(table_format, {}).items()}
    if _EXTENSIONS in out:
        out[_EXTENSIONS] = _joined(_CONF[table_format][_EXTENSIONS], conf.get(_EXTENSIONS))
    for key, value in conf.items():
        if _CATALOG.fullmatch(key) and value in _ICEBERG_CATALOGS:
            # Each session has caches of its own, and two of ours write one table in turn.
            cache = f"{key}.cache-enabled"
            out[cache] = conf.get(cache, "false")
    return out


def _given(coordinates: str, jars: Iterable[str | None]) -> bool:
    """Tell whether the artifact is among what the user gives, in whatever version."""
    artifact = re.split(r"[-_]\d", coordinates.split(":")[1])[0]
    return any(artifact in jar for jar in jars if jar)


def _joined(*parts: str | None) -> str:
    return ",".join(part for part in parts if part)
