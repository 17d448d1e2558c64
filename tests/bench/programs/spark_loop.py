"""A hand-written loop that loads one stream after the other with Spark.

Argument: the folder of the tables. Standard input has the Singer messages. Spark has the same
settings as in target-spark, so that only the loop differs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from target_spark.spark.session import Session, SparkSettings

TYPES = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "string": "STRING"}


class Message(msgspec.Struct):
    """A Singer message whose record is not decoded."""

    type: str
    stream: str | None = None
    record: msgspec.Raw = msgspec.Raw()
    schema: dict[str, dict[str, dict[str, object]]] | msgspec.UnsetType = msgspec.UNSET


def format_columns(schema: dict[str, Any]) -> str:
    """Return the columns of a schema in SQL. Dates and times are timestamps."""
    columns = []
    for name, definition in schema["properties"].items():
        types = definition["type"] if isinstance(definition["type"], list) else [definition["type"]]
        sql_type = TYPES[next(name for name in types if name != "null")]
        columns.append(f"`{name}` {'TIMESTAMP' if 'format' in definition else sql_type}")
    return ", ".join(columns)


def split_streams(folder: Path) -> dict[str, str]:
    """Write the records of each stream to a separate file; return the columns of the streams."""
    folder.mkdir(parents=True)
    schemas: dict[str, str] = {}
    files = {}
    for line in sys.stdin.buffer:
        if line.startswith(b'{"type":"SCHEMA"'):
            message = json.loads(line)
            schemas[message["stream"]] = format_columns(message["schema"])
            files[message["stream"]] = (folder / f"{message['stream']}.json").open("wb")
        elif line.startswith(b'{"type":"RECORD"'):
            record = msgspec.json.decode(line, type=Message)
            files[str(record.stream)].write(bytes(record.record) + b"\n")
    for file in files.values():
        file.close()
    return schemas


def main(folder: Path) -> None:
    """Load the records of standard input."""
    session = Session(SparkSettings()).start()
    schemas = split_streams(folder / "lines")
    spark = session.spark()
    for stream, columns in schemas.items():
        rows = spark.read.schema(columns).json(f"{folder}/lines/{stream}.json")
        rows.write.format("delta").save(f"{folder}/tables/{stream}")
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
