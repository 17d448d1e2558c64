"""What batch files hold and where they go: the setting ``batch_config`` as objects.

Rules of the room: names, fields and dictionary forms are singer_sdk's (version 0.54). A
setting that lacks something is one sentence that says what.

Source: "Batch Messages" in the documentation of the Meltano Singer SDK.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any

from typing_extensions import Self

from tap_core.batch.storage import StorageTarget
from tap_core.exceptions import ConfigurationError, SingerSDKDeprecationWarning

__all__ = [
    "DEFAULT_BATCH_SIZE",
    "BaseBatchFileEncoding",
    "BatchConfig",
    "BatchFileFormat",
    "JSONLinesEncoding",
    "ParquetEncoding",
]

DEFAULT_BATCH_SIZE = 10000
"""Rows in one file."""


class BatchFileFormat(str, Enum):
    """What a file holds."""

    JSONL = "jsonl"
    PARQUET = "parquet"


@dataclass
class BaseBatchFileEncoding:
    """What the files of a batch hold, and how they are compressed (``gzip``, ``none``)."""

    format: str
    compression: str | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Take it from a message or from the settings.

        Raises:
            ConfigurationError: it does not name a format, or says what nobody knows.
        """
        _check("the encoding of a batch", data, cls, required=("format",))
        for name, value in data.items():
            if value is not None and not isinstance(value, str):
                raise ConfigurationError(f"the encoding of a batch: {name!r} is not a text.")
        return cls(**data)


@dataclass
class JSONLinesEncoding(BaseBatchFileEncoding):
    """Deprecated: `BaseBatchFileEncoding` with ``format="jsonl"``."""

    format: str = "jsonl"

    def __post_init__(self) -> None:
        """Warn of its age."""
        _deprecated("JSONLinesEncoding", "jsonl")


@dataclass
class ParquetEncoding(BaseBatchFileEncoding):
    """Deprecated: `BaseBatchFileEncoding` with ``format="parquet"``."""

    format: str = "parquet"

    def __post_init__(self) -> None:
        """Warn of its age."""
        _deprecated("ParquetEncoding", "parquet")


def _deprecated(name: str, kind: str) -> None:
    warnings.warn(
        f"Use BaseBatchFileEncoding with format='{kind}' instead of {name}.",
        SingerSDKDeprecationWarning,
        stacklevel=4,
    )


@dataclass
class BatchConfig:
    """The setting ``batch_config``; parts may be given as dictionaries."""

    encoding: BaseBatchFileEncoding
    storage: StorageTarget
    batch_size: int = DEFAULT_BATCH_SIZE

    def __post_init__(self) -> None:
        """Make objects of dictionaries.

        Raises:
            ConfigurationError: a part lacks something.
        """
        if isinstance(self.encoding, Mapping):
            self.encoding = BaseBatchFileEncoding.from_dict(self.encoding)
        if isinstance(self.storage, Mapping):
            self.storage = StorageTarget.from_dict(self.storage)
        if not self.batch_size:
            self.batch_size = DEFAULT_BATCH_SIZE
        if self.batch_size < 1:
            raise ConfigurationError("batch_config: 'batch_size' is at least 1.")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BatchConfig:
        """Take it from the settings.

        Raises:
            ConfigurationError: it lacks something, or says what nobody knows.
        """
        _check("batch_config", data, cls, required=("encoding", "storage"))
        return cls(**data)

    def asdict(self) -> dict[str, Any]:
        """Return it as the settings have it."""
        return asdict(self)


def _check(what: str, data: Mapping[str, Any], kind: Any, required: tuple[str, ...]) -> None:
    missing = [name for name in required if not data.get(name)]
    if missing:
        raise ConfigurationError(f"{what} lacks {' and '.join(map(repr, missing))}.")
    strangers = data.keys() - {each.name for each in fields(kind)}
    if strangers:
        raise ConfigurationError(f"{what} has unknown parts: {', '.join(sorted(strangers))}.")
