"""Archive of classes that lets Spark's JVM start fast.

Make it by ``python -m target_spark.spark.class_archive``.

Rules of the room: a real load into a folder of its own that is thrown away; the JVM
writes the archive as it ends. As Parquet, since Java archives only what stands on the
class path from the start, and Delta's jars do not. Made once for a Java and a Spark; an
image or a machine that runs target-spark often is the place for it. Nothing depends on
it: without the archive runs only start more slowly.
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
    """Load made-up rows, and keep the classes that it took.

    Raises:
        RuntimeError: the load failed; its last words are in the message.
    """
    archive.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    fresh = archive.with_suffix(f".{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="target-spark-archive-") as folder:
        config = Path(folder, "config.json")
        settings = {
            "path": str(Path(folder, "tables")),
            "format": "parquet",
            "flush_rows": _ROWS,
            "add_record_metadata": True,
            "spark": {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={fresh}"},
        }
        config.write_text(json.dumps(settings), encoding="utf-8")
        done = subprocess.run(  # noqa: S603  (this very program)
            [sys.executable, "-c", _PROGRAM, "--config", str(config)],
            input="\n".join([*_messages(), ""]).encode(),
            capture_output=True,
            check=False,
        )
    if done.returncode or not fresh.is_file():
        raise RuntimeError(done.stderr.decode(errors="replace")[-4000:])
    fresh.replace(archive)  # it appears whole


def _messages() -> Iterator[str]:
    """Yield a stream with columns of every kind, and one row that does not fit."""
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
    """Make the archive for the Java and the Spark that a run would take."""
    home = spark_home(SparkSettings().master, metadata.version("pyspark"))
    archive = archive_file(check_java(), home)
    if archive.is_file():
        print(f"{archive} is there already.")  # noqa: T201
        return 0
    try:
        build_archive(archive)
    except RuntimeError as error:
        write_to_stderr(f"The archive of classes was not made: {error}\n")
        return 1
    print(f"Spark will start faster: its classes are kept in {archive}.")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
