"""The objects of one run, and the target as its commands see it.

The commands of the protocols get the target's class as an argument and do not import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from tap_core.events import Event
from tap_core.types import JsonSchema
from target_spark.config.options import RunInfo
from target_spark.loader.interfaces import ProtocolBinding
from target_spark.loader.loader import Loader
from target_spark.spark.engine import LeasedSpark
from target_spark.storage.spool import SpoolFolder

__all__ = ["CommandTarget", "LoadSession"]


@dataclass(frozen=True, slots=True)
class LoadSession:
    """The objects that one run uses.

    A function passed to ``at_end`` is called after the last commit has succeeded or failed.
    """

    loader: Loader
    engine: LeasedSpark
    folder: SpoolFolder
    run: RunInfo
    at_end: Callable[[Callable[[], object]], object]


class CommandTarget(Protocol):
    """Interface of the target's class for the commands and servers that run a load."""

    name: str
    config_args: tuple[str, ...]

    def __init__(self, *, config: dict[str, Any], parse_env_config: bool = False) -> None: ...

    @classmethod
    def _full_schema(cls) -> JsonSchema:
        """Return the JSON Schema of the settings."""

    @classmethod
    def get_documentation_url(cls) -> str | None:
        """Return the URL of the documentation."""

    @classmethod
    def get_changelog_url(cls) -> str | None:
        """Return the URL of the changelog."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The validated settings."""

    @property
    def has_stream_maps(self) -> bool:
        """True if stream maps or flattening change the records."""

    def make_event_mapper(self) -> Callable[[Iterable[Event]], Iterator[Event]]:
        """Return the function that applies stream maps to events."""

    def call_on_interrupt(self, leave: Callable[[], None] | None) -> None:
        """Call ``leave`` at the first signal; None removes the callback."""

    def load(self, source: BinaryIO, conversation: ProtocolBinding) -> list[BaseException]:
        """Load the messages of a byte stream into tables; return the errors that occurred."""

    def work(
        self,
        conversation: ProtocolBinding,
        feed: Callable[[LoadSession], None],
        *,
        patient: bool = False,
    ) -> list[BaseException]:
        """Load what ``feed`` passes to the loader; return the errors."""
