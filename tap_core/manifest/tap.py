"""A manifest as a tap: its class, its streams, its check.

Rules of the room: the class is made of the manifest file alone, so that whatever a protocol
asks of a class (settings, name, address of the documentation) needs no configuration. What
streams share in a run hangs here: answers to parents' requests, authenticators, the budget.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tap_core.catalog import REPLICATION_FULL_TABLE
from tap_core.config import fill_defaults
from tap_core.exceptions import ConfigurationError
from tap_core.manifest.build import build
from tap_core.manifest.components.source import CheckStream, ConcurrencyLevel
from tap_core.manifest.load import read_manifest
from tap_core.manifest.spec import config_jsonschema, consent, documentation_url
from tap_core.manifest.stream import ManifestStream
from tap_core.sync.trial import pull_one
from tap_core.tap_base import Tap

if TYPE_CHECKING:
    from tap_core.http.request import Auth
    from tap_core.manifest.cache import AnswerCache
    from tap_core.manifest.components.budget import HTTPAPIBudget
    from tap_core.manifest.contract import SignsRequests, StreamFace
    from tap_core.manifest.jobs import JobCount
    from tap_core.manifest.load import Manifest
    from tap_core.streams.core import Stream

__all__ = ["ManifestTap", "tap_class"]


class ManifestTap(Tap):
    """A tap that is declared in a manifest; `tap_class` makes one of a file."""

    goes_on_after_errors = True

    manifest: ClassVar[Manifest]
    """The manifest, read and resolved."""

    consent: ClassVar[Mapping[str, Any] | None] = None
    """How a platform gets credentials in the user's browser, where the manifest says so."""

    changes: ClassVar[Mapping[str, str]]
    """What is asked of every cursor from outside: ``cutoff``, ``boundary``."""

    names_with_state: frozenset[str] = frozenset()
    """Names of the streams that had a state when the run began."""

    def _fill_defaults(self) -> None:
        """Fill in no default of the manifest: its templates say what stands for a missing setting.

        So it is in airbyte-cdk; defaults are what a form of Airbyte begins with.
        """
        own: dict[str, Any] = {"properties": {}}
        self.append_builtin_config(own)
        fill_defaults(self._config, own)

    def discover_streams(self) -> Sequence[Stream]:
        """Return the streams that the manifest declares."""
        if self.manifest.raw.get("dynamic_streams"):
            self.logger.warning(
                "The manifest has dynamic_streams, which are made while it runs and are not"
                " supported: those streams are missing."
            )
        return [ManifestStream(self, node) for node in self.manifest.streams]

    def check_connection(self) -> None:
        """Pull a record of each stream that the manifest's check names.

        Raises:
            ConfigurationError: it names one that is not there.
        """
        node = self.manifest.tree.get("check")
        names = build(self.manifest, node, CheckStream, self.config).stream_names if node else []
        if not names:
            super().check_connection()
        for name in names:
            if name not in self.streams:
                raise ConfigurationError(
                    f"The manifest's check names a stream '{name}', and has"
                    f" {', '.join(map(repr, self.streams))}."
                )
            pull_one(self.streams[name])

    def load_state(self, state: dict[str, Any]) -> None:
        """Take a state over, also one that airbyte-cdk has stored."""
        known = state.get("bookmarks") or {}
        self.names_with_state = frozenset(name for name, kept in known.items() if kept)
        bookmarks = {name: self._translated(name, kept or {}) for name, kept in known.items()}
        super().load_state({**state, "bookmarks": bookmarks})

    def _translated(self, name: str, kept: Mapping[str, Any]) -> Mapping[str, Any]:
        stream = self.streams.get(name)
        return stream.translated(kept) if isinstance(stream, ManifestStream) and kept else kept

    # What streams share

    @cached_property
    def threads(self) -> int:
        """In how many threads slices and windows may be read."""
        node = self.manifest.tree.get("concurrency_level")
        if not node:
            return 1
        level: ConcurrencyLevel = build(self.manifest, node, ConcurrencyLevel, self.config)
        return level.threads

    @cached_property
    def jobs(self) -> JobCount:
        """How many jobs may be under way at the source, for all streams together."""
        from tap_core.manifest.jobs import JobCount

        return JobCount(self._most_jobs())

    def _most_jobs(self) -> int:
        node = self.manifest.part("max_concurrent_async_job_count")
        given = build(self.manifest, node, int | str | None, self.config)
        try:
            most = 1 if given in {None, ""} else int(given)
        except ValueError:
            most = 0
        if most < 1:
            self.logger.warning(
                "max_concurrent_async_job_count is %r, and no number from 1 on: one job at a time.",
                node,
            )
        return max(1, most)

    @cached_property
    def budget(self) -> HTTPAPIBudget | None:
        """How many requests the source takes."""
        from tap_core.manifest.components.budget import HTTPAPIBudget

        node = self.manifest.tree.get("api_budget")
        return build(self.manifest, node, HTTPAPIBudget, self.config) if node else None

    @cached_property
    def answers(self) -> AnswerCache:
        """Answers to requests for streams that are parents."""
        from tap_core.manifest.cache import AnswerCache

        return AnswerCache()

    @cached_property
    def parent_names(self) -> frozenset[str]:
        """Names of the streams that are parents of selected ones."""
        return frozenset(
            name
            for stream in self.streams.values()
            if isinstance(stream, ManifestStream) and stream.is_wanted
            for name in stream.parent_names
        )

    def parent_stream(self, node: Mapping[str, Any]) -> StreamFace:
        """Return the stream that reads all of a parent, one for all that declare the same."""
        for known, stream in self._parents:
            if known is node or known == node:
                return stream
        made = ManifestStream(self, node)
        made.forced_replication_method = REPLICATION_FULL_TABLE
        self._parents.append((node, made))
        return made

    @cached_property
    def _parents(self) -> list[tuple[Mapping[str, Any], ManifestStream]]:
        return []

    def signer(self, declared: SignsRequests, stream: StreamFace) -> Auth:
        """Return what signs requests of a stream; equal authenticators share their tokens."""
        with self._signing:
            for known, auth in self._signers:
                if known == declared:
                    return auth
            auth = declared.auth(stream)
            self._signers.append((declared, auth))
            return auth

    @cached_property
    def _signing(self) -> threading.RLock:
        return threading.RLock()

    @cached_property
    def _signers(self) -> list[tuple[SignsRequests, Auth]]:
        return []


def tap_class(path: Path, changes: Mapping[str, str] | None = None) -> type[ManifestTap]:
    """Make the tap class of a manifest file.

    Raises:
        ManifestError: the file cannot be read, or is no manifest.
    """
    manifest = read_manifest(path)
    members = {
        "__module__": __name__,
        "__doc__": f"The connector that {path.name} declares.",
        "name": _name(path),
        "config_jsonschema": config_jsonschema(manifest),
        "documentation_url": documentation_url(manifest),
        "consent": consent(manifest),
        "manifest": manifest,
        "changes": dict(changes or {}),
    }
    return type("ManifestTap", (ManifestTap,), members)


def _name(path: Path) -> str:
    """Name a tap by its file, or by the folder where all files are called the same."""
    stem = path.stem if path.stem not in {"manifest", "source", "connector"} else ""
    word = re.sub(r"[^a-z0-9]+", "-", (stem or path.resolve().parent.name).lower()).strip("-")
    return f"tap-{word.removeprefix('source-').removeprefix('tap-') or 'manifest'}"
