"""Authenticators for HTTP requests: API keys, bearer tokens, passwords and OAuth 2.0.

The OAuth classes are imported on first access, because most taps do not need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tap_core.authenticators.base import APIAuthenticatorBase, SingletonMeta
from tap_core.authenticators.static import (
    APIKeyAuthenticator,
    BasicAuthenticator,
    BearerTokenAuthenticator,
    SimpleAuthenticator,
)

if TYPE_CHECKING:
    from tap_core.authenticators.oauth import OAuthAuthenticator, OAuthJWTAuthenticator
    from tap_core.authenticators.token_endpoint import AccessTokenError, RetryPolicy

__all__ = [
    "APIAuthenticatorBase",
    "APIKeyAuthenticator",
    "AccessTokenError",
    "BasicAuthenticator",
    "BearerTokenAuthenticator",
    "OAuthAuthenticator",
    "OAuthJWTAuthenticator",
    "RetryPolicy",
    "SimpleAuthenticator",
    "SingletonMeta",
]


def __getattr__(name: str) -> Any:
    """Import the module of an OAuth class such as `OAuthAuthenticator`, and return the class.

    Raises:
        AttributeError: The package has no attribute ``name``.
    """
    if name in {"OAuthAuthenticator", "OAuthJWTAuthenticator"}:
        from tap_core.authenticators import oauth

        return getattr(oauth, name)
    if name in {"AccessTokenError", "RetryPolicy"}:
        from tap_core.authenticators import token_endpoint

        return getattr(token_endpoint, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
