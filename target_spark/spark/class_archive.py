"""Program that builds archives of Java classes (class data sharing) to start Spark's JVM faster.

Run it as ``python -m target_spark.spark.class_archive [format ...]``. For each table format it
loads sample rows into a temporary folder, and the JVM writes the archive when it ends. The sample
load includes a MERGE, because the first MERGE loads as many classes as the start of Spark.

An archive is valid for one version of Java, Spark and the format's jars. It is optional, and meant
for container images and machines that run target-spark often.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from tap_core.io.private_files import make_parents
from tap_core.redaction import write_to_stderr
from target_spark.errors import SparkUnavailableError
from target_spark.spark.session import SparkSettings, check_java, plan_launch

__all__ = ["build_archive", "main"]

_PROGRAM = "from target_spark.target import TargetSpark; TargetSpark.cli()"
_BATCH_ROWS = 2_000
_FORMATS: Final = ("delta", "parquet", "iceberg")
_DEFAULT_FORMATS: Final = _FORMATS[:2]


def build_archive(archive: Path, table_format: str) -> None:
    """Create an archive of Java classes, for a faster start of Spark, by loading sample rows.

    The rows are loaded in a child process, whose JVM writes the archive at its end.

    Args:
        archive: The path of the archive file to create.
        table_format: The table format to load the rows into.

    Raises:
        RuntimeError: The load failed. The message contains the end of its log.
    """
    make_parents(archive)
    temporary = archive.with_suffix(f".{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="target-spark-archive-") as folder:
        config = Path(folder, "config.json")
        settings = {
            "path": str(Path(folder, "tables")),
            "format": table_format,
            "flush_rows": _BATCH_ROWS,
            "add_record_metadata": True,
            "small_runs": True,
            "spark": {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={temporary}"},
        }
        config.write_text(json.dumps(settings), encoding="utf-8")
        result = subprocess.run(  # noqa: S603  (this very program)
            [sys.executable, "-c", _PROGRAM, "--config", str(config)],
            input="\n".join([*_messages(), ""]).encode(),
            capture_output=True,
            check=False,
            cwd=folder,  # modules in the working folder are not imported
        )
    if result.returncode or not temporary.is_file():
        temporary.unlink(missing_ok=True)
        raise RuntimeError(result.stderr.decode(errors="replace")[-4000:])
    temporary.replace(archive)  # atomically


def _messages() -> Iterator[str]:
    """Yield the Singer messages of the sample load, whose Java classes the archive will contain.

    The records have columns of all types, and one record does not match its schema. They fill three
    batches: the first creates the table, the others update and add rows.
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
    for number in range(3 * _BATCH_ROWS):
        record = {
            "id": number % (2 * _BATCH_ROWS),
            "text": f"text {number}",
            "at": f"2024-01-01T00:00:{number % 60:02}Z",
            "day": "2024-01-01" if number != _BATCH_ROWS else "no day",
            "price": 1.25,
            "share": number / 7,
            "on": True,
            "place": {"x": number},
            "tags": ["a", "b"],
        }
        yield json.dumps({"type": "RECORD", "stream": "s", "record": record})
    yield json.dumps({"type": "STATE", "value": {"bookmarks": {}}})


def main(arguments: Sequence[str] | None = None) -> int:
    """Build class archives, with which Spark starts faster, and return the exit code.

    Args:
        arguments: The table formats, by default Delta and Parquet. If ``arguments`` is None, the
            formats are those on the command line.
    """
    parser = argparse.ArgumentParser(prog="python -m target_spark.spark.class_archive")
    parser.add_argument("formats", nargs="*", metavar="format", help=f"of {', '.join(_FORMATS)}")
    formats = parser.parse_args(arguments).formats or _DEFAULT_FORMATS
    for unknown in set(formats).difference(_FORMATS):
        parser.error(f"{unknown} is not a table format; use {', '.join(_FORMATS)}")
    return max(map(_build_for_format, formats))


def _build_for_format(table_format: str) -> int:
    """Build the Java class archive for a table format unless it exists; return the exit code."""
    try:
        settings = SparkSettings(format=table_format)
        archive = plan_launch(settings, metadata.version("pyspark"), check_java()).archive
        if archive.is_file():
            print(f"{archive} exists already.")  # noqa: T201
            return 0
        build_archive(archive, table_format)
    except (RuntimeError, SparkUnavailableError) as error:
        write_to_stderr(f"The class archive for {table_format} was not created: {error}\n")
        return 1
    print(f"Created {archive}: Spark will start faster with {table_format}.")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
