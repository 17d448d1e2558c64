"""Archive of Java classes (class data sharing) that shortens the start of Spark's JVM.

Create it with ``python -m target_spark.spark.class_archive``. The program runs a real load into a
temporary folder, and the JVM writes the archive when it ends. The load uses Parquet, because Java
archives only classes on the initial class path, which excludes Delta's jars. An archive fits one
version of Java and Spark; it is meant for images and machines that run target-spark often. Without
an archive, runs only start more slowly.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from tap_core.redaction import write_to_stderr
from target_spark.spark.jvm import archive_file, spark_home
from target_spark.spark.session import SparkSettings, check_java

__all__ = ["build_archive", "main"]

_PROGRAM = "from target_spark.target import TargetSpark; TargetSpark.cli()"
_ROWS = 2_000


def build_archive(archive: Path) -> None:
    """Create a class archive: a file of loaded Java classes that lets a later JVM start faster.

    A child process loads sample rows, and then writes the classes that it used to the archive.

    Raises:
        RuntimeError: The load failed. The message contains the end of its log.
    """
    archive.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    temporary = archive.with_suffix(f".{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="target-spark-archive-") as folder:
        config = Path(folder, "config.json")
        settings = {
            "path": str(Path(folder, "tables")),
            "format": "parquet",
            "flush_rows": _ROWS,
            "add_record_metadata": True,
            "spark": {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={temporary}"},
        }
        config.write_text(json.dumps(settings), encoding="utf-8")
        done = subprocess.run(  # noqa: S603  (this very program)
            [sys.executable, "-c", _PROGRAM, "--config", str(config)],
            input="\n".join([*_messages(), ""]).encode(),
            capture_output=True,
            check=False,
        )
    if done.returncode or not temporary.is_file():
        raise RuntimeError(done.stderr.decode(errors="replace")[-4000:])
    temporary.replace(archive)  # atomically


def _messages() -> Iterator[str]:
    """Yield the Singer messages of the sample load that determines the classes in the archive.

    They have columns of all types, and one row that does not match its schema.
    """
    properties = {
        "id": {"type": "integer"},
        "text": {"type": ["string", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "price": {"type": "number", "multipleOf": 0.01},
        "share": {"type": "number"},
        "on": {"type": "boolean"},
        "place": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    schema = {"type": "object", "properties": properties}
    yield json.dumps({"type": "SCHEMA", "stream": "s", "schema": schema, "key_properties": ["id"]})
    for number in range(3 * _ROWS):
        record = {
            "id": number % (2 * _ROWS),
            "text": f"text {number}",
            "at": f"2024-01-01T00:00:{number % 60:02}Z",
            "day": "2024-01-01" if number != _ROWS else "no day",
            "price": 1.25,
            "share": number / 7,
            "on": True,
            "place": {"x": number},
            "tags": ["a", "b"],
        }
        yield json.dumps({"type": "RECORD", "stream": "s", "record": record})
    yield json.dumps({"type": "STATE", "value": {"bookmarks": {}}})


def main() -> int:
    """Build the class archive for the installed Java and Spark. Return the exit code."""
    home = spark_home(SparkSettings().master, metadata.version("pyspark"))
    archive = archive_file(check_java(), home)
    if archive.is_file():
        print(f"{archive} exists already.")  # noqa: T201
        return 0
    try:
        build_archive(archive)
    except RuntimeError as error:
        write_to_stderr(f"The archive of classes was not created: {error}\n")
        return 1
    print(f"Created {archive}: Spark will start faster.")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
