"""Manifest of a Parquet table: the file that lists the committed Parquet files of a folder.

This module does not import Spark.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from target_spark.errors import TableError
from target_spark.storage.hadoop_fs import flush_to_disk
from target_spark.tables.commit_metadata import CommitMetadata

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset

__all__ = ["MANIFEST", "UNFINISHED", "CommitManifest", "get_commit_number", "open_dataset"]

MANIFEST = "_manifest.json"
UNFINISHED = ".new"


@dataclass(frozen=True, slots=True)
class CommitManifest:
    """Manifest file of a Parquet table, which lists the committed files.

    Attributes:
        commit: The number of the last commit that added files, from 1; 0 for a new table.
        marker: The metadata that target-spark stored with the last commit; None for a new table.
        parts: The names of the committed files.
        schema: The type (DDL) of each column by name.
        sources: The source property of each renamed column, such as ``{"`user_id`": "user-id"}``.
        runs: The number of each run's last commit, by run id, oldest run first. Runs before the
            last overwrite are left out.
    """

    commit: int = 0
    marker: CommitMetadata | None = None
    parts: tuple[str, ...] = ()
    schema: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> CommitManifest | None:
        """Read the manifest of a folder, or return None if the folder has none.

        Raises:
            TableError: The manifest file cannot be parsed.
        """
        path = folder / MANIFEST
        try:
            document = json.loads(path.read_bytes())
            marker = document["marker"]
            return cls(
                commit=document["commit"],
                marker=None if marker is None else CommitMetadata(**marker),
                parts=tuple(document["parts"]),
                schema=dict(document["schema"]),
                sources=dict(document.get("sources", {})),
                runs=dict(document.get("runs", {})),
            )
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise TableError(f"{path} is not a manifest of target-spark: {error!r}") from error

    def write(self, folder: Path) -> None:
        """Replace the folder's manifest atomically, and sync it to disk."""
        temporary = folder / f"{MANIFEST}.{uuid.uuid4().hex}{UNFINISHED}"
        document: dict[str, Any] = {
            "format": 1,
            **asdict(self),
            "marker": None if self.marker is None else self.marker.as_dict(),
            "schema": dict(self.schema),
            "sources": dict(self.sources),
            "runs": dict(self.runs),
        }
        with temporary.open("x", encoding="utf-8") as file:  # mode "x" follows no symbolic link
            json.dump(document, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / MANIFEST)
        flush_to_disk(folder)


def open_dataset(folder: Path, manifest: CommitManifest | None = None) -> pa.dataset.Dataset | None:
    """Return a Parquet table's committed files as an Arrow dataset, or None if there are no files.

    Columns that a file does not have are null in its rows.

    Args:
        folder: The folder of the table.
        manifest: The manifest that lists the files; None to read the manifest in the folder.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    manifest = manifest or CommitManifest.read(folder) or CommitManifest()
    parts = [str(folder / name) for name in manifest.parts]
    if not parts:
        return None
    schemas = [ds.dataset(part).schema for part in parts]
    return ds.dataset(parts, schema=pa.unify_schemas(schemas))


def get_commit_number(part: str) -> int:
    """Return the number of the commit that added a file, from its name ``part-<commit>-<i>``."""
    return int(part.split("-")[1])
