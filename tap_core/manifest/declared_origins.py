"""Origins (scheme, host, port) that may receive the credentials of a manifest's stream.

An origin is trusted if the base URL of a requester in the manifest contains it. The template of the
base URL must depend only on the config and the manifest. Values from an API response never make an
origin trusted. A stream that was generated from a stream template may use only origins that the
template contains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tap_core.http.origins import Origin, Route, declared_origin, parse_origin
from tap_core.manifest.components.partition_routers import ListPartitionRouter
from tap_core.manifest.interfaces import SLICE_NAMES

if TYPE_CHECKING:
    import requests

    from tap_core.manifest.interfaces import TemplateScope

__all__ = ["add_base_origin", "make_component_route", "make_trusted_scope"]


def _is_template_origin(node: Mapping[str, Any], origin: Origin) -> bool:
    """Return True if a stream may send its credentials to ``origin`` (scheme, host, port).

    A stream that was generated from a stream template may use only the origins in the template; any
    other stream may use all. ``node`` is the declaration of the stream.
    """
    origins = getattr(node, "origins", None)
    return origins is None or origin in origins


def make_trusted_scope(
    scope: TemplateScope, config: Mapping[str, Any], stream: str, routers: Sequence[Any] | None
) -> TemplateScope:
    """Return the template variables for a base URL that decides where credentials are sent.

    Values that may come from an API response are left out.

    Args:
        scope: The template variables of the current request.
        config: The config of the connector.
        stream: The name of the stream.
        routers: The partition routers of the stream, or None. The variables of the slice are kept
            only if all routers are ListPartitionRouters, whose values do not come from responses.
    """
    is_own = routers is not None and all(
        isinstance(router, ListPartitionRouter) for router in routers
    )
    stream_slice: Any = scope.get("stream_slice") if is_own else None
    return {
        "config": config,
        "stream_name": stream,
        "next_page_token": None,
        **dict.fromkeys(SLICE_NAMES, stream_slice or {}),
        "partition": scope.get("partition") or {} if is_own else {},
    }


def add_base_origin(origins: set[Origin], base: str, node: Mapping[str, Any]) -> set[Origin]:
    """Add the origin (scheme, host, port) of a base URL to ``origins``; return ``origins``.

    Credentials may be sent to these origins. Nothing is added if the base URL is empty, or if the
    stream comes from a stream template without this origin. ``node`` is the declaration of the
    stream.
    """
    origin = declared_origin(base) if base else None
    if origin is not None and _is_template_origin(node, origin):
        origins.add(origin)
    return origins


def make_component_route(
    request: requests.PreparedRequest, node: Mapping[str, Any], requires_https: Callable[[], bool]
) -> Route:
    """Return the rules for sending a component's own request, such as a token request.

    Such a request may be sent only to the origin (scheme, host, port) of its URL. ``node`` is the
    declaration of the component's stream. ``requires_https`` returns True if credentials need
    HTTPS.
    """
    own_origin = parse_origin(request.url)
    return Route(
        lambda origin: origin == own_origin and _is_template_origin(node, origin),
        lambda _: True,
        requires_https=requires_https,
        setting="the template of the stream, as its base URL",
    )
