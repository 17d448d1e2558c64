"""Where requests of an HTTP stream may lead, and what their answers may take.

Credentials stay with the origin of ``url_base``. What an answer names (the next page, a record's
URL, a redirect) gets them on that origin and on `allowed_hosts` alone.
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
    """Where requests may lead, and how large and slow an answer may be."""

    allowed_hosts: Collection[str] = ()
    """Other hosts that may get this stream's credentials when an answer leads there:
    ``files.example.com``, ``files.example.com:8443``, ``*.example.com``."""

    max_response_bytes: int | None = MAX_RESPONSE_BYTES
    """Bytes that an answer may have behind its decoding, None for any number. Its JSON may take
    four times as much memory beside it."""

    max_download_bytes: int | None = MAX_DOWNLOAD_BYTES
    """Bytes of an answer that is kept in a file, None for any number."""

    max_response_seconds: float | None = MAX_RESPONSE_SECONDS
    """Seconds from the first byte of an answer to its last one, None for any number. An answer
    that is kept in a file gets one more for each 64 KiB."""

    _first_asked: Origin | None = None
    """The origin that the walk in hand began with, where the author alone has named it."""

    if TYPE_CHECKING:

        @property
        def url_base(self) -> str:
            """What all URLs begin with."""

        def get_url(self, context: Any) -> str:
            """Return the URL of the endpoint."""

        def _secrets(self) -> Secrets:
            """What no message shows."""

    @property
    def _limits(self) -> ResponseLimits:
        return ResponseLimits(
            self.max_response_bytes, self.max_download_bytes, self.max_response_seconds
        )

    def _filled(self, url: str, values: Mapping[str, Any]) -> str:
        """Return a URL whose placeholders have values, quoted as part of a path."""
        for name, value in values.items():
            if (placeholder := f"{{{name}}}") in url:
                url = url.replace(placeholder, self._url_encode(value))
        return url

    @staticmethod
    def _url_encode(val: Any) -> str:
        """Return a value as part of a path."""
        return val.replace("/", "%2F") if isinstance(val, str) else str(val)

    # Where requests may lead

    def _route(self, authenticator: Auth) -> Route:
        """Return where a request that ``authenticator`` signs may lead."""

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
        """Return what signs the requests that an author's code sends with the session itself."""

        def sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
            route = self._route(authenticator)
            route.check(request)
            cast("Any", request).register_hook("response", route.check_redirect)
            return authenticator(request)

        return sign

    def _base_origin(self) -> Origin | None:
        """Return the origin that ``url_base`` has by the settings alone."""
        base = self.url_base or ""
        return declared_origin(self._filled(base, self.config) if "{" in base else base)

    def _is_home(self, origin: Origin) -> bool:
        """Return whether credentials were given for an origin."""
        return origin in (self._base_origin(), self._first_asked)

    def _is_secure(self) -> bool:
        """Return whether credentials were given for HTTPS."""
        return any(
            one is not None and one.scheme == "https"
            for one in (self._base_origin(), self._first_asked)
        )

    def _begin_walk(self, request: requests.PreparedRequest) -> None:
        """Note the origin of the first request of a walk through pages.

        No answer of the walk has named it. Where the context is that of a parent's record, its
        values may have, so that only what the author says without a context counts.
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
        except Exception:  # noqa: BLE001  whatever code that needs a context raises
            return None
