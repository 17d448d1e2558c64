"""What protocols that ask for streams ask of a tap.

Rules of the room: Protocols, so that a door never imports the classes above it, and what two
protocols do alike with a stream's entry in the tap's own catalog.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

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
    """A tap; its class is called with these keywords, and makes it without catalog or state."""

    name: str
    shared_state: bool
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
        """Where to read about it."""

    @classmethod
    def get_changelog_url(cls) -> str | None:
        """Where to read of its changes."""

    @property
    def config(self) -> Mapping[str, Any]:
        """Its settings."""

    @property
    def document(self) -> Any:
        """Its state, as the engine keeps it."""

    @property
    def logger(self) -> logging.Logger:
        """Where it logs."""

    @property
    def run(self) -> Any:
        """The run that is going on."""

    @property
    def stopped_by(self) -> int | None:
        """The signal that asked for the end."""

    @property
    def streams(self) -> Mapping[str, Any]:
        """Its streams by name."""

    def check_connection(self) -> None:
        """Raise an error where the source cannot be reached."""

    def check_streams(self) -> None:
        """Raise an error for a stream that its settings do not allow to be read."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Take a state over."""

    def setup_mapper(self) -> None:
        """Make the stream maps."""

    def speak_by(self, outlet: Any) -> None:
        """Let all that it says go through an outlet."""

    def sync_all(self) -> None:
        """Sync what is selected."""

    def use_catalog(self, catalog: Any) -> None:
        """Take a catalog that was made of its streams."""


class DiscoveredStream(Protocol):
    """A stream of a tap, as far as a catalog speaks of it."""

    name: str
    takes_any_replication_key: bool

    @property
    def tap_stream_id(self) -> str:
        """What the tap's own catalog calls it."""

    @property
    def namespace(self) -> str | None:
        """What the source keeps it in."""

    @property
    def name_in_namespace(self) -> str:
        """What the source calls it there."""

    @property
    def schema(self) -> JsonSchema:
        """The JSON Schema of a record."""

    @property
    def primary_keys(self) -> Sequence[str]:
        """The properties that identify a record."""

    @property
    def _singer_catalog_entry(self) -> CatalogEntry:
        """Its entry in the tap's own catalog."""


class ResumableStream(DiscoveredStream, Protocol):
    """A stream that goes on from a state, with the catalog of the run applied."""

    @property
    def replication_method(self) -> str:
        """How it is read."""

    @property
    def selected(self) -> bool:
        """Whether it is sent."""

    @property
    def descendent_streams(self) -> Sequence[Any]:
        """Its children, and theirs."""


def get_catalog_entry(stream: DiscoveredStream) -> CatalogEntry:
    """Return a stream's entry in the tap's own catalog."""
    return stream._singer_catalog_entry  # noqa: SLF001 - a hook of authors, by singer_sdk's name


def apply_selection(node: Metadata, *, wanted: bool) -> None:
    """Select a property or not, also one that Singer's clients always get."""
    node.selected = wanted
    if node.inclusion == Metadata.InclusionType.AUTOMATIC and not wanted:
        node.inclusion = Metadata.InclusionType.AVAILABLE
