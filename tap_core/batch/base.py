"""Base class of batchers, which write records to batch files.

When the files of a batch are complete, a batcher yields the manifest: the list of their URLs. The
tap then emits a state that covers all records read so far. Therefore a batcher must yield the
manifest before it reads a record of the next batch. Names and signatures are those of singer_sdk
(version 0.54).
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tap_core.batch.encodings import BatchConfig
from tap_core.types import Record

__all__ = ["BaseBatcher", "lazy_chunked_generator"]

_Item = TypeVar("_Item")


def lazy_chunked_generator(iterable: Iterable[_Item], chunk_size: int) -> Iterator[Iterator[_Item]]:
    """Split an iterable into chunks, and yield an iterator over the items of each chunk.

    A chunk has at most ``chunk_size`` items. Its items are read when the chunk is requested, so
    only one chunk at a time is in memory.
    """
    items = iter(iterable)
    while chunk := list(itertools.islice(items, chunk_size)):
        yield iter(chunk)


class BaseBatcher(abc.ABC):
    """Base class of batchers, which write the records of one stream to batch files."""

    def __init__(self, tap_name: str, stream_name: str, batch_config: BatchConfig) -> None:
        self.tap_name = tap_name
        self.stream_name = stream_name
        self.batch_config = batch_config

    @abc.abstractmethod
    def get_batches(self, records: Iterator[Record]) -> Iterator[list[str]]:
        """Write records to batch files, and yield a list of file URLs for each completed batch."""
