"""What every authenticator is: headers and parameters that are put on a request.

Rules of the room: names and signatures are singer_sdk's, and so is what is deprecated. To
authenticate twice is to authenticate once, since a session and a stream both do it. What of
a URL is the author's own stays as it was written. No value is in a ``repr``.
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

__all__ = ["APIAuthenticatorBase", "SingletonMeta", "deprecated", "puts_nothing"]


class SingletonMeta(type):
    """Makes a class whose every call gives the one object that the first call made.

    Two threads that call at once get the same one.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], dic: dict[str, Any]) -> None:
        cls.__single_instance: Any = None
        cls.__making = threading.RLock()
        super().__init__(name, bases, dic)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return the object; arguments count for the first call only."""
        with cls.__making:
            if cls.__single_instance is None:
                cls.__single_instance = super().__call__(*args, **kwargs)
            return cls.__single_instance


class APIAuthenticatorBase(AuthBase):
    """Puts ``auth_headers`` and ``auth_params`` on requests; called with one, returns it.

    Further arguments are ignored, so that subclasses may pass on what they were given. A
    stream among them (``stream=``, or the first one) is where settings come from, which is
    deprecated.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take name and settings of the stream, if there is one."""
        self._tap: Any = None
        self._tap_name: str = "tap"
        self._stream_name: str | None = None
        self._config: dict[str, Any] = {}
        self.auth_headers: dict[str, Any] = {}
        self.auth_params: dict[str, Any] = {}
        self.logger: logging.Logger = logging.getLogger("tap_core.authenticators")
        stream = _stream_among(args, kwargs)
        if stream is not None:
            deprecated("The `stream` parameter", "the values that the authenticator needs")
            self._tap_name = stream.tap_name
            self._config = dict(stream.config)
            self.attach(stream)

    def attach(self, stream: Any) -> None:
        """Learn which tap this works for, and which of its streams, which says so before use.

        Refresh tokens that were replaced are known to all authenticators of a tap, and the
        new ones go back to its configuration.
        """
        self._stream_name = getattr(stream, "name", None)
        if self._tap is None:
            self._tap = getattr(stream, "_tap", None)

    @property
    def tap_name(self) -> str:
        """The tap's name (deprecated)."""
        deprecated("The `tap_name` property", "the stream's")
        return self._tap_name

    @tap_name.setter
    def tap_name(self, name: str) -> None:
        self._tap_name = name

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings of the stream, read only (deprecated); a new refresh token is in them."""
        deprecated("The `config` property", "the constructor's arguments")
        return MappingProxyType(self._config)

    def authenticate_request(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Put headers and parameters on a request, and return it; override for other ways."""
        request.headers.update(self.auth_headers)
        if request.url:
            request.url = _with_parameters(request.url, self.auth_params)
        return request

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        """Authenticate a request, and return it."""
        return self.authenticate_request(r)

    def __repr__(self) -> str:
        """Show what is put on requests by name alone."""
        known = vars(self)
        names = [*known.get("auth_headers", ()), *known.get("auth_params", ())]
        return f"{type(self).__name__}({', '.join(map(str, names))})"


def puts_nothing(authenticator: Any) -> bool:
    """Return whether requests are the same with an authenticator as without it."""
    kind = type(authenticator)
    return (
        isinstance(authenticator, APIAuthenticatorBase)
        and kind.__call__ is APIAuthenticatorBase.__call__
        and kind.authenticate_request is APIAuthenticatorBase.authenticate_request
        and not (authenticator.auth_headers or authenticator.auth_params)
    )


def deprecated(what: str, instead: str, *, calls: int = 1) -> None:
    """Warn of an older way, ``calls`` calls above this one; ``instead`` names what to use."""
    warnings.warn(
        f"{what} will be removed: use {instead}.",
        SingerSDKDeprecationWarning,
        stacklevel=calls + 2,
    )


def _stream_among(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return the stream that was given by name, or first; known by what is read of it."""
    first = args[0] if args else None
    if hasattr(first, "config") and hasattr(first, "tap_name"):
        return first
    return kwargs.get("stream")


def _with_parameters(url: str, parameters: Mapping[str, Any]) -> str:
    """Set parameters of a URL's query; the others stay, letter by letter."""
    if not parameters:
        return url
    parts = urlsplit(url)
    others = [
        piece
        for piece in parts.query.split("&")
        if piece and unquote_plus(piece.partition("=")[0]) not in parameters
    ]
    query = "&".join([*others, urlencode(parameters, doseq=True)])
    return urlunsplit(parts._replace(query=query))
