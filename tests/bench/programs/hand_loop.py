"""What a person writes by hand: one Spark, and one table after the other.

Called with the folder of the tables; the messages come on standard input.
The Spark is the target's own, with all its settings, so that what is compared is the loop.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from target_spark.spark.session import Session, SparkSettings

TYPES = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "string": "STRING"}


class Message(msgspec.Struct):
    """One line; the record stays the bytes that came."""

    type: str
    stream: str | None = None
    record: msgspec.Raw = msgspec.Raw()
    schema: dict[str, dict[str, dict[str, object]]] | msgspec.UnsetType = msgspec.UNSET


def ddl(schema: dict[str, object]) -> str:
    """Return the columns of a schema, dates and times as timestamps."""
    columns = []
    for name, definition in schema["properties"].items():  # type: ignore[attr-defined]
        kinds = definition["type"] if isinstance(definition["type"], list) else [definition["type"]]
        kind = TYPES[next(kind for kind in kinds if kind != "null")]
        columns.append(f"`{name}` {'TIMESTAMP' if 'format' in definition else kind}")
    return ", ".join(columns)


def split(folder: Path) -> dict[str, str]:
    """Write each stream's records to a file of its own; return the streams' columns."""
    folder.mkdir(parents=True)
    schemas: dict[str, str] = {}
    files = {}
    for line in sys.stdin.buffer:
        if line.startswith(b'{"type":"SCHEMA"'):
            message = json.loads(line)
            schemas[message["stream"]] = ddl(message["schema"])
            files[message["stream"]] = (folder / f"{message['stream']}.json").open("wb")
        elif line.startswith(b'{"type":"RECORD"'):
            record = msgspec.json.decode(line, type=Message)
            files[str(record.stream)].write(bytes(record.record) + b"\n")
    for file in files.values():
        file.close()
    return schemas


def main(folder: Path) -> None:
    """Load everything."""
    session = Session.start(SparkSettings())
    schemas = split(folder / "lines")
    spark = session.spark()
    for stream, columns in schemas.items():
        rows = spark.read.schema(columns).json(f"{folder}/lines/{stream}.json")
        rows.write.format("delta").save(f"{folder}/tables/{stream}")
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
