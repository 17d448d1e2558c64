"""The objects of one load, and the interface of the target class for commands and servers.

Commands and servers get the target class as an argument and do not import it.
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
from target_spark.spark.spark_provider import SparkProvider
from target_spark.storage.spool import SpoolFolder

__all__ = ["CommandTarget", "LoadSession"]


@dataclass(frozen=True, slots=True)
class LoadSession:
    """The objects of one load, passed to the function that produces the load's events.

    Attributes:
        loader: The loader that processes the events.
        engine: The Spark process.
        folder: The folder for spool files, which keep rows on disk until their commit.
        run: The ids and the start time of the run.
        at_end: Function that registers a callback, which runs after the last commit has succeeded
            or failed.
    """

    loader: Loader
    engine: SparkProvider
    folder: SpoolFolder
    run: RunInfo
    at_end: Callable[[Callable[[], object]], object]


class CommandTarget(Protocol):
    """Interface of a target class that validates settings, maps streams and runs a load."""

    name: str
    config_args: tuple[str, ...]

    def __init__(self, *, config: dict[str, Any], parse_env_config: bool = False) -> None: ...

    @classmethod
    def _full_schema(cls) -> JsonSchema:
        """Return the JSON Schema of all settings of the target."""

    @classmethod
    def get_documentation_url(cls) -> str | None:
        """Return the URL of the target's documentation, or None."""

    @classmethod
    def get_changelog_url(cls) -> str | None:
        """Return the URL of the target's changelog, or None."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The validated settings of the target."""

    @property
    def has_stream_maps(self) -> bool:
        """True if the settings contain stream maps or flattening, which change the records."""

    def make_event_mapper(self) -> Callable[[Iterable[Event]], Iterator[Event]]:
        """Return a function that applies the configured stream maps to a sequence of events."""

    def call_on_interrupt(self, leave: Callable[[], None] | None) -> None:
        """Set the function that is called at the first interrupt signal; None removes it."""

    def load(self, source: BinaryIO, binding: ProtocolBinding) -> list[BaseException]:
        """Load the records of the messages in ``source``; return the errors, empty on success."""

    def run_load(
        self,
        binding: ProtocolBinding,
        feed: Callable[[LoadSession], None],
        *,
        retries_tasks: bool = False,
    ) -> list[BaseException]:
        """Call ``feed`` to pass events to the loader, and load them; return the errors.

        ``retries_tasks`` is True to let a local Spark retry failed tasks.
        """
