"""A bare msgspec loop that writes Singer messages, without an SDK and without checks.

Arguments: the case of the generator and the number of records.
"""

from __future__ import annotations

import os
import sys

import generator
import msgspec

BLOCK = 1 << 20


def main(case: str, count: int) -> None:
    """Write a schema, the records, and one state."""
    records, schema = {
        "narrow": (generator.narrow, generator.NARROW_SCHEMA),
        "nested": (generator.nested, generator.NESTED_SCHEMA),
        "wide": (generator.wide, generator.WIDE_SCHEMA),
    }[case]
    encoder = msgspec.json.Encoder()
    schema_message = {"type": "SCHEMA", "stream": case, "schema": schema, "key_properties": ["id"]}
    out = bytearray(encoder.encode(schema_message) + b"\n")
    latest = None
    for record in records(count):
        message = {
            "type": "RECORD",
            "stream": case,
            "record": record,
            "time_extracted": "2026-01-01T00:00:00.000000+00:00",
        }
        encoder.encode_into(message, out, -1)
        out += b"\n"
        latest = record["updated_at"]
        if len(out) >= BLOCK:
            write_all(out)
            out.clear()
    bookmark = {"replication_key": "updated_at", "replication_key_value": latest}
    state = {"type": "STATE", "value": {"bookmarks": {case: bookmark}}}
    write_all(out + encoder.encode(state) + b"\n")


def write_all(data: bytes | bytearray) -> None:
    """Write to standard output until all bytes are written."""
    with memoryview(data) as view:
        written = 0
        while written < len(view):
            written += os.write(1, view[written:])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
