"""Identity of an engine (shared Spark process): its versions, settings and variables.

A run uses an engine only if both have the same identity. So the run gets the same Spark version,
jars, settings, credentials and file modes as with a Spark that it starts itself. Values are stored
as hashes, because settings and environment variables may contain secrets.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from target_spark.spark.jars import uses_azure, uses_s3
from target_spark.spark.jvm import spark_home
from target_spark.spark.session import SparkSettings, find_pyspark_version
from target_spark.storage.uris import to_local_folder

__all__ = ["Identity", "find_differences"]

_VARIABLES: Final = re.compile(
    r"(AWS|AZURE|GOOGLE|GCS|HADOOP|HDFS|YARN|HIVE|S3|SPARK|PYSPARK|JAVA|JDK|KRB5|LC|LD)_.*"
    r"|_JAVA_OPTIONS|PYTHON(PATH|HOME|HASHSEED)|KRB5CCNAME|LANG|TZ|HOME|XDG_CACHE_HOME"
    r"|(?i:\w+_proxy)"
)
"""Environment variables that Spark, Java, the storage libraries or Python's workers may read."""

_DIGEST_LENGTH: Final = 16


@dataclass(frozen=True, slots=True)
class Identity:
    """Versions, settings and environment variables of an engine (shared Spark process).

    Attributes:
        parts: The hash of each version, setting and variable, by its name, such as ``master`` or
            ``spark.driver.memory``.
    """

    parts: Mapping[str, str]

    @classmethod
    def of_run(cls, settings: SparkSettings, environ: Mapping[str, str] | None = None) -> Identity:
        """Return the identity that a shared Spark process must have to be used with these settings.

        Args:
            settings: The Spark settings of the run.
            environ: The environment variables to read; None for those of this process.
        """
        variables = os.environ if environ is None else environ
        values = {
            **dict(_program_parts(settings, variables)),
            **dict(_setting_parts(settings)),
            **{f"variable {k}": v for k, v in variables.items() if _VARIABLES.fullmatch(k)},
        }
        return cls({name: _digest(name, value) for name, value in sorted(values.items())})

    @property
    def key(self) -> str:
        """Hash of `parts` (settings, versions, variables); it names the shared Spark's folder."""
        return _digest(json.dumps(self.parts, sort_keys=True))


def find_differences(identity: Identity, engine_parts: Mapping[str, str]) -> list[str]:
    """Return the sorted names of `Identity.parts` in which a run and a shared Spark differ.

    These are settings, program versions and environment variables.

    Args:
        identity: The identity of the run.
        engine_parts: The attribute ``parts`` of the engine's identity.
    """
    names = {*identity.parts, *engine_parts}
    return sorted(name for name in names if identity.parts.get(name) != engine_parts.get(name))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogateescape")).hexdigest()[
        :_DIGEST_LENGTH
    ]


def _program_parts(
    settings: SparkSettings, environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the name and a text of each program that Spark uses, such as Java, and the umask.

    The text of a program is its version, or its path, size and modification time.
    """
    version = find_pyspark_version()
    yield "PySpark", version
    yield "Python", sys.executable
    yield "target-spark", f"{Path(__file__).parents[1]} {metadata.version('tap-core-sdk')}"
    java_home = environ.get("JAVA_HOME")
    java = (
        f"{java_home}/bin/java"
        if java_home
        else shutil.which("java", path=environ.get("PATH", "")) or ""
    )
    yield "Java", _describe_file(os.path.realpath(java)) if java else ""
    folder = environ.get("SPARK_CONF_DIR") or str(
        Path(spark_home(settings.master, version), "conf")
    )
    yield "spark-defaults.conf", _describe_file(str(Path(folder, "spark-defaults.conf")))
    mask = os.umask(0o077)  # it can only be read by setting it
    os.umask(mask)
    yield "umask", oct(mask)


def _setting_parts(settings: SparkSettings) -> Iterator[tuple[str, str]]:
    yield "format", settings.format
    yield "master", settings.master
    yield "small_runs", str(settings.small_runs)
    storages = (uses(settings.addresses, settings.conf) for uses in (uses_s3, uses_azure))
    yield "object storage", " ".join(map(str, storages))
    yield "jars", " ".join(map(_describe_jar, settings.jars))
    if settings.conf or settings.jars:  # they may contain relative paths
        yield "the working folder", os.getcwd()  # noqa: PTH109  (Path.cwd does the same)
    yield from settings.conf.items()


def _describe_jar(jar: str) -> str:
    local = to_local_folder(jar)
    return jar if local is None else _describe_file(str(local.absolute()))


def _describe_file(path: str) -> str:
    """Return path, size and modification time of a file as text; only the path if it is missing."""
    try:
        status = os.stat(path)  # noqa: PTH116  (a path as text)
    except OSError:
        return path
    return f"{path} {status.st_size} {status.st_mtime_ns}"
