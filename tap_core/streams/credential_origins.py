"""Rules for the credentials of an HTTP stream: the origins (scheme, host, port) that may get them.

These are the origin of ``url_base`` and the stream's ``allowed_hosts``. If only the tap's code
determines the first request of a pagination, its origin is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import requests

from tap_core.authenticators.base import adds_no_credentials
from tap_core.http.origins import (
    Origin,
    Route,
    check_allowed_hosts,
    declared_origin,
    has_secrets,
    parse_origin,
)

if TYPE_CHECKING:
    from tap_core.http.request import Auth

__all__ = ["find_first_origin", "make_route", "make_session_authenticator"]


def make_route(stream: Any, authenticator: Auth) -> Route:
    """Return the rules that say to which hosts an authenticator's credentials may be sent.

    ``stream`` is an HTTP stream.
    """

    def has_credentials(request: requests.PreparedRequest) -> bool:
        return not adds_no_credentials(authenticator) or has_secrets(
            request, stream._known_secrets()
        )

    return Route(
        lambda origin: origin in _find_own_origins(stream),
        has_credentials,
        requires_https=lambda: any(
            origin and origin.scheme == "https" for origin in _find_own_origins(stream)
        ),
        allowed_hosts=check_allowed_hosts(stream.allowed_hosts) if stream.allowed_hosts else (),
        setting=f"`allowed_hosts` of the stream '{stream.name}'",
    )


def make_session_authenticator(stream: Any, authenticator: Auth) -> Auth:
    """Return an authenticator for an HTTP stream's session that checks the host of each request."""

    def sign(request: requests.PreparedRequest) -> requests.PreparedRequest:
        route = make_route(stream, authenticator)
        route.check(request)
        cast("Any", request).register_hook("response", route.check_redirect)
        return authenticator(request)

    return sign


def find_first_origin(stream: Any, request: requests.PreparedRequest) -> Origin | None:
    """Return the origin of ``request``, the first of a pagination, if it may receive credentials.

    Return None for the origin of ``url_base``, which may receive them anyway. The URL of a child
    stream may contain values of a parent record. Return None, too, if these values determine the
    origin.
    """
    origin = parse_origin(request.url)
    if origin is None or origin == _find_base_origin(stream):
        return None
    is_own = stream.parent_stream_type is None or origin == _find_origin_without_context(stream)
    return origin if is_own else None


def _find_own_origins(stream: Any) -> tuple[Origin | None, Origin | None]:
    """Return two origins (scheme, host and port) that may receive a stream's credentials.

    The first is the origin of ``url_base``. The second is that of the pagination's first request,
    if different. None means that an origin does not exist.
    """
    return _find_base_origin(stream), stream._first_origin


def _find_base_origin(stream: Any) -> Origin | None:
    """Return the origin of ``url_base`` (scheme, host, port); None for an invalid URL."""
    base = stream.url_base or ""
    return declared_origin(stream._fill_placeholders(base, stream.config) if "{" in base else base)


def _find_origin_without_context(stream: Any) -> Origin | None:
    try:
        return declared_origin(stream.get_url(None))
    except Exception:  # noqa: BLE001  author code may need a context
        return None
