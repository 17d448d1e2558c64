"""Tap that an Airbyte manifest declares: its class and its streams.

The class is created from the manifest file alone, so that its attributes (spec, name, documentation
URL) can be read without a config. An instance holds the objects that streams share in a run: cached
responses, authenticators and the API budget.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from tap_core.config.loading import fill_defaults
from tap_core.manifest.components.config_rules import ConfigNormalizationRules, build_config_rules
from tap_core.manifest.components.declarative_source import are_streams_available
from tap_core.manifest.connection_check import check_manifest_connection
from tap_core.manifest.loader import read_manifest
from tap_core.manifest.shared_resources import SharedResources
from tap_core.manifest.spec import (
    changelog_url,
    config_jsonschema,
    documentation_url,
    get_oauth_spec,
)
from tap_core.manifest.stream import ManifestStream
from tap_core.redaction import collect_secrets, register_secrets
from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE
from tap_core.state.reader import check_partitions
from tap_core.tap_base import Tap

if TYPE_CHECKING:
    from tap_core.manifest.interfaces import DeclarativeStreamProtocol
    from tap_core.manifest.loader import Manifest
    from tap_core.streams.core import Stream

__all__ = ["ManifestTap", "make_tap_class"]


class ManifestTap(Tap):
    """Tap that an Airbyte manifest declares; `make_tap_class` creates a subclass for a file."""

    continue_on_stream_error = True

    manifest: ClassVar[Manifest]
    """Manifest of the connector; its references are resolved on first access."""

    consent: ClassVar[Mapping[str, Any] | None] = None
    """OAuth flow that a platform runs in the user's browser; None if the manifest has none."""

    overrides: ClassVar[Mapping[str, str]]
    """Options ``cutoff``, ``boundary`` and ``new_slices`` that replace those of all cursors."""

    def _fill_defaults(self) -> None:
        """Apply the manifest's rules to the config, and fill in defaults of built-in settings.

        The defaults in the manifest's spec are not filled in, as in airbyte-cdk. They are only
        suggestions in the configuration form; templates define the values of missing settings.
        """
        if self._config and self._config_rules:
            self._config_rules.convert(self._config)
            register_secrets(self, collect_secrets(self._config, self._full_schema()))
        schema: dict[str, Any] = {"properties": {}}
        self.append_builtin_config(schema)
        fill_defaults(self._config, schema)

    @cached_property
    def _config_rules(self) -> ConfigNormalizationRules | None:
        return build_config_rules(self.manifest)

    # Streams

    def discover_streams(self) -> Sequence[Stream]:
        """Return the streams that the manifest declares, and those generated from stream templates.

        Raises:
            ConfigurationError: The config does not pass a validation of the manifest.
            DiscoveryError: The data for a template cannot be read.
            ManifestError: A template cannot be filled, or two streams have the same name.
        """
        if self._config_rules:
            self._config_rules.check(self._config)
        return [*self.declared_streams, *(stream for _, stream in self.template_streams)]

    @cached_property
    def declared_streams(self) -> list[ManifestStream]:
        """Available streams under the key ``streams`` of the manifest, without generated ones."""
        is_available = partial(are_streams_available, self.manifest, self.config)
        return [ManifestStream(self, node) for node in self.manifest.find_streams(is_available)]

    @cached_property
    def template_streams(self) -> list[tuple[str, ManifestStream]]:
        """Generated streams, each as a pair: name of the dynamic stream, and the stream."""
        if not self.dynamic_catalog:
            return []
        from tap_core.manifest.dynamic_streams import generate_streams

        declared_names = {stream.name for stream in self.declared_streams}
        return [
            (name, ManifestStream(self, node))
            for name, node in generate_streams(self, self.shared, declared_names)
        ]

    def check_streams(self) -> None:
        """Raise ConfigurationError if the start or end date of a stream's cursor is invalid."""
        for stream in self.streams.values():
            if isinstance(stream, ManifestStream):
                stream._context_reader.check_edges()

    def check_connection(self) -> None:
        """Read one record of each stream that the manifest's ``check`` names.

        Raises:
            ConfigurationError: The check names an unknown stream, or there are no streams.
            ManifestError: The check overrides settings in a manifest that stores new tokens.
        """
        check_manifest_connection(self)

    def load_state(self, state: dict[str, Any]) -> None:
        """Load a Singer state, in the format of this SDK or of airbyte-cdk.

        Raises:
            StateFileError: A bookmark, or the entry of a partition, is not an object.
        """
        check_partitions(state)
        stored = state.get("bookmarks") or {}
        self.shared.names_with_state = frozenset(name for name, entry in stored.items() if entry)
        bookmarks = {
            name: self._translate_state(name, entry or {}) for name, entry in stored.items()
        }
        super().load_state({**state, "bookmarks": bookmarks})

    def _translate_state(self, name: str, stored: Mapping[str, Any]) -> Mapping[str, Any]:
        stream = self.streams.get(name)
        if not isinstance(stream, ManifestStream) or not stored:
            return stored
        stream.rebuild_components()  # the catalog may have built it before the state was known
        state = stream.components.translate_state(stored, stream.replication_key)
        if state and stream.components.is_state_expired(state, name):
            self.logger.warning(
                "Stream '%s' is read in full: its state is older than api_retention_period.",
                name,
            )
            self.shared.names_with_state -= {name}
            stream.rebuild_components()
            return {}
        return state

    # Shared objects

    @cached_property
    def shared(self) -> SharedResources:
        """Objects that the streams share during a run, such as the response cache."""
        return SharedResources(
            self.manifest, self.config, self.overrides, self._make_parent, self._find_parent_names
        )

    def _make_parent(self, node: Mapping[str, Any]) -> DeclarativeStreamProtocol:
        parent = ManifestStream(self, node)
        parent.is_parent = True
        parent.forced_replication_method = REPLICATION_FULL_TABLE
        return cast("DeclarativeStreamProtocol", parent)

    def _find_parent_names(self) -> Iterator[str]:
        for stream in self.streams.values():
            if isinstance(stream, ManifestStream) and stream.is_probably_selected:
                yield from stream.components.parent_names


def make_tap_class(path: Path, overrides: Mapping[str, str] | None = None) -> type[ManifestTap]:
    """Return a tap class for the file of an Airbyte manifest.

    ``overrides`` replace options of all cursors: ``cutoff``, ``boundary`` and ``new_slices``.

    Raises:
        ManifestError: The file cannot be read, or is not a manifest.
    """
    manifest = read_manifest(path)
    members = {
        "__module__": __name__,
        "__doc__": f"The connector that {path.name} declares.",
        "name": _make_tap_name(path),
        # a manifest does not state its own version
        "get_plugin_version": ManifestTap.get_sdk_version,
        "config_jsonschema": config_jsonschema(manifest),
        "documentation_url": documentation_url(manifest),
        "changelog_url": changelog_url(manifest),
        "consent": get_oauth_spec(manifest),
        "manifest": manifest,
        "overrides": dict(overrides or {}),
        "dynamic_catalog": bool(manifest.raw.get("dynamic_streams")),
    }
    return type("ManifestTap", (ManifestTap,), members)


def _make_tap_name(path: Path) -> str:
    """Return ``tap-`` and the file name, or the folder name if the file name is generic."""
    stem = path.stem if path.stem not in {"manifest", "source", "connector"} else ""
    word = re.sub(r"[^a-z0-9]+", "-", (stem or path.resolve().parent.name).lower()).strip("-")
    return f"tap-{word.removeprefix('source-').removeprefix('tap-') or 'manifest'}"
