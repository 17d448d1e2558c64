"""`SharedResources`: objects that all streams of a manifest's tap share during a run.

Each object is created when it is first needed. Streams in several threads use it at the same time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from tap_core.manifest.builder import build_component
from tap_core.manifest.components.declarative_source import ConcurrencyLevel
from tap_core.manifest.nodes import iterate_nodes

if TYPE_CHECKING:
    from tap_core.http.origins import Origin
    from tap_core.http.request import Auth
    from tap_core.manifest.async_jobs import JobLimiter
    from tap_core.manifest.components.api_budget import HTTPAPIBudget
    from tap_core.manifest.interfaces import Authenticator, DeclarativeStreamProtocol
    from tap_core.manifest.loader import Manifest
    from tap_core.manifest.response_cache import ResponseCache

__all__ = ["SharedResources"]

_log: Final = logging.getLogger(__name__)


class SharedResources:
    """Objects that all streams of a manifest's tap share, such as caches and rate limits.

    Args:
        manifest: Manifest that declares the streams.
        config: Config settings of the connector.
        overrides: Cursor options from command-line flags or environment variables, which replace
            the options of all cursors.
        make_parent: Function that creates a parent stream from its declaration, for child streams
            that read all of its records.
        find_parent_names: Function that yields the names of all parents of selected streams.
    """

    def __init__(
        self,
        manifest: Manifest,
        config: Mapping[str, Any],
        overrides: Mapping[str, str],
        make_parent: Callable[[Mapping[str, Any]], DeclarativeStreamProtocol],
        find_parent_names: Callable[[], Iterable[str]],
    ) -> None:
        self.manifest: Manifest = manifest
        self.config: Mapping[str, Any] = config
        self.overrides: Mapping[str, str] = overrides
        self.names_with_state: frozenset[str] = frozenset()
        """Names of the streams that had a state when the run began."""
        self._logged_warnings: set[str] = set()
        self._make_parent = make_parent
        self._find_parent_names = find_parent_names
        self._names_in_use: frozenset[str] | None = None
        self._parents: list[tuple[Mapping[str, Any], object, DeclarativeStreamProtocol]] = []
        self._signers: list[tuple[Authenticator, Auth]] = []
        self._signer_lock = threading.RLock()
        self._origins: dict[int, set[Origin]] = {}

    def log_warnings(self, warnings: list[str], log: Callable[..., object]) -> None:
        """Log and remove the warnings about a stream's declaration; log a text once per tap.

        ``log`` is the stream's method for logging.
        """
        texts = list(warnings)
        warnings.clear()
        for text in texts:
            if text not in self._logged_warnings:
                self._logged_warnings.add(text)
                log("%s", text, level=logging.WARNING)

    # Limits

    @cached_property
    def threads(self) -> int:
        """Number of threads that read stream slices and time windows concurrently; 1 by default."""
        node = self.manifest.tree.get("concurrency_level")
        if not node:
            return 1
        level: ConcurrencyLevel = build_component(
            self.manifest, node, ConcurrencyLevel, self.config
        )
        return level.threads

    @cached_property
    def job_limiter(self) -> JobLimiter:
        """Limiter of the number of asynchronous jobs that all streams together run at a time."""
        from tap_core.manifest.async_jobs import JobLimiter

        node = self.manifest.get_part("max_concurrent_async_job_count")
        count = build_component(self.manifest, node, int | str | None, self.config)
        try:
            max_jobs = 1 if count in {None, ""} else int(count)
        except ValueError:
            max_jobs = 0
        if max_jobs < 1:
            _log.warning(
                "Invalid max_concurrent_async_job_count %r: expected 1 or more; one job at a time.",
                node,
            )
        return JobLimiter(max(1, max_jobs))

    @cached_property
    def budget(self) -> HTTPAPIBudget | None:
        """Rate limits of the API, from the manifest's ``api_budget``; None if it declares none."""
        from tap_core.manifest.components.api_budget import HTTPAPIBudget

        node = self.manifest.tree.get("api_budget")
        return build_component(self.manifest, node, HTTPAPIBudget, self.config) if node else None

    # Parent streams

    @cached_property
    def response_cache(self) -> ResponseCache:
        """Cache for the responses of parent streams, created on first use."""
        from tap_core.manifest.response_cache import ResponseCache

        return ResponseCache()

    @property
    def parent_names(self) -> frozenset[str]:
        """Names of the parent streams whose responses are cached in the current run."""
        return self._selected_parent_names if self._names_in_use is None else self._names_in_use

    @cached_property
    def _selected_parent_names(self) -> frozenset[str]:
        return frozenset(self._find_parent_names())

    @contextmanager
    def caching_parents(self, names: Iterable[str]) -> Iterator[None]:
        """Context manager that caches the responses of the parent streams ``names`` in its block.

        Discovery and connection tests use it, because the selected streams are not known yet.
        """
        before, self._names_in_use = self._names_in_use, frozenset(names)
        try:
            yield
        finally:
            self._names_in_use = before

    def parent_stream(
        self, node: Mapping[str, Any], child: DeclarativeStreamProtocol
    ) -> DeclarativeStreamProtocol:
        """Return the parent stream that ``node`` of the manifest declares, to read all its records.

        Children with equal nodes share one stream. If the node contains a custom component, each
        ``child`` has its own stream. The component's Python object may have a state: a filter, for
        example, may drop records that it has seen before.
        """
        for known, owner, stream in self._parents:
            if (owner is None or owner is child) and (known is node or known == node):
                return stream
        parent = self._make_parent(node)
        is_custom = any("class_name" in part for part in iterate_nodes(node))
        self._parents.append((node, child if is_custom else None, parent))
        return parent

    # Credentials

    def get_signer(self, authenticator: Authenticator, stream: DeclarativeStreamProtocol) -> Auth:
        """Return the function that adds an authenticator's credentials to the requests of a stream.

        Equal authenticators share one function, so that they use the same access token.
        """
        with self._signer_lock:
            for known, auth in self._signers:
                if known == authenticator:
                    return auth
            auth = authenticator.auth(stream)
            self._signers.append((authenticator, auth))
            return auth

    def get_origins(self, signer: Auth) -> set[Origin]:
        """Return the origins (scheme, host, port) that may receive an authenticator's credentials.

        ``signer`` is the authenticator's function from `get_signer`. The set is mutable: a caller
        can add origins to it.
        """
        return self._origins.setdefault(id(signer), set())  # signers live as long as the tap
