"""A load of Singer messages into Parquet files or a Delta table with dlt.

Arguments: the folder, the stream and the table format. As in the other programs, nested values stay
in their record.
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
    """Yield the records of standard input in pages."""
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
    """Load the records of standard input."""
    pipeline = dlt.pipeline(
        "bench",
        destination=dlt.destinations.filesystem(bucket_url=str(folder / "tables")),
        dataset_name="bench",
        pipelines_dir=str(folder / "pipelines"),
    )
    options = {"table_format": "delta"} if table_format == "delta" else {}
    resource = dlt.resource(
        pages,
        name=stream,
        primary_key="id",
        write_disposition="append",
        max_table_nesting=0,
        **options,
    )
    pipeline.run(resource(), loader_file_format="parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
