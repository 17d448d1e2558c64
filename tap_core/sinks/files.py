"""Batch files: rows that come in files, which a BATCH message names.

Rules of the room: names are singer_sdk's. Only JSON Lines are read, plain or with gzip,
on local paths; anything else is an error that says so.

Source: the BATCH message of the Meltano Singer SDK ("Batch messages").
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from typing_extensions import Self

from tap_core.documents import load_json
from tap_core.types import Record

__all__ = [
    "DEFAULT_BATCH_SIZE",
    "BaseBatchFileEncoding",
    "BatchConfig",
    "BatchFileFormat",
    "StorageTarget",
    "records_of",
]

DEFAULT_BATCH_SIZE = 10000
"""Rows in one file."""


class BatchFileFormat(str, Enum):
    """What a file holds."""

    JSONL = "jsonl"
    PARQUET = "parquet"


@dataclass
class BaseBatchFileEncoding:
    """What the files of a batch hold, and how they are compressed."""

    format: str
    compression: str | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Take it from a message or from the settings."""
        return cls(**data)


@dataclass
class StorageTarget:
    """Where files are: ``root`` is a folder or an address."""

    root: str
    prefix: str | None = None
    params: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StorageTarget:
        """Take it from the settings."""
        return cls(**data)

    def asdict(self) -> dict[str, Any]:
        """Return it as the settings have it."""
        return asdict(self)


@dataclass
class BatchConfig:
    """The setting ``batch_config``."""

    encoding: BaseBatchFileEncoding
    storage: StorageTarget
    batch_size: int = DEFAULT_BATCH_SIZE

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BatchConfig:
        """Take it from the settings."""
        return cls(
            BaseBatchFileEncoding.from_dict(data["encoding"]),
            StorageTarget.from_dict(data["storage"]),
            data.get("batch_size") or DEFAULT_BATCH_SIZE,
        )

    def asdict(self) -> dict[str, Any]:
        """Return it as the settings have it."""
        return asdict(self)


def records_of(
    address: str, encoding: BaseBatchFileEncoding, config: BatchConfig | None = None
) -> list[Record]:
    """Read a file of records; where the settings name a storage, it is looked for there.

    Raises:
        NotImplementedError: its encoding or its place is none that can be read.
    """
    if encoding.format != BatchFileFormat.JSONL:
        raise NotImplementedError(f"Unsupported batch encoding format: {encoding.format}")
    if encoding.compression not in {None, "none", "gzip"}:
        raise NotImplementedError(f"Unsupported batch file compression: {encoding.compression}")
    path = _local_path(address)
    if config is not None:
        path = _local_path(config.storage.root) / path.name
    if encoding.compression == "gzip":
        with gzip.open(path) as lines:
            return [load_json(line) for line in lines]
    with path.open("rb") as plain:
        return [load_json(line) for line in plain]


def _local_path(address: str) -> Path:
    """Return the path of a file that is named by its path or by a ``file:`` address."""
    scheme, place, path, *_ = urlsplit(address)
    if "://" not in address:
        return Path(address)
    if scheme != "file" or place not in {"", "localhost"}:
        raise NotImplementedError(f"Batch files are read from local paths only, not {address!r}.")
    return Path(unquote(path))
