"""Hosts that the requests of an HTTP stream may reach, and limits of its responses.

Credentials are only sent to the origin of ``url_base``. A URL that comes from a response (the
next page, a record's URL, a redirect) gets credentials only on that origin and on
`allowed_hosts`.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, cast

from tap_core.authenticators.base import puts_nothing
from tap_core.http.origins import (
    Origin,
    Route,
    check_allowed_hosts,
    declared_origin,
    has_secrets,
    parse_origin,
)
from tap_core.http.response_limits import (
    MAX_DOWNLOAD_BYTES,
    MAX_RESPONSE_BYTES,
    MAX_RESPONSE_SECONDS,
    ResponseLimits,
)
from tap_core.streams.retry import RetryingStream

if TYPE_CHECKING:
    import requests

    from tap_core.http.request import Auth
    from tap_core.redaction import Secrets

__all__ = ["OriginBoundStream"]


class OriginBoundStream(RetryingStream, abc.ABC):
    """Stream with allowed hosts, and with limits for the size and duration of responses."""

    allowed_hosts: Collection[str] = ()
    """Other hosts that may receive this stream's credentials if a response refers to them:
    ``files.example.com``, ``files.example.com:8443``, ``*.example.com``."""

    max_response_bytes: int | None = MAX_RESPONSE_BYTES
    """Maximum size of a decoded response in bytes, None for no limit. Its parsed JSON may need four
    times as much memory in addition."""

    max_download_bytes: int | None = MAX_DOWNLOAD_BYTES
    """Maximum size in bytes of a response that is stored in a file, None for no limit."""

    max_response_seconds: float | None = MAX_RESPONSE_SECONDS
    """Maximum seconds from the first to the last byte of a response, None for no limit. A response
    that is stored in a file gets one more second for each 64 KiB."""

    _first_asked: Origin | None = None
    """Origin of the first request of the current pagination, if only author code defines it."""

    if TYPE_CHECKING:

        @property
        def url_base(self) -> str:
            """Base URL of all requests."""

        def get_url(self, context: Any) -> str:
            """Return the URL of the endpoint."""

        def _secrets(self) -> Secrets:
            """Return the secrets to hide in messages."""

    @property
    def _limits(self) -> ResponseLimits:
        return ResponseLimits(
            self.max_response_bytes, self.max_download_bytes, self.max_response_seconds
        )

    def _filled(self, url: str, values: Mapping[str, Any]) -> str:
        """Return a URL with its placeholders replaced by URL-encoded values."""
        for name, value in values.items():
            if (placeholder := f"{{{name}}}") in url:
                url = url.replace(placeholder, self._url_encode(value))
        return url

    @staticmethod
    def _url_encode(val: Any) -> str:
        """Return a value as text for a URL path, with slashes encoded."""
        return val.replace("/", "%2F") if isinstance(val, str) else str(val)

    # Allowed hosts

    def _route(self, authenticator: Auth) -> Route:
        """Return the hosts that a request signed by ``authenticator`` may reach."""

        def carries(request: requests.PreparedRequest) -> bool:
            return not puts_nothing(authenticator) or has_secrets(request, self._secrets())

        return Route(
            self._is_home,
            carries,
            is_secure=self._is_secure,
            allowed_hosts=check_allowed_hosts(self.allowed_hosts) if self.allowed_hosts else (),
            setting=f"`allowed_hosts` of the stream '{self.name}'",
        )

    def _signing_at_home(self, authenticator: Auth) -> Auth:
        """Return an authenticator for requests that author code sends with the session itself."""

        def sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
            route = self._route(authenticator)
            route.check(request)
            cast("Any", request).register_hook("response", route.check_redirect)
            return authenticator(request)

        return sign

    def _base_origin(self) -> Origin | None:
        """Return the origin of ``url_base`` that results from the settings alone."""
        base = self.url_base or ""
        return declared_origin(self._filled(base, self.config) if "{" in base else base)

    def _is_home(self, origin: Origin) -> bool:
        """Return True if the credentials belong to an origin."""
        return origin in (self._base_origin(), self._first_asked)

    def _is_secure(self) -> bool:
        """Return True if the credentials belong to an HTTPS origin."""
        return any(
            one is not None and one.scheme == "https"
            for one in (self._base_origin(), self._first_asked)
        )

    def _begin_walk(self, request: requests.PreparedRequest) -> None:
        """Record the origin of the first request of a pagination.

        No response of the pagination has named this origin. If the context comes from a parent's
        record, the record's values may have named it, so only the URL without a context counts.
        """
        self._first_asked = None
        asked = parse_origin(request.url)
        if asked is None or self._is_home(asked):
            return
        if self.parent_stream_type is None or asked == self._origin_without_context():
            self._first_asked = asked

    def _origin_without_context(self) -> Origin | None:
        try:
            return declared_origin(self.get_url(None))
        except Exception:  # noqa: BLE001  author code may need a context
            return None
