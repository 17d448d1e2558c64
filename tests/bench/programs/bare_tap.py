"""What a person writes by hand: one loop, one encoder, large writes; no SDK, no checks.

Called with the case and the count of records.
"""

from __future__ import annotations

import os
import sys

import made
import msgspec

BLOCK = 1 << 20


def main(case: str, count: int) -> None:
    """Write a schema, the records, and one state."""
    records, schema = {
        "narrow": (made.narrow, made.NARROW_SCHEMA),
        "nested": (made.nested, made.NESTED_SCHEMA),
        "wide": (made.wide, made.WIDE_SCHEMA),
    }[case]
    encoder = msgspec.json.Encoder()
    described = {"type": "SCHEMA", "stream": case, "schema": schema, "key_properties": ["id"]}
    out = bytearray(encoder.encode(described) + b"\n")
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
    """Write to standard output, whatever a single write takes."""
    with memoryview(data) as view:
        done = 0
        while done < len(view):
            done += os.write(1, view[done:])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
