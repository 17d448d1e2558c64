"""Interfaces of taps and streams that the Airbyte and Fivetran protocols need.

They are typing Protocols, so that a protocol's package never imports the tap classes. The module
also holds the two operations on catalog entries that both protocols share.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from tap_core.singerlib.catalog import CatalogEntry, Metadata
from tap_core.types import JsonSchema

__all__ = [
    "DiscoveredStream",
    "ResumableStream",
    "TapProtocol",
    "apply_selection",
    "get_catalog_entry",
]


class TapProtocol(Protocol):
    """A tap whose class accepts these keyword arguments and needs neither catalog nor state."""

    name: str
    has_shared_state: bool
    connection_tests: ClassVar[Mapping[str, str]]
    """Connection tests: a test ``x`` is the method ``check_x``."""
    config_file: Path | None
    config_listener: Any

    def __init__(
        self,
        *,
        config: dict[str, Any],
        parse_env_config: bool = False,
        validate_config: bool = True,
        setup_mapper: bool = True,
    ) -> None: ...

    @classmethod
    def _full_schema(cls) -> dict[str, Any]: ...

    @classmethod
    def get_documentation_url(cls) -> str | None:
        """Return the URL of the tap's documentation, if it has one."""

    @classmethod
    def get_changelog_url(cls) -> str | None:
        """Return the URL of the tap's changelog, if it has one."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The tap's settings."""

    @property
    def document(self) -> Any:
        """The tap's state document in the engine's internal form."""

    @property
    def logger(self) -> logging.Logger:
        """The tap's logger."""

    @property
    def run(self) -> Any:
        """The current run."""

    @property
    def stopped_by(self) -> int | None:
        """The number of the signal that requested a stop, or None."""

    @property
    def streams(self) -> Mapping[str, Any]:
        """The tap's streams by name."""

    def check_connection(self) -> None:
        """Raise an error if the source cannot be reached."""

    def check_streams(self) -> None:
        """Raise an error for a stream that cannot be read with the tap's settings."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Load the state of an earlier sync."""

    def setup_mapper(self) -> None:
        """Create the stream maps."""

    def speak_by(self, outlet: Any) -> None:
        """Send all output of the tap to ``outlet``."""

    def sync_all(self) -> None:
        """Sync the selected streams."""

    def use_catalog(self, catalog: Any) -> None:
        """Use a catalog that was built from the tap's streams."""


class DiscoveredStream(Protocol):
    """A stream with the attributes that a catalog describes."""

    name: str
    allow_any_replication_key: bool

    @property
    def tap_stream_id(self) -> str:
        """The stream's ID in the Singer catalog."""

    @property
    def namespace(self) -> str | None:
        """The namespace of the stream in the source, such as a database schema, or None."""

    @property
    def name_in_namespace(self) -> str:
        """The stream's name within its namespace."""

    @property
    def schema(self) -> JsonSchema:
        """The JSON Schema of a record."""

    @property
    def primary_keys(self) -> Sequence[str]:
        """The properties that identify a record."""

    @property
    def _singer_catalog_entry(self) -> CatalogEntry:
        """The stream's entry in the tap's Singer catalog."""


class ResumableStream(DiscoveredStream, Protocol):
    """A stream that can resume from a state, after the run's catalog was applied."""

    @property
    def replication_method(self) -> str:
        """The replication method, such as FULL_TABLE or INCREMENTAL."""

    @property
    def selected(self) -> bool:
        """True if the stream's records are sent."""

    @property
    def descendent_streams(self) -> Sequence[Any]:
        """The stream's child streams, and their child streams at any depth."""


def get_catalog_entry(stream: DiscoveredStream) -> CatalogEntry:
    """Return a stream's entry in the tap's Singer catalog."""
    return stream._singer_catalog_entry  # noqa: SLF001 - an author's hook, named by singer_sdk


def apply_selection(node: Metadata, *, wanted: bool) -> None:
    """Select or deselect a property, also one whose inclusion is "automatic"."""
    node.selected = wanted
    if node.inclusion == Metadata.InclusionType.AUTOMATIC and not wanted:
        node.inclusion = Metadata.InclusionType.AVAILABLE
