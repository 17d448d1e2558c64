"""Check Parquet files against the generator, value by value: called with folder, stream, count.

Instants may be stored as such or as text, nested values as such or as JSON. The tools' own
columns are left out.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import made
import pyarrow as pa
import pyarrow.parquet as pq

STEP = 50_000


def plain(found: Any, wanted: Any) -> Any:
    """Return a value as the generator writes it."""
    if isinstance(found, datetime):
        return found.astimezone(timezone.utc).isoformat()
    if isinstance(found, str) and isinstance(wanted, dict):
        return json.loads(found)
    if isinstance(found, dict) and isinstance(wanted, dict):
        return {name: plain(value, wanted.get(name)) for name, value in found.items()}
    return found


def main(folder: Path, stream: str, count: int) -> None:
    """End with an error at the first record that is not as it must be."""
    names = list(getattr(made, f"{stream.upper()}_SCHEMA")["properties"])
    files = [path for path in sorted(folder.rglob("*.parquet")) if path.parent.name == stream]
    table = pa.concat_tables([pq.read_table(path, columns=names) for path in files])
    if table.num_rows != count:
        sys.exit(f"{table.num_rows} records instead of {count}")
    table = table.sort_by("id")
    generated = getattr(made, stream)(count)
    for start in range(0, count, STEP):
        for found in table.slice(start, STEP).to_pylist():
            if plain(found, wanted := next(generated)) != wanted:
                sys.exit(f"found {found!r} instead of {wanted!r}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
