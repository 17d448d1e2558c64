"""HTTP file systems of fsspec that send requests only to the origin of their address.

fsspec follows each redirect, and sends the configured headers to any host. A server could lead the
requests, with their credentials, to another host or to a cloud's metadata service.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tap_core.exceptions import FatalAPIError

if TYPE_CHECKING:
    from tap_core.http.origins import Origin

__all__ = ["keep_to_origin"]

_logger = logging.getLogger(__name__)


def keep_to_origin(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of fsspec's HTTP file system, which then keeps to the origin of ``url``.

    A request to another origin raises an `UntrustedHostError`; a change from HTTP to HTTPS of the
    same host is allowed. If ``url`` has another scheme, return the arguments unchanged.

    Args:
        url: URL of the files; it is configured, and not from a response or message.
        options: Arguments of the file system, such as ``client_kwargs``.

    Raises:
        FatalAPIError: ``url`` is not a valid URL.
    """
    if not url.lower().startswith(("http://", "https://")):
        return dict(options)
    from tap_core.http.origins import declared_origin, parse_origin  # imports requests: slow

    home = declared_origin(url)
    if home is None:
        raise FatalAPIError("The address of the files is not a valid URL.")

    check_target = partial(_check_target, home)

    async def get_client(**settings: Any) -> Any:
        """Return an HTTP client (aiohttp) that connects only to the origin of the files."""
        from aiohttp import ClientSession, TCPConnector

        class OriginConnector(TCPConnector):  # type: ignore[misc]
            """Connector that checks the origin of each request, also after a redirect."""

            async def connect(self, req: Any, *args: Any, **kwargs: Any) -> Any:
                """Return a connection for the request ``req``."""
                check_target(parse_origin(str(req.url)))
                return await super().connect(req, *args, **kwargs)

        return ClientSession(connector=OriginConnector(), **settings)

    return {**options, "get_client": get_client}


def _check_target(home: Origin, target: Origin | None) -> None:
    from tap_core.http.origins import UntrustedHostError

    if target is not None and (target == home or target.is_tls_upgrade_from(home)):
        return
    message = (
        f"A redirect leads from {home} to {target or 'another URL'}: nothing was sent there. Files"
        " are read only from the host that is configured: if the redirect is correct, configure its"
        " target as the address of the files."
    )
    _logger.error(message)  # fsspec replaces the error by one about a missing file
    raise UntrustedHostError(message)
