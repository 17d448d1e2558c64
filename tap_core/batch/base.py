"""What makes files of records: the base of all batchers.

Rules of the room: names and signatures are singer_sdk's (version 0.54). A batcher pulls
records and yields the manifest of each batch when its files are closed and complete, and
pulls nothing that is not in them: the state goes on from there.
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
    """Yield the items in chunks; a chunk is pulled when it is asked for, and then whole."""
    items = iter(iterable)
    while chunk := list(itertools.islice(items, chunk_size)):
        yield iter(chunk)


class BaseBatcher(abc.ABC):
    """Makes files of one stream's records."""

    def __init__(self, tap_name: str, stream_name: str, batch_config: BatchConfig) -> None:
        self.tap_name = tap_name
        self.stream_name = stream_name
        self.batch_config = batch_config

    @abc.abstractmethod
    def get_batches(self, records: Iterator[Record]) -> Iterator[list[str]]:
        """Yield the addresses of the files of one batch after the other."""
