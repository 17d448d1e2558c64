"""Authenticators with constant credentials: API keys, bearer tokens and passwords.

Signatures are those of singer_sdk, including the deprecated method ``create_for_stream``.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Literal

from tap_core.authenticators.base import APIAuthenticatorBase, deprecated

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "APIKeyAuthenticator",
    "BasicAuthenticator",
    "BearerTokenAuthenticator",
    "SimpleAuthenticator",
]


class SimpleAuthenticator(APIAuthenticatorBase):
    """Authenticator that adds constant headers to each request."""

    def __init__(
        self, *args: Any, auth_headers: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Create an authenticator that adds constant headers.

        Args:
            args: Arguments of `APIAuthenticatorBase`.
            auth_headers: Headers to add. By default requests are not changed.
            kwargs: Arguments of `APIAuthenticatorBase`.
        """
        super().__init__(*args, **kwargs)
        self.auth_headers.update(auth_headers or {})


class APIKeyAuthenticator(APIAuthenticatorBase):
    """Authenticator that adds an API key to each request, as a header or a query parameter."""

    def __init__(
        self,
        *args: Any,
        key: str,
        value: str,
        location: Literal["header", "params"] = "header",
        **kwargs: Any,
    ) -> None:
        """Create an authenticator that sends an API key.

        Args:
            args: Arguments of `APIAuthenticatorBase`.
            key: Name of the header or query parameter.
            value: The API key.
            location: ``header`` to send a header, ``params`` to send a query parameter.
            kwargs: Arguments of `APIAuthenticatorBase`.

        Raises:
            ValueError: The location is neither ``header`` nor ``params``.
        """
        super().__init__(*args, **kwargs)
        if location == "header":
            self.auth_headers[key] = value
        elif location == "params":
            self.auth_params[key] = value
        else:
            raise ValueError("`location` must be one of 'header' or 'params'.")

    @classmethod
    def create_for_stream(
        cls, stream: Any, key: str, value: str, location: Literal["header", "params"]
    ) -> Self:
        """Return an authenticator that sends an API key (deprecated: use the constructor)."""
        _warn_deprecated(cls)
        return cls(stream=stream, key=key, value=value, location=location)


class BearerTokenAuthenticator(APIAuthenticatorBase):
    """Authenticator that sends a token: ``Authorization: Bearer …`` (RFC 6750, section 2.1)."""

    def __init__(self, *args: Any, token: str, **kwargs: Any) -> None:
        """Create an authenticator that sends a bearer token.

        Args:
            args: Arguments of `APIAuthenticatorBase`.
            token: The bearer token.
            kwargs: Arguments of `APIAuthenticatorBase`.
        """
        super().__init__(*args, **kwargs)
        self.auth_headers["Authorization"] = f"Bearer {token}"

    @classmethod
    def create_for_stream(cls, stream: Any, token: str) -> Self:
        """Return an authenticator that sends a bearer token (deprecated: use the constructor)."""
        _warn_deprecated(cls)
        return cls(stream=stream, token=token)


class BasicAuthenticator(APIAuthenticatorBase):
    """Authenticator that sends user name and password: ``Authorization: Basic …`` (RFC 7617)."""

    def __init__(self, *args: Any, username: str, password: str, **kwargs: Any) -> None:
        """Create an authenticator that sends HTTP Basic credentials.

        Args:
            args: Arguments of `APIAuthenticatorBase`.
            username: User name; encoded as UTF-8.
            password: Password; encoded as UTF-8.
            kwargs: Arguments of `APIAuthenticatorBase`.
        """
        super().__init__(*args, **kwargs)
        credentials = base64.b64encode(f"{username}:{password}".encode()).decode("ascii")
        self.auth_headers["Authorization"] = f"Basic {credentials}"

    @classmethod
    def create_for_stream(cls, stream: Any, username: str, password: str) -> Self:
        """Return an authenticator for HTTP Basic credentials (deprecated: use the constructor)."""
        _warn_deprecated(cls)
        return cls(stream=stream, username=username, password=password)


def _warn_deprecated(kind: type[APIAuthenticatorBase]) -> None:
    """Emit the warning that the method ``create_for_stream`` of an authenticator is deprecated."""
    deprecated("The `create_for_stream` method", f"{kind.__name__}(…)", calls=2)
