"""Authenticator that rotates several API tokens, each with a quota of requests.

`tap_core.manifest.components.token_quotas` declares the quotas, and
`tap_core.manifest.token_pool` selects the token of each request.
"""

from __future__ import annotations

from dataclasses import dataclass

from tap_core.http.request import Auth
from tap_core.manifest.components.token_quotas import RotatedTokens
from tap_core.manifest.interfaces import DeclarativeStreamProtocol
from tap_core.manifest.token_pool import TokenRotator

__all__ = ["RateLimitedMultipleTokenAuthenticator"]


@dataclass(frozen=True, kw_only=True, repr=False)
class RateLimitedMultipleTokenAuthenticator(RotatedTokens):
    """Authenticator that selects, for each request, one of several tokens with remaining quota."""

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:
        """Return a callable that adds a token with remaining quota to a request.

        If no token has quota left, the callable waits until one has.
        """
        return TokenRotator(self, stream)
