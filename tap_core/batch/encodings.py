"""Classes for the config setting ``batch_config``: encoding and size of batch files.

Names, fields and the keys of the dicts are those of singer_sdk (version 0.54).
Source: "Batch Messages" in the documentation of the Meltano Singer SDK.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any

from tap_core.batch.storage import StorageTarget
from tap_core.exceptions import ConfigurationError, SingerSDKDeprecationWarning

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "DEFAULT_BATCH_SIZE",
    "BaseBatchFileEncoding",
    "BatchConfig",
    "BatchFileFormat",
    "JSONLinesEncoding",
    "ParquetEncoding",
    "is_builtin_encoding",
]

DEFAULT_BATCH_SIZE = 10000
"""Default number of rows per file."""


class BatchFileFormat(str, Enum):
    """Formats of batch files that the SDK supports itself; other packages may add formats."""

    JSONL = "jsonl"
    PARQUET = "parquet"


@dataclass
class BaseBatchFileEncoding:
    """Format and compression of batch files.

    ``format`` is a name such as ``jsonl``; ``compression`` is a name such as ``gzip``, or None.
    """

    format: str
    compression: str | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the encoding in a dict such as ``{"format": "jsonl", "compression": "gzip"}``.

        Raises:
            ConfigurationError: ``format`` is missing, a key is unknown, or a value is not a string.
        """
        _check_keys("the encoding of a batch", data, cls, required=("format",))
        for name, value in data.items():
            if value is not None and not isinstance(value, str):
                raise ConfigurationError(f"the encoding of a batch: {name!r} is not a text.")
        return cls(**data)


def is_builtin_encoding(encoding: BaseBatchFileEncoding) -> bool:
    """Return True if the format is ``jsonl`` or ``parquet``, which the SDK supports itself."""
    return encoding.format in {BatchFileFormat.JSONL.value, BatchFileFormat.PARQUET.value}


@dataclass
class JSONLinesEncoding(BaseBatchFileEncoding):
    """Deprecated: use `BaseBatchFileEncoding` with ``format="jsonl"``."""

    format: str = "jsonl"

    def __post_init__(self) -> None:
        """Emit a warning that the class `JSONLinesEncoding` is deprecated."""
        _warn_deprecated("JSONLinesEncoding", "jsonl")


@dataclass
class ParquetEncoding(BaseBatchFileEncoding):
    """Deprecated: use `BaseBatchFileEncoding` with ``format="parquet"``."""

    format: str = "parquet"

    def __post_init__(self) -> None:
        """Emit a warning that the class `ParquetEncoding` is deprecated."""
        _warn_deprecated("ParquetEncoding", "parquet")


def _warn_deprecated(name: str, kind: str) -> None:
    warnings.warn(
        f"Use BaseBatchFileEncoding with format='{kind}' instead of {name}.",
        SingerSDKDeprecationWarning,
        stacklevel=4,
    )


@dataclass
class BatchConfig:
    """Value of the config setting ``batch_config``.

    ``encoding`` and ``storage`` may be passed as dicts, which are converted.

    Attributes:
        encoding: Format and compression of the files.
        storage: Folder for the files.
        batch_size: Maximum number of rows per file.
    """

    encoding: BaseBatchFileEncoding
    storage: StorageTarget
    batch_size: int = DEFAULT_BATCH_SIZE

    def __post_init__(self) -> None:
        """Convert ``encoding`` and ``storage`` from dicts to objects, and check the batch size."""
        if isinstance(self.encoding, Mapping):
            self.encoding = BaseBatchFileEncoding.from_dict(self.encoding)
        if isinstance(self.storage, Mapping):
            self.storage = StorageTarget.from_dict(self.storage)
        if not self.batch_size:
            self.batch_size = DEFAULT_BATCH_SIZE
        if type(self.batch_size) is not int or self.batch_size < 1:
            raise ConfigurationError("batch_config: 'batch_size' must be an integer, at least 1.")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BatchConfig:
        """Return the batch configuration from ``data``, the value of the setting as a dict.

        Raises:
            ConfigurationError: A key is missing or unknown.
        """
        _check_keys("batch_config", data, cls, required=("encoding", "storage"))
        return cls(**data)

    def asdict(self) -> dict[str, Any]:
        """Return the batch configuration as a dict with the keys of the setting."""
        return asdict(self)


def _check_keys(
    subject: str, data: Mapping[str, Any], kind: Any, required: tuple[str, ...]
) -> None:
    """Check that a dict in the setting ``batch_config`` has the required keys and no unknown ones.

    ``subject`` is the name of the dict in error messages. ``kind`` is a dataclass: the names of its
    fields are the known keys.

    Raises:
        ConfigurationError: A required key is missing, or a key is unknown.
    """
    missing = [name for name in required if not data.get(name)]
    if missing:
        raise ConfigurationError(f"{subject} lacks {' and '.join(map(repr, missing))}.")
    unknown = data.keys() - {attribute.name for attribute in fields(kind)}
    if unknown:
        raise ConfigurationError(f"{subject} has unknown keys: {', '.join(sorted(unknown))}.")
