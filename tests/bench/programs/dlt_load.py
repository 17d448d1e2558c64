"""The same lines into files or a Delta table with dlt; called with folder, stream and format.

Nested values stay values of their record, as in every other program here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dlt
from dlt.common.json import json

PAGE = 1_000


def pages() -> Iterator[list[dict[str, Any]]]:
    """Yield pages of the records on standard input."""
    page = []
    for line in sys.stdin.buffer:
        message = json.loadb(line)
        if message["type"] == "RECORD":
            page.append(message["record"])
            if len(page) >= PAGE:
                yield page
                page = []
    yield page


def main(folder: Path, stream: str, table_format: str) -> None:
    """Load everything."""
    pipeline = dlt.pipeline(
        "bench",
        destination=dlt.destinations.filesystem(bucket_url=str(folder / "tables")),
        dataset_name="bench",
        pipelines_dir=str(folder / "pipelines"),
    )
    more = {"table_format": "delta"} if table_format == "delta" else {}
    resource = dlt.resource(
        pages,
        name=stream,
        primary_key="id",
        write_disposition="append",
        max_table_nesting=0,
        **more,
    )
    pipeline.run(resource(), loader_file_format="parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
