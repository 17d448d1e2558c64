"""A check that Parquet files have the records of the generator, value by value.

Arguments: the folder, the stream and the number of records. Instants may be stored as such or as
text, nested values as such or as JSON. Metadata columns are not compared.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import generator
import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_STEP = 50_000


def normalize(value: Any, expected: Any) -> Any:
    """Return a stored value in the form of the generator's value."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, str) and isinstance(expected, dict):
        return json.loads(value)
    if isinstance(value, dict) and isinstance(expected, dict):
        return {name: normalize(inner, expected.get(name)) for name, inner in value.items()}
    return value


def main(folder: Path, stream: str, count: int) -> None:
    """Exit with an error at the first record that differs."""
    names = list(getattr(generator, f"{stream.upper()}_SCHEMA")["properties"])
    files = [path for path in sorted(folder.rglob("*.parquet")) if path.parent.name == stream]
    table = pa.concat_tables([pq.read_table(path, columns=names) for path in files])
    if table.num_rows != count:
        sys.exit(f"{table.num_rows} records instead of {count}")
    table = table.sort_by("id")
    generated = getattr(generator, stream)(count)
    for start in range(0, count, ROWS_PER_STEP):
        for actual in table.slice(start, ROWS_PER_STEP).to_pylist():
            if normalize(actual, expected := next(generated)) != expected:
                sys.exit(f"found {actual!r} instead of {expected!r}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
