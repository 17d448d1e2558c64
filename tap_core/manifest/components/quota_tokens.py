"""Who asks, with several tokens.

Rules of the room: what is declared is said in `quotas`, and done by `rotation`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tap_core.http.request import Auth
from tap_core.manifest.components.token_quotas import RotatedTokens
from tap_core.manifest.interfaces import DeclarativeStreamProtocol
from tap_core.manifest.token_rotation import TokenRotator

__all__ = ["RateLimitedMultipleTokenAuthenticator"]


@dataclass(frozen=True, kw_only=True, repr=False)
class RateLimitedMultipleTokenAuthenticator(RotatedTokens):
    """Puts one of several tokens on each request: one that has requests left."""

    def auth(self, stream: DeclarativeStreamProtocol) -> Auth:
        """Return what puts a token on requests."""
        return TokenRotator(self, stream)
