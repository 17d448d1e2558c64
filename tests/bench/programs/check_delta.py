"""A check that a Delta table has the records of the generator, value by value.

Arguments: the folder, the stream and the number of records. Instants may be stored as such or as
text, nested values as such or as JSON. Metadata columns are not compared. The folder of
the table has the name of the stream.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import generator
import pyarrow as pa
from deltalake import DeltaTable

ROWS_PER_STEP = 20_000


def normalize(value: Any, expected: Any) -> Any:
    """Return a stored value in the form of the generator's value."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, str) and isinstance(expected, dict | list):
        return json.loads(value)
    if isinstance(value, dict) and isinstance(expected, dict):
        return {name: normalize(inner, expected.get(name)) for name, inner in value.items()}
    return value


def main(folder: Path, stream: str, count: int) -> None:
    """Exit with an error at the first record that differs."""
    schema = getattr(generator, f"{stream.upper()}_SCHEMA")
    (log,) = (path for path in folder.rglob("_delta_log") if path.parent.name == stream)
    table = pa.table(DeltaTable(log.parent).to_pyarrow_table(columns=list(schema["properties"])))
    if table.num_rows != count:
        sys.exit(f"{table.num_rows} records instead of {count}")
    table = table.sort_by("id")
    generated = getattr(generator, stream)(count)
    for start in range(0, count, ROWS_PER_STEP):
        for actual in table.slice(start, ROWS_PER_STEP).to_pylist():
            expected = next(generated)
            row = {name: normalize(value, expected[name]) for name, value in actual.items()}
            if row != expected:
                sys.exit(f"found {actual!r} instead of {expected!r}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
