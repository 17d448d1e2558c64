"""Check Parquet files against the generator, value by value: called with folder and count.

Instants may be stored as such or as text. The tools' own columns are left out.
"""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import made
import pyarrow as pa
import pyarrow.parquet as pq

STEP = 50_000


def plain(record: dict[str, Any]) -> dict[str, Any]:
    """Write instants as the generator does."""
    return {
        name: value.astimezone(timezone.utc).isoformat() if isinstance(value, datetime) else value
        for name, value in record.items()
    }


def main(folder: Path, count: int) -> None:
    """End with an error at the first record that is not as it must be."""
    names = list(made.NARROW_SCHEMA["properties"])
    files = [path for path in sorted(folder.rglob("*.parquet")) if path.parent.name == "narrow"]
    table = pa.concat_tables([pq.read_table(path, columns=names) for path in files])
    if table.num_rows != count:
        sys.exit(f"{table.num_rows} records instead of {count}")
    table = table.sort_by("id")
    wanted = made.narrow(count)
    for start in range(0, count, STEP):
        for found in table.slice(start, STEP).to_pylist():
            if plain(found) != (other := next(wanted)):
                sys.exit(f"found {found!r} instead of {other!r}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
