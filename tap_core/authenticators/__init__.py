"""Authentication of requests: API keys, bearer tokens, passwords and OAuth 2.0."""

from __future__ import annotations

from tap_core.authenticators.base import APIAuthenticatorBase as APIAuthenticatorBase
from tap_core.authenticators.base import SingletonMeta as SingletonMeta
from tap_core.authenticators.oauth import OAuthAuthenticator as OAuthAuthenticator
from tap_core.authenticators.oauth import OAuthJWTAuthenticator as OAuthJWTAuthenticator
from tap_core.authenticators.static import APIKeyAuthenticator as APIKeyAuthenticator
from tap_core.authenticators.static import BasicAuthenticator as BasicAuthenticator
from tap_core.authenticators.static import BearerTokenAuthenticator as BearerTokenAuthenticator
from tap_core.authenticators.static import SimpleAuthenticator as SimpleAuthenticator
from tap_core.authenticators.token_endpoint import AccessTokenError as AccessTokenError
from tap_core.authenticators.token_endpoint import RetryPolicy as RetryPolicy
