"""Where requests of a declared stream may lead: the origins that its manifest names.

The author's word is the base URL of a requester by settings and manifest alone. What a record,
a slice of a parent or another answer puts into an address is the API's word: it gets credentials
on origins that the manifest has declared for the same authenticator, or that it allows.
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
    """A declared stream whose credentials stay with what its manifest names."""

    _told: TemplateScope | None = None
    """For a copy that asks for a part of a job: what its templates see."""

    if TYPE_CHECKING:

        @cached_property
        def _signer(self) -> Auth:
            """What signs the requests of the requester in use."""

    def _route(self, authenticator: Auth) -> Route:
        """Return where a request that ``authenticator`` signs may lead."""
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
        """Do nothing: what a manifest says of an address does not depend on the walk."""

    def _is_home(self, origin: Origin) -> bool:
        """Return whether the manifest has declared an origin for the credentials in use."""
        return origin in self._known_origins or origin in self._declared_origins()

    def _is_secure(self) -> bool:
        """Return whether the manifest has declared an origin of HTTPS for them."""
        return any(one.scheme == "https" for one in self._declared_origins())

    @property
    def _known_origins(self) -> set[Origin]:
        """The origins found so far; requesters with equal authenticators share them."""
        is_signed = self.retriever.requester.authenticator is not None
        return self._host.origins(self._signer) if is_signed else self._unsigned_origins

    def _declared_origins(self) -> set[Origin]:
        """Return the origins found so far, with that of the requester in use."""
        found, base = self._known_origins, self.retriever.requester.home(self._own_scope)
        origin = declared_origin(base) if base else None
        if origin is not None and self._is_of_template(origin):
            found.add(origin)
        return found

    @property
    def _own_scope(self) -> TemplateScope:
        """What templates see, without anything that an answer may have said."""
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
        """Return whether a stream that an answer has filled kept an origin of its template."""
        origins = getattr(self._node, "origins", None)
        return origins is None or origin in origins

    # Requests of a component's own

    def _component_route(self, request: requests.PreparedRequest) -> Route:
        """Return where a request for credentials may lead: only where the manifest says."""
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
        """Raise an error for a redirect of a request for credentials, which is not followed."""
        error = describe_redirect(response)
        if error is not None:
            raise error
