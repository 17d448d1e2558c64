"""What the commands of a source ask of a tap.

Rules of the room: Protocols only, so that a door never imports the classes above it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

__all__ = ["SourceTap"]


class SourceTap(Protocol):
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
