"""A manifest as a tap: its class, its streams and its connection check.

The class is made from the manifest file alone, so a protocol can read its attributes (spec, name,
documentation URL) without a config. The tap instance holds the objects that streams share in a
run: cached responses, authenticators, the API budget.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tap_core.config.loading import fill_defaults
from tap_core.exceptions import ConfigurationError
from tap_core.manifest.builder import build_component
from tap_core.manifest.components.declarative_source import (
    CheckDynamicStream,
    CheckStream,
    ConcurrencyLevel,
    DynamicStreamCheckConfig,
)
from tap_core.manifest.loader import get_template_names, read_manifest
from tap_core.manifest.spec import (
    changelog_url,
    config_jsonschema,
    documentation_url,
    get_oauth_spec,
)
from tap_core.manifest.stream import ManifestStream
from tap_core.singerlib.catalog import REPLICATION_FULL_TABLE
from tap_core.sync.connection_test import read_one_record
from tap_core.tap_base import Tap

if TYPE_CHECKING:
    from tap_core.http.origins import Origin
    from tap_core.http.request import Auth
    from tap_core.manifest.async_jobs import JobLimiter
    from tap_core.manifest.components.api_budget import HTTPAPIBudget
    from tap_core.manifest.interfaces import Authenticator, DeclarativeStreamProtocol
    from tap_core.manifest.loader import Manifest
    from tap_core.manifest.response_cache import ResponseCache
    from tap_core.streams.core import Stream

__all__ = ["ManifestTap", "make_tap_class"]


class ManifestTap(Tap):
    """A tap that a manifest declares; `make_tap_class` makes its class from a file."""

    continue_on_stream_error = True

    manifest: ClassVar[Manifest]
    """The manifest, read and resolved."""

    consent: ClassVar[Mapping[str, Any] | None] = None
    """The OAuth flow that a platform runs in the user's browser; None without one."""

    changes: ClassVar[Mapping[str, str]]
    """Overrides for all cursors: ``cutoff``, ``boundary``, ``new_slices``."""

    names_with_state: frozenset[str] = frozenset()
    """Names of the streams that had a state when the run began."""

    _kept: frozenset[str] | None = None

    def _fill_defaults(self) -> None:
        """Fill in no defaults of the manifest's spec: its templates handle missing settings.

        airbyte-cdk does the same; defaults only pre-fill Airbyte's configuration form.
        """
        own: dict[str, Any] = {"properties": {}}
        self.append_builtin_config(own)
        fill_defaults(self._config, own)

    # Streams

    def discover_streams(self) -> Sequence[Stream]:
        """Return the manifest's own streams and those made from its stream templates.

        Raises:
            DiscoveryError: the data for a template cannot be read.
            ManifestError: a template cannot be filled, or two streams have the same name.
        """
        try:
            return [*self._declared, *(stream for _, stream in self._made)]
        except BaseException:
            self._streams = None  # discovery failed: do not cache an empty list
            raise

    @cached_property
    def _declared(self) -> list[ManifestStream]:
        """The streams that the manifest declares without a template."""
        return [ManifestStream(self, node) for node in self.manifest.streams]

    @cached_property
    def _made(self) -> list[tuple[str, ManifestStream]]:
        """The streams made from templates, each with the name of its template."""
        if not self.dynamic_catalog:
            return []
        from tap_core.manifest.dynamic_streams import generate_streams

        taken = {one.name for one in self._declared}
        return [
            (name, ManifestStream(self, node)) for name, node in generate_streams(self, self, taken)
        ]

    def check_streams(self) -> None:
        """Raise ConfigurationError if a stream's start or end is not a valid datetime."""
        for stream in self.streams.values():
            if isinstance(stream, ManifestStream):
                stream.check_edges()

    # The check

    def check_connection(self) -> None:
        """Read one record of each stream that the manifest's check names.

        Raises:
            ConfigurationError: the check names an unknown stream, or there are no streams.
        """
        node = self.manifest.tree.get("check")
        check = build_component(self.manifest, node, CheckStream | CheckDynamicStream, self.config)
        if isinstance(check, CheckDynamicStream):
            self._check_first(check)
            return
        names, templates = [], []
        if check is not None:
            names, templates = check.stream_names, check.dynamic_streams_check_configs
        if not names and not templates:
            super().check_connection()
        elif templates or not self._try_declared(names):
            for name in [*names, *self._names_made(templates)]:
                if name not in self.streams:
                    raise ConfigurationError(
                        f"The manifest's check names an unknown stream '{name}'. Known are"
                        f" {', '.join(map(repr, self.streams))}."
                    )
                read_one_record(self.streams[name])

    def _check_first(self, check: CheckDynamicStream) -> None:
        """Read one record of each of the first streams, in the manifest's order."""
        if not self.streams:
            raise ConfigurationError(
                "There are no streams: neither the config nor the API defines one."
            )
        if check.use_check_availability:
            names = [one.name for one in (*self._declared, *(made for _, made in self._made))]
            for name in names[: max(0, check.stream_count)]:
                read_one_record(self.streams[name])

    def _try_declared(self, names: Sequence[str]) -> bool:
        """Read one record of each stream; return False if one of them comes from a template.

        In that case nothing is read.
        """
        known = {one.name: one for one in self._declared} if self.dynamic_catalog else {}
        if not known.keys() >= set(names):
            return False
        with self.caching_parents(name for one in known.values() for name in one.parent_names):
            for name in names:
                read_one_record(known[name])
        return True

    def _names_made(self, asked: Sequence[DynamicStreamCheckConfig]) -> Iterator[str]:
        """Yield the names of the streams to check for the check's stream templates."""
        known = dict.fromkeys(get_template_names(self.manifest.dynamic_streams))
        for one in asked:
            if one.dynamic_stream_name not in known:
                raise ConfigurationError(
                    "The manifest's check names an unknown dynamic stream"
                    f" '{one.dynamic_stream_name}'. Known are {', '.join(map(repr, known))}."
                )
            of_it = [made.name for name, made in self._made if name == one.dynamic_stream_name]
            yield from of_it[: one.stream_count]

    def load_state(self, state: dict[str, Any]) -> None:
        """Load a state, which may be in airbyte-cdk's format."""
        known = state.get("bookmarks") or {}
        self.names_with_state = frozenset(name for name, kept in known.items() if kept)
        bookmarks = {name: self._translated(name, kept or {}) for name, kept in known.items()}
        super().load_state({**state, "bookmarks": bookmarks})

    def _translated(self, name: str, kept: Mapping[str, Any]) -> Mapping[str, Any]:
        stream = self.streams.get(name)
        if not isinstance(stream, ManifestStream) or not kept:
            return kept
        stream.rebuild_components()  # the catalog may have built it before the state was known
        found = stream.translate_state(kept)
        if stream.is_state_expired(found):
            self.logger.warning(
                "Stream '%s': its state is older than the api_retention_period: full refresh.",
                name,
            )
            self.names_with_state -= {name}
            stream.rebuild_components()
            return {}
        return found

    # What streams share

    @cached_property
    def threads(self) -> int:
        """The number of threads that may read slices and windows."""
        node = self.manifest.tree.get("concurrency_level")
        if not node:
            return 1
        level: ConcurrencyLevel = build_component(
            self.manifest, node, ConcurrencyLevel, self.config
        )
        return level.threads

    @cached_property
    def job_limiter(self) -> JobLimiter:
        """The limit on asynchronous jobs that run at the same time, over all streams."""
        from tap_core.manifest.async_jobs import JobLimiter

        return JobLimiter(self._most_jobs())

    def _most_jobs(self) -> int:
        node = self.manifest.part("max_concurrent_async_job_count")
        given = build_component(self.manifest, node, int | str | None, self.config)
        try:
            most = 1 if given in {None, ""} else int(given)
        except ValueError:
            most = 0
        if most < 1:
            self.logger.warning(
                "Invalid max_concurrent_async_job_count %r: expected 1 or more; one job at a time.",
                node,
            )
        return max(1, most)

    @cached_property
    def budget(self) -> HTTPAPIBudget | None:
        """The manifest's API budget, or None."""
        from tap_core.manifest.components.api_budget import HTTPAPIBudget

        node = self.manifest.tree.get("api_budget")
        return build_component(self.manifest, node, HTTPAPIBudget, self.config) if node else None

    @cached_property
    def logged_warnings(self) -> set[str]:
        """Warnings about the manifest that were logged; each is logged once per tap."""
        return set()

    @cached_property
    def response_cache(self) -> ResponseCache:
        """The cache of the parent streams' responses."""
        from tap_core.manifest.response_cache import ResponseCache

        return ResponseCache()

    @property
    def parent_names(self) -> frozenset[str]:
        """Names of the parent streams of selected streams."""
        return self._parent_names if self._kept is None else self._kept

    @contextmanager
    def caching_parents(self, names: Iterable[str]) -> Iterator[None]:
        """Use these names as `parent_names` during the block, before the streams are known."""
        before, self._kept = self._kept, frozenset(names)
        try:
            yield
        finally:
            self._kept = before

    @cached_property
    def _parent_names(self) -> frozenset[str]:
        return frozenset(
            name
            for stream in self.streams.values()
            if isinstance(stream, ManifestStream) and stream.is_probably_selected
            for name in stream.parent_names
        )

    def parent_stream(self, node: Mapping[str, Any]) -> DeclarativeStreamProtocol:
        """Return the stream that reads all records of a parent; equal declarations share it."""
        for known, stream in self._parents:
            if known is node or known == node:
                return stream
        made = ManifestStream(self, node)
        made.is_parent = True
        made.forced_replication_method = REPLICATION_FULL_TABLE
        self._parents.append((node, made))
        return made

    @cached_property
    def _parents(self) -> list[tuple[Mapping[str, Any], ManifestStream]]:
        return []

    def get_signer(self, declared: Authenticator, stream: DeclarativeStreamProtocol) -> Auth:
        """Return the function that signs requests; equal authenticators share their tokens."""
        with self._signing:
            for known, auth in self._signers:
                if known == declared:
                    return auth
            auth = declared.auth(stream)
            self._signers.append((declared, auth))
            return auth

    def get_origins(self, signer: Auth) -> set[Origin]:
        """Return the origins that the manifest declares for a signer's credentials."""
        return self._origins.setdefault(id(signer), set())  # signers live as long as the tap

    @cached_property
    def _origins(self) -> dict[int, set[Origin]]:
        return {}

    @cached_property
    def _signing(self) -> threading.RLock:
        return threading.RLock()

    @cached_property
    def _signers(self) -> list[tuple[Authenticator, Auth]]:
        return []


def make_tap_class(path: Path, changes: Mapping[str, str] | None = None) -> type[ManifestTap]:
    """Return the tap class of a manifest file.

    Raises:
        ManifestError: the file cannot be read, or is not a manifest.
    """
    manifest = read_manifest(path)
    members = {
        "__module__": __name__,
        "__doc__": f"The connector that {path.name} declares.",
        "name": _name(path),
        "config_jsonschema": config_jsonschema(manifest),
        "documentation_url": documentation_url(manifest),
        "changelog_url": changelog_url(manifest),
        "consent": get_oauth_spec(manifest),
        "manifest": manifest,
        "changes": dict(changes or {}),
        "dynamic_catalog": bool(manifest.raw.get("dynamic_streams")),
    }
    return type("ManifestTap", (ManifestTap,), members)


def _name(path: Path) -> str:
    """Return the tap's name, from the file name or, for a generic one, the folder's name."""
    stem = path.stem if path.stem not in {"manifest", "source", "connector"} else ""
    word = re.sub(r"[^a-z0-9]+", "-", (stem or path.resolve().parent.name).lower()).strip("-")
    return f"tap-{word.removeprefix('source-').removeprefix('tap-') or 'manifest'}"
