"""Authenticators whose values never change: keys, tokens, passwords.

Rules of the room: the values are put where they belong when the object is made. Signatures
are singer_sdk's, the deprecated ``create_for_stream`` included.
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
    """Puts any headers on requests; the others say better what they are for."""

    def __init__(
        self, *args: Any, auth_headers: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Take the headers; without any, requests stay as they are."""
        super().__init__(*args, **kwargs)
        self.auth_headers.update(auth_headers or {})


class APIKeyAuthenticator(APIAuthenticatorBase):
    """Puts a key on requests, as a header or as a query parameter."""

    def __init__(
        self,
        *args: Any,
        key: str,
        value: str,
        location: Literal["header", "params"] = "header",
        **kwargs: Any,
    ) -> None:
        """Take the name (``key``), the key itself (``value``) and where it goes.

        Raises:
            ValueError: the location is neither ``header`` nor ``params``.
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
        """Make one for a stream (deprecated)."""
        _deprecated_for_stream(cls)
        return cls(stream=stream, key=key, value=value, location=location)


class BearerTokenAuthenticator(APIAuthenticatorBase):
    """Puts a token on requests: ``Authorization: Bearer …`` (RFC 6750, section 2.1)."""

    def __init__(self, *args: Any, token: str, **kwargs: Any) -> None:
        """Take the token."""
        super().__init__(*args, **kwargs)
        self.auth_headers["Authorization"] = f"Bearer {token}"

    @classmethod
    def create_for_stream(cls, stream: Any, token: str) -> Self:
        """Make one for a stream (deprecated)."""
        _deprecated_for_stream(cls)
        return cls(stream=stream, token=token)


class BasicAuthenticator(APIAuthenticatorBase):
    """Puts a name and a password on requests: ``Authorization: Basic …`` (RFC 7617)."""

    def __init__(self, *args: Any, username: str, password: str, **kwargs: Any) -> None:
        """Take name and password, which are sent as UTF-8."""
        super().__init__(*args, **kwargs)
        credentials = base64.b64encode(f"{username}:{password}".encode()).decode("ascii")
        self.auth_headers["Authorization"] = f"Basic {credentials}"

    @classmethod
    def create_for_stream(cls, stream: Any, username: str, password: str) -> Self:
        """Make one for a stream (deprecated)."""
        _deprecated_for_stream(cls)
        return cls(stream=stream, username=username, password=password)


def _deprecated_for_stream(kind: type[APIAuthenticatorBase]) -> None:
    deprecated("The `create_for_stream` method", f"{kind.__name__}(…)", calls=2)
