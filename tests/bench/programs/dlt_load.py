"""The same lines into Parquet files with dlt; called with the folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dlt
from dlt.common.json import json

PAGE = 1_000


@dlt.resource(name="narrow", primary_key="id", write_disposition="append")
def narrow() -> Iterator[list[dict[str, Any]]]:
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


def main(folder: Path) -> None:
    """Load everything."""
    pipeline = dlt.pipeline(
        "bench",
        destination=dlt.destinations.filesystem(bucket_url=str(folder / "tables")),
        dataset_name="bench",
        pipelines_dir=str(folder / "pipelines"),
    )
    pipeline.run(narrow(), loader_file_format="parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
