"""Origins that requests of a manifest stream may send credentials to.

A requester's base URL is trusted if its template depends only on the config and the manifest.
If part of an address comes from a record, a parent's stream slice or another response,
credentials are sent only to origins that the manifest declares for the same authenticator or
lists in ``allowed_hosts``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import requests

from tap_core.http.origins import (
    Origin,
    Route,
    check_allowed_hosts,
    declared_origin,
    describe_redirect,
    parse_origin,
)
from tap_core.http.response_limits import ResponseLimits
from tap_core.manifest.components.partition_routers import ListPartitionRouter
from tap_core.manifest.custom_cursor_stream import CustomCursorStream

if TYPE_CHECKING:
    from tap_core.http.request import Auth
    from tap_core.manifest.interfaces import TemplateScope

__all__ = ["ManifestOriginStream"]


class ManifestOriginStream(CustomCursorStream):
    """A manifest stream that sends its credentials only to origins that the manifest declares."""

    _told: TemplateScope | None = None
    """The interpolation scope of a copy that sends a request of an asynchronous job."""

    if TYPE_CHECKING:

        @cached_property
        def _signer(self) -> Auth:
            """The function that signs the requests of the current requester."""

    def _route(self, authenticator: Auth) -> Route:
        """Return the rules on where a request that ``authenticator`` signs may be sent."""
        route = super()._route(authenticator)
        route.allowed_hosts = check_allowed_hosts(self.retriever.requester.allowed_hosts)
        route.setting = f"`allowed_hosts` of the requester of the stream '{self.name}'"
        return route

    @property
    def _limits(self) -> ResponseLimits:
        usual = super()._limits
        size, download, seconds = self.retriever.requester.limits
        return ResponseLimits(
            usual.max_response_bytes if size is None else size,
            usual.max_download_bytes if download is None else download,
            usual.max_response_seconds if seconds is None else seconds,
        )

    def _begin_walk(self, request: requests.PreparedRequest) -> None:
        """Do nothing: the origins that a manifest declares do not depend on the pagination."""

    def _is_home(self, origin: Origin) -> bool:
        """Return True if the manifest declares an origin for the current credentials."""
        return origin in self._known_origins or origin in self._declared_origins()

    def _is_secure(self) -> bool:
        """Return True if the manifest declares an HTTPS origin for the current credentials."""
        return any(one.scheme == "https" for one in self._declared_origins())

    @property
    def _known_origins(self) -> set[Origin]:
        """The origins found so far, shared by requesters that have equal authenticators."""
        is_signed = self.retriever.requester.authenticator is not None
        return self._host.origins(self._signer) if is_signed else self._unsigned_origins

    def _declared_origins(self) -> set[Origin]:
        """Return the origins found so far, including the current requester's own origin."""
        found, base = self._known_origins, self.retriever.requester.home(self._own_scope)
        origin = declared_origin(base) if base else None
        if origin is not None and self._is_of_template(origin):
            found.add(origin)
        return found

    @property
    def _own_scope(self) -> TemplateScope:
        """The interpolation scope without any value that may come from an API response."""
        routers = () if self._told is not None else self.retriever.routers
        is_own = self._told is None and all(isinstance(one, ListPartitionRouter) for one in routers)
        slices: Any = self._scope.get("stream_slice") if is_own else None
        names = ("stream_slice", "stream_partition", "stream_interval")
        return {
            "config": self.config,
            "stream_name": self.name,
            "next_page_token": None,
            **dict.fromkeys(names, slices or {}),
            "partition": self._scope.get("partition") or {} if is_own else {},
        }

    def _is_of_template(self, origin: Origin) -> bool:
        """Return True if the origin is in the stream template, for a stream made from a template.

        Always True for a stream that the manifest declares without a template.
        """
        origins = getattr(self._node, "origins", None)
        return origins is None or origin in origins

    # Requests of a component, such as for a token

    def _component_route(self, request: requests.PreparedRequest) -> Route:
        """Return the rules for a request for credentials: only its own origin is allowed."""
        asked = parse_origin(request.url)

        def is_home(one: Origin) -> bool:
            return one == asked and self._is_of_template(one)

        return Route(
            is_home,
            lambda _: True,
            is_secure=self._is_secure,
            setting="the template of the stream, as its base URL",
        )

    @staticmethod
    def _refuse_redirect(response: requests.Response) -> None:
        """Raise an error if a request for credentials is redirected; no redirect is followed."""
        error = describe_redirect(response)
        if error is not None:
            raise error
