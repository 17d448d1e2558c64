"""An upsert of several streams into as many Delta tables with dlt. Argument: the folder."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import dlt
from dlt.common.json import json


def main(folder: Path) -> None:
    """Load the records of standard input."""
    streams = defaultdict[str, list[dict[str, Any]]](list)
    for line in sys.stdin.buffer:
        message = json.loadb(line)
        if message["type"] == "RECORD":
            streams[message["stream"]].append(message["record"])
    pipeline = dlt.pipeline(
        "bench",
        destination=dlt.destinations.filesystem(bucket_url=str(folder / "tables")),
        dataset_name="bench",
        pipelines_dir=str(folder / "pipelines"),
    )
    resources = [
        dlt.resource(
            records,
            name=name,
            primary_key="id",
            write_disposition={"disposition": "merge", "strategy": "upsert"},
            table_format="delta",
        )
        for name, records in streams.items()
    ]
    pipeline.run(resources, loader_file_format="parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
