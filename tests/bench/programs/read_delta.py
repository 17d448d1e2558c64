"""Check a Delta table against the generator, value by value: called with folder, stream, count.

Instants may be stored as such or as text, nested values as such or as JSON. The tools' own
columns are left out. The table is the one in the folder that has the stream's name.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import made
import pyarrow as pa
from deltalake import DeltaTable

STEP = 20_000


def plain(found: Any, wanted: Any) -> Any:
    """Return a value as the generator writes it."""
    if isinstance(found, datetime):
        return found.astimezone(timezone.utc).isoformat()
    if isinstance(found, str) and isinstance(wanted, dict | list):
        return json.loads(found)
    if isinstance(found, dict) and isinstance(wanted, dict):
        return {name: plain(value, wanted.get(name)) for name, value in found.items()}
    return found


def main(folder: Path, stream: str, count: int) -> None:
    """End with an error at the first record that is not as it must be."""
    schema = getattr(made, f"{stream.upper()}_SCHEMA")
    (log,) = (path for path in folder.rglob("_delta_log") if path.parent.name == stream)
    table = pa.table(DeltaTable(log.parent).to_pyarrow_table(columns=list(schema["properties"])))
    if table.num_rows != count:
        sys.exit(f"{table.num_rows} records instead of {count}")
    table = table.sort_by("id")
    generated = getattr(made, stream)(count)
    for start in range(0, count, STEP):
        for found in table.slice(start, STEP).to_pylist():
            wanted = next(generated)
            if {name: plain(value, wanted[name]) for name, value in found.items()} != wanted:
                sys.exit(f"found {found!r} instead of {wanted!r}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
