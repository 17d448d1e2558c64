"""Base class of authenticators, which add headers and query parameters to HTTP requests.

Authenticating a request twice has the same result as once, because both the session and the stream
may authenticate it. Query parameters are added without re-encoding the rest of the URL. Names and
signatures, including the deprecated ones, are those of singer_sdk.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote_plus, urlencode, urlsplit, urlunsplit

import requests
from requests.auth import AuthBase

from tap_core.exceptions import SingerSDKDeprecationWarning

__all__ = [
    "APIAuthenticatorBase",
    "SingletonMeta",
    "adds_no_credentials",
    "bind_authenticator",
    "deprecated",
]

_logger = logging.getLogger("tap_core.authenticators")


class SingletonMeta(type):
    """Metaclass of singletons: the first call of the class creates its only instance.

    Every later call, also from another thread, returns the same instance.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], dic: dict[str, Any]) -> None:
        cls.__single_instance: Any = None
        cls.__lock = threading.RLock()
        super().__init__(name, bases, dic)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return the only instance; the first call creates it with the given arguments."""
        with cls.__lock:
            if cls.__single_instance is None:
                cls.__single_instance = super().__call__(*args, **kwargs)
            return cls.__single_instance


class APIAuthenticatorBase(AuthBase):
    """Base class of authenticators, callables that add credentials to a request.

    An authenticator adds the headers in ``auth_headers`` and the query parameters in
    ``auth_params``. Unknown constructor arguments are ignored. Passing a stream, as ``stream=`` or
    as the first argument, is deprecated; the authenticator then copies the config of the stream.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create an authenticator; if a stream is passed, use its name and config."""
        self._tap: Any = None
        self._tap_name: str = "tap"
        self._stream_name: str | None = None
        self._config: dict[str, Any] = {}
        self.auth_headers: dict[str, Any] = {}
        self.auth_params: dict[str, Any] = {}
        self.logger: logging.Logger = _logger
        stream = _find_stream(args, kwargs)
        if stream is not None:
            deprecated("The `stream` parameter", "the values that the authenticator needs")
            self._tap_name = stream.tap_name
            self._config = dict(stream.config)
            self.attach(stream)

    def attach(self, stream: Any) -> None:
        """Store the name and the tap of the stream that uses this authenticator.

        Streams call this method before they use an authenticator. The tap is needed because all its
        authenticators share refresh tokens, and because new refresh tokens are written to the tap's
        config file.
        """
        self._stream_name = getattr(stream, "name", None)
        if self._tap is None:
            self._tap = getattr(stream, "_tap", None)

    @property
    def tap_name(self) -> str:
        """Name of the tap (deprecated)."""
        deprecated("The `tap_name` property", "the stream's")
        return self._tap_name

    @tap_name.setter
    def tap_name(self, name: str) -> None:
        self._tap_name = name

    @property
    def config(self) -> Mapping[str, Any]:
        """Read-only config of the authenticator's stream, with the latest tokens; deprecated."""
        deprecated("The `config` property", "the constructor's arguments")
        return MappingProxyType(self._config)

    def authenticate_request(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the headers and query parameters of this authenticator to a request.

        Subclasses may override this method.

        Args:
            request: The request, which is changed in place.

        Returns:
            The same request.
        """
        if self.auth_headers:
            request.headers.update(self.auth_headers)
        if request.url:
            request.url = _with_parameters(request.url, self.auth_params)
        return request

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the credentials to a request in place, and return the request."""
        return self.authenticate_request(r)

    def __repr__(self) -> str:
        """Return the authenticator's class and the names of its headers and parameters.

        The values of headers and parameters are not shown.
        """
        attributes = vars(self)
        names = [*attributes.get("auth_headers", ()), *attributes.get("auth_params", ())]
        return f"{type(self).__name__}({', '.join(map(str, names))})"


def adds_no_credentials(authenticator: Any) -> bool:
    """Return True if it is certain that an authenticator adds no credentials to requests.

    This is certain for an `APIAuthenticatorBase` that has neither headers nor parameters, and whose
    class does not override the methods that change requests.
    """
    kind = type(authenticator)
    return (
        isinstance(authenticator, APIAuthenticatorBase)
        and kind.__call__ is APIAuthenticatorBase.__call__
        and kind.authenticate_request is APIAuthenticatorBase.authenticate_request
        and not (authenticator.auth_headers or authenticator.auth_params)
    )


def deprecated(member: str, instead: str, *, calls: int = 1) -> None:
    """Emit a SingerSDKDeprecationWarning for the use of a deprecated class member.

    Args:
        member: Name of the deprecated member, such as "The `config` property".
        instead: Name of its replacement.
        calls: Number of stack frames between this function and the code to which the warning
            points.
    """
    warnings.warn(
        f"{member} will be removed: use {instead}.",
        SingerSDKDeprecationWarning,
        stacklevel=calls + 2,
    )


def _find_stream(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return the stream among the arguments of an authenticator's constructor, or None.

    The stream is the first positional argument or the keyword argument ``stream``.
    """
    first = args[0] if args else None
    if hasattr(first, "config") and hasattr(first, "tap_name"):
        return first
    return kwargs.get("stream")


def _with_parameters(url: str, parameters: Mapping[str, Any]) -> str:
    """Return ``url`` with ``parameters`` set as query parameters.

    The rest of the URL is not encoded again.
    """
    if not parameters:
        return url
    parts = urlsplit(url)
    other_parameters = [
        piece
        for piece in parts.query.split("&")
        if piece and unquote_plus(piece.partition("=")[0]) not in parameters
    ]
    query = "&".join([*other_parameters, urlencode(parameters, doseq=True)])
    return urlunsplit(parts._replace(query=query))


def bind_authenticator(authenticator: Any, stream: Any) -> Any:
    """Call the method ``attach`` of an authenticator with ``stream``; return the authenticator.

    An authenticator without this method is returned as it is.
    """
    attach = getattr(authenticator, "attach", None)
    if callable(attach):
        attach(stream)
    return authenticator
